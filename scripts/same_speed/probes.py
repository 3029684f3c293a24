"""What is measured inside a process: `python -m same_speed.probes NAME …`, with the checkout on the path.

Each prints a JSON object: for each thing measured its seconds and its processor seconds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from same_answers.data import made_up_features
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

import homefold
from homefold.cli import main as command

Seconds = tuple[float, float]

_REPEATS = 5
_STAGES = ("features", "manifold", "classifier")
_SEARCHES: dict[str, dict[str, Any]] = {
    "encoder start": {},
    "8 random starts": {"encoder_start": False, "random_starts": 8},
    "elbow": {"step": "gradient", "steps": 300, "stop": "elbow"},
}


def search() -> dict[str, Seconds]:
    """A few hundred features brought to a VAE's manifold."""
    source, labels, domains, target = made_up_features()
    features = np.concatenate([target, target + 0.1, target - 0.1])
    found = {}
    for name, parameters in _SEARCHES.items():
        model = homefold.ManifoldProjector(manifold_epochs=10, latent_dim=6, device="cpu", **parameters)
        model.fit(source, labels, domains=domains)
        found[f"search, {name}"] = _best(lambda model=model: model.explain(features))
    return found


def train_and_predict(images: str, model: str, *words: str) -> dict[str, Seconds]:
    """The steps of a fit, and answers for a folder of images by what was trained.

    Args:
        images: the folder.
        model: where the fit saves.
        words: that follow `homefold`.
    """
    steps = _step_seconds(words)
    trained = homefold.Homefold.load(Path(model), device="cpu")
    return {**steps, "predict, a folder of images": _best(lambda: trained.predict(images))}


def _step_seconds(words: tuple[str, ...]) -> dict[str, Seconds]:
    """A fast step of each stage that a command trains: what a tenth of them at most stay under."""
    stamps: dict[int, list[Seconds]] = {}
    kept: list[Optimizer] = []

    def stamp(optimizer: Optimizer, *_: object) -> None:
        if id(optimizer) not in stamps:
            kept.append(optimizer)  # so that no other takes its id
        stamps.setdefault(id(optimizer), []).append((time.perf_counter(), time.process_time()))

    hook = register_optimizer_step_post_hook(stamp)
    with redirect_stdout(sys.stderr):
        code = command(list(words))
    hook.remove()
    if code or len(stamps) != len(_STAGES):
        raise RuntimeError(f"the fit ended with {code} after {len(stamps)} stages")
    return {
        f"training step, {stage}": tuple(
            statistics.quantiles((after[clock] - before[clock] for before, after in pairwise(stamped)), n=10)[0]
            for clock in (0, 1)
        )
        for stage, stamped in zip(_STAGES, stamps.values(), strict=True)
    }


def _best(work: Callable[[], object]) -> Seconds:
    """The least time of several, after one to warm up."""
    work()
    taken = []
    for _ in range(_REPEATS):
        began = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return min(wall for wall, _ in taken), min(processor for _, processor in taken)


if __name__ == "__main__":
    torch.set_num_threads(1)
    probes: dict[str, Callable[..., dict[str, Seconds]]] = {"search": search, "train-and-predict": train_and_predict}
    print(json.dumps(probes[sys.argv[1]](*sys.argv[2:])))
