"""Projection onto a mixture: every component searched as the plain manifold it is, and what their ends become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold.classifier import ClassifierConfig, build_classifier
from homefold.errors import ConfigError
from homefold.feature_model import FeatureModel
from homefold.manifold import FeatureGroups, ManifoldConfig, fit_manifold
from homefold.methods.offset_stop import project_with_offset
from homefold.projection import Projection, ProjectionConfig, chosen_engine, project
from homefold.projection.components import Components
from homefold.projection.objective import cosine_distance

NAMES = ("cat", "dog", "owl")
MANIFOLD = ManifoldConfig(per="class", latent_dim=3, hidden=(16,), epochs=60, kl_weight=1e-4, learning_rate=0.01)
FIELDS = ("features", "latents", "similarity_before", "similarity_after", "iterations", "start")


def clusters() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat_interleave(50)
    centres, directions = torch.randn(3, 10, generator=random), torch.randn(3, 2, 10, generator=random)
    spread = 0.5 * torch.randn(150, 1, 2, generator=random)
    return centres[labels] + (spread @ directions[labels])[:, 0], labels


@pytest.fixture(scope="module")
def mixture():
    z, labels = clusters()
    held = torch.arange(150) % 5 == 0
    groups = FeatureGroups(labels[~held], labels[held], NAMES)
    return fit_manifold(MANIFOLD, z[~held], z[held], groups=groups, seed=0)


@pytest.fixture(scope="module")
def unseen() -> torch.Tensor:
    z, _ = clusters()
    return z + 0.4 * torch.randn(z.shape, generator=torch.Generator().manual_seed(9))


SEARCHES = [
    ProjectionConfig(steps=15),
    ProjectionConfig(steps=15, engine="reference", random_starts=1),
    ProjectionConfig(steps=40, stop="plateau", patience=3, nearest_starts=2),
    ProjectionConfig(steps=15, random_starts=2, race=5, prior=0.1),
]


@pytest.mark.parametrize("config", SEARCHES)
def test_the_most_similar_component_wins_and_gives_what_it_gives_alone(mixture, unseen, config):
    z = unseen[::15]
    found = project(mixture, z, config, seed=2)
    alone = [project(part, z, config, seed=2) for part in mixture.parts]
    similarity = torch.stack([part.similarity_after for part in alone], dim=1)
    assert torch.equal(found.components.similarity, similarity)
    assert found.components.names == NAMES
    assert found.components.features is None
    assert found.engine == alone[0].engine == chosen_engine(config, mixture)
    for row in range(len(z)):
        won = int(similarity[row].argmax())
        assert int(found.components.won[row]) == won
        for name in FIELDS:
            value = getattr(found, name)[row]
            if name == "latents":
                assert float(value[-1]) == won
                value = value[:-1]
            assert torch.equal(value, getattr(alone[won], name)[row])
    torch.testing.assert_close(mixture.decode(found.latents), found.features)
    torch.testing.assert_close(found.similarity_after, 1 - cosine_distance(found.features, z))


def test_the_nearest_class_is_mostly_the_right_one(mixture, unseen):
    won = project(mixture, unseen, ProjectionConfig()).components.won
    assert (won == clusters()[1]).float().mean() > 0.9


def test_an_offset_is_taken_on_each_component(mixture, unseen):
    config = ProjectionConfig(steps=20)
    found = project_with_offset(mixture, unseen[:6], config, seed=0, offset=-5)
    expected = project(mixture, unseen[:6], replace(config, steps=15))
    torch.testing.assert_close(found.features, expected.features)
    assert found.components.won.tolist() == expected.components.won.tolist()


def _projection(similarity: list[float], start: int, names: tuple[str, ...]) -> Projection:
    n = len(similarity)
    rows = torch.arange(n, dtype=torch.float32)[:, None]
    after = torch.tensor(similarity)
    return Projection(rows, rows, after, after, torch.zeros(n).long(), torch.full((n,), start), names, "batched")


def test_a_search_that_came_to_nothing_does_not_win_and_starts_keep_their_names():
    from homefold.projection.projector import nearest_component

    few, many = ("encoder", "random 1"), ("encoder", "nearest 1", "random 1")
    parts = [_projection([float("nan"), 0.5], 1, few), _projection([-0.5, 0.1], 2, many)]
    found = nearest_component(parts, ("a", "b"), ProjectionConfig())
    assert found.components.won.tolist() == [1, 0]
    assert found.components.similarity.tolist() == [[-1.0, -0.5], [0.5, pytest.approx(0.1)]]
    assert [found.start_names[i] for i in found.start.tolist()] == ["random 1", "random 1"]


def test_concatenating_and_moving_keep_the_components(mixture, unseen):
    config = ProjectionConfig(steps=5, component="average")
    whole = project(mixture, unseen[:8], config)
    parts = [project(mixture, unseen[:3], config), project(mixture, unseen[3:8], config)]
    joined = Projection.concatenate(parts).cpu()
    for name in ("won", "similarity", "features"):
        assert torch.equal(getattr(joined.components, name), getattr(whole.components, name))


@pytest.fixture(scope="module")
def model(mixture):
    torch.manual_seed(1)
    classifier = build_classifier(ClassifierConfig(), 10, 3)
    z, _ = clusters()
    return FeatureModel(mixture, classifier, ProjectionConfig(steps=10), False, NAMES, 0, z[::5])


def test_an_average_weighs_the_classifier_on_every_component(model, mixture, unseen):
    config = ProjectionConfig(steps=10, component="average", temperature=0.1)
    found = model.predict(unseen[:9], config=config)
    alone = [project(part, unseen[:9], config) for part in mixture.parts]
    expected = torch.zeros(9, 3, dtype=torch.float64)
    powers = torch.stack([(part.similarity_after.double() / 0.1).exp() for part in alone], dim=1)
    for index, part in enumerate(alone):
        share = powers[:, index] / powers.sum(dim=1)
        with torch.no_grad():
            expected += share[:, None] * torch.softmax(model.classifier(part.features).double(), dim=1)
    np.testing.assert_allclose(found.probabilities, expected.numpy(), atol=1e-5)


def test_the_residuals_answer_by_themselves(model, unseen):
    found = model.predict(unseen, config=ProjectionConfig(steps=10, answer="residuals", temperature=0.2))
    similarity = model.project(unseen).components.similarity.double()
    powers = (similarity / 0.2).exp()
    np.testing.assert_allclose(found.probabilities, (powers / powers.sum(dim=1, keepdim=True)).numpy(), atol=1e-5)
    assert found.indices.tolist() == found.component.tolist()
    assert found[0].component == found.labels[0] == NAMES[found.component[0]]
    assert found[0].as_dict()["component"] == found.labels[0]


def test_nearest_is_the_classifier_on_the_winner(model, unseen):
    found = model.predict(unseen[:9])
    with torch.no_grad():
        expected = torch.softmax(model.classifier(model.project(unseen[:9]).features), dim=1)
    np.testing.assert_allclose(found.probabilities, expected.numpy(), atol=1e-6)
    plain = model.predict(unseen[:9], projected=False)
    assert plain[0].component == ""
    assert "component" not in plain[0].as_dict()


def test_what_becomes_of_the_searches_does_not_change_their_calibration(model):
    own = model.off_manifold_scale(model.projection)
    for changes in ({"component": "average"}, {"answer": "residuals", "temperature": 1.0}):
        assert model.off_manifold_scale(replace(model.projection, **changes)) == own


@pytest.mark.parametrize("changes", [{}, {"component": "average"}, {"answer": "residuals"}, {"prior": 0.1}])
def test_answers_have_the_same_bytes_alone_and_in_any_order(model, unseen, changes):
    config = ProjectionConfig(steps=10, **changes)
    z = unseen[:40]
    together = model.predict(z, config=config)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    permuted = model.predict(z[order], config=config)
    for name in ("probabilities", "similarity_after", "component"):
        whole = getattr(together, name)
        assert getattr(permuted, name).tobytes() == whole[order.numpy()].tobytes()
        for i in (0, 17, 39):
            assert getattr(model.predict(z[i : i + 1], config=config), name).tobytes() == whole[i : i + 1].tobytes()


def test_no_samples_give_no_answers(model):
    found = model.predict(torch.zeros(0, 10), config=ProjectionConfig(steps=2, component="average"))
    assert found.probabilities.shape == (0, 3)


def test_weights_are_a_softmax():
    compared = Components(("a", "b"), torch.tensor([0]), torch.tensor([[0.9, 0.8]]))
    expected = 1 / (1 + np.exp(-0.1 / 0.05))
    assert compared.weights(0.05)[0].tolist() == pytest.approx([expected, 1 - expected], rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 0.0}, "temperature must be a positive number"),
        ({"answer": "residuals", "component": "average"}, "set component to nearest, or answer to classifier"),
        ({"component": "best"}, "component must be one of nearest, average"),
    ],
)
def test_settings_that_cannot_work_get_a_sentence(settings, words):
    with pytest.raises(ConfigError, match=words):
        ProjectionConfig(**settings)


def test_residuals_need_a_manifold_of_each_class(model):
    z, _ = clusters()
    single = fit_manifold(replace(MANIFOLD, per="all"), z[::2], z[1::2], seed=0)
    with pytest.raises(ConfigError, match=r"--manifold.per class, or --projection.answer classifier"):
        replace(model, manifold=single).predict(z[:2], config=ProjectionConfig(answer="residuals"))
