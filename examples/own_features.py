"""You already have an embedding model: put the projection behind it.

    python examples/own_features.py

Here the embeddings are pixels of scikit-learn's digits through PCA; a shifted copy stands for a new domain.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from homefold import ManifoldProjector


def main() -> dict[str, float]:
    """Fit on clean embeddings, answer for shifted ones; returns the accuracies."""
    x, y = load_digits(return_X_y=True)
    embed = PCA(32, random_state=0).fit(x[:1200])
    shifted = x[1200:] * 0.7 + np.random.default_rng(0).normal(0, 2.5, x[1200:].shape)

    model = ManifoldProjector(device="cpu").fit(embed.transform(x[:1200]), y[:1200])

    new = embed.transform(shifted)
    plain = model.predictions(new, projected=False)
    return {
        "without projection": float((model.classes_[plain.indices] == y[1200:]).mean()),
        "with projection": model.score(new, y[1200:]),
    }


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name:20} {value:6.1%}")
