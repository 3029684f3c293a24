"""Compares ways to adapt to ten labelled samples a class of a target, on directions that are not the suite's.

    python study/few_shot.py DIGITS --stages FOLDER --out study/computed/few-shot-ways.json

DIGITS is the folder of digits-few-shot. For each direction f is trained once on the source and kept in FOLDER; each way
goes on from it, or begins anew. What is told is the accuracy on the target's test images, without projection.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from homefold.classifier import fit_classifier
from homefold.data import load_dataset
from homefold.evaluation.planning import BenchData
from homefold.evaluation.presets import bench_config
from homefold.evaluation.protocols import FewShot, few_of_each_class, source_dataset
from homefold.features.extraction import extract_features
from homefold.features.network import FeatureNet
from homefold.features.training import train_features
from homefold.stages.encoder import frozen
from homefold.stages.feature_model import to_sphere
from homefold.stages.features import build_task_net, train_feature_stage
from homefold.stages.task import TrainingTask
from homefold.store.stage_store import Stage, StageStore

PAIRS = (("mnist", "usps"), ("usps", "svhn"), ("svhn", "usps"))
SAMPLES = 10
SOURCE_IMAGES = 600
"""Of each class, as many as there are of SVHN."""


@dataclass(frozen=True)
class Way:
    """How f is trained on: on which images, for how many steps, at which share of the learning rate."""

    images: str
    steps: int = 0
    rate: float = 1.0
    schedule: str = "one-cycle"


WAYS = (
    Way("none"),
    Way("samples", 20, 0.1, "constant"),  # as it was before
    Way("samples", 100, 1.0, "constant"),
    Way("samples", 300, 1.0, "constant"),
    Way("samples", 300),
    Way("together", 400, 0.1),
    Way("together", 400),
    Way("together", 1260),
    Way("together, anew", 1260),
)


def adapted(task: TrainingTask, base: Stage, way: Way) -> FeatureNet:
    """f after adaptation."""
    net = build_task_net(task, pretrained=True)
    anew = way.images == "together, anew"
    if not anew:
        base.load_into(net, "net")
    if not way.steps:
        return net
    assert task.adapt is not None
    every = np.arange(len(task.adapt))
    given = (task.adapt, every, every) if way.images == "samples" else task.together
    config = task.config.features
    tuned = replace(
        config,
        epochs=round(way.steps / max(1, len(given[1]) // config.batch_size)),
        learning_rate=config.learning_rate * way.rate,
        schedule=way.schedule,
        sampling="domains",
        select="last",
    )
    objective = None if anew else base.part("objective")
    return train_features(tuned, net, *given, seed=0, device=task.device, objective_state=objective).net


def accuracies(task: TrainingTask, net: FeatureNet, images: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """In percent, by where C is from: the source's features, these and then the samples' alone, or both evenly."""
    assert task.adapt is not None
    frozen(net, task.device)
    train, held_out = task.split
    y, few_y = torch.from_numpy(task.source.labels), torch.from_numpy(task.adapt.labels)
    z, few, target = (
        to_sphere(extract_features(net, pixels, task.device))
        for pixels in (task.source.images, task.adapt.images, images)
    )
    given, held = (z[train], y[train]), (z[held_out], y[held_out])
    times, config = len(train) // len(few), task.config.classifier
    both = (torch.cat([given[0], few.repeat(times, 1)]), torch.cat([given[1], few_y.repeat(times)]))
    slow = replace(config, learning_rate=config.learning_rate * 0.1)
    fit = partial(fit_classifier, num_classes=10, seed=0, device=task.device)
    source = fit(config, *given, *held)
    found = {
        "source": source,
        "samples": fit(slow, few, few_y, *held, initial=source.state_dict(), keep="last"),
        "both": fit(config, *both, few, few_y, keep="last"),
    }
    truth = torch.from_numpy(labels)
    return {name: 100 * float((c(target).argmax(1) == truth).float().mean()) for name, c in found.items()}


def main() -> None:
    """Every way in every direction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--stages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    dataset = load_dataset("digits-few-shot", root=arguments.data)
    data, config = BenchData(dataset), bench_config("default", "digits-bn")
    rows = []
    for split in FewShot(shots=(SAMPLES,), pairs=PAIRS).splits(dataset, 0):
        source = few_of_each_class(dataset, split.source, SOURCE_IMAGES, 0)
        task = TrainingTask(
            data.task_key(source, config, split.adapt),
            source_dataset(dataset, source),
            torch.device("cpu"),
            StageStore(arguments.stages),
            adapt=source_dataset(dataset, split.adapt),
        )
        base = train_feature_stage(task.without_adaptation()).stage
        target = dataset.subset(split.targets[0].indices)
        for way in WAYS:
            found = accuracies(task, adapted(task, base, way), target.images, target.labels)
            rows.append({"direction": split.name.partition(",")[0], **asdict(way), **found})
            print(json.dumps(rows[-1]), flush=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
