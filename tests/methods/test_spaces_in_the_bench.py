"""The benchmark runs a manifold of the backbone's output beside that of z, and shares what both have."""

from __future__ import annotations

import numpy as np
import pytest

from homefold.errors import ConfigError
from homefold.evaluation.artifacts import artifact_path, read_artifact
from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner

TINY = (
    "preprocessing.image_size=16", "features.epochs=2", "features.batch_size=32", "features.feature_dim=16",
    "manifold.epochs=60", "manifold.learning_rate=0.01", "manifold.kl_weight=0.0001",
    "manifold.latent_dim=4", "manifold.batch_size=32",
    "classifier.epochs=3", "projection.steps=12",
)  # fmt: skip


def options(out, methods, **changed):
    return BenchOptions(
        "digits-mini", out, preset="quick", seeds=1, targets=("street",), device="cpu", methods=methods, **changed
    )


def test_it_runs_beside_the_others_and_shares_their_features_and_classifier(few_digits, tmp_path):
    methods = (
        "without-projection", "vae", "vae:manifold.space=backbone", "nearest:manifold.space=backbone",
        "vae:manifold.space=backbone,classifier.train_on=both",
    )  # fmt: skip
    records = run_bench(options(tmp_path, methods, settings=TINY, images_per_class=30), dataset=few_digits)
    assert [(record.method, record.error) for record in records] == [(name, "") for name in methods]
    plain, vae, backbone, nearest, both = records
    stages = {
        name: {kind.rsplit("-", 1)[0]: kind for kind in record.facts["stages"]}
        for name, record in zip(methods, records, strict=True)
    }
    first, second = stages["vae"], stages["vae:manifold.space=backbone"]
    assert {kind for kind in first if first[kind] != second[kind]} == {"manifold"}
    assert backbone.facts["accuracy_before_projection"] == vae.facts["accuracy_before_projection"] == plain.accuracy
    assert nearest.facts["accuracy_before_projection"] == plain.accuracy
    third = stages[both.method]
    assert {kind for kind in second if second[kind] != third[kind]} == {"classifier"}
    arrays = {record.method: read_artifact(artifact_path(tmp_path, record.run)) for record in records}
    here, there = arrays["vae"], arrays["vae:manifold.space=backbone"]
    for name in ("source_features", "target_features"):
        assert np.allclose(here[name].astype(float), there[name].astype(float), atol=1e-2), name
    assert here["target_projected"].shape == there["target_projected"].shape
    assert not np.array_equal(here["target_projected"], there["target_projected"])


def test_samples_to_adapt_to_work_there_too(few_digits, tmp_path):
    methods = (
        "nearest:manifold.space=backbone", "nearest:manifold.space=backbone,classifier.train_on=both",
    )  # fmt: skip
    few = BenchOptions(
        "few-shot", tmp_path, preset="quick", seeds=1, sources=("scan",), targets=("print",), device="cpu",
        methods=methods, settings=(*TINY, "features.epochs=1"), images_per_class=12,
    )  # fmt: skip
    records = run_bench(few, dataset=few_digits)
    assert {record.error for record in records} == {""}
    assert {record.facts["shots"] for record in records} == {0, 7, 10}


def test_a_network_without_a_head_is_refused_before_any_work(few_digits, tmp_path):
    asked = options(
        tmp_path, ("vae:manifold.space=backbone",), settings=("features.head=none", "features.feature_dim=0")
    )
    with pytest.raises(ConfigError, match=r"features.head=none has no head"):
        Planner(asked, few_digits)
