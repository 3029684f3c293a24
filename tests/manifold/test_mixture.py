"""A mixture of manifolds: each component its own, the whole saved and loaded, what cannot work refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from homefold.errors import ConfigError, DataError, ManifoldCollapsedError, ModelFileError
from homefold.manifold import (
    FeatureGroups,
    ManifoldConfig,
    ManifoldReport,
    Mixture,
    build_manifold,
    component_groups,
    fit_manifold,
    vae_loss,
)
from homefold.manifold.shared_vae import SharedVAE

CONFIG = ManifoldConfig(per="class", latent_dim=3, hidden=(16,), epochs=60, kl_weight=1e-4, learning_rate=0.01)
NAMES = ("cat", "dog", "owl")


def features(counts: tuple[int, ...] = (60, 40, 50)) -> tuple[torch.Tensor, torch.Tensor]:
    """Clusters that each vary in two directions of their own."""
    random = torch.Generator().manual_seed(0)
    parts = []
    for count in counts:
        centre, directions = torch.randn(10, generator=random), torch.randn(2, 10, generator=random)
        parts.append(centre + 0.5 * torch.randn(count, 2, generator=random) @ directions)
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return torch.cat(parts), labels


def split(z: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, FeatureGroups]:
    held = torch.arange(len(z)) % 5 == 0
    return z[~held], z[held], FeatureGroups(labels[~held], labels[held], NAMES)


@pytest.fixture(scope="module", params=["vae", "gan"])
def mixture(request) -> Mixture:
    train, held_out, groups = split(*features())
    found = fit_manifold(replace(CONFIG, kind=request.param), train, held_out, groups=groups, seed=3)
    assert isinstance(found, Mixture)
    return found


def test_a_component_is_the_manifold_of_its_features_alone(mixture):
    train, held_out, groups = split(*features())
    kind = mixture.report.kind
    plain = replace(CONFIG, kind=kind, per="all", bank_size=CONFIG.bank_size // 3)
    for index, part in enumerate(mixture.parts):
        own = train[groups.train == index], held_out[groups.held_out == index]
        expected = fit_manifold(plain, *own, seed=3)
        assert part.state_dict().keys() == expected.state_dict().keys()
        assert all(torch.equal(value, expected.state_dict()[name]) for name, value in part.state_dict().items())
        assert part.report == replace(expected.report, name=NAMES[index])
    assert mixture.component_names == NAMES
    assert mixture.has_encoder == (kind == "vae")


def test_its_report_is_the_mean_over_held_out_features(mixture):
    counts = [int((split(*features())[2].held_out == index).sum()) for index in range(3)]
    for name in ("baseline_cosine", "reconstruction_cosine"):
        values = [getattr(part, name) for part in mixture.report.components]
        expected = sum(value * count for value, count in zip(values, counts, strict=True)) / sum(counts)
        assert getattr(mixture.report, name) == pytest.approx(expected)
    again = ManifoldReport.from_dict(mixture.report.as_dict())
    assert again == mixture.report
    assert not mixture.report.collapsed


def test_the_report_of_a_single_manifold_says_nothing_of_components():
    values = replace(_report("cat"), name="").as_dict()
    assert "components" not in values
    assert "name" not in values


def test_a_latent_names_its_component(mixture):
    u = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    which = torch.tensor([0, 1, 2, 2, 1, 0])
    decoded = mixture.decode(torch.cat([u, which[:, None].float()], dim=1))
    for row, index in enumerate(which.tolist()):
        torch.testing.assert_close(decoded[row], mixture.parts[index].decode(u[row : row + 1])[0])
    assert mixture.sample(5, torch.Generator().manual_seed(0)).shape == (5, 10)


def test_encoding_takes_the_component_that_rebuilds_a_feature_best(mixture):
    z, labels = features()
    if not mixture.has_encoder:
        with pytest.raises(ConfigError, match="no encoder"):
            mixture.encode(z)
        return
    latents = mixture.encode(z)
    rebuilt = torch.stack([F.cosine_similarity(part.decode(part.encode(z)), z) for part in mixture.parts], dim=1)
    assert torch.equal(latents[:, -1].long(), rebuilt.argmax(dim=1))
    assert (latents[:, -1].long() == labels).float().mean() > 0.95
    torch.testing.assert_close(F.cosine_similarity(mixture.decode(latents), z), rebuilt.amax(dim=1))


def test_it_loads_into_an_empty_one_whatever_the_number_of_components(mixture):
    config = replace(CONFIG, kind=mixture.report.kind)
    empty = build_manifold(config, 10)
    empty.load_state_dict(mixture.state_dict())
    empty.report = ManifoldReport.from_dict(mixture.report.as_dict())
    latents = torch.cat([torch.randn(4, 3), torch.tensor([[0.0], [1.0], [2.0], [1.0]])], dim=1)
    assert torch.equal(empty.decode(latents), mixture.decode(latents))
    assert empty.component_names == NAMES
    assert not any(parameter.requires_grad for parameter in empty.parameters())
    with pytest.raises(ModelFileError, match="3 components, but its report tells of 2"):
        empty.report = replace(mixture.report, components=mixture.report.components[:2])


def _report(name: str, reason: str = "") -> ManifoldReport:
    return ManifoldReport("vae", 1, 1, 0.5, 0.9, 0.8, bool(reason), reason, name=name)


def test_one_component_that_cannot_be_used_makes_the_whole_unusable_and_is_named():
    z, labels = features()
    z[labels == 1] = torch.randn(10, generator=torch.Generator().manual_seed(5))
    train, held_out, groups = split(z, labels)
    found = fit_manifold(CONFIG, train, held_out, groups=groups, seed=0)
    with pytest.raises(
        ManifoldCollapsedError, match=r"one for each class, 1 cannot be used \('dog'\)\. The source feat"
    ):
        found.require_usable()


@pytest.mark.parametrize("counts", [(60, 1, 50), (60, 5, 50), (60, 0, 50)])
def test_too_few_features_of_a_class_get_a_sentence(counts):
    train, held_out, groups = split(*features(counts))
    own, held = int((groups.train == 1).sum()), int((groups.held_out == 1).sum())
    words = f"the class 'dog' has {own} training and {held} held-out features.*--manifold.per all"
    with pytest.raises(DataError, match=words):
        fit_manifold(CONFIG, train, held_out, groups=groups, seed=0)


def test_groups_are_what_the_settings_say_and_domains_without_features_get_none():
    classes = FeatureGroups(torch.tensor([0, 1]), torch.tensor([1]), ("a", "b"))
    domains = FeatureGroups(torch.tensor([2, 0]), torch.tensor([2]), ("x", "y", "z"))
    assert component_groups(replace(CONFIG, per="all"), classes, domains) is None
    assert component_groups(CONFIG, classes, None) is classes
    found = component_groups(replace(CONFIG, per="domain"), classes, domains)
    assert (found.train.tolist(), found.held_out.tolist(), found.names) == ([1, 0], [1], ("x", "z"))
    with pytest.raises(ConfigError, match="needs the domain of every feature"):
        component_groups(replace(CONFIG, per="domain"), classes, None)


def test_what_cannot_be_a_mixture_gets_a_sentence():
    with pytest.raises(ConfigError, match="per must be one of all, class, domain; got 'sample'"):
        ManifoldConfig(per="sample")
    with pytest.raises(ConfigError, match=r"nearest source feature is the same one.*set per to all"):
        ManifoldConfig(kind="nearest", per="class")
    train, held_out, groups = split(*features())
    with pytest.raises(ConfigError, match="one manifold for each class needs groups"):
        fit_manifold(CONFIG, train, held_out, seed=0)
    with pytest.raises(DataError, match="but groups of shapes"):
        fit_manifold(CONFIG, train[1:], held_out, groups=groups, seed=0)


SHARED = replace(CONFIG, shared=True, epochs=100, batch_size=16, hidden=(16, 12), kl_weight=0.01)


@pytest.fixture(scope="module")
def shared() -> Mixture:
    train, held_out, groups = split(*features())
    found = fit_manifold(SHARED, train, held_out, groups=groups, seed=3)
    assert isinstance(found, Mixture)
    return found


def test_shared_components_differ_in_the_first_bias_of_the_decoder_alone(shared):
    states = [part.state_dict() for part in shared.parts]
    for name in states[0]:
        if name.startswith("bank_"):
            continue
        same = all(torch.equal(state[name], states[0][name]) for state in states[1:])
        assert same == (name != "decoder.0.bias"), name
    assert not shared.report.collapsed
    assert shared.component_names == NAMES


def test_a_shared_component_decodes_as_the_network_told_of_it():
    torch.manual_seed(0)
    network = SharedVAE(SHARED, 10, 3)
    with torch.no_grad():
        network.offsets.normal_()
        u = torch.randn(4, 3)
        for index in range(3):
            member = F.one_hot(torch.full((4,), index), 3).float()
            torch.testing.assert_close(network.component(index).decode(u), network.decode(u, member))


def test_the_loss_of_shared_components_is_that_of_each_on_its_own_rows():
    torch.manual_seed(1)
    network = SharedVAE(SHARED, 10, 3)
    with torch.no_grad():
        network.offsets.normal_()
        z, noise, index = torch.randn(6, 10), torch.randn(6, 3), torch.tensor([0, 2, 1, 1, 0, 2])
        expected = 0.0
        for row in range(6):
            component = network.component(int(index[row]))
            mean, log_variance = component.posterior(z[row : row + 1])
            rebuilt = component.decode(mean + noise[row] * (0.5 * log_variance).exp())
            expected += float(vae_loss(rebuilt, z[row : row + 1], mean, log_variance, 0.3)) / 6
        found = network.loss(z, F.one_hot(index, 3).float(), noise, 0.3)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_shared_training_repeats_itself_and_loads_into_a_mixture_like_any_other(shared):
    train, held_out, groups = split(*features())
    again = fit_manifold(SHARED, train, held_out, groups=groups, seed=3)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in shared.state_dict().items())
    loaded = build_manifold(SHARED, 10)
    loaded.load_state_dict(shared.state_dict())
    z, labels = features()
    assert torch.equal(loaded.encode(z), shared.encode(z))
    assert (shared.encode(z)[:, -1].long() == labels).float().mean() > 0.9


def test_shared_weights_need_a_mixture_of_vaes():
    for wrong in ({"per": "all"}, {"kind": "gan"}, {"kind": "conv-vae"}):
        with pytest.raises(ConfigError, match="set kind to vae and per to class or domain"):
            replace(SHARED, **wrong)
