"""What the projection costs: every engine, batch, number of starts and of steps, beside the authors' scheme.

One table: milliseconds per sample, samples a second, the arithmetic rate and its share of what this device reaches in a
large matrix product, bytes moved through device memory against its copy rate. Then the goals: one sample, a large
batch, projection on top of ResNet-18 from decoded images, memory against the number of steps.

    python benchmarks/projection.py --out results/projection_DEVICE.json
    python benchmarks/projection.py --on-top       # only what projecting adds to ResNet-18
    python benchmarks/projection.py --quick        # tiny sizes, to see that it runs
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import made_up_dataset
from torch import nn

from homefold import preset_config
from homefold.config.search import SearchConfig
from homefold.features import FeatureNet, build_backbone
from homefold.features.extraction import extract_features, image_tile
from homefold.manifold import Manifold, ManifoldConfig, fit_manifold
from homefold.projection import chosen_engine, project
from homefold.projection.engines.reference import loss_curve
from homefold.runtime.device import one_thread
from homefold.runtime.provenance import hardware, versions
from homefold.style import fit_style, named_blocks, styled_net

D, K, HIDDEN = 256, 32, (128, 128)
AUTHORS_STEPS = 20_000


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    engine: str
    precision: str
    batch: int
    starts: int
    steps: int
    ms_per_sample: float
    samples_per_second: float
    tflops: float
    share_of_matrix_rate: float
    share_of_copy_rate: float


def operations(rows: int, steps: int) -> float:
    """Arithmetic that a search needs, two operations a multiplication: hidden layers forth and back, and M h once."""
    widths = (K, *HIDDEN)
    hidden = sum(a * b for a, b in pairwise(widths))
    return 2.0 * rows * steps * (2 * hidden + HIDDEN[-1] ** 2)


def fewest_bytes(batch: int, starts: int) -> float:
    """Bytes that must pass device memory: targets and starts in, latents, steps and losses out, weights once."""
    weights = K * HIDDEN[0] + HIDDEN[0] * HIDDEN[1] + HIDDEN[1] * D
    return 4.0 * (batch * D + batch * starts * (2 * K + 3) + weights)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def median_seconds(run: Callable[[], object], device: torch.device, least_seconds: float) -> float:
    """Median wall-clock time of `run`, the device's work included, after a warm-up."""
    run()
    wait(device)
    times: list[float] = []
    while sum(times) < least_seconds or len(times) < 3:
        began = time.perf_counter()
        run()
        wait(device)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def matrix_rate(device: torch.device, dtype: torch.dtype, side: int) -> float:
    """Operations a second in a large matrix product on random data."""
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return 2.0 * side**3 / median_seconds(lambda: a @ b, device, 0.2)


def copy_rate(device: torch.device, megabytes: int) -> float:
    """Bytes a second read and written by a plain copy."""
    source = torch.empty(megabytes << 20, dtype=torch.uint8, device=device)
    out = torch.empty_like(source)
    return 2.0 * len(source) / median_seconds(lambda: out.copy_(source), device, 0.1)


def manifold_on(device: torch.device) -> Manifold:
    """A VAE of made-up clustered features: its speed does not depend on what it learned."""
    random = torch.Generator().manual_seed(0)
    z = torch.randn(7, D, generator=random).repeat(64, 1) + 0.3 * torch.randn(448, D, generator=random)
    config = ManifoldConfig(latent_dim=K, hidden=HIDDEN, epochs=20)
    return fit_manifold(config, z[:400], z[400:], seed=0, device=device)


def candidates(device: torch.device) -> list[tuple[str, str]]:
    if device.type == "cuda":
        return [
            ("batched", "highest"),
            ("compiled", "high"),
            ("fused", "high"),
            ("fused", "medium"),
        ]
    return [("batched", "highest")]


def settings_for(engine: str, precision: str, starts: int, steps: int) -> SearchConfig:
    first = {"encoder_start": True} if starts == 1 else {"encoder_start": False, "random_starts": starts}
    return SearchConfig(steps=steps, engine=engine, precision=precision, **first)  # type: ignore[arg-type]


def engine_table(device: torch.device, quick: bool, rates: dict[str, float]) -> list[Row]:
    manifold = manifold_on(device)
    cases = [(1, 50), (8, 300)] if not quick else [(1, 2), (2, 8)]
    batches = [1, 64, 4096] if device.type == "cuda" else [1, 64, 512]
    batches = [1, 5] if quick else batches
    rows = []
    for starts, steps in cases:
        for batch in batches:
            z = torch.randn(batch, D, device=device)
            for engine, precision in [*candidates(device), ("reference", "highest")]:
                if engine == "reference" and batch > 1:
                    continue  # one sample after the other: the time of one says all
                config = settings_for(engine, precision, starts, steps)
                if engine == "compiled":
                    config = replace(config, tile=batch)
                before = torch.get_float32_matmul_precision()
                torch.set_float32_matmul_precision("highest")
                seconds = median_seconds(lambda z=z, c=config: project(manifold, z, c), device, 0 if quick else 0.3)  # type: ignore[misc]
                torch.set_float32_matmul_precision(before)
                rate = operations(batch * starts, steps) / seconds
                rows.append(
                    Row(
                        engine=engine,
                        precision=precision,
                        batch=batch,
                        starts=starts,
                        steps=steps,
                        ms_per_sample=1000 * seconds / batch,
                        samples_per_second=batch / seconds,
                        tflops=rate / 1e12,
                        share_of_matrix_rate=rate / rates["matrix"],
                        share_of_copy_rate=fewest_bytes(batch, starts) / seconds / rates["copy"],
                    )
                )
                print_row(rows[-1])
    return rows


