"""Settings of earlier versions: those that have another name now, and those that are gone."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from homefold.errors import ModelFileError

__all__ = [
    "REMOVED_SETTINGS",
    "RENAMED",
    "current_names",
    "current_settings",
    "current_word",
    "from_underscores",
    "without_removed_settings",
]

_PROJECTION = {
    "look": "views mirror textures styles",
    "search": "encoder_start random_starts nearest_starts step rate momentum steps stop window engine precision tile",
}
RENAMED: Mapping[str, str] = {
    f"projection.{name}": f"{part}.{name}" for part, names in _PROJECTION.items() for name in names.split()
}
"""What a setting is called now, by the dotted name that it had."""

_FLAG = re.compile(r"--projection\.(no-)?([\w-]+)(?==|$)")
_SETTING = re.compile(r"(?<![^:,+\s])projection\.\w+(?==)")


def current_word(word: str) -> str:
    """A word of a command line with every setting in it called as it is now.

    >>> current_word("--projection.no-mirror"), current_word("t3a+vae:projection.steps=9"), current_word("vae")
    ('--look.no-mirror', 't3a+vae:search.steps=9', 'vae')
    """
    if flag := _FLAG.match(word):
        no, name = flag.groups()
        now = RENAMED.get(f"projection.{name.replace('-', '_')}")
        return f"--{now.partition('.')[0]}.{no or ''}{name}{word[flag.end() :]}" if now else word
    return _SETTING.sub(lambda found: RENAMED.get(found[0], found[0]), word)


def current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that a person wrote by dotted name, under the names that they have now; warns of old ones."""
    for name in settings:
        if name in RENAMED:
            warnings.warn(f"the setting {name} is called {RENAMED[name]} now.", DeprecationWarning, stacklevel=3)
    return {RENAMED.get(name, name): value for name, value in settings.items()}


def from_underscores(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings given as keywords, with two underscores for each dot, by their dotted names; warns of any."""
    dotted = {name.replace("__", "."): value for name, value in settings.items()}
    if dotted:
        given = ", ".join(f'"{name}": …' for name in dotted)
        warnings.warn(f"give settings by their dotted names: {{{given}}}.", DeprecationWarning, stacklevel=3)
    return dotted


def current_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a file holds, part by part, under the names that they have now.

    >>> current_settings({"seed": 1, "projection": {"views": 4, "steps": 50}})
    {'seed': 1, 'look': {'views': 4}, 'search': {'steps': 50}}
    """
    kept = dict(values)
    if isinstance(values.get("projection"), Mapping):
        for name, value in kept.pop("projection").items():
            part = RENAMED.get(f"projection.{name}", "search").partition(".")[0]
            kept[part] = {**kept.get(part, {}), name: value}
    return kept


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

_REMOVED_CHOICES = {"projection.stop": ("plateau",), "style.manifold": ("vae", "nearest")}
"""Values that a remaining setting can no longer have."""


def without_removed_settings(values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Settings as an earlier version saved them, part by part, without those that are gone; what does not fit
    otherwise is left as it is. `origin` begins the sentence that refuses a setting on which the answers depend."""
    return {
        part: {name: value for name, value in inner.items() if not _is_removed(part, name, inner, origin)}
        if isinstance(inner, Mapping)
        else inner
        for part, inner in values.items()
    }


def _is_removed(part: str, name: str, values: Mapping[str, Any], origin: str) -> bool:
    dotted, value = f"{part}.{name}", values[name]
    choice_is_gone = value in _REMOVED_CHOICES.get(dotted, ())
    decides = dotted != "style.manifold" or values.get("blocks")
    if (choice_is_gone and decides) or value != _OF_ANSWERS.get(dotted, value):
        raise ModelFileError(
            f"{origin} answers with {dotted} at {value!r}, which this version of homefold no longer has; use the "
            f"version that made it, or make it again without that setting."
        )
    return choice_is_gone or dotted in REMOVED_SETTINGS
