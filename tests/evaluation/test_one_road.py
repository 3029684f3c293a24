"""A benchmark and a fit are one road: the same settings train the same bytes, and one finds what the other trained."""

from __future__ import annotations

import pytest
import torch

from homefold import Homefold
from homefold.config import HomefoldConfig, config_from_dict
from homefold.evaluation.bench import run_bench
from homefold.store.files import read_state

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_a_fit_trains_the_same_bytes_as_a_benchmark_and_finds_them_there(tiny, tiny_digits, tmp_path, monkeypatch):
    (record,) = run_bench(tiny(methods=("vae",)), dataset=tiny_digits)
    config = config_from_dict(HomefoldConfig, record.config)
    fitted = Homefold(config, device="cpu").fit(tiny_digits, holdout="street")
    model = fitted.feature_model
    own = {
        "features": fitted.net.state_dict(),
        "manifold": model.manifold.state_dict(),
        "classifier": model.classifier.state_dict(),
        "style": fitted.trained.style.state_dict(),
    }
    for name in record.facts["stages"]:
        kind = name.partition("-")[0]
        state = read_state(tiny().out / "stages" / name / "state.safetensors")
        trained = state["net"] if kind == "features" else state["tensors"]
        assert set(own[kind]) == set(trained), kind
        assert all(torch.equal(own[kind][tensor], value) for tensor, value in trained.items()), kind
    assert fitted.score(tiny_digits.only("street")) == record.accuracy

    def again(*arguments, **settings):
        raise AssertionError("it was trained by the benchmark")

    for place in ("features.train_features", "manifold.fit_manifold", "classifier.fit_classifier", "style.fit_style"):
        monkeypatch.setattr(f"homefold.stages.{place}", again)
    found = Homefold(config, device="cpu").fit(tiny_digits, holdout="street", work_dir=tiny().out / "stages")
    found.save(tmp_path / "found")
    fitted.save(tmp_path / "fitted")
    for name in ("features.safetensors", "home.safetensors", "style.safetensors", "model.json"):
        assert (tmp_path / "found" / name).read_bytes() == (tmp_path / "fitted" / name).read_bytes()
