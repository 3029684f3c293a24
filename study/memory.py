"""What does a memory (`--adapt`) add to styles and projection? Every pair of domains left out, each of them measured.

    python study/memory.py --data digits-dg:DIGITS --epochs 10 --out study/computed/memory-digits-dg.json

The preset is `small`. All four ways to answer share a network: f alone or with styles and projection, each with a
memory and without. The last column is the calibration error.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from statistics import mean, stdev

from writing import print_table, write_result

from homefold import Homefold, preset_config
from homefold.data import load_dataset
from homefold.data.dataset import DomainDataset
from homefold.report.figures.answers import reliability

WAYS = {
    "f, no projection": {"projected": False},
    "f, with memory": {"projected": False, "adapt": True},
    "full method": {},
    "full method, with memory": {"adapt": True},
}


def case(model: Homefold, data: DomainDataset, target: str) -> dict[str, tuple[float, float]]:
    """Accuracy and calibration error on one unseen domain by the way to answer, in percent."""
    unseen = data.only(target)
    found = {}
    for name, asked in WAYS.items():
        answers = model.predict(unseen, **asked)
        right = float((answers.indices == unseen.labels).mean())
        found[name] = (100 * right, 100 * reliability(answers.probabilities, unseen.labels).error)
    print(target, {name: round(figures[0], 1) for name, figures in found.items()}, flush=True)
    return found


def main() -> None:
    """Fit one model a pair, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits-mini")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    data = load_dataset(arguments.data, size=(32, 32))
    config = preset_config("small", {"features.epochs": arguments.epochs, "seed": arguments.seed})
    cases = []
    for pair in itertools.combinations(data.domain_names, 2):
        model = Homefold(config, device="cpu").fit(data, holdout=list(pair))
        cases += [case(model, data, target) for target in pair]
    first, rows = next(iter(WAYS)), []
    for way in WAYS:
        gains = [one[way][0] - one[first][0] for one in cases]
        # The two cases of a network are one training.
        trainings = [mean(gains[place : place + 2]) for place in range(0, len(gains), 2)]
        figures = {"least": min(gains), "most": max(gains), "calibration": mean(one[way][1] for one in cases)}
        error = stdev(trainings) / len(trainings) ** 0.5
        rows.append(
            {"way": way, "accuracy": mean(one[way][0] for one in cases), "gain": mean(gains), "error": error, **figures}
        )
    print_table("Held-out sources", rows)
    write_result(arguments.out, rows, cases=cases)


if __name__ == "__main__":
    main()
