"""The classifier learns, keeps its best epoch, and gives the same bytes for the same seed."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from homefold.classifier import Classifier, ClassifierConfig, build_classifier, fit_classifier
from homefold.errors import ConfigError, DataError, TrainingDivergedError
from homefold.runtime.seeding import generator
from homefold.store.files import read_state, write_state
from recorder import Recorder

DIM, CLASSES = 32, 5
QUICK = ClassifierConfig(epochs=5)


def clustered(n: int, noise: float = 0.3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Points around class centres on the sphere of radius √DIM, and their classes."""
    labels = torch.arange(n) % CLASSES
    centres = F.normalize(torch.randn(CLASSES, DIM, generator=generator(0, "centres")), dim=1)
    spread = torch.randn(n, DIM, generator=generator(seed, "spread")) / math.sqrt(DIM)
    return F.normalize(centres[labels] + noise * spread, dim=1) * math.sqrt(DIM), labels


def fit(config: ClassifierConfig = QUICK, seed: int = 0, **options: object) -> Classifier:
    return fit_classifier(
        config,
        *clustered(400),
        *clustered(100, seed=1),
        num_classes=CLASSES,
        seed=seed,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("kind", ["linear", "hidden"])
def test_it_learns_clusters(kind: str) -> None:
    model = fit(dataclasses.replace(QUICK, kind=kind))  # type: ignore[arg-type]
    z, labels = clustered(200, seed=2)
    assert float((model(z).argmax(dim=1) == labels).float().mean()) > 0.97
    assert model.held_out_accuracy is not None
    assert model.held_out_accuracy > 0.97


def test_the_linear_one_is_a_single_layer_with_the_papers_count() -> None:
    model = build_classifier(ClassifierConfig(), 256, 7)
    assert sum(parameter.numel() for parameter in model.parameters()) == 1_799
    z = torch.randn(4, 256, generator=generator(0, "z"))
    torch.testing.assert_close(model(2 * z) - model(z), model(z) - model(0 * z))


def test_the_hidden_one_is_not_linear_and_has_the_configured_width() -> None:
    model = build_classifier(ClassifierConfig(kind="hidden", hidden_dim=16), DIM, CLASSES)
    assert model.layers[0].weight.shape == (16, DIM)
    z = torch.randn(4, DIM, generator=generator(0, "z"))
    assert not torch.allclose(model(-z) - model(0 * z), model(0 * z) - model(z))


def test_two_runs_with_one_seed_give_the_same_bytes_and_another_seed_does_not() -> None:
    first, again, other = (fit(seed=s).state_dict() for s in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["layers.0.weight"], other["layers.0.weight"])


def test_fitting_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    fit()
    assert torch.equal(torch.get_rng_state(), before)


def test_it_keeps_the_most_accurate_epoch_and_of_equals_the_one_with_the_lowest_loss() -> None:
    recorder = Recorder()
    # so few and so noisy features are soon learnt by heart: accuracies repeat while the loss climbs
    noisy, labels = clustered(60, noise=1.5)
    held_out, held_out_labels = clustered(15, noise=1.5, seed=1)
    config = ClassifierConfig(epochs=25, learning_rate=0.03)
    model = fit_classifier(
        config, noisy, labels, held_out, held_out_labels, num_classes=CLASSES, seed=0, reporter=recorder
    )
    ranks = [(facts["accuracy"], -facts["loss"]) for facts in recorder.facts]
    assert recorder.total == len(ranks) == 25
    assert model.best_epoch == ranks.index(max(ranks)) + 1
    tied = [rank for rank in ranks if rank[0] == max(ranks)[0]]
    assert tied.index(max(ranks)) < len(tied) - 1
    logits = model(held_out)
    assert float((logits.argmax(dim=1) == held_out_labels).float().mean()) == model.held_out_accuracy
    assert float(F.cross_entropy(logits, held_out_labels)) == pytest.approx(-max(ranks)[1], rel=1e-6)


def test_label_smoothing_makes_it_less_certain() -> None:
    z, _ = clustered(100, seed=2)
    plain, smooth = (
        fit(ClassifierConfig(epochs=20, label_smoothing=s))(z).softmax(dim=1).amax(dim=1).mean() for s in (0.0, 0.3)
    )
    assert float(smooth) < float(plain) - 0.1


def test_weight_decay_shrinks_the_weights() -> None:
    plain, decayed = (fit(ClassifierConfig(weight_decay=w)).layers[0].weight.norm() for w in (0.0, 10.0))
    assert float(decayed) < 0.8 * float(plain)


def test_a_state_survives_the_disk(tmp_path: Path) -> None:
    model = fit()
    write_state(tmp_path / "state.safetensors", model.state_dict())
    copy = build_classifier(QUICK, DIM, CLASSES)
    copy.load_state_dict(read_state(tmp_path / "state.safetensors"))
    z, _ = clustered(7)
    assert torch.equal(copy(z), model(z))


def test_it_comes_back_frozen() -> None:
    model = fit()
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_diverging_stops_with_the_epoch_and_advice() -> None:
    z, labels = clustered(50)
    with pytest.raises(TrainingDivergedError, match=r"epoch 1 of 5.*lower learning_rate"):
        fit_classifier(QUICK, z * math.inf, labels, z, labels, num_classes=CLASSES, seed=0)


def test_bad_labels_and_shapes_get_a_sentence() -> None:
    z, labels = clustered(20)
    with pytest.raises(DataError, match="training labels run from 0 to 4, but there are 3 classes"):
        fit_classifier(QUICK, z, labels, z, labels, num_classes=3, seed=0)
    with pytest.raises(DataError, match="held-out features"):
        fit_classifier(QUICK, z, labels, z[:0], labels[:0], num_classes=CLASSES, seed=0)
    with pytest.raises(DataError, match=r"one label each.*\(20, 32\) and \(19,\)"):
        fit_classifier(QUICK, z, labels[1:], z, labels, num_classes=CLASSES, seed=0)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("hidden_dim", 0),
        ("epochs", 0),
        ("batch_size", -1),
        ("learning_rate", math.nan),
        ("weight_decay", -0.1),
        ("label_smoothing", 1.0),
    ],
)
def test_a_setting_that_cannot_work_is_named(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match=setting):
        ClassifierConfig(**{setting: value})  # type: ignore[arg-type]


def test_the_epoch_that_is_best_on_held_out_features_is_kept() -> None:
    """Held-out labels that contradict the training ones make every epoch worse than the one before."""
    train, held = clustered(400), clustered(100, seed=1)
    wrong = (held[0], (held[1] + 1) % CLASSES)
    assert fit_classifier(QUICK, *train, *wrong, num_classes=CLASSES, seed=0).best_epoch == 1
