"""Which share of the pretrained weights for which image, and which temperature: from what share_dump.py wrote.

    python study/share_rules.py HELD_OUT TARGETS --out study/computed

HELD_OUT holds the dumps of `leave-two-out`, TARGETS those of the targets. Rules are chosen on the first; the second was
opened once, with the rule that had the highest mean. Writes share-per-image.json and temperature-pacs.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np
import torch

from homefold.classifier.temperature import fit_temperature
from homefold.report.figures.answers import reliability

SHARES = ("0", "0.2", "0.4", "0.6", "0.8")
LAYERS, QUANTILES = (0, 1, 5, 9, 14), (0.1, 0.25, 0.5, 0.75)
DOMAINS = ("photo", "art_painting", "cartoon", "sketch")


class Dump(NamedTuple):
    """One network on one unseen domain."""

    sources: tuple[str, ...]
    target: str
    seed: int
    rows: dict[str, np.ndarray]

    @property
    def unseen(self) -> np.ndarray:
        """Rows of the unseen domain; the others are held-out images of the sources."""
        return self.rows["domain"] < 0

    def answer(self, share: str) -> np.ndarray:
        """Probabilities `(n, classes)` with styles moved."""
        return self.rows[f"styled_{share}"].astype(float)

    def near(self, layer: int, quantile: float) -> np.ndarray:
        """Which images lie nearer to the pretrained statistics of a layer than this share of held-out source images."""
        distance = self.rows["published"][:, layer, 0].astype(float)
        return distance < np.quantile(distance[~self.unseen], quantile)


Rule = Callable[[Dump], np.ndarray]


def read(folder: Path) -> list[Dump]:
    """All dumps of a folder."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        rows = dict(np.load(path).items())
        sources, target, _, seed = str(rows.pop("about")).split()
        found.append(Dump(tuple(sources.split("+")), target, int(seed), rows))
    return found


def all_rules() -> dict[str, Rule]:
    """By name: one share for all images, means of several, and another share, or the mean of both, for near images."""
    rules: dict[str, Rule] = {f"share {share}": lambda d, s=share: d.answer(s) for share in SHARES}
    for several in (("0", "0.4"), ("0", "0.6"), ("0.2", "0.6"), SHARES[:4], SHARES):
        rules[f"mean of {', '.join(several)}"] = lambda d, each=several: sum(d.answer(s) for s in each)
    for far, close in (("0", "0.4"), ("0", "0.6"), ("0.2", "0.6"), ("0.2", "0.4"), ("0", "0.2"), ("0.2", "0.8")):
        for layer in LAYERS:
            for quantile in QUANTILES:
                for both in (False, True):
                    name = f"{far}, near images {'the mean of both with ' if both else ''}{close}"
                    rules[f"{name} (layer {layer}, {quantile:g})"] = _near_images(far, close, layer, quantile, both)
    return rules


def _near_images(far: str, close: str, layer: int, quantile: float, both: bool) -> Rule:
    def rule(dump: Dump) -> np.ndarray:
        other = dump.answer(close) + dump.answer(far) if both else dump.answer(close)
        return np.where(dump.near(layer, quantile)[:, None], other, dump.answer(far))

    return rule


def accuracy(dump: Dump, rule: Rule, *, unseen: bool = True) -> float:
    """In percent."""
    rows = dump.unseen if unseen else ~dump.unseen
    return 100 * float((rule(dump)[rows].argmax(axis=1) == dump.rows["label"][rows]).mean())


