"""How to train a head on a frozen ResNet-18 when there are few images: heads, rates and epochs on held-out sources.

    python study/frozen_heads.py PACS --weights resnet18_imagenet.safetensors --out study/computed/frozen-heads.json

Trains on two domains of PACS, tests on all of a third, and never opens the fourth: twelve cases, one seed. The outputs
of the backbone at 224 px are computed once. Only the head and the classifier are trained, nothing is projected.
Logistic regression on the same outputs stands beside. The rows are written as they come.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from homefold import preset_config
from homefold.classifier import fit_classifier
from homefold.config import replace_settings
from homefold.data import DomainDataset, load_dataset
from homefold.data.splits import selection_split
from homefold.errors import HomefoldError
from homefold.features import training
from homefold.features.batches import FeatureStore
from homefold.features.extraction import extract_features
from homefold.features.network import build_feature_net
from homefold.stages.feature_model import to_sphere

SIZES = (10, 40)
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
RECIPES = [
    *itertools.product(("linear", "mlp"), (0.003, 0.01, 0.03), (30, 100)),
    ("linear", 0.03, 300),
    ("linear", 0.1, 100),
]
CPU = torch.device("cpu")


class _Pooled(torch.nn.Module):
    """Images to what the head is given."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pooled: torch.Tensor = self.net.pooled(images)
        return pooled


def subset(data: DomainDataset, domains: tuple[int, int], size: int) -> np.ndarray:
    """So many images of each class in these domains."""
    rows = []
    for domain, label in itertools.product(domains, range(len(data.class_names))):
        found = np.flatnonzero((data.domains == domain) & (data.labels == label))
        rows.append(np.random.default_rng([domain, label]).permutation(found)[:size])
    return np.sort(np.concatenate(rows))


def as_source(data: DomainDataset, rows: np.ndarray) -> DomainDataset:
    """Labels and domains of some rows; their images stand for nothing, as the outputs are known."""
    domains = np.unique(data.domains[rows], return_inverse=True)[1]
    return DomainDataset(
        np.zeros((len(rows), 8, 8, 3), np.uint8),
        data.labels[rows],
        domains,
        data.class_names,
        ("first", "second"),
        name="pair",
    )


def probe(z: torch.Tensor, data: DomainDataset, rows: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """Accuracy of logistic regression on the unseen domain and on held-out source images."""
    train, held_out = selection_split(as_source(data, rows), 0.1, 0)
    known, labels = z[rows].double().numpy(), data.labels[rows]
    fitted = [
        make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000)).fit(known[train], labels[train])
        for strength in STRENGTHS
    ]
    scores = [model.score(known[held_out], labels[held_out]) for model in fitted]
    best = int(np.argmax(scores))
    return float(fitted[best].score(z[test].double().numpy(), data.labels[test])), float(scores[best])


def headed(
    z: torch.Tensor, data: DomainDataset, rows: np.ndarray, test: np.ndarray, recipe: Any
) -> tuple[float, float]:
    """The same of a head and a classifier trained so; zeros where the training failed."""
    head, rate, epochs = recipe
    base = preset_config("default", {"features.freeze": "backbone", "features.weights": "none"})
    changes = {"features.head": head, "features.learning_rate": rate, "features.epochs": epochs}
    config, source = replace_settings(base, changes), as_source(data, rows)
    train, held_out = selection_split(source, config.features.held_out, 0)
    training._frozen_store = lambda *_, **__: FeatureStore(z[rows])  # type: ignore[assignment]
    net = build_feature_net(config.features, (32, 32), normalisation="imagenet", seed=0, pretrained=False)
    try:
        training.train_features(config.features, net, source, train, held_out, seed=0, device=CPU)
    except HomefoldError:
        return 0.0, 0.0
    net.eval()
    labels = torch.from_numpy(data.labels[rows])
    with torch.no_grad():
        known, asked = to_sphere(net.head(z[rows])), to_sphere(net.head(z[test]))
    classifier = fit_classifier(
        config.classifier,
        known[train],
        labels[train],
        known[held_out],
        labels[held_out],
        num_classes=len(data.class_names),
        seed=0,
        device=CPU,
    )
    with torch.no_grad():
        right = classifier(asked).argmax(dim=1).numpy() == data.labels[test]
        right_held = classifier(known[held_out]).argmax(dim=1) == labels[held_out]
    return float(right.mean()), float(right_held.float().mean())


def main() -> None:
    """Compute the outputs once, then every row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    data = load_dataset(options.folder, size=(224, 224))
    config = preset_config("default", {"features.freeze": "backbone", "features.weights": options.weights})
    net = build_feature_net(config.features, (224, 224), normalisation="imagenet", seed=0, pretrained=True)
    z = extract_features(_Pooled(net.eval()), np.asarray(data.images), CPU)
    cases = [
        (pair, target)
        for pair in itertools.combinations(range(len(data.domain_names)), 2)
        for target in range(len(data.domain_names))
        if target not in pair
    ]
    rows: list[dict[str, Any]] = []
    for size, recipe in itertools.product(SIZES, (None, *RECIPES)):
        found: dict[int, list[tuple[float, float]]] = {}
        for pair, target in cases:
            chosen, test = subset(data, pair, size), np.flatnonzero(data.domains == target)
            figures = probe(z, data, chosen, test) if recipe is None else headed(z, data, chosen, test, recipe)
            found.setdefault(target, []).append(figures)
        head, rate, epochs = recipe or ("logistic regression", None, None)
        means = {
            data.domain_names[t]: round(100 * float(np.mean([a for a, _ in each])), 1) for t, each in found.items()
        }
        every = [figures for each in found.values() for figures in each]
        accuracy, held_out = (round(100 * float(value), 1) for value in np.mean(every, axis=0))
        row = {"images": size, "head": head, "learning_rate": rate, "epochs": epochs, "mean": accuracy, **means}
        rows.append({**row, "held_out": held_out})
        print(json.dumps(rows[-1]), flush=True)
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
