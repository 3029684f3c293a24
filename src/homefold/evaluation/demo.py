"""The demonstration: train on three domains of the embedded dataset, answer for the fourth, show what happened."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from homefold.config import HomefoldConfig, SearchConfig, config_to_dict, preset_config, search_preset
from homefold.data.dataset import DatasetKeys, DomainDataset
from homefold.data.datasets.digits_mini import load_digits_mini
from homefold.data.splits import selection_split
from homefold.errors import ConfigError
from homefold.evaluation.records import RunRecord, append_record
from homefold.features import extract_features
from homefold.manifold import Manifold, ManifoldConfig, fit_manifold
from homefold.methods import DeepAllMethod, TrainedMethod
from homefold.model import Homefold
from homefold.projection import elbow_index
from homefold.projection.engines.reference import loss_curve
from homefold.projection.rules.starts import starting_latents
from homefold.runtime.device import resolve_device
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.provenance import hardware, versions
from homefold.stages.feature_model import FeatureModel
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.store.files import write_atomically, write_json
from homefold.store.model_folder import holds_model
from homefold.store.stage_store import MemoryStages

__all__ = ["run_demo"]

_EXAMPLES = 6
_NEIGHBOURS = 3
# From the palette of Okabe and Ito, which colour-blind readers can tell apart.
_RIGHT, _WRONG, _CURVE = "#0072B2", "#D55E00", "#009E73"


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
    _draw_homecoming(picture, model.feature_model, source, source_features, unseen, features, searched, chosen)
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
        raise ConfigError(f"{out} exists and was not made by a demo; choose another folder.")


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


def _draw_homecoming(
    path: Path,
    model: FeatureModel,
    source: DomainDataset,
    source_features: torch.Tensor,
    target: DomainDataset,
    target_features: torch.Tensor,
    searched: torch.Tensor,
    chosen: np.ndarray,
) -> None:
    """Write a PNG with a row for each chosen target image: nearest source images before and after, and the search.

    Args:
        model: fitted on the source features.
        source, source_features: labelled source images and their `(n, d)` raw features.
        target, target_features: images of the unseen domain and their `(m, d)` raw features.
        searched: `(m, d)` what the search is given for `target`.
        chosen: indices into `target` to draw.
    """
    # The default search starts almost at its end, so another one's loss is drawn: the authors' from a random start.
    search = replace(search_preset("authors"), steps=200)
    rows = torch.as_tensor(chosen)
    z = model.prepare(searched[rows])
    home = model.project(searched[rows]).features
    bank = model.prepare(source_features)
    before, after = _nearest(model.prepare(target_features[rows]), bank), _nearest(home, bank)
    columns = 2 * _NEIGHBOURS + 1
    figure = plt.figure(figsize=(1.15 * columns + 3.2, 1.25 * len(rows) + 0.6), layout="constrained")
    grid = figure.add_gridspec(len(rows), columns + 3)
    names = target.class_names
    for i, row in enumerate(rows.tolist()):
        truth = int(target.labels[row])
        axis = figure.add_subplot(grid[i, 0])
        _show(axis, target.images[row], f"unseen: {names[truth]}", "black")
        for k in range(_NEIGHBOURS):
            for offset, found in ((1, before), (1 + _NEIGHBOURS, after)):
                index = int(found[i, k])
                label = int(source.labels[index])
                axis = figure.add_subplot(grid[i, offset + k])
                _show(axis, source.images[index], names[label], _RIGHT if label == truth else _WRONG)
                if i == 0 and k == 1:
                    axis.set_title(
                        f"nearest source images {'before' if offset == 1 else 'after'}\n{names[label]}", fontsize=8
                    )
        axis = figure.add_subplot(grid[i, columns:])
        _draw_curve(axis, model.manifold, z[i, None], search, model.seed, last=i == len(rows) - 1)
    with write_atomically(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)
    plt.close(figure)


def _nearest(z: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
    """`(n, 3)` indices of the most similar rows of the bank."""
    unit, others = torch.nn.functional.normalize(z, dim=1), torch.nn.functional.normalize(bank, dim=1)
    return (unit @ others.T).topk(_NEIGHBOURS, dim=1).indices.cpu()


def _show(axis: Axes, image: np.ndarray, title: str, colour: str) -> None:
    axis.imshow(image, interpolation="nearest")
    axis.set_title(title, fontsize=8, color=colour)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color(colour)
        spine.set_linewidth(2)


def _draw_curve(
    axis: Axes, manifold: Manifold, z: torch.Tensor, search: SearchConfig, seed: int, *, last: bool
) -> None:
    with torch.no_grad():
        losses, _ = loss_curve(manifold.decode, z, starting_latents(search, manifold, z, seed)[:, 0], search)
    elbow = int(elbow_index(losses, search.window))
    axis.plot(losses.cpu(), color=_CURVE, linewidth=1.2)
    axis.axvline(elbow, color=_WRONG, linestyle="--", linewidth=1)
    axis.annotate(f"n* = {elbow}", (elbow, float(losses.max())), fontsize=7, xytext=(3, -6), textcoords="offset points")
    axis.set_ylabel("$L_S$", fontsize=7)
    axis.tick_params(labelsize=6)
    if last:
        axis.set_xlabel("step", fontsize=7)
