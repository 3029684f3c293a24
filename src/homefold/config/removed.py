"""Settings that earlier versions had, and what a model folder or a record of theirs may still say of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

from homefold.config.choices import hints_of
from homefold.errors import ModelFileError

__all__ = ["REMOVED_CHOICES", "REMOVED_SETTINGS", "without_removed_settings"]

_OF_TRAINING = {
    "features.learn_temperature": False,
    "features.pair_bias": 0.0,
    "features.balanced_pairs": False,
    "features.cross_domain_weight": 1.0,
    "features.hard_pairs": 0.0,
    "features.cross_entropy_until": 1.0,
    "features.agreement_weight": 0.0,
    "features.agreement_temperature": 4.0,
    "features.style_noise_probability": 0.0,
    "features.style_noise_layers": (),
    "features.backbone_rate": 1.0,
    "features.layer_decay": 1.0,
    "features.frozen_blocks": 0,
    "features.frozen_batch_norm": False,
    "features.pretrained_pull": 0.0,
    "manifold.denoise": 0.0,
    "manifold.rehearse": 0.0,
    "classifier.train_on": "features",
    "projection.patience": 20,
    "projection.tolerance": 1e-4,
    "projection.component": "nearest",
    "projection.temperature": 0.05,
    "style.latent_dim": 8,
    "style.prior": 0.01,
}
"""What a saved model answers without, whatever the value: the weights hold what training made of it, or it only said
how another removed setting works."""

_OF_ANSWERS = {
    "manifold.space": "feature",
    "manifold.per": "all",
    "manifold.shared": False,
    "projection.prior": 0.0,
    "projection.answer": "classifier",
    "projection.tints": 0,
    "projection.trust_below": None,
    "projection.blend": 1.0,
    "projection.race": 0,
}
"""What a saved model answers without only where it is at this value."""

REMOVED_SETTINGS: Mapping[str, Any] = {**_OF_TRAINING, **_OF_ANSWERS}
"""By dotted name: the default, with which all is as it is without the setting."""

REMOVED_CHOICES: Mapping[str, tuple[str, ...]] = {"projection.stop": ("plateau",), "style.manifold": ("vae", "nearest")}
"""Values that a remaining setting can no longer have."""

_UNUSED_WITHOUT = {"style.manifold": "blocks"}
"""Settings that decide nothing where this one beside them is empty."""


def without_removed_settings(kind: type[Any], values: Any, origin: str, *, within: str = "") -> Any:
    """Saved settings without those that `kind` no longer has, for `config_from_dict`.

    Args:
        kind: the dataclass of the settings.
        values: plain JSON values, as an earlier version wrote them; what does not fit otherwise is left as it is.
        origin: where they were found, as in "the model in photos-model"; begins the sentence that refuses a setting
            on which the answers depend.
        within: the dotted name of the part that `kind` is.
    """
    if not isinstance(values, dict):
        return values
    hints, kept = hints_of(kind), {}
    for name, value in values.items():
        dotted = f"{within}.{name}" if within else name
        if name not in hints and dotted in REMOVED_SETTINGS:
            if dotted in _OF_ANSWERS and value != _OF_ANSWERS[dotted]:
                raise _needed(origin, dotted, value)
        elif _is_removed_choice(hints.get(name), dotted, value):
            if dotted not in _UNUSED_WITHOUT or values.get(_UNUSED_WITHOUT[dotted]):
                raise _needed(origin, dotted, value)
        elif dataclasses.is_dataclass(hints.get(name)):
            kept[name] = without_removed_settings(hints[name], value, origin, within=dotted)
        else:
            kept[name] = value
    return kept


def _is_removed_choice(hint: Any, dotted: str, value: Any) -> bool:
    return value in REMOVED_CHOICES.get(dotted, ()) and value not in get_args(hint)


def _needed(origin: str, name: str, value: Any) -> ModelFileError:
    return ModelFileError(
        f"{origin} answers with {name} at {value!r}, which this version of homefold no longer has; use the version "
        f"that made it, or make it again without that setting."
    )
