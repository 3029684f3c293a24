"""Runs the study of small data: recipes screened on held-out sources, then the preset `auto` on the targets.

    python study/small_data.py select|targets --data pacs:PACS --weights resnet18_imagenet.safetensors --out RUNS
    python study/small_data.py targets --suite digits-dg --data digits-dg:DIGITS --weights none --out RUNS

`select` trains on two domains and tests on a third, for each size. `targets` runs the recipe that `auto` has for each
size beside the controls, with each domain left out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from homefold.config.recipe import DataFacts, recipe

CONTROLS = ["linear-probe", "deep-all", "without-projection", "vae"]
CANDIDATES = {
    5: [(epochs, 0.03, share) for epochs in (300, 600) for share in (0.6, 0.8)],
    20: [(epochs, rate, share) for epochs, rate in ((150, 0.03), (300, 0.03), (150, 0.1)) for share in (0.3, 0.6)],
    100: [(60, rate, share) for rate in (0.1, 0.03) for share in (0.2, 0.4)] + [(30, 0.1, 0.2)],
}
"""By images a class and domain: epochs, learning rate, share of the pretrained weights."""
SIZES = (5, 10, 20, 40, 100, 0)
"""Images a class and domain; 0 is all."""
KINDS = {"pacs": 21, "digits-dg": 30}
"""Pairs of a source domain and a class."""
ALL = {"pacs": 350, "digits-dg": 600}
"""How many images a pair has on average when all are there."""
LEFT_ALONE = "look.leave_familiar"


def own(settings: Iterable[str]) -> list[str]:
    """f and the full method with settings of their own."""
    listed = ",".join(settings)
    return [f"without-projection:{listed}", f"vae:{listed}"]


def candidates(size: int) -> list[str]:
    """The recipes that are compared for a size."""
    names = ("features.epochs", "features.learning_rate", "features.keep_pretrained")
    chosen = ((f"{name}={value}" for name, value in zip(names, row, strict=True)) for row in CANDIDATES[size])
    return [method for settings in chosen for method in own(settings)]


def auto(suite: str, size: int, *, pretrained: bool) -> list[str]:
    """f and the full method as the preset `auto` trains them on a GPU; with familiar images projected too, and not."""
    images = (size or ALL[suite]) * KINDS[suite]
    _, settings = recipe(DataFacts(images, KINDS[suite], pretrained=pretrained, accelerated=True))
    settings.pop(LEFT_ALONE, None)
    settings.pop("calibrate", None)  # moves the confidence, never the label
    f, full = own(f"{name}={value}" for name, value in settings.items())
    return [f, full, f"{full},{LEFT_ALONE}=true"]


def bench(suite: str, size: int, methods: list[str], arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """One size in processes of its own; sizes run side by side."""
    out = arguments.out / f"{arguments.phase}-{size}"
    words = [suite, "--data", arguments.data, "--weights", arguments.weights]
    words += ["--backbone", arguments.backbone] if arguments.suite == "pacs" else []
    words += ["--seeds", str(arguments.seeds), "--first-seed", str(arguments.first_seed), "--jobs", str(arguments.jobs)]
    words += ["--source-images-per-class", str(size), "--methods", *methods, "--out", str(out)]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log.txt").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "homefold", "bench", *words], stdout=log, stderr=log)


def main() -> int:
    """Run one phase; the exit code is that of the worst benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=["select", "targets"])
    parser.add_argument("--suite", choices=sorted(KINDS), default="pacs")
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--backbone", default="resnet18", help="of PACS; digits have the suite's own")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="images a class and domain; 0 is all")
    parser.add_argument("--auto-alone", action="store_true", help="leave the controls out")
    arguments = parser.parse_args()
    if arguments.phase == "select":
        suite, wanted = "leave-two-out", {size: ["vae", *candidates(size)] for size in CANDIDATES}
    else:
        pretrained = arguments.weights != "none"
        # A network from scratch has no weights to probe.
        controls = [name for name in CONTROLS if pretrained or name != "linear-probe"]
        controls = [] if arguments.auto_alone else controls
        suite = arguments.suite
        wanted = {size: [*controls, *auto(suite, size, pretrained=pretrained)] for size in arguments.sizes}
    started = [bench(suite, size, methods, arguments) for size, methods in wanted.items()]
    return max(process.wait() for process in started)


if __name__ == "__main__":
    sys.exit(main())
