"""How wrong `homefold check` is about the accuracy on a domain without labels, beside the naive estimate.

    python study/check_error.py run --data digits-mini --sizes 10 20 --seeds 2 --out RUNS
    python study/check_error.py tell RUNS --out study/computed/check-error.json

`run` trains with each domain left out on a few images of each class and source domain, and keeps the answers for the
one left out. `tell` estimates from them, and compares with the truth.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from writing import print_table, write_result

from homefold import Homefold, preset_config
from homefold.config.grammar import parse_setting
from homefold.data import DomainDataset, load_dataset
from homefold.data.splits import stratified_rows
from homefold.stages.accuracy_estimate import Judged, estimate_accuracy
from homefold.stages.task import ImageSet

_TARGET_IMAGES = 600


def few_of_each(dataset: DomainDataset, images: int, seed: int) -> DomainDataset:
    """So many images of each class and domain, drawn by the seed."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(dataset))
    seen: dict[tuple[int, int], int] = defaultdict(int)
    kept = []
    for row in order.tolist():
        cell = int(dataset.domains[row]), int(dataset.labels[row])
        seen[cell] += 1
        if seen[cell] <= images:
            kept.append(row)
    return dataset.subset(np.sort(kept))


def run(arguments: argparse.Namespace) -> None:
    """One fit a case; a case that is there already is left alone."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    settings = {"look.leave_familiar": True, **dict(map(parse_setting, arguments.set))}
    name = arguments.data.partition(":")[0]
    for seed in range(arguments.seeds):
        config = preset_config(arguments.preset, {**settings, "seed": seed})
        side = config.preprocessing.image_size
        whole = load_dataset(arguments.data, size=(side, side))
        for size in arguments.sizes:
            for target in whole.domain_names:
                path = arguments.out / f"{name}-{target}-{size}-{seed}.npz"
                if path.exists():
                    continue
                source = few_of_each(whole.without(target), size, seed)
                model = Homefold(config, device=arguments.device).fit(source)
                keep_answers(path, model, whole.only(target), source)
                print(path.name, flush=True)


def keep_answers(path: Path, model: Homefold, unseen: DomainDataset, source: DomainDataset) -> None:
    """What the estimates are made from, and the truth."""
    rows = stratified_rows(unseen.labels, _TARGET_IMAGES, 0)
    images = ImageSet(np.asarray(unseen.images[rows]))
    answer, record = model.trained.answer(images, compare=True), model.sources
    assert answer.plain is not None
    assert record is not None
    np.savez(
        path,
        truth=unseen.labels[rows],
        probabilities=answer.predictions.probabilities,
        plain=answer.plain.predictions.probabilities,
        off_manifold=answer.predictions.off_manifold,
        source_images=len(source),
        **{name: value.numpy() for name, value in record.tensors().items()},
    )


def estimates(case: Any) -> dict[str, float]:
    """The truth and every estimate of one case, shares of one."""
    new = Judged(case["probabilities"], case["plain"])
    held = Judged(case["held_probabilities"], case["held_plain"])
    found = estimate_accuracy(held, case["held_labels"], new)
    return {
        "truth": float((case["probabilities"].argmax(axis=1) == case["truth"]).mean()),
        "naive": float(case["probabilities"].max(axis=1).mean()),
        "held-out accuracy": found.held_out_accuracy,
        **found.estimates,
        "together": found.estimate,
        "low": found.low,
        "high": found.high,
    }


def tell(arguments: argparse.Namespace) -> None:
    """The mean absolute error of each estimate, in points."""
    cases: list[dict[str, Any]] = []
    for path in sorted(arguments.runs.glob("*.npz")):
        data, target, size, seed = path.stem.rsplit("-", 3)
        with np.load(path) as case:
            values = {name: round(100 * value, 2) for name, value in estimates(case).items()}
        cases.append({"data": data, "target": target, "size": int(size), "seed": int(seed), **values})
    groups: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for case in cases:
        groups[case["data"], case["size"]].append(case)
    rows = [summary(data, size, members) for (data, size), members in sorted(groups.items())]
    write_result(arguments.out, rows, cases=cases)
    print_table("Mean absolute error in points", rows)


def summary(data: str, size: int, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean absolute error of each estimate over some cases."""
    described = ("data", "target", "size", "seed", "truth", "low", "high")
    errors = {
        name: round(float(np.mean([abs(case[name] - case["truth"]) for case in cases])), 1)
        for name in cases[0]
        if name not in described
    }
    inside = 100 * float(np.mean([case["low"] <= case["truth"] <= case["high"] for case in cases]))
    accuracy = round(float(np.mean([case["truth"] for case in cases])), 1)
    return {"data": data, "images": size, "cases": len(cases), "accuracy": accuracy, **errors, "inside": round(inside)}


def main() -> None:
    """Run or tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    phases = parser.add_subparsers(dest="phase", required=True)
    first = phases.add_parser("run")
    first.add_argument("--data", required=True)
    first.add_argument("--preset", default="small")
    first.add_argument("--sizes", type=int, nargs="+", required=True)
    first.add_argument("--seeds", type=int, default=2)
    first.add_argument("--set", nargs="*", default=[])
    first.add_argument("--device", default="auto")
    first.add_argument("--out", type=Path, required=True)
    second = phases.add_parser("tell")
    second.add_argument("runs", type=Path)
    second.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    run(arguments) if arguments.phase == "run" else tell(arguments)


if __name__ == "__main__":
    main()
