"""Answer only where the image came close to the source manifold: accuracy against coverage.

python examples/choose_when_to_abstain.py
"""

from __future__ import annotations

import numpy as np

from homefold import Homefold, HomefoldConfig, preset_config
from homefold.data import load_digits_mini


def main(config: HomefoldConfig | None = None) -> list[tuple[float, float, float]]:
    """Rows of (threshold, share answered, accuracy on those) on a domain that was not trained on."""
    digits = load_digits_mini()
    model = Homefold(config or preset_config("small", {"features.epochs": 15}), device="cpu", verbose=True)
    model.fit(digits, holdout="photo")
    photo = digits.only("photo")
    answers = model.predict(photo)
    right = answers.indices == photo.labels
    rows = []
    for threshold in (0.5, 1.0, 2.0, 4.0, np.inf):
        answered = ~answers.abstained(threshold)
        accuracy = float(right[answered].mean()) if answered.any() else float("nan")
        rows.append((threshold, float(answered.mean()), accuracy))
    return rows


if __name__ == "__main__":
    for threshold, coverage, accuracy in main():
        print(f"off-manifold score up to {threshold:4}: answers {coverage:6.1%}, {accuracy:6.1%} of them right")
