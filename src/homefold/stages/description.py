"""What the description of a saved model must say, checked in one place when it is read."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from homefold.classifier import ClassifierConfig
from homefold.config import HomefoldConfig, saved_config
from homefold.config.choices import checked_value
from homefold.config.removed import without_removed_parameters
from homefold.errors import ConfigError, ModelFileError, shown
from homefold.manifold import ManifoldConfig, ManifoldReport
from homefold.projection import ProjectionConfig

__all__ = ["FeaturesDescription", "ImagesDescription", "describe_features", "describe_images"]

Label = str | int | float | bool
T = TypeVar("T")

# By name the type of a value, or the names of the values inside; what a description says beyond that is not read.
_IMAGES: Mapping[str, Any] = {
    "config": dict,
    "class_names": tuple[str, ...],
    "source_domains": tuple[str, ...],
    "reports": {
        "images": {"trained_on": int, "held_out": int, "skipped": tuple[tuple[str, ...], ...]},
        "features": {"selected_epoch": int},
        "manifold": dict,
        "classifier": {"held_out_accuracy": float | None},
    },
    "versions": dict[str, str],
}
_FEATURES: Mapping[str, Any] = {
    "config": {"manifold": dict, "classifier": dict, "projection": dict},
    "parameters": dict,
    "classes": list,
    "n_features_in": int,
    "manifold_report": dict,
}


@dataclass(frozen=True)
class ImagesDescription:
    """What is known of a saved `Homefold` beside its tensors.

    Args:
        config: every setting.
        class_names: one name a class, all different.
        source_domains: what it was trained on.
        reports: what each stage measured, as it was saved.
    """

    config: HomefoldConfig
    class_names: tuple[str, ...]
    source_domains: tuple[str, ...]
    reports: dict[str, Any]


@dataclass(frozen=True)
class FeaturesDescription:
    """What is known of a saved `ManifoldProjector` beside its tensors.

    Args:
        parameters: of the estimator's constructor.
        manifold: settings of G.
        classifier: settings of C.
        projection: settings of the search.
        classes: labels in the order of the probabilities, all of one type and all different.
        n_features_in: dimensions of a feature.
        manifold_report: what was measured of G, as it was saved.
    """

    parameters: dict[str, Any]
    manifold: ManifoldConfig
    classifier: ClassifierConfig
    projection: ProjectionConfig
    classes: tuple[Label, ...]
    n_features_in: int
    manifold_report: dict[str, Any]


def describe_images(content: dict[str, Any], path: Path | str) -> ImagesDescription:
    """What the description of a model of images says; a `ModelFileError` where it says something else.

    Args:
        content: plain JSON values, from `read_model_folder`.
        path: of the folder, for the sentence that refuses it.
    """
    if content.get("kind") != "images":
        raise ModelFileError(f"{path} holds a projector of features; load it with ManifoldProjector.load.")
    try:
        _require(content, _IMAGES)
        config = saved_config(HomefoldConfig, content["config"], f"the model in {path}")
        config.require_consistent()
        names, domains = tuple(content["class_names"]), tuple(content["source_domains"])
        _require_names(names, "class_names")
        _require_names(domains, "source_domains")
        ManifoldReport.from_dict(content["reports"]["manifold"])
    except (ConfigError, ModelFileError) as error:
        raise ModelFileError(f"the model in {path} has an odd description: {error}") from None
    return ImagesDescription(config, names, domains, content["reports"])


def describe_features(content: dict[str, Any], path: Path | str, parameters: Mapping[str, Any]) -> FeaturesDescription:
    """What the description of a projector of features says; a `ModelFileError` where it says something else.

    Args:
        content: plain JSON values, from `read_model_folder`.
        path: of the folder, for the sentence that refuses it.
        parameters: of the estimator's constructor, with their types.
    """
    if content.get("kind") != "features":
        raise ModelFileError(f"{path} holds a model of images; load it with Homefold.load.")
    try:
        _require(content, _FEATURES)
        given = without_removed_parameters(content["parameters"], list(parameters))
        if unknown := [name for name in given if name not in parameters]:
            raise ConfigError(f"there is no parameter {shown(unknown[0])}.")
        if content["n_features_in"] < 1:
            raise ConfigError(f"n_features_in must be at least 1; got {content['n_features_in']}.")
        ManifoldReport.from_dict(content["manifold_report"])
        return FeaturesDescription(
            parameters={name: checked_value(parameters[name], value, name) for name, value in given.items()},
            manifold=_settings(ManifoldConfig, content, "manifold", path),
            classifier=_settings(ClassifierConfig, content, "classifier", path),
            projection=_settings(ProjectionConfig, content, "projection", path),
            classes=_labels(content["classes"]),
            n_features_in=content["n_features_in"],
            manifold_report=content["manifold_report"],
        )
    except (ConfigError, ModelFileError) as error:
        raise ModelFileError(f"the projector in {path} has an odd description: {error}") from None


def _require(content: Mapping[str, Any], schema: Mapping[str, Any], within: str = "") -> None:
    """Refuse an object that lacks a value of the schema, or has one of another type."""
    for key, expected in schema.items():
        name = within + key
        if key not in content:
            raise ConfigError(f"{name} is missing.")
        value = content[key]
        if isinstance(expected, Mapping):
            _require(checked_value(dict, value, name), expected, f"{name}.")
        elif typing.get_origin(expected) is dict:
            for inner, item in checked_value(dict, value, name).items():
                checked_value(typing.get_args(expected)[1], item, f"{name}.{inner}")
        else:
            checked_value(expected, value, name)


def _settings(kind: type[T], content: Mapping[str, Any], part: str, path: Path | str) -> T:
    return saved_config(kind, content["config"][part], f"the projector in {path}", within=part)


def _require_names(names: tuple[str, ...], what: str) -> None:
    if not names:
        raise ConfigError(f"{what} must name at least one; got none.")
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise ConfigError(f"{what} must all differ; {shown(twice)} is among them twice.")
    for name in names:
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ConfigError(f"{what} must be text that can be written; got {shown(name)}.")


def _labels(values: list[Any]) -> tuple[Label, ...]:
    """Labels as they were saved: all text, all integers, all booleans or all other numbers."""
    kinds = {type(value) for value in values}
    is_array = len(kinds) == 1 and kinds <= {str, int, float, bool} and np.asarray(values).dtype.kind in "iufUb"
    if not is_array or (kinds == {float} and not np.isfinite(values).all()):
        raise ConfigError(f"classes must be text alone or finite numbers alone; got {shown(values)}.")
    _require_names(tuple(map(str, values)), "classes")
    return tuple(values)
