"""Other ways to estimate the accuracy on a domain without labels, beside those that `homefold check` takes.

    python study/check_candidates.py run --data digits-mini --sizes 5 15 --seeds 1 --out RUNS
    python study/check_candidates.py tell RUNS --out study/computed/check-candidates.json

`run` trains on all pairs and triples of domains, and keeps answers for the other domains and for held-out source images
under 19 made-up shifts. `tell` estimates from them:

- shifted threshold: average thresholded confidence, its threshold fitted on shifted images too;
- shifted regression: the mean of a logistic regression of right on seven signals, fitted on shifted images too;
- halves: how often two classifiers agree that saw different halves of the features;
- trainings: the mean confidence, less its mean error on each source domain in trainings without it.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from check_error import few_of_each
from sklearn.linear_model import LogisticRegression
from torchvision.transforms.v2 import functional as F
from writing import print_table, write_result

from homefold import Homefold, preset_config
from homefold.data import load_dataset
from homefold.data.splits import stratified_rows
from homefold.stages.accuracy_estimate import Judged, average_thresholded_confidence, estimate_accuracy
from homefold.stages.task import ImageSet

_TARGET_IMAGES = 600
_PARTS = ("p", "plain", "projected", "off", "z")


def shifted(pixels: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The images under each shift."""
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    random = torch.Generator().manual_seed(seed)
    n, side = len(x), x.shape[-1]

    def between(low: float, high: float) -> torch.Tensor:
        return torch.rand(n, 3, 1, 1, generator=random) * (high - low) + low

    occluded = x.clone()
    occluded[:, :, side // 3 : 2 * side // 3, side // 3 : 2 * side // 3] = 0.5
    found = {
        "inverted": 1 - x,
        "grey": x.mean(1, keepdim=True).expand_as(x),
        "low contrast": (x - 0.5) * 0.3 + 0.5,
        "high contrast": (x - 0.5) * 3 + 0.5,
        "bright": x + 0.4,
        "dark": x * 0.35,
        "noise": x + 0.1 * torch.randn(x.shape, generator=random),
        "more noise": x + 0.3 * torch.randn(x.shape, generator=random),
        "blur": F.gaussian_blur(x, [5, 5], [1.0, 1.0]),
        "more blur": F.gaussian_blur(x, [9, 9], [2.0, 2.0]),
        "colour": x * between(0.2, 1.2) + between(-0.1, 0.3),
        "tint": x * between(0, 1) + (1 - x) * between(0, 1),
        "turned": torch.stack([F.rotate(image, 20.0 if i % 2 else -20.0) for i, image in enumerate(x)]),
        "small": torch.stack([F.affine(image, 0, [0, 0], 0.7, [0, 0]) for image in x]),
        "moved": torch.stack([F.affine(image, 0, [4, -4], 1.0, [0, 0]) for image in x]),
        "blended": 0.6 * x + 0.4 * x[torch.randperm(n, generator=random)],
        "difference": (x - x[torch.randperm(n, generator=random)].flip(2)).abs(),
        "occluded": occluded,
        "coarse": torch.nn.functional.interpolate(torch.nn.functional.avg_pool2d(x, 3, 3), size=x.shape[2:]),
    }
    return {name: (y.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).numpy() for name, y in found.items()}


def answers(model: Homefold, pixels: np.ndarray) -> dict[str, np.ndarray]:
    """What the model says of images, with and without projection, and their features."""
    found = model.trained.answer(ImageSet(np.ascontiguousarray(pixels)), compare=True)
    assert found.plain is not None
    assert found.found is not None
    features = model.trained.feature_model
    return {
        "p": found.predictions.probabilities,
        "plain": found.plain.predictions.probabilities,
        "projected": features.classify(found.found).probabilities,
        "off": found.predictions.off_manifold,
        "z": features.prepare(found.plain.features).cpu().numpy(),
    }


def run(arguments: argparse.Namespace) -> None:
    """One fit for each pair and triple of domains; one that is there already is left alone."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    whole = load_dataset(arguments.data, size=(32, 32))
    for seed, size, count in itertools.product(range(arguments.seeds), arguments.sizes, (3, 2)):
        for domains in itertools.combinations(whole.domain_names, count):
            path = arguments.out / "+".join((arguments.data.partition(":")[0], *domains, str(size), str(seed)))
            if not path.with_suffix(".npz").exists():
                one_training(path.with_suffix(".npz"), whole, domains, size, seed)


def one_training(path: Path, whole: Any, domains: tuple[str, ...], size: int, seed: int) -> None:
    """Train on some domains, and keep what is said of the others and of shifted images."""
    source = few_of_each(whole.only(*domains), size, seed)
    model = Homefold(preset_config("small", {"look.leave_familiar": True, "seed": seed})).fit(source)
    assert model.sources is not None
    held = np.asarray(source.images[model.sources.held_rows])
    sets = {"held": held, **{f"shift {name}": pixels for name, pixels in shifted(held, seed).items()}}
    kept = {"labels": model.sources.held_labels, "known": model.sources.features, "known labels": model.sources.labels}
    for domain in whole.domain_names:
        if domain not in domains:
            unseen = whole.only(domain)
            rows = stratified_rows(unseen.labels, _TARGET_IMAGES, 0)
            sets[f"new {domain}"], kept[f"truth {domain}"] = np.asarray(unseen.images[rows]), unseen.labels[rows]
    for name, pixels in sets.items():
        kept |= {f"{name}/{part}": values for part, values in answers(model, pixels).items()}
    np.savez_compressed(path, **kept)


def signals(said: dict[str, np.ndarray]) -> np.ndarray:
    """`(n, 7)` of each answer."""
    p, plain, projected = said["p"], said["plain"], said["projected"]
    rows, label = np.arange(len(p)), p.argmax(axis=1)
    odds = [np.clip(each[rows, label], 1e-6, 1 - 1e-6) for each in (p, plain, projected)]
    ordered = np.sort(plain, axis=1)
    entropy = -(plain * np.log(np.maximum(plain, 1e-12))).sum(axis=1)
    agree = projected.argmax(axis=1) == plain.argmax(axis=1)
    more = [agree, np.clip(said["off"], 0, 3), entropy, ordered[:, -1] - ordered[:, -2]]
    return np.stack([*(np.log(each / (1 - each)) for each in odds), *more], axis=1)


def estimates(case: Any, domain: str) -> dict[str, float]:
    """The truth and every estimate of one case, shares of one."""

    def said(name: str) -> dict[str, np.ndarray]:
        return {part: case[f"{name}/{part}"] for part in _PARTS}

    new, labels = said(f"new {domain}"), case["labels"]
    names = sorted({name.partition("/")[0] for name in case.files if name.startswith(("held/", "shift "))})
    sets = [said(name) for name in names]
    own = estimate_accuracy(Judged(case["held/p"], case["held/plain"]), labels, Judged(new["p"], new["plain"]))
    right = np.concatenate([each["p"].argmax(axis=1) == labels for each in sets])
    sure = np.concatenate([each["p"].max(axis=1) for each in sets])
    regression = LogisticRegression(max_iter=500).fit(np.concatenate([signals(each) for each in sets]), right)
    return {
        "truth": float((new["p"].argmax(axis=1) == case[f"truth {domain}"]).mean()),
        **own.estimates,
        "together": own.estimate,
        "shifted threshold": average_thresholded_confidence(sure, right, new["p"].max(axis=1)),
        "shifted regression": float(regression.predict_proba(signals(new))[:, 1].mean()),
        "halves": agreement_of_halves(case["known"], case["known labels"], new["z"]),
    }


def agreement_of_halves(known: np.ndarray, labels: np.ndarray, z: np.ndarray) -> float:
    """How often two classifiers agree on `z`, each fitted on half of the known features; the mean of three draws."""
    random, found = np.random.default_rng(0), []
    for _ in range(3):
        halves = np.array_split(random.permutation(len(known)), 2)
        one, other = (
            LogisticRegression(C=10, max_iter=300).fit(known[rows], labels[rows]).predict(z) for rows in halves
        )
        found.append((one == other).mean())
    return float(np.mean(found))


def tell(arguments: argparse.Namespace) -> None:
    """The mean absolute error of each way, in points, by the number of source domains."""
    cases: dict[tuple[str, ...], dict[str, float]] = {}
    for path in sorted(arguments.runs.glob("*.npz")):
        data, *domains, size, seed = path.stem.split("+")
        with np.load(path) as case:
            for name in case.files:
                if name.startswith("truth "):
                    domain = name.removeprefix("truth ")
                    cases[data, size, seed, domain, *domains] = estimates(case, domain)
    for (data, size, seed, _, *domains), found in cases.items():
        without = [(data, size, seed, left, *(each for each in domains if each != left)) for left in domains]
        if all(key in cases for key in without):
            bias = np.mean([cases[key]["confidence"] - cases[key]["truth"] for key in without])
            found["trainings"] = float(np.clip(found["confidence"] - bias, 0, 1))
    groups: dict[int, list[dict[str, float]]] = defaultdict(list)
    for key, found in cases.items():
        groups[len(key) - 4].append(found)
    rows = [{"sources": count, "cases": len(found), **errors(found)} for count, found in sorted(groups.items())]
    write_result(arguments.out, rows)
    print_table("Mean absolute error in points", rows)


def errors(cases: list[dict[str, float]]) -> dict[str, float | None]:
    """Of each way; `trainings` of those cases that have it, beside the mean confidence of these."""
    told = {way: off(way, cases) for way in cases[0] if way not in ("truth", "trainings")}
    known = [case for case in cases if "trainings" in case]
    more = {"trainings": off("trainings", known), "confidence there": off("confidence", known)}
    return {**told, **more, "cases there": len(known)}


def off(way: str, cases: list[dict[str, float]]) -> float | None:
    """The mean absolute error in points; None without a case."""
    if not cases:
        return None
    return round(100 * float(np.mean([abs(case[way] - case["truth"]) for case in cases])), 1)


def main() -> None:
    """Run or tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    phases = parser.add_subparsers(dest="phase", required=True)
    first = phases.add_parser("run")
    first.add_argument("--data", required=True)
    first.add_argument("--sizes", type=int, nargs="+", required=True)
    first.add_argument("--seeds", type=int, default=1)
    first.add_argument("--out", type=Path, required=True)
    second = phases.add_parser("tell")
    second.add_argument("runs", type=Path)
    second.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    run(arguments) if arguments.phase == "run" else tell(arguments)


if __name__ == "__main__":
    main()
