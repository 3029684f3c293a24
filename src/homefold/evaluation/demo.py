"""The demonstration: train on three domains of the embedded dataset, answer for the fourth, show what happened."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from homefold.config import HomefoldConfig, config_to_dict, preset_config
from homefold.data.dataset import DatasetKeys, DomainDataset
from homefold.data.datasets.digits_mini import load_digits_mini
from homefold.data.splits import selection_split
from homefold.errors import ConfigError
from homefold.evaluation.demo_picture import draw_homecoming
from homefold.evaluation.records import RunRecord, append_record
from homefold.features import extract_features
from homefold.manifold import ManifoldConfig, fit_manifold
from homefold.methods import DeepAllMethod, TrainedMethod
from homefold.model import Homefold
from homefold.runtime.device import resolve_device
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.provenance import hardware, versions
from homefold.stages.feature_model import FeatureModel
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.store.files import write_json
from homefold.store.model_folder import holds_model
from homefold.store.stage_store import MemoryStages

__all__ = ["run_demo"]

_EXAMPLES = 6


def run_demo(
    out: Path | str,
    *,
    target: str = "street",
    seed: int = 0,
    device: str = "auto",
    config: HomefoldConfig | None = None,
    reporter: ProgressReporter | None = None,
) -> dict[str, Any]:
    """Train on three domains of digits-mini, never touching `target`, then measure four ways to answer for it.

    The model, the records and the picture lie in `out`; `config` is the `small` preset by default.

    Returns:
        A summary of plain values: `table`, `target`, `out`, `seconds`, `next`.
    """
    began = time.monotonic()
    out, reporter = Path(out), reporter or SilentReporter()
    _require_own(out)
    config = replace(config or preset_config("small"), seed=seed)
    source = load_digits_mini().without(target)
    reporter.message(f"Source domains: {', '.join(source.domain_names)}; {target} stays unseen until the end.")

    reporter.message("1/2  Deep All, a plain classifier on the pooled sources, as the control")
    deep_all = _train_deep_all(config, source, resolve_device(device), reporter)
    reporter.message("2/2  homefold: features, manifold, classifier")
    model = Homefold(config, device=device, reporter=reporter).fit(source)
    model.save(out / "model")

    unseen = load_digits_mini().only(target)
    features = extract_features(model.net, unseen.images, model.device)
    searched = torch.from_numpy(model.searched_features(unseen.images)).to(model.device)
    answers = {
        "Deep All": deep_all.answer(ImageSet(unseen.images)).predictions.indices,
        "f without projection": model.feature_model.predict(features, projected=False).indices,
        "1-NN": _nearest_neighbour(model, source).predict(searched).indices,
        "full method": model.feature_model.predict(searched, reporter=reporter).indices,
    }
    (out / "records.jsonl").unlink(missing_ok=True)
    table = []
    for method, indices in answers.items():
        correct = indices == unseen.labels
        table.append({"method": method, "accuracy": float(correct.mean())})
        record = RunRecord(
            dataset=unseen.name,
            target=target,
            method=method,
            accuracy=float(correct.mean()),
            images=len(correct),
            seed=seed,
            protocol="leave-one-domain-out",
            selection="source-validation",
            config=config_to_dict(config),
            hardware=hardware(model.device),
            versions=versions(),
        )
        append_record(out / "records.jsonl", record)
    source_features = extract_features(model.net, source.images, model.device)
    chosen = _examples(answers["f without projection"], answers["full method"], unseen.labels)
    picture = out / "homecoming.png"
    draw_homecoming(picture, model.feature_model, source, source_features, unseen, features, searched, chosen)
    summary = {
        "dataset": unseen.name,
        "target": target,
        "table": table,
        "images": len(unseen),
        "seconds": round(time.monotonic() - began, 1),
        "out": str(out),
        "next": [
            "homefold fit photos/ --out my-model --holdout DOMAIN   # photos/domain/class/*.jpg",
            "homefold evaluate my-model photos/ --domain DOMAIN",
            "homefold predict my-model new-images/",
        ],
    }
    write_json(out / "summary.json", summary)
    return summary


def _train_deep_all(
    config: HomefoldConfig, source: DomainDataset, device: torch.device, reporter: ProgressReporter
) -> TrainedMethod:
    """The control, with the same settings but for its loss."""
    method = DeepAllMethod()
    own = method.configure(method.starting(config), "small")
    key = TaskKey(DatasetKeys(source).of_labelled(np.arange(len(source))), own)
    return method.train(TrainingTask(key, source, device, MemoryStages(), reporter))


def _require_own(out: Path) -> None:
    """Write only into a new or empty folder, or over an earlier demo."""
    if out.exists() and not (out.is_dir() and (holds_model(out / "model") or not any(out.iterdir()))):
        raise ConfigError(f"{out} exists and was not made by a demo; choose another --out.")


def _nearest_neighbour(model: Homefold, source: DomainDataset) -> FeatureModel:
    """The same classifier, with the nearest source feature in the place of G(u*)."""
    train, held_out = selection_split(source, model.config.features.held_out, model.config.seed)
    home = model.feature_model
    z = home.prepare(extract_features(model.net, source.images, model.device))
    nearest = fit_manifold(
        ManifoldConfig(kind="nearest"), z[train], z[held_out], seed=model.config.seed, device=model.device
    )
    return replace(home, manifold=nearest)


def _examples(before: np.ndarray, after: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Target images to draw: corrected ones, spoiled ones, then others, evenly spread."""
    corrected = np.flatnonzero((before != truth) & (after == truth))
    spoiled = np.flatnonzero((before == truth) & (after != truth))
    others = np.linspace(0, len(truth) - 1, _EXAMPLES).astype(int)
    picked = [*corrected[:2], *spoiled[:1], *others]
    return np.asarray(list(dict.fromkeys(int(i) for i in picked))[:_EXAMPLES])
