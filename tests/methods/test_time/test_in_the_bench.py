"""The benchmark drives every test-time method, on its default and on others, and shares their trainings."""

from __future__ import annotations

import pytest

from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions

pytestmark = pytest.mark.slow

METHODS = (
    "deep-all", "1-nn", "class-means", "t3a", "tent", "ttt", "ttt+deep-all", "shot-im", "memo",
    "t3a+without-projection", "class-means+without-projection:features.temperature=0.2",
)  # fmt: skip


def test_all_of_them_have_a_record(few_digits, tmp_path):
    options = BenchOptions(
        suite="digits-mini",
        out=tmp_path / "runs",
        preset="quick",
        seeds=1,
        targets=("street",),
        device="cpu",
        methods=METHODS,
        images_per_class=3,
        settings=(
            "preprocessing.image_size=16",
            "features.epochs=1",
            "features.batch_size=16",
            "features.feature_dim=16",
            "classifier.epochs=2",
        ),
    )
    records = run_bench(options, dataset=few_digits)
    assert [(record.method, record.status, record.error) for record in records] == [
        (name, "finished", "") for name in METHODS
    ]
    by_name = {record.method: record for record in records}
    assert all(record.images == 9 and 0 <= record.accuracy <= 1 for record in records)
    assert by_name["tent"].facts["method"] == {
        "learning_rate": 1e-3, "optimiser": "adam", "batch_size": 64, "statistics": "batch",
        "base": "deep-all", "base_settings": {},
    }  # fmt: skip
    assert by_name["ttt"].facts["method"]["base"] == "rotation"
    assert by_name["tent"].facts["stages"].keys() == by_name["deep-all"].facts["stages"].keys()
    changed = by_name["class-means+without-projection:features.temperature=0.2"]
    assert changed.config["features"]["temperature"] == 0.2
    assert changed.facts["method"]["base_settings"]["changes"] == ["features.temperature=0.2"]
    own = by_name["ttt+deep-all"].facts["stages"].keys() - by_name["deep-all"].facts["stages"].keys()
    assert [name.rsplit("-", 1)[0] for name in own] == ["rotation-head"]
