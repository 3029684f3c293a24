"""How cost grows with images, classes, dimensions of a feature, starts and processes: seconds and memory, a plot each.

    python benchmarks/scaling.py --device cuda --out results/h200/scaling
    python benchmarks/scaling.py --device cpu --largest 100000 --out results/scaling_2core
    python benchmarks/scaling.py --quick --out scaling

Features are made up. One thing varies at a time around 7,000 features of 256 dimensions in 7 classes, with two epochs
of the VAE and the classifier, and the default search. Memory is the device's peak on CUDA; on a CPU it is what tensors
alive at the same time took, counted operator by operator. `--out` names a folder for `scaling.json` and an
SVG file for each question.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measuring import clustered_features, print_table, surroundings, write_result
from torch import multiprocessing
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from homefold.classifier import ClassifierConfig, fit_classifier
from homefold.config.search import SearchConfig
from homefold.features import loss as loss_module
from homefold.features.loss import pairwise_metric_loss, pairwise_metric_loss_share
from homefold.manifold import ManifoldConfig, fit_manifold
from homefold.projection import project
from homefold.runtime.device import one_thread, resolve_device
from homefold.runtime.processes import add_up, current_processes, joined_processes
from homefold.stages.feature_model import to_sphere

Row = dict[str, Any]


class AliveBytes(TorchDispatchMode):
    """The most bytes that tensors made inside it took at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.peak, self._at_most, self._alive = 0, 0, WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {id(item.untyped_storage()) for item in tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)}
        for item in tree_leaves(result):
            if isinstance(item, torch.Tensor) and id(item.untyped_storage()) not in given:
                self._alive[item.untyped_storage()] = item.untyped_storage().nbytes()
                self._at_most += item.untyped_storage().nbytes()
        if self._at_most > self.peak:
            # What has died meanwhile is looked for only where it could matter.
            self._at_most = sum(self._alive.values())
            self.peak = max(self.peak, self._at_most)
        return result


def cost(function: Callable[[], object], device: torch.device, *, count: Callable[[], object] | None = None) -> Row:
    """Seconds and peak memory of a call.

    Args:
        function: what is timed.
        device: where it computes.
        count: a shorter call with the same peak, since counting on a CPU takes longer than computing.
    """
    if device.type == "cuda":
        function()
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    began, processor = time.perf_counter(), time.process_time()
    function()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    row: Row = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - processor}
    if device.type == "cuda":
        row["peak_memory_mb"] = (torch.cuda.max_memory_allocated(device) - before) / 1e6
        return row
    with AliveBytes() as alive:
        (count or function)()
    return row | {"peak_memory_mb": alive.peak / 1e6}


