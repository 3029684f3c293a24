"""A folder of runs as a benchmark leaves it, made up in a moment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from homefold.report.document import Report
from homefold.report.runs import RunFolder

CLASSES = ("circle", "cross", "square", "star")
SOURCES = ("blue", "green", "red")
PACS = ("art_painting", "cartoon", "sketch", "photo")
METHODS = ("deep-all", "without-projection", "without-features", "nearest", "gan", "vae")
HARDWARE = "one made-up GPU"


@dataclass(frozen=True)
class Made:
    """A report and where it lies."""

    folder: RunFolder
    report: Report
    out: Path
    files: dict[str, list[str]]


def record(**changes: Any) -> dict[str, Any]:
    """One line of `records.jsonl`."""
    values: dict[str, Any] = {
        "dataset": "pacs",
        "target": "sketch",
        "method": "vae",
        "accuracy": 0.8,
        "images": 200,
        "seed": 0,
        "protocol": "leave-one-domain-out",
        "selection": "source-validation",
        "config": {},
        "hardware": HARDWARE,
        "versions": {"homefold": "0.1.0", "torch": "2.11.0"},
        "facts": {},
        "suite": "pacs",
        "preset": "quick",
        "backbone": "resnet18",
        "status": "finished",
        "error": "",
        "seconds": {"training": 30.0, "inference_per_image": 0.002},
        "commit": "abc1234",
        "command": "homefold bench pacs --out runs",
    }
    values.update(changes)
    settings = "-".join(f"{k}{v}" for k, v in values["facts"].items() if k in ("sources", "shots", "fraction", "beta"))
    names = (values["suite"], values["method"], values["target"], settings, str(values["seed"]))
    values.setdefault("run", "-".join(filter(None, names)))
    if values["status"] == "failed":
        values["accuracy"] = None
    return values


def write_runs(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write them, one a line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(values) + "\n" for values in records)
    (folder / "records.jsonl").write_text(lines, encoding="utf-8")
    return folder


def made_up_accuracy(method: str, target: str, seed: int, random: np.random.Generator) -> float:
    """Better for the full method, and different for each target."""
    base = {"deep-all": 0.70, "without-projection": 0.75, "without-features": 0.72, "nearest": 0.76, "gan": 0.78}
    shift = {"photo": 0.12, "sketch": -0.05, "cartoon": 0.0}.get(target, 0.03)
    return float(np.clip(base.get(method, 0.80) + shift + random.normal(0, 0.008), 0, 1).round(4))


def pacs_records(seeds: int = 3, **changes: Any) -> list[dict[str, Any]]:
    """Six methods on four targets."""
    random = np.random.default_rng(0)
    return [
        record(
            method=method,
            target=target,
            seed=seed,
            accuracy=made_up_accuracy(method, target, seed, random),
            seconds={
                "training": 30.0,
                "inference_per_image": 0.0004 if method in ("deep-all", "without-projection") else 0.0011,
            },
            **changes,
        )
        for method in METHODS
        for target in PACS
        for seed in range(seeds)
    ]


def every_suite(seeds: int = 2) -> list[dict[str, Any]]:
    """A little of everything that the paper has a table or a figure for."""
    random = np.random.default_rng(1)
    short = ("deep-all", "without-projection", "vae")

    def accuracy(method: str, target: str = "", seed: int = 0, shift: float = 0.0) -> float:
        return float(np.clip(made_up_accuracy(method, target, seed, random) + shift, 0.05, 1))

    records = pacs_records(3)
    for seed in range(seeds):
        for method in METHODS:
            for target in ("caltech", "labelme", "pascal", "sun"):
                value = accuracy(method, target, seed)
                records.append(
                    record(
                        suite="samplers", dataset="vlcs", backbone="alexnet", method=method, target=target, seed=seed
                    )
                    | {"accuracy": value}
                )
        for method in short:
            for source in ("sketch", "photo"):
                for target in (t for t in PACS if t != source):
                    records.append(
                        record(
                            suite="single-source",
                            protocol="single-source",
                            method=method,
                            target=target,
                            seed=seed,
                            accuracy=accuracy(method, target, seed, -0.25),
                            facts={"sources": [source]},
                        )
                    )
            for fraction in (0.2, 0.4, 0.6, 0.8):
                for target in PACS:
                    records.append(
                        record(
                            suite="scarce",
                            protocol="scarce",
                            method=method,
                            target=target,
                            seed=seed,
                            accuracy=accuracy(method, target, seed, 0.2 * fraction - 0.2),
                            facts={"fraction": fraction},
                        )
                    )
            for shots in (0, 7, 10):
                for source, target in (("usps", "mnist"), ("mnist", "svhn"), ("svhn", "mnist")):
                    records.append(
                        record(
                            suite="few-shot",
                            protocol="few-shot",
                            dataset="digits",
                            backbone="digits",
                            method=method,
                            target=target,
                            seed=seed,
                            accuracy=accuracy(method, target, seed, 0.01 * shots - 0.1),
                            facts={"sources": [source], "shots": shots},
                        )
                    )
            for severity in range(1, 6):
                for corruption in ("fog", "gaussian_noise", "jpeg_compression", "motion_blur"):
                    records.append(
                        record(
                            suite="cifar10-c",
                            protocol="corruption",
                            dataset="cifar10-c",
                            backbone="wrn-16-4",
                            method=method,
                            target=corruption,
                            seed=seed,
                            accuracy=accuracy(method, corruption, seed, -0.06 * severity),
                            facts={"corruption": corruption, "severity": severity},
                        )
                    )
        for beta, stop in ((0.05, 470), (0.01, 600), (0.005, 2600), (0.001, 16000)):
            records.append(
                record(
                    suite="beta",
                    seed=seed,
                    accuracy=accuracy("vae", "sketch", seed),
                    facts={"beta": beta, "mean_iterations": stop + seed},
                    config={"projection": {"steps": 20000}},
                )
            )
        for epsilon in (-200, -100, -50, -20, -10, 0, 10, 20, 50, 100, 200):
            for target in PACS:
                records.append(
                    record(
                        suite="stopping",
                        seed=seed,
                        target=target,
                        accuracy=accuracy("vae", target, seed, -0.0003 * abs(epsilon)),
                        facts={"epsilon": epsilon},
                    )
                )
    return records


def clustered(random: np.random.Generator, labels: np.ndarray, shift: float, dim: int = 8) -> np.ndarray:
    """Features in a clump for each class, moved by `shift` along all axes."""
    centres = np.random.default_rng(5).normal(0, 3, (len(CLASSES), dim))
    return (centres[labels] + random.normal(0, 0.6, (len(labels), dim)) + shift).astype(np.float32)


def picture(label: int, background: tuple[int, int, int], random: np.random.Generator, side: int = 24) -> np.ndarray:
    """A bright shape on a coloured ground."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    shapes = (x**2 + y**2 < 0.5, (abs(x) < 0.2) | (abs(y) < 0.2), np.maximum(abs(x), abs(y)) < 0.6, abs(x * y) < 0.05)
    image = np.array(background) + random.integers(-15, 16, (side, side, 3))
    image[shapes[label]] = 235
    return image.clip(0, 255).astype(np.uint8)


