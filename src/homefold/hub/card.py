"""The card of a model on the Hub: what its search and its pages read, before what people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homefold.errors import ConfigError
from homefold.hub.repository import hub_client
from homefold.store.files import read_json

__all__ = ["Measured", "hub_card", "measured_in"]

_FENCE = "---\n"
_TAGS = ("homefold", "domain-generalization", "distribution-shift", "image-classification")


@dataclass(frozen=True)
class Measured:
    """Accuracy on a domain that the model was not trained on."""

    data: str
    domain: str
    images: int
    accuracy: float


def measured_in(path: Path) -> tuple[Measured, ...]:
    """The domains not seen in training of a file that `homefold evaluate --json` wrote."""
    content = read_json(path)
    try:
        data = Path(str(content["data"])).name
        found = [
            Measured(data, str(row["domain"]), int(row["images"]), float(row["accuracy_with_projection"]))
            for row in content["domains"]
            if not row["seen_in_training"]
        ]
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"{path} is not what homefold evaluate --json prints.") from None
    if not found:
        raise ConfigError(f"{path} measures no domain but those of the training, which says nothing of an unseen one.")
    if not all(0 <= one.accuracy <= 1 for one in found):
        raise ConfigError(f"{path} holds an accuracy that is not between 0 and 1.")
    return tuple(found)


def hub_card(
    text: str,
    description: Mapping[str, Any],
    *,
    name: str,
    licence: str = "",
    base_model: str = "",
    measured: Sequence[Measured] = (),
) -> str:
    """The card with its front matter in YAML; one that it has already is replaced.

    Args:
        text: the card of the model folder.
        description: of the model, as `read_model_folder` gives it.
        name: of the model, for its results.
        licence: as the Hub writes it, such as `mit`; none where it is empty.
        base_model: the repository of the network that the training began with.
        measured: on domains that the training did not see.
    """
    client = hub_client()
    results = [
        client.EvalResult(
            task_type="image-classification",
            dataset_type=one.data,
            dataset_name=f"{one.data}, {one.domain} (held-out domain, {one.images} images)",
            metric_type="accuracy",
            metric_name="accuracy with projection",
            metric_value=round(one.accuracy, 4),
        )
        for one in measured
    ]
    data = client.ModelCardData(
        library_name="homefold",
        pipeline_tag="image-classification" if description["kind"] == "images" else None,
        tags=list(_TAGS if description["kind"] == "images" else _TAGS[:-1]),
        license=licence or None,
        base_model=base_model or _base_model(description) or None,
        model_name=name if results else None,
        eval_results=results or None,
    )
    return f"{_FENCE}{data.to_yaml()}\n{_FENCE}\n{_without_front_matter(text)}"


def _base_model(description: Mapping[str, Any]) -> str:
    """The repository on the Hub that timm takes weights from, where their tag is known; torchvision's have none."""
    features = description["settings"].get("features", {})
    name = str(features.get("backbone", "")).removeprefix("timm:")
    from_timm = name != features.get("backbone", "") and "." in name and features.get("weights") in ("auto", "timm")
    return f"timm/{name}" if from_timm else ""


def _without_front_matter(text: str) -> str:
    if not text.startswith(_FENCE):
        return text
    _, end, rest = text.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    return rest.lstrip("\n") if end else text