class Cases:
    """What is measured, at any size."""

    def __init__(self, device: torch.device, epochs: int) -> None:
        self.device, self.epochs = device, epochs

    def features(self, n: int, dim: int = 256, classes: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
        z, y = clustered_features(n, dim, classes)
        return to_sphere(z).to(self.device), y.to(self.device)

    def vae(self, z: torch.Tensor, epochs: int) -> Any:
        held = max(2, min(len(z) // 10, 2000))
        config = ManifoldConfig(epochs=epochs)
        manifold = fit_manifold(config, z[held:], z[:held], labels=None, seed=0, device=self.device)
        # After so few epochs it explains little; the search takes as long.
        manifold.report = replace(manifold.report, collapsed=False)
        return manifold

    def classifier(self, z: torch.Tensor, y: torch.Tensor, epochs: int) -> Any:
        held, config = max(2, min(len(z) // 10, 2000)), ClassifierConfig(epochs=epochs)
        return fit_classifier(
            config, z[held:], y[held:], z[:held], y[:held], num_classes=int(y.max()) + 1, seed=0, device=self.device
        )

    def stages(self, value: int, n: int, dim: int, classes: int) -> list[Row]:
        """The VAE, the classifier and the projection of at most 1,000 of the features."""
        z, y = self.features(n, dim, classes)
        some = z[:1000]
        manifold = self.vae(some, self.epochs)
        search = SearchConfig()
        return [
            {"value": value, "what": f"VAE, {self.epochs} epochs"}
            | cost(lambda: self.vae(z, self.epochs), self.device, count=lambda: self.vae(z, 1)),
            {"value": value, "what": f"classifier, {self.epochs} epochs"}
            | cost(lambda: self.classifier(z, y, self.epochs), self.device, count=lambda: self.classifier(z, y, 1)),
            {"value": value, "what": f"projection of {len(some):,}"}
            | cost(
                lambda: project(manifold, some, search, seed=0),
                self.device,
                count=lambda: project(manifold, some[:64], search, seed=0),
            ),
        ]

    def starts(self, value: int, n: int) -> list[Row]:
        """The projection of n features from so many random starts."""
        z, _ = self.features(n)
        manifold = self.vae(z, self.epochs)
        search = replace(SearchConfig(), encoder_start=False, random_starts=value)
        found = cost(
            lambda: project(manifold, z, search, seed=0),
            self.device,
            count=lambda: project(manifold, z[:64], search, seed=0),
        )
        return [{"value": value, "what": f"projection of {n:,}"} | found]

    def batch(self, value: int) -> list[Row]:
        """L_A and its gradient for a batch, whole and in blocks."""
        z, y = self.features(value)
        z.requires_grad_()

        def loss(chunk: int | None) -> None:
            z.grad = None
            pairwise_metric_loss(z, y, chunk=chunk).backward()

        def all_at_once() -> None:
            usual, loss_module._LARGEST_WHOLE = loss_module._LARGEST_WHOLE, value
            try:
                loss(None)
            finally:
                loss_module._LARGEST_WHOLE = usual

        rows = [{"value": value, "what": "L_A in blocks of 512 rows"} | cost(lambda: loss(512), self.device)]
        if value <= 8192:
            rows.append({"value": value, "what": "L_A, all pairs at once"} | cost(all_at_once, self.device))
        return rows


def process_case(rank: int, count: int, port: int, batch: int, repeats: int, answer: Any) -> None:
    """L_A over the pairs of all processes, its gradient and the exchange of it."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with joined_processes(torch.device("cpu")):
        z, y = clustered_features(batch, 256, 7)
        own = current_processes().part(batch)
        part = z[own].clone().requires_grad_()

        def step() -> torch.Tensor:
            loss = pairwise_metric_loss_share(part, y[own])
            loss.backward()
            value = loss.detach().clone()
            add_up([value])
            return value

        began, processor = time.perf_counter(), time.process_time()
        for _ in range(repeats):
            value = step()
        took, used = time.perf_counter() - began, time.process_time() - processor
        with AliveBytes() as alive:
            step()
    if rank == 0:
        times = {"seconds": took / repeats, "processor_seconds": used / repeats}
        answer.put(times | {"peak_memory_mb": alive.peak / 1e6, "loss": float(value)})


def processes(counts: Sequence[int], batch: int, repeats: int) -> list[Row]:
    """One row for each number of processes on the CPU, with Gloo: memory is that of one; their losses must agree."""
    rows: list[Row] = []
    for count in counts:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        answer = multiprocessing.get_context("spawn").SimpleQueue()
        multiprocessing.spawn(process_case, (count, port, batch, repeats, answer), nprocs=count)
        rows.append({"value": count, "what": f"L_A of {batch:,}"} | answer.get())
    return rows


def plot(path: Path, question: str, rows: Sequence[Row]) -> None:
    """Seconds and memory against what varies, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "homefold"
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
    for axis, quantity, label in zip(
        axes, ("seconds", "peak_memory_mb"), ("seconds", "peak memory of tensors, MB"), strict=True
    ):
        for colour, what in zip(colours, dict.fromkeys(row["what"] for row in rows), strict=False):
            points = [(row["value"], row[quantity]) for row in rows if row["what"] == what and row[quantity]]
            if points:
                axis.plot(*zip(*points, strict=True), marker="o", color=colour, label=what)
        axis.set(xlabel=question, ylabel=label, xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def measure(arguments: argparse.Namespace, device: torch.device) -> dict[str, list[Row]]:
    cases = Cases(device, arguments.epochs)
    largest, small = arguments.largest, arguments.small
    sizes = [n for n in (10**3, 10**4, 10**5, 10**6) if n <= largest] if not small else [100, 200]
    classes = (7, 65, 345, 1000) if not small else (3, 5)
    dims = (64, 256, 1024, 4096) if not small else (16, 32)
    starts = (1, 2, 4, 8, 16) if not small else (1, 2)
    batches = (512, 2048, 8192, 16384) if not small else (64, 128)
    n = 7000 if not small else 100
    if device.type == "cpu" and not small:
        starts, batches = (1, 4, 16), (512, 2048, 8192)
    dim = 256 if not small else 32
    questions: dict[str, Callable[[], list[Row]]] = {
        "number of features": lambda: [row for size in sizes for row in cases.stages(size, size, dim, 7)],
        "number of classes": lambda: [row for c in classes for row in cases.stages(c, n, dim, c)],
        "dimensions of a feature": lambda: [row for d in dims for row in cases.stages(d, n, d, 7)],
        "number of random starts": lambda: [
            row for count in starts for row in cases.starts(count, 20 if small else 1000)
        ],
        "images of a batch": lambda: [row for size in batches for row in cases.batch(size)],
        "number of processes": lambda: processes((1, 2), 128 if small else 4096, 2),
    }
    found: dict[str, list[Row]] = {}
    with one_thread(device):
        for question, ask in questions.items():
            if not arguments.questions or any(word in question for word in arguments.questions):
                found[question] = ask()
                print_table(question, found[question])
    return found


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--largest", type=int, default=10**6, help="number of features")
    parser.add_argument("--epochs", type=int, default=2, help="of the VAE and the classifier")
    parser.add_argument("--questions", nargs="+", default=[], help="only those with one of these words in their name")
    parser.add_argument("--quick", dest="small", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="folder for the figures and the plots")
    arguments = parser.parse_args(words)
    if arguments.small:
        arguments.epochs = 2
    device = resolve_device(arguments.device)
    facts = surroundings(device)
    found = measure(arguments, device)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        rows = [{"question": question, **row} for question, rows in found.items() for row in rows]
        write_result(arguments.out / "scaling.json", facts, rows, epochs=arguments.epochs)
        for question, rows in found.items():
            plot(arguments.out / f"{question.replace(' ', '_')}.svg", question, rows)


if __name__ == "__main__":
    main()
