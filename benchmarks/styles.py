"""What moving styles costs: torch's operations, and on CUDA the kernel, beside a plain copy of the same maps.

    python benchmarks/styles.py --out results/h200/styles.json
    python benchmarks/styles.py --quick

The maps are those of a ResNet-18 at 224 px after its first two blocks: 512 images in bfloat16, and tiles of 64 in
float32 as `Homefold.predict` computes them. All take turns within each repeat; the median is reported.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch
from measuring import print_table, seconds_of, surroundings, write_result

from homefold.runtime.device import resolve_device
from homefold.style import map_style, restyle
from homefold.style.model import kernel_fits

_WEIGHT = 0.5
_LAUNCHES = 20


def ways_to_move(maps: torch.Tensor, home: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    """By name, what gives the same maps with their styles half the way to `home`; and a copy."""

    def in_torch() -> torch.Tensor:
        own = map_style(maps)
        return restyle(maps, own, torch.lerp(own, home.expand_as(own), _WEIGHT))

    ways: dict[str, Callable[[], torch.Tensor]] = {"copy": maps.clone, "torch": in_torch}
    if kernel_fits(maps):
        from homefold.style.kernel import move

        ways["kernel"] = lambda: move(maps, home, _WEIGHT)
    return ways


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    device = resolve_device(arguments.device)
    facts = surroundings(device)
    rows = []
    for count, dtype in ((512, torch.bfloat16), (64, torch.float32)):
        for channels, side in ((64, 56), (128, 28)):
            shape = (2, 8, 6, 6) if arguments.quick else (count, channels, side, side)
            maps = torch.randn(shape, device=device).to(dtype).contiguous(memory_format=torch.channels_last)
            ways = ways_to_move(maps, torch.zeros(2 * shape[1], device=device))
            found = {name: move() for name, move in ways.items()}
            if "kernel" in found:
                # What is timed must do the same, but for rounding, which torch does more often.
                tolerance = 3e-2 if dtype == torch.bfloat16 else 1e-3
                torch.testing.assert_close(found["kernel"], found["torch"], rtol=tolerance, atol=tolerance)

            def launches(move: Callable[[], torch.Tensor]) -> None:
                for _ in range(1 if arguments.quick else _LAUNCHES):
                    move()

            times: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(2 if arguments.quick else arguments.repeats):
                for name, move in ways.items():
                    taken = seconds_of(lambda move=move: launches(move), device)
                    times[name].append(taken / (1 if arguments.quick else _LAUNCHES))
            for name, taken in times.items():
                rows.append(
                    {
                        "way": name,
                        "maps": "x".join(map(str, shape)),
                        "dtype": str(dtype).removeprefix("torch."),
                        "milliseconds": 1000 * median(taken),
                        "times_copy": median(taken) / median(times["copy"]),
                    }
                )
    print_table(f"Moving styles, {facts['hardware']}", rows)
    write_result(arguments.out, facts, rows)


if __name__ == "__main__":
    main()
