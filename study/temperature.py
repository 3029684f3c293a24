"""Does a temperature make confidence on an unseen domain more believable? Three ways to fit it, compared.

    python study/temperature.py --data digits-mini --epochs 20 --out study/computed/temperature-digits-mini.json

Every domain is left out once. The temperature is fitted on held-out images of the sources; or on the held-out images
of each source domain, answered by a classifier C that was trained without it (f has seen it); or on the unseen domain
itself, which is the best there could be. The figure is the expected calibration error on the unseen domain, in points.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from homefold import Homefold, preset_config
from homefold.classifier import fit_classifier
from homefold.classifier.temperature import fit_temperature
from homefold.data import DomainDataset, load_dataset
from homefold.data.splits import selection_split
from homefold.report.figures.answers import reliability
from homefold.stages.feature_model import to_sphere
from homefold.stages.task import ImageSet


def logits_of(model: Homefold, images: np.ndarray, classifier: torch.nn.Module | None = None) -> torch.Tensor:
    """C's logits `(n, classes)` for projected features, or those of another classifier."""
    found = model.trained.answer(ImageSet(np.asarray(images))).found
    assert found is not None
    with torch.no_grad():
        logits: torch.Tensor = (classifier or model.feature_model.classifier)(found.features)
        return logits.cpu()


def without_each_domain(model: Homefold, source: DomainDataset) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels of held-out images, each answered by a classifier that was trained without its domain."""
    config = model.config
    train, held_out = selection_split(source, config.features.held_out, config.seed)
    z, labels = to_sphere(torch.from_numpy(model.features(source))).to(model.device), torch.from_numpy(source.labels)
    logits, truth = [], []
    for domain in range(len(source.domain_names)):
        rows, held, asked = (
            indices[source.domains[indices] != domain] if others else indices[source.domains[indices] == domain]
            for indices, others in ((train, True), (held_out, True), (held_out, False))
        )
        classifier = fit_classifier(
            config.classifier,
            z[rows],
            labels[rows].to(model.device),
            z[held],
            labels[held].to(model.device),
            num_classes=len(source.class_names),
            seed=config.seed,
            device=model.device,
        )
        logits.append(logits_of(model, source.images[asked], classifier))
        truth.append(labels[asked])
    return torch.cat(logits), torch.cat(truth)


def row(data: DomainDataset, target: str, model: Homefold) -> dict[str, object]:
    """Temperatures and calibration errors for one unseen domain."""
    source, unseen = data.without(target), data.only(target)
    _, held_out = selection_split(source, model.config.features.held_out, model.config.seed)
    own = logits_of(model, source.images[held_out]), torch.from_numpy(source.labels[held_out])
    asked = logits_of(model, unseen.images)
    found = {
        "none": 1.0,
        "held-out images": fit_temperature(*own),
        "held-out domains, C alone": fit_temperature(*without_each_domain(model, source)),
        "unseen domain": fit_temperature(asked, torch.from_numpy(unseen.labels)),
    }
    errors = {
        name: reliability(torch.softmax(asked / value, dim=1).numpy(), unseen.labels).error
        for name, value in found.items()
    }
    return {
        "target": target,
        "accuracy": round(100 * float((asked.argmax(dim=1).numpy() == unseen.labels).mean()), 1),
        "temperatures": {name: round(value, 2) for name, value in found.items()},
        "calibration_error": {name: round(100 * value, 1) for name, value in errors.items()},
    }


def main() -> None:
    """Fit one model a target, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits-mini")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--weights", default="")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    settings: dict[str, object] = {"features.weights": options.weights} if options.weights else {}
    if options.epochs:
        settings["features.epochs"] = options.epochs
    config = preset_config(options.preset, settings)
    side = config.preprocessing.image_size
    data = load_dataset(options.data, size=(side, side))
    rows = []
    for target in data.domain_names:
        model = Homefold(config).fit(data, holdout=target)
        rows.append(row(data, target, model))
        print(json.dumps(rows[-1]), flush=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
