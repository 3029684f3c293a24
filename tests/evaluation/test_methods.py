"""The registry of methods, and test-time methods that wrap any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from homefold.config import preset_config
from homefold.errors import ConfigError
from homefold.evaluation.bench import run_bench
from homefold.manifold import paper_manifold_config
from homefold.methods import (
    Answers,
    ImageSet,
    MethodInfo,
    TestTimeMethod,
    TrainedMethod,
    TrainingTask,
    find_method,
    list_methods,
    register_method,
    register_test_time_method,
)
from homefold.methods.registry import METHODS


def test_every_method_says_what_it_is():
    methods = list_methods()
    assert [method.name for method in methods][:6] == [
        "deep-all", "without-projection", "without-features", "nearest", "vae", "gan",
    ]  # fmt: skip
    for method in methods:
        assert method.summary.endswith(".")
        assert method.year >= 1967
        assert method.reference
    for method in methods[:6]:
        assert method.stateless
        assert not method.touches_target


def test_an_unknown_name_lists_what_exists():
    with pytest.raises(
        ConfigError, match=r"no method 'deepall'; choose one of deep-all, .*gan.*\. Did you mean deep-all\?"
    ):
        find_method("deepall")


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="there already is a method 'vae'"):
        register_method(find_method("vae"))


class TestSettings:
    BASE = preset_config("small", {"manifold.epochs": 60})

    def test_deep_all_has_cross_entropy_in_the_place_of_the_metric_loss(self):
        features = find_method("deep-all").configure(self.BASE, "quick").features
        assert (features.metric_weight, features.cross_entropy_weight) == (0, 1)
        assert find_method("without-features").configure(self.BASE, "quick").features == features

    def test_each_sampler_has_its_manifold_and_nothing_else_differs(self):
        for name in ("vae", "gan", "nearest"):
            config = find_method(name).configure(self.BASE, "quick")
            assert config.manifold.kind == name
            assert config.style == replace(self.BASE.style, blocks=("block1", "block2"))
            assert replace(config, manifold=self.BASE.manifold, style=self.BASE.style) == self.BASE

    def test_the_gan_trains_longer_than_the_vae_as_its_default_does(self):
        assert find_method("gan").configure(self.BASE, "quick").manifold.epochs == 90
        assert find_method("gan").configure(preset_config("small"), "default").manifold.resolved_epochs == 150

    def test_the_papers_gan_and_vae(self):
        paper = preset_config("paper")
        assert find_method("gan").configure(paper, "paper").manifold == paper_manifold_config("gan")
        assert find_method("vae").configure(paper, "paper").manifold == paper_manifold_config()


@dataclass(frozen=True)
class FirstClass(TestTimeMethod):
    """Answers as the method it wraps does, until it has seen a number of images; then always the first class."""

    patience: int = 0

    @property
    def info(self) -> MethodInfo:
        name = f"first-class+{self.base.info.name}"
        return MethodInfo(
            name, "First class", 2024, "made up", "Tires of answering.", touches_target=True, stateless=False
        )

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Tiring(trained, self.patience)


class _Tiring(TrainedMethod):
    def __init__(self, base: TrainedMethod, patience: int) -> None:
        self.base, self.patience, self.seen = base, patience, 0

    @property
    def stages(self):
        return self.base.stages

    def reset(self) -> None:
        self.seen = 0
        self.base.reset()

    def answer(self, images: ImageSet) -> Answers:
        answers = self.base.answer(images)
        places = self.seen + np.arange(len(images.pixels))
        self.seen += len(places)
        first = np.eye(answers.predictions.probabilities.shape[1])[np.zeros(len(places), dtype=int)]
        mixed = np.where((places >= self.patience)[:, None], first, answers.predictions.probabilities)
        return replace(answers, predictions=replace(answers.predictions, probabilities=mixed))


@pytest.fixture
def tiring() -> Iterator[None]:
    register_test_time_method("first-class", lambda base: FirstClass(base, patience=12))
    yield
    METHODS.remove("first-class")


@pytest.mark.slow
def test_a_test_time_method_wraps_any_method_and_is_reset_for_every_target(tiring, tiny, tiny_digits):
    assert find_method("first-class").info.name == "first-class+deep-all"
    names = ("without-projection", "first-class+without-projection")
    records = run_bench(tiny("single-source", methods=names, targets=(), sources=("scan",)), dataset=tiny_digits)
    plain = {record.target: record.accuracy for record in records if record.method == names[0]}
    tired = {record.target: record for record in records if record.method == names[1]}
    assert plain.keys() == tired.keys() == {"photo", "print", "street"}
    for record in tired.values():
        # the twelve images of class 0 come first: only a method that was reset answers for them as the other does
        assert record.facts["method"] == {
            "patience": 12,
            "base": "without-projection",
            "base_settings": {"features": "metric", "manifold": None, "stop_offset": 0},
        }
        assert record.accuracy <= plain[record.target]
    from homefold.evaluation.artifacts import artifact_path
    from homefold.report.artifacts import read_artifact_file

    out = tiny().out
    runs = {(record.method, record.target): record.run for record in records}
    for target in plain:
        before, after = (read_artifact_file(artifact_path(out, runs[name, target]))["predicted"] for name in names)
        assert after[:12].tolist() == before[:12].tolist()
        assert after[12:].tolist() == [0] * 24