def print_row(row: Row) -> None:
    print(
        f"{row.engine:>9} {row.precision:>8} {row.batch:>6} {row.starts:>6} {row.steps:>6} {row.ms_per_sample:>12.5f} "
        f"{row.samples_per_second:>12,.0f} {row.tflops:>9.3f} {row.share_of_matrix_rate:>8.2%} "
        f"{row.share_of_copy_rate:>8.3%}",
        flush=True,
    )


def authors_scheme(device: torch.device, steps: int) -> float:
    """Milliseconds for one sample: one start, autograd, the whole history kept, as the released scripts do it."""
    manifold = manifold_on(device)
    config = SearchConfig(encoder_start=False, random_starts=1, step="normalised", rate=0.01, steps=steps, stop="elbow")
    target, start = torch.randn(1, D, device=device), torch.randn(1, K, device=device)
    began = time.perf_counter()
    with one_thread(device):
        loss_curve(manifold.decode, target, start, config)
    wait(device)
    return 1000 * (time.perf_counter() - began)


def memory_by_steps(device: torch.device, quick: bool) -> dict[int, int]:
    """Peak bytes on the device while 4,096 samples with 8 starts are projected, by number of steps."""
    manifold = manifold_on(device)
    z = torch.randn(16 if quick else 4096, D, device=device)
    peaks = {}
    for steps in (50, 300, 2000) if not quick else (2, 8):
        config = settings_for("auto", "auto", 8, steps)
        project(manifold, z, config)
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
        project(manifold, z, config)
        peaks[steps] = torch.cuda.max_memory_allocated(device) - held
    return peaks


