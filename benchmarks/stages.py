"""Stages 2 and 3 on features: seconds that the VAE, the GAN and the classifier take to fit.

    python benchmarks/stages.py --device cuda --out results/h200/stages.json
    python benchmarks/stages.py --device cpu --stages vae classifier
    python benchmarks/stages.py --quick

Made-up clustered features stand for real ones, which take exactly as long. On CUDA each fit is also run with its steps
launched one by one, to show what recording them as a CUDA graph gives. On a CPU one thread does the work, so that its
processor seconds are what a machine with nothing else to do would take.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measuring import clustered_features, print_table, seconds_of, surroundings, write_result

import homefold.classifier.training
import homefold.manifold.gan
import homefold.manifold.vae
from homefold.classifier import ClassifierConfig, fit_classifier
from homefold.manifold import ManifoldConfig, fit_manifold, paper_manifold_config
from homefold.runtime.device import one_thread, resolve_device
from homefold.stages.feature_model import to_sphere

_RECORDING = (homefold.classifier.training, homefold.manifold.gan, homefold.manifold.vae)


@contextmanager
def step_by_step() -> Iterator[None]:
    """Inside the block nothing is recorded."""
    before = [module.capturer_for for module in _RECORDING]
    for module in _RECORDING:
        module.capturer_for = lambda device, enabled=True: None  # type: ignore[assignment]
    try:
        yield
    finally:
        for module, function in zip(_RECORDING, before, strict=True):
            module.capturer_for = function  # type: ignore[assignment]


def stages(
    arguments: argparse.Namespace, device: torch.device
) -> dict[str, tuple[str, int, int, Callable[[int | None], object]]]:
    """Name to a description, its epochs, the steps they take, and the fit for so many epochs (None for all)."""
    z, y = clustered_features(arguments.features, arguments.dim, arguments.classes)
    z, y = to_sphere(z).to(device), y.to(device)
    held = len(z) // 10

    def manifold(config: ManifoldConfig) -> Callable[[int | None], object]:
        def fit(epochs: int | None) -> object:
            chosen = config if epochs is None else replace(config, epochs=epochs)
            return fit_manifold(chosen, z[held:], z[:held], labels=y[held:], seed=0, device=device)

        return fit

    def classifier(epochs: int | None) -> object:
        config = ClassifierConfig(epochs=epochs or ClassifierConfig().epochs)
        return fit_classifier(
            config, z[held:], y[held:], z[:held], y[:held], num_classes=arguments.classes, seed=0, device=device
        )

    vae = ManifoldConfig(epochs=arguments.epochs)
    gan = ManifoldConfig(kind="gan", epochs=min(arguments.epochs, 150))
    paper = paper_manifold_config()
    known = len(z) - held

    def fitting(name: str, config: ManifoldConfig) -> tuple[str, int, int, Callable[[int | None], object]]:
        epochs = config.resolved_epochs
        steps = known // min(config.batch_size, known) * epochs
        return f"{name}, {epochs} epochs of {config.batch_size}", epochs, steps, manifold(config)

    epochs = ClassifierConfig().epochs
    return {
        "vae": fitting("VAE", vae),
        "classifier": (f"classifier, {epochs} epochs of 64", epochs, -(-known // 64) * epochs, classifier),
        "gan": fitting("GAN", gan),
        "conv-vae": fitting("the paper's VAE", paper),
    }


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--features", type=int, default=7000, help="of which a tenth is held out")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=350, help="of the VAE")
    parser.add_argument("--stages", nargs="+", default=["vae", "classifier", "gan"])
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    if arguments.quick:
        arguments.features, arguments.dim, arguments.epochs = 300, 64, 4
    device = resolve_device(arguments.device)
    facts = surroundings(device)
    known = stages(arguments, device)
    rows: list[dict[str, Any]] = []
    with one_thread(device):
        for name in arguments.stages:
            what, epochs, steps, fit = known[name]
            fit(1)
            processor = time.process_time()
            row: dict[str, Any] = {"stage": what, "seconds": seconds_of(lambda fit=fit: fit(None), device)}
            row["processor_seconds"] = time.process_time() - processor
            row |= {"ms_per_step": 1000 * row["seconds"] / steps, "ms_per_launched_step": None, "times_faster": None}
            print(row, flush=True)
            if device.type == "cuda":
                # A tenth of the epochs says how long a step takes, and all of them would take minutes.
                part = max(1, epochs // 10)
                with step_by_step():
                    launched = seconds_of(lambda fit=fit, part=part: fit(part), device)
                row["ms_per_launched_step"] = 1000 * launched / (steps * part / epochs)
                row["times_faster"] = row["ms_per_launched_step"] / row["ms_per_step"]
            rows.append(row)
    print_table(f"{arguments.features:,} features of {arguments.dim} dimensions, {facts['hardware']}", rows)
    total = sum(row["seconds"] for name, row in zip(arguments.stages, rows, strict=True) if name != "gan")
    print(f"VAE and classifier together: {total:.1f} s")
    settings = {name: getattr(arguments, name) for name in ("features", "dim", "classes", "epochs")}
    write_result(arguments.out, facts, rows, settings=settings, vae_and_classifier_seconds=total)


if __name__ == "__main__":
    main()
