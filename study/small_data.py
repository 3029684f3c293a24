"""Runs the study of small data: recipes screened on held-out sources, the best of each size then tried on the targets.

    python study/small_data.py select|targets --data pacs:PACS --weights resnet18_imagenet.safetensors --out RUNS

`select` trains on two domains and tests on a third, for each size. `targets` takes the recipe with the highest mean of
the full method at each size, writes it to RUNS/chosen.json, and runs it beside the controls with each domain left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

from homefold.evaluation.records import read_records

CONTROLS = ["linear-probe", "deep-all", "without-projection", "vae"]
KNOWN = {10: (300, 0.03, 0.6), 40: (100, 0.1, 0.3)}
"""Chosen before, on held-out sources: small-data.md."""
CANDIDATES = {
    5: [(epochs, 0.03, share) for epochs in (300, 600) for share in (0.6, 0.8)],
    20: [(epochs, rate, share) for epochs, rate in ((150, 0.03), (300, 0.03), (150, 0.1)) for share in (0.3, 0.6)],
    100: [(60, rate, share) for rate in (0.1, 0.03) for share in (0.2, 0.4)] + [(30, 0.1, 0.2)],
}
"""By images a class and domain: epochs, learning rate, share of the pretrained weights."""


Recipe = tuple[float, float, float]


def own(recipes: Iterable[Recipe]) -> list[str]:
    """f and the full method with each recipe."""
    return [changed(name, recipe) for recipe in recipes for name in ("without-projection", "vae")]


def changed(method: str, recipe: Recipe) -> str:
    """A method with a recipe of its own."""
    epochs, rate, share = recipe
    return f"{method}:features.epochs={epochs},features.learning_rate={rate},features.keep_pretrained={share}"


def bench(suite: str, size: int, methods: list[str], arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """One size in processes of its own; sizes run side by side."""
    out = arguments.out / f"{arguments.phase}-{size}"
    words = [suite, "--data", arguments.data, "--weights", arguments.weights, "--backbone", "resnet18"]
    words += ["--seeds", str(arguments.seeds), "--first-seed", str(arguments.first_seed), "--jobs", str(arguments.jobs)]
    words += ["--source-images-per-class", str(size), "--methods", *methods, "--out", str(out)]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log.txt").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "homefold", "bench", *words], stdout=log, stderr=log)


def choose(out: Path) -> dict[int, Recipe]:
    """The recipe of each size whose full method has the highest mean over all cases, failed ones counted as 0."""
    chosen = dict(KNOWN)
    for size, recipes in CANDIDATES.items():
        path, found = out / f"select-{size}" / "records.jsonl", defaultdict(list)
        for run in read_records(path) if path.exists() else []:
            found[run.method].append(run.accuracy or 0.0)
        means = {recipe: mean(found[changed("vae", recipe)] or [0.0]) for recipe in recipes}
        chosen[size] = max(means, key=means.__getitem__)
    (out / "chosen.json").write_text(json.dumps(chosen, indent=1, sort_keys=True) + "\n")
    return chosen


def main() -> int:
    """Run one phase; the exit code is that of the worst benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=["select", "targets"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=6)
    arguments = parser.parse_args()
    if arguments.phase == "select":
        suite, wanted = "leave-two-out", {size: ["vae", *own(recipes)] for size, recipes in CANDIDATES.items()}
    else:
        suite, wanted = "pacs", {size: [*CONTROLS, *own([recipe])] for size, recipe in choose(arguments.out).items()}
    started = [bench(suite, size, methods, arguments) for size, methods in wanted.items()]
    return max(process.wait() for process in started)


if __name__ == "__main__":
    sys.exit(main())