def shares_of_images(held_out: list[Dump], targets: list[Dump]) -> dict[str, object]:
    """The best rules on held-out source domains, what choosing among them is worth, and the targets."""
    rules = all_rules()
    found = {name: [accuracy(dump, rule) for dump in held_out] for name, rule in rules.items()}
    control = found["share 0.2"]
    best = max(found, key=lambda name: mean(found[name]))

    def gain(values: list[float]) -> dict[str, float]:
        differences = [value - own for value, own in zip(values, control, strict=True)]
        error = stdev(differences) / len(differences) ** 0.5
        return {"mean": mean(values), "gain": mean(differences), "error": error}

    foreseen = []
    for index, dump in enumerate(held_out):
        others = [i for i, other in enumerate(held_out) if other.target != dump.target]
        chosen = max(found, key=lambda name: mean(found[name][i] for i in others))
        foreseen.append(found[chosen][index])
    shown = ["share 0", "share 0.2", "share 0.4", "mean of 0, 0.6", f"mean of {', '.join(SHARES[:4])}", best]
    on_targets = []
    for name in ("share 0", "share 0.2", best):
        of_each = {t: mean(accuracy(d, rules[name]) for d in targets if d.target == t) for t in DOMAINS}
        seeds = sorted({d.seed for d in targets})
        means = [mean(accuracy(d, rules[name]) for d in targets if d.seed == seed) for seed in seeds]
        familiar = mean(accuracy(d, rules[name], unseen=False) for d in targets)
        on_targets.append(
            {"rule": name, **of_each, "mean": mean(means), "deviation": stdev(means), "familiar": familiar}
        )
    return {
        "held_out": [{"rule": name, **gain(found[name])} for name in shown],
        "foreseen": gain(foreseen),
        "rules": len(rules),
        "targets": on_targets,
        "near": {
            t: 100 * mean(float(d.near(9, 0.5)[d.unseen].mean()) for d in targets if d.target == t) for t in DOMAINS
        },
    }


def _logits(dump: Dump, unseen: bool) -> tuple[torch.Tensor, torch.Tensor]:
    rows = dump.unseen if unseen else ~dump.unseen
    return torch.from_numpy(np.log(dump.answer("0.2")[rows] + 1e-4)), torch.from_numpy(dump.rows["label"][rows]).long()


def _calibration_error(logits: torch.Tensor, labels: torch.Tensor, temperature: float) -> float:
    probabilities = torch.softmax(logits / temperature, dim=1).numpy()
    return 100 * reliability(probabilities, labels.numpy()).error


def temperatures(held_out: list[Dump], targets: list[Dump]) -> list[dict[str, object]]:
    """Calibration error on each target, by where the temperature is from."""
    rows: list[dict[str, object]] = []
    for target in DOMAINS:
        # The sources of this target, each answered by a network that was trained on the other two.
        episodes = [d for d in held_out if d.target != target and target not in d.sources]
        parts = [_logits(dump, True) for dump in episodes]
        weights = torch.cat([torch.full((len(y),), 1 / len(y)) for _, y in parts])
        of_domains = fit_temperature(*map(torch.cat, zip(*parts, strict=True)), weights)
        errors: dict[str, list[float]] = {
            "none": [],
            "held-out images": [],
            "held-out domains": [],
            "unseen domain": [],
        }
        fitted: dict[str, list[float]] = {name: [] for name in errors}
        for dump in (d for d in targets if d.target == target):
            logits, labels = _logits(dump, True)
            values = (1.0, fit_temperature(*_logits(dump, False)), of_domains, fit_temperature(logits, labels))
            for name, value in zip(errors, values, strict=True):
                errors[name].append(_calibration_error(logits, labels, value))
                fitted[name].append(value)
        rows.append(
            {
                "target": target,
                "temperatures": {name: round(mean(values), 2) for name, values in fitted.items()},
                "calibration_error": {name: round(mean(values), 2) for name, values in errors.items()},
            }
        )
    return rows


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 3) if isinstance(value, float) else value


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("held_out", type=Path)
    parser.add_argument("targets", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    held_out, targets = read(options.held_out), read(options.targets)
    for name, found in (
        ("share-per-image", shares_of_images(held_out, targets)),
        ("temperature-pacs", temperatures(held_out, targets)),
    ):
        (options.out / f"{name}.json").write_text(json.dumps(_rounded(found), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