def artifact_arrays(method: str, target: str, seed: int, rows: int = 80) -> dict[str, np.ndarray]:
    """What a run keeps for pictures."""
    random = np.random.default_rng([seed, len(method), len(target)])
    labels = np.arange(rows) % len(CLASSES)
    sources = np.arange(120) % len(CLASSES), np.arange(120) // 40
    strength = {"deep-all": 1.5}.get(method, 0.4)
    source_features = clustered(random, sources[0], 0) + strength * sources[1][:, None].astype(np.float32)

    def answers(share: float) -> np.ndarray:
        logits = random.normal(0, 1, (rows, len(CLASSES)))
        logits[np.arange(rows), labels] += 2.5 * (random.random(rows) < share)
        raised = np.exp(1.5 * logits)
        return (raised / raised.sum(axis=1, keepdims=True)).astype(np.float16)

    before, after = answers(0.85), answers(0.92)
    predicted = after.argmax(axis=1)
    changed = np.flatnonzero((before.argmax(axis=1) == labels) != (predicted == labels))
    shown = np.unique(np.concatenate([changed[:8], np.arange(8)]))

    def images(indices: np.ndarray, ground: tuple[int, int, int]) -> np.ndarray:
        return np.stack([picture(int(label), ground, random) for label in indices])

    near, near_after = random.integers(0, len(CLASSES), len(shown)), labels[shown]
    grounds = {"photo": (40, 90, 50), "sketch": (120, 120, 120), "cartoon": (150, 60, 120)}
    steps = np.arange(200)
    return {
        "labels": labels,
        "predicted": predicted,
        "predicted_before": before.argmax(axis=1),
        "probabilities": after,
        "probabilities_before": before,
        "similarity_before": random.uniform(0.7, 0.9, rows).astype(np.float32),
        "similarity_after": random.uniform(0.9, 1.0, rows).astype(np.float32),
        "iterations": np.full(rows, 50),
        "start": np.zeros(rows, dtype=np.int64),
        "off_manifold": (random.random(rows) + 0.8 * (predicted != labels)).astype(np.float32),
        "source_features": source_features,
        "source_labels": sources[0],
        "source_domains": sources[1],
        "target_features": clustered(random, labels, 3 * strength),
        "target_projected": clustered(random, labels, 0.5),
        "target_index": np.arange(rows),
        "class_names": np.array(CLASSES),
        "domain_names": np.array(SOURCES),
        "thumb_target": images(labels[shown], grounds.get(target, (90, 60, 30))),
        "thumb_index": shown,
        "thumb_source_before": images(near, (20, 20, 70)),
        "thumb_source_after": images(near_after, (20, 20, 70)),
        "thumb_labels_before": near,
        "thumb_labels_after": near_after,
        "curve_loss": np.stack([0.6 * np.exp(-steps / t) + 0.03 for t in (20.0, 40.0)]),
        "curve_elbow": np.array([45, 80]),
        "epoch_loss": (strength / np.arange(1, 9)).astype(np.float32),
        "epoch_held_out_loss": (strength / np.arange(1, 9) + 0.1).astype(np.float32),
    }


