"""Mixtures in the benchmark: labels and domains reach stage 2, and the controls run beside them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tiny import TINY

from homefold.errors import ConfigError
from homefold.evaluation.artifacts import artifact_path, read_artifact
from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner, make_plan
from homefold.methods import home_stages

MIXTURE = (*TINY, "manifold.epochs=300")


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (("manifold.per=class", "projection.answer=residuals"), ["0", "1", "2"]),
        (("manifold.per=domain", "projection.component=average"), ["scan", "photo", "print"]),
    ],
)
def test_a_mixture_is_trained_kept_and_answers_beside_its_controls(tiny, tiny_digits, monkeypatch, more, names):
    fits = []
    original: Callable = home_stages.fit_manifold
    monkeypatch.setattr(home_stages, "fit_manifold", lambda *a, **k: (fits.append(a[0].kind), original(*a, **k))[1])
    options: BenchOptions = tiny(methods=("vae", "nearest", "without-projection"), settings=(*MIXTURE, *more))
    records = run_bench(options, dataset=tiny_digits)
    assert [record.status for record in records] == ["finished"] * 3, [record.error for record in records]
    assert sorted(fits) == ["nearest", "vae"]
    by_method = {record.method: record for record in records}
    assert [part["name"] for part in by_method["vae"].facts["manifold"]["components"]] == names
    assert "components" not in by_method["nearest"].facts["manifold"]
    arrays = read_artifact(artifact_path(options.out, by_method["vae"].run))
    assert arrays["component_names"].tolist() == names
    assert arrays["component"].shape == (36,)
    assert arrays["curve_loss"].shape[0] == 6
    if "class" in more[0]:
        assert arrays["predicted"].tolist() == arrays["component"].tolist()
    assert np.isfinite(arrays["off_manifold"]).all()

    (again,) = run_bench(
        tiny(methods=("vae",), settings=(*options.settings, "projection.steps=13")), dataset=tiny_digits
    )
    assert sorted(fits) == ["nearest", "vae"], "the mixture was found among the stages"
    assert again.facts["manifold"] == by_method["vae"].facts["manifold"]


def test_few_shot_adaptation_of_a_mixture_is_refused_before_any_work(tiny, tiny_digits):
    options = tiny("few-shot", methods=("vae",), sources=("scan",), settings=(*MIXTURE, "manifold.per=class"))
    with pytest.raises(ConfigError, match=r"cannot fine-tune one manifold for each class.*manifold\.per to all"):
        make_plan(Planner(options, tiny_digits))


def test_residuals_without_a_manifold_for_each_class_are_refused_before_any_work(tiny, tiny_digits):
    options = tiny(methods=("vae",), settings=(*MIXTURE, "projection.answer=residuals"))
    with pytest.raises(ConfigError, match="every class has a manifold of its own"):
        make_plan(Planner(options, tiny_digits))