def on_top_of_resnet(device: torch.device, quick: bool) -> Iterator[dict[str, Any]]:
    """Decoded images to answers: f and C alone, with the default search between them, and with the default preset's
    styles before it, in turns; for so many images that are answered together."""
    side, batch = (32, 4) if quick else (224, 512 if device.type == "cuda" else 64)
    net = FeatureNet(build_backbone("resnet18"), (side, side)).to(device, memory_format=torch.channels_last).eval()
    manifold, classifier = manifold_on(device), nn.Linear(D, 7).to(device)
    images = torch.rand(batch, 3, side, side, device=device).to(memory_format=torch.channels_last)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    config, shown = SearchConfig(), made_up_dataset(21, side)
    rows, style = np.arange(len(shown)), named_blocks(preset_config("default").style, net.backbone, (side, side))
    styled = styled_net(net, fit_style(style, net, shown.images, rows, device=device))

    @torch.no_grad()
    def features(seen: FeatureNet, batches: int) -> torch.Tensor:
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            return torch.cat([seen(images).float() for _ in range(batches)])

    def plain(batches: int) -> torch.Tensor:
        return classifier(features(net, batches))

    def searched(batches: int) -> torch.Tensor:
        return classifier(project(manifold, features(net, batches), config).features)

    def projected(batches: int) -> torch.Tensor:
        return classifier(project(manifold, features(styled, batches), config).features)

    # As `Homefold.predict` does it: bytes in main memory, in float32 and in tiles.
    pixels = np.random.default_rng(0).integers(0, 256, (batch, side, side, 3), dtype=np.uint8)

    def extracted(seen: FeatureNet, batches: int) -> torch.Tensor:
        return torch.cat([extract_features(seen, pixels, device) for _ in range(batches)])

    wide: dict[str, Callable[[int], torch.Tensor]] = {"plain": plain, "searched": searched, "projected": projected}
    tiled: dict[str, Callable[[int], torch.Tensor]] = {
        "plain": lambda batches: classifier(extracted(net, batches)),
        "searched": lambda batches: classifier(project(manifold, extracted(net, batches), config).features),
        "projected": lambda batches: classifier(project(manifold, extracted(styled, batches), config).features),
    }

    def measured(
        ways: dict[str, Callable[[int], torch.Tensor]], batches: int, batch: int, precision: torch.dtype, rounds: int
    ) -> dict[str, Any]:
        for run in [*ways.values()] * 2:
            run(batches)
        times: dict[str, list[float]] = {name: [] for name in ways}
        repeats = 1 if device.type == "cpu" or quick else max(1, 10 // batches)
        for _ in range(3 if quick else rounds):
            for name, run in ways.items():
                wait(device)
                began = time.perf_counter()
                for _ in range(repeats):
                    run(batches)
                wait(device)
                times[name].append(time.perf_counter() - began)

        # Each pair was taken side by side, so the ratio of a pair hardly feels a noisy moment.
        def ratio(name: str) -> float:
            return statistics.median(b / a for a, b in zip(times["plain"], times[name], strict=True))

        each = len(images) * batches * repeats
        return {
            "images_together": len(images) * batches,
            "batch": batch,
            "precision": str(precision).removeprefix("torch."),
            "engine": chosen_engine(config, manifold),
            "plain_images_per_second": each / statistics.median(times["plain"]),
            "projected_images_per_second": each / statistics.median(times["projected"]),
            "ratio_without_styles": ratio("searched"),
            "ratio": ratio("projected"),
        }

    if device.type == "cuda":
        yield measured(wide, 1, batch, dtype, rounds=30)
        yield measured(wide, 8, batch, dtype, rounds=30)
        yield measured(tiled, 1, image_tile((side, side), device), torch.float32, rounds=8)
    else:
        yield measured(wide, 1, batch, dtype, rounds=8)


def goals(
    device: torch.device, rows: list[Row], on_top: list[dict[str, Any]], peaks: dict[int, int]
) -> list[dict[str, Any]]:
    """Each goal with its figure and whether it is met."""

    def best(batch: int) -> Row:
        found = [row for row in rows if (row.batch, row.starts, row.steps) == (batch, 8, 300)]
        return min(found, key=lambda row: row.ms_per_sample)

    most, name = (1.05, "c: ResNet-18") if device.type == "cuda" else (1.10, "ResNet-18")
    found: list[dict[str, Any]] = [
        {
            "goal": f"{name} plus default projection, {row['images_together']} images together, batches of "
            f"{row['batch']} in {row['precision']}, ratio <= {most:.2f}",
            "figure": row["ratio"],
            "met": row["ratio"] <= most,
        }
        for row in on_top
    ]
    if device.type == "cuda" and rows:
        one, many = best(1), best(4096)
        found.append({"goal": "a: one sample, 8 x 300, <= 2 ms", "figure": one.ms_per_sample, "by": one.precision})
        found[-1]["met"] = one.ms_per_sample <= 2
        found.append({"goal": "b: >= 300,000 samples/s, batch 4096, 8 x 300", "figure": many.samples_per_second})
        found[-1] |= {"by": many.precision, "met": many.samples_per_second >= 300_000}
        grows = max(peaks.values()) - min(peaks.values())
        found.append({"goal": "d: memory does not grow with steps (bytes more)", "figure": grows, "met": grows == 0})
    return found


def commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--on-top", action="store_true", help="only what projecting adds to ResNet-18")
    parser.add_argument("--out", type=Path, help="write everything as JSON")
    arguments = parser.parse_args()
    device, quick = torch.device(arguments.device), arguments.quick
    found: dict[str, Any] = {}
    rows: list[Row] = []
    peaks: dict[int, int] = {}
    if not arguments.on_top:
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        side = 128 if quick else 8192 if device.type == "cuda" else 1024
        rates = {"matrix": matrix_rate(device, dtype, side), "copy": copy_rate(device, 1 if quick else 1024)}
        fastest = f"{rates['matrix'] / 1e12:.1f} TFLOP/s in a matrix product, copies {rates['copy'] / 1e12:.2f} TB/s"
        print(f"{dtype}: {fastest}")
        print(
            f"{'engine':>9} {'precision':>8} {'batch':>6} {'starts':>6} {'steps':>6} {'ms/sample':>12} "
            f"{'samples/s':>12} {'TFLOP/s':>9} {'matrix':>8} {'copy':>8}"
        )
        rows = engine_table(device, quick, rates)
        steps = 200 if quick else AUTHORS_STEPS
        authors = authors_scheme(device, steps)
        print(f"authors' scheme, {steps:,} steps for one sample, history kept: {authors:,.1f} ms")
        peaks = memory_by_steps(device, quick) if device.type == "cuda" else {}
        print(f"peak bytes by steps: {peaks}")
        found = {
            "rates": rates,
            "table": [asdict(row) for row in rows],
            "authors": {"steps": steps, "ms_per_sample": authors},
            "peak_bytes_by_steps": peaks,
        }
    on_top = []
    for row in on_top_of_resnet(device, quick):
        print(f"ResNet-18 plus projection: {row}", flush=True)
        on_top.append(row)
    judged = [] if quick else goals(device, rows, on_top, peaks)
    for goal in judged:
        print(goal)
    if arguments.out:
        result = {
            "command": " ".join(["python", *sys.argv]),
            "commit": commit(),
            "hardware": hardware(device),
            "versions": versions(),
            **found,
            "on_top_of_resnet18": on_top,
            "goals": judged,
        }
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
