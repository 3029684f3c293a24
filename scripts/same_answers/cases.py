"""The cases: each fills a folder with what a checkout gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from same_answers.checkout import Checkout
from same_answers.data import PHOTO_FILES, PHOTO_TARGET, PROJECTORS, real_data, resnet18_weights

__all__ = ["CASES", "Case"]

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """Something to train and to answer.

    Args:
        make: fills a folder with what a checkout gives.
        reopen: answers with the models in OLD's folder, into NEW's; returns for each file written there the one of OLD
            that it must equal.
        needs: files of the folder HOMEFOLD_TEST_DATA.
    """

    make: Callable[[Checkout, Path], None]
    reopen: Callable[[Checkout, Path, Path], dict[str, str]] | None = None
    needs: tuple[str, ...] = ()

    def lacks(self) -> str:
        """Why it cannot run; empty if it can."""
        real = real_data()
        if self.needs and real is None:
            return "HOMEFOLD_TEST_DATA is not set"
        missing = [name for name in self.needs if real and not (real / name).exists()]
        return f"{real} has no {', '.join(missing)}" if missing else ""


def _cache(folder: Path) -> Path:
    return folder / ".cache"


def _fit_case(
    preset: str,
    data: str,
    target: str,
    images: str,
    settings: Settings,
    *,
    asks: Mapping[str, tuple[Sequence[str], Settings]] | None = None,
    needs: tuple[str, ...] = (),
) -> Case:
    """Fit a preset, measure it on the domain that was held out, and answer some of its images one by one.

    Args:
        preset: to start from.
        data: what to train on.
        target: the domain held out.
        images: the images to answer.
        settings: changed for the fit.
        asks: further ways to answer: words and settings of `homefold predict`.
        needs: files of the folder HOMEFOLD_TEST_DATA.
    """
    all_asks: dict[str, tuple[Sequence[str], Settings]] = {
        "predict": ((), {}),
        "unprojected": (("--no-projection",), {}),
        **(asks or {}),
    }

    def ask(
        checkout: Checkout, model: Path, out: Path, words: Sequence[str] = (), changed: Settings | None = None
    ) -> None:
        told: tuple[str | Path, ...] = (model, images, "--json", "--out", out, *words)
        checkout.homefold("predict", *told, cache=_cache(out.parent), settings=changed)

    def make(checkout: Checkout, folder: Path) -> None:
        real, model, cache = real_data(), folder / "model", _cache(folder)
        weights = {"features.weights": resnet18_weights(real)} if needs and real else {}
        told = (data, "--out", model, "--holdout", target, "--preset", preset, "--json")
        report = checkout.homefold("fit", *told, cache=cache, settings={**settings, **weights})
        (folder / "fit.json").write_text(report)
        measured = checkout.homefold("evaluate", model, data, "--domain", target, "--json", cache=cache)
        (folder / "evaluate.json").write_text(measured)
        for name, (words, changed) in all_asks.items():
            ask(checkout, model, folder / f"{name}.jsonl", words, changed)

    def reopen(checkout: Checkout, old: Path, new: Path) -> dict[str, str]:
        ask(checkout, old / "model", new / "old-model.jsonl")
        return {"old-model.jsonl": "predict.jsonl"}

    return Case(make, reopen, needs)


def _bench_case(*suites: tuple[str, ...]) -> Case:
    """Run suites of the benchmark into one folder, cut short."""
    few = {"features.epochs": 3, "features.batch_size": 32, "manifold.epochs": 40, "classifier.epochs": 5}

    def make(checkout: Checkout, folder: Path) -> None:
        for words in suites:
            told: tuple[str | Path, ...] = (*words, "--seeds", "1", "--out", folder / "runs")
            checkout.homefold("bench", *told, cache=_cache(folder), settings=few)

    return Case(make)


def _projector_case() -> Case:
    """Fit `ManifoldProjector` with every kind of manifold."""

    def make(checkout: Checkout, folder: Path) -> None:
        checkout.probe("projectors", folder)

    def reopen(checkout: Checkout, old: Path, new: Path) -> dict[str, str]:
        checkout.probe("saved-projectors", old, new)
        return {f"old-model-{name}.npz": f"answers-{name}.npz" for name in PROJECTORS}

    return Case(make, reopen)


def _photo_case(preset: str, settings: Settings) -> Case:
    few = {
        "preprocessing.image_size": 64,
        "features.epochs": 3,
        "features.batch_size": 32,
        "manifold.epochs": 20,
        "classifier.epochs": 5,
    }
    return _fit_case(preset, "photos", PHOTO_TARGET, f"photos/{PHOTO_TARGET}", {**few, **settings}, needs=PHOTO_FILES)


def _digit_case(preset: str, asks: Mapping[str, tuple[Sequence[str], Settings]] | None = None) -> Case:
    few = {"features.epochs": 2, "manifold.epochs": 30, "classifier.epochs": 10}
    return _fit_case(preset, "digits-mini", "street", "digits", few, asks=asks)


def _suite(name: str, images_a_class: int, *words: str, preset: str = "quick") -> tuple[str, ...]:
    on = ("--data", "digits-mini", "--targets", "street", "--images-per-class", str(images_a_class))
    return (name, *on, "--preset", preset, *words)


_AVERAGED = {"features.average_every": 5}
# After so few steps the paper's own rate leaves a VAE that explains nothing, which a fit refuses.
_PAPER_CUT_SHORT = {
    "features.epochs": 2,
    "manifold.epochs": 100,
    "manifold.batch_size": 16,
    "manifold.learning_rate": 0.5,
    "manifold.kl_weight": 1e-5,
    "projection.steps": 60,
}
_SEARCHES: dict[str, tuple[Sequence[str], Settings]] = {
    "authors": (("--projection-preset", "authors"), {"projection.steps": 60}),
    "restarts": (("--projection-preset", "restarts"), {"projection.steps": 30}),
    "reference": ((), {"projection.engine": "reference", "projection.steps": 15}),
}
_METHODS = (
    *("deep-all", "without-projection", "without-features", "nearest", "vae", "gan"),
    *("ccsa", "mmd-aae", "crossgrad", "ddaig", "jigen", "rsc", "d-sam", "mmld", "rotation"),
    *("1-nn", "class-means", "t3a", "tent", "t3a+vae", "tent+vae"),
    *("ttt:steps=2,copies=2", "shot-im:epochs=3", "memo:copies=4"),
)

_CANDIDATES = ("features.learning_rate=0.05", "features.learning_rate=0.1")

CASES: dict[str, Case] = {
    "small": _digit_case("small", _SEARCHES),
    "small-thorough": _digit_case("small-thorough"),
    "projector": _projector_case(),
    "default": _photo_case("default", _AVERAGED),
    "thorough": _photo_case("thorough", _AVERAGED),
    "paper": _photo_case("paper", _PAPER_CUT_SHORT),
    "bench": _bench_case(_suite("digits-mini", 16, "--methods", *_METHODS)),
    "bench-suites": _bench_case(
        _suite("beta", 16),
        _suite("stopping", 16),
        _suite("few-shot", 40, "--sources", "scan"),
        _suite(
            "digits-mini", 16, "--methods", "vae", "--selection", "leave-one-source-out", "--candidates", *_CANDIDATES
        ),
        _suite("digits-mini", 16, "--methods", "deep-all", "without-projection", "vae", "t3a+vae", preset="thorough"),
    ),
}
"""Every case by name."""