def write_artifacts(folder: Path, records: list[dict[str, Any]], *, without: tuple[str, ...] = ()) -> None:
    """Arrays for each of the runs."""
    (folder / "artifacts").mkdir(parents=True, exist_ok=True)
    for values in records:
        arrays = artifact_arrays(values["method"], values["target"], values["seed"])
        path = folder / "artifacts" / f"{values['run']}.npz"
        np.savez(path, **{name: array for name, array in arrays.items() if name not in without})


def full_folder(folder: Path) -> Path:
    """Every suite; some runs failed, some missing; artifacts of Deep All and of the full method."""
    records = every_suite()
    kept = [values for values in records if values["suite"] == "pacs" and values["method"] in ("deep-all", "vae")]
    write_artifacts(folder, [values for values in kept if values["seed"] == 0])
    for values in records:
        where = (values["suite"], values["method"], values["target"])
        if where == ("pacs", "gan", "cartoon"):
            values.update(status="failed", accuracy=None, error="TrainingDivergedError: the loss became NaN")
        if where == ("pacs", "nearest", "photo") and values["seed"] == 1:
            values.update(status="failed", accuracy=None, error="out of memory")
    missing = [v for v in records if (v["suite"], v["method"], v["target"]) == ("pacs", "without-features", "sketch")]
    return write_runs(folder, [values for values in records if values not in missing])
