"""Train a network of your own with the pairwise metric loss, and keep it.

    python examples/own_network.py [FOLDER]

A model folder holds no code, so the network is given again when the model is loaded.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from torch import nn

from homefold import Homefold, HomefoldConfig, preset_config
from homefold.data import load_digits_mini


def network() -> nn.Module:
    """Any module that turns (n, 3, h, w) images into (n, d) features."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=2, padding=2),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
    )


def main(folder: Path, config: HomefoldConfig | None = None) -> float:
    """Fit without `print`, save, load, and return the accuracy on `print`."""
    digits = load_digits_mini()
    config = config or preset_config("small", {"features.epochs": 10})
    Homefold(config, backbone=network(), device="cpu", verbose=True).fit(digits, holdout="print").save(folder)
    model = Homefold.load(folder, backbone=network(), device="cpu")
    return model.score(digits.only("print"))


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "model"
    print(f"accuracy on print, which it never saw: {main(place):.1%}")
