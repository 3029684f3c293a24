"""What is asked of a checkout in Python: `python -m same_answers.probes NAME …`, with the checkout on the path."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import homefold
from same_answers.data import PROJECTORS, made_up_features
from same_answers.spelling import load_digits, setting_names

_EVERY_NTH_DIGIT = 6


def settings() -> None:
    """Print where the package lies and the names of its settings."""
    names = sorted(setting_names(homefold.preset_config("small")))
    print(json.dumps({"package": homefold.__file__, "settings": names}))


def digits(folder: str) -> None:
    """Write some images of the embedded dataset's domain `street` as files."""
    dataset = load_digits()
    street = np.flatnonzero(dataset.domains == dataset.domain_names.index("street"))
    for index in street[::_EVERY_NTH_DIGIT].tolist():
        path = Path(folder, dataset.class_names[dataset.labels[index]], f"{index:04d}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(dataset.images[index]).save(path)


def projectors(folder: str) -> None:
    """Fit a projector of each kind; save it and its answers."""
    source, labels, domains, target = made_up_features()
    for name, parameters in PROJECTORS.items():
        model = homefold.ManifoldProjector(latent_dim=6, hidden=(32, 32), device="cpu", **parameters)
        model.fit(source, labels, domains=domains)
        model.save(Path(folder, f"model-{name}"))
        _write_answers(model, target, Path(folder, f"answers-{name}.npz"))


def saved_projectors(saved: str, folder: str) -> None:
    """Answer with the projectors that another checkout saved."""
    *_, target = made_up_features()
    for name in PROJECTORS:
        model = homefold.ManifoldProjector.load(Path(saved, f"model-{name}"), device="cpu")
        _write_answers(model, target, Path(folder, f"old-model-{name}.npz"))


def _write_answers(model: Any, target: np.ndarray, path: Path) -> None:
    """Write all that a projector says about features."""
    answers, plain = model.explain(target), model.explain(target, projected=False)
    np.savez(
        path,
        predicted=model.predict(target).astype(str),
        labels=answers.labels,
        probabilities=model.predict_proba(target),
        probabilities_unprojected=plain.probabilities,
        features=model.transform(target),
        off_manifold=answers.off_manifold,
        similarity_before=answers.similarity_before,
        similarity_after=answers.similarity_after,
        iterations=answers.iterations,
    )


if __name__ == "__main__":
    probes: dict[str, Callable[..., None]] = {
        "settings": settings,
        "digits": digits,
        "projectors": projectors,
        "saved-projectors": saved_projectors,
    }
    probes[sys.argv[1]](*sys.argv[2:])
