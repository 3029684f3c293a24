"""Selection rules: by what, and on which images, the settings of a run are chosen; the name stands in its record.

| rule | what is looked at |
|---|---|
| `source-validation` | f's best epoch on held-out source images, as the paper says |
| `last` | nothing: f's last epoch |
| `leave-one-source-out` | candidates are trained on all sources but one and judged on that one, in rotation |
| `oracle` | candidates are judged on the target itself: an upper bound, marked as such, never a result |

The manifold and the classifier keep their best epoch on held-out source features under every rule.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from homefold.config import HomefoldConfig, config_from_dict, config_to_dict
from homefold.errors import ConfigError, HomefoldError

__all__ = [
    "Candidate",
    "Choice",
    "SelectionRule",
    "candidates_for",
    "change_settings",
    "choose",
    "list_selection_rules",
    "parse_setting",
    "parse_settings",
    "select_epoch",
    "with_settings",
]

SelectionRule = Literal["source-validation", "last", "leave-one-source-out", "oracle"]

_RATE_FACTORS = (1.0, 1 / 3, 3.0)


def list_selection_rules() -> tuple[str, ...]:
    """Their names."""
    return get_args(SelectionRule)


def select_epoch(config: HomefoldConfig, rule: str) -> HomefoldConfig:
    """`config` with the choice of f's epoch that the rule asks for."""
    if rule not in list_selection_rules():
        raise ConfigError(f"there is no selection rule {rule!r}; choose one of {', '.join(list_selection_rules())}.")
    return replace(config, features=replace(config.features, select="last" if rule == "last" else "best"))


@dataclass(frozen=True)
class Candidate:
    """Settings among which a rule chooses.

    Args:
        settings: as a person would write them, `name=value` separated by blanks; empty for the settings as they are.
        config: the whole configuration.
    """

    settings: str
    config: HomefoldConfig


def parse_settings(text: str) -> dict[str, Any]:
    """`"features.temperature=0.2 features.epochs=60"` as settings by dotted name.

    >>> parse_settings("features.temperature=0.2 features.head=mlp")
    {'features.temperature': 0.2, 'features.head': 'mlp'}
    """
    return dict(parse_setting(word) for word in text.split())


def parse_setting(word: str) -> tuple[str, Any]:
    """`"features.temperature=0.2"` as a dotted name and a value."""
    name, equals, value = word.partition("=")
    if not equals or not name or not value:
        raise ConfigError(f"{word!r} is no setting; write name=value, such as features.temperature=0.2.")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):  # no JSON, or more of it than can be read
        return name, value


def with_settings(config: HomefoldConfig, text: str) -> HomefoldConfig:
    """`config` with what `text` says; an unknown name or a value of the wrong type gets a sentence."""
    return change_settings(config, parse_settings(text))


def change_settings(config: HomefoldConfig, settings: Mapping[str, Any], *, names_only: bool = False) -> HomefoldConfig:
    """`config` with the values at dotted names; an unknown name or a value of the wrong type gets a sentence.

    Args:
        config: what is changed.
        settings: plain values by dotted name.
        names_only: look at the names alone, and leave the values: whether they fit may depend on the other settings.
    """
    values = config_to_dict(config)
    for name, value in settings.items():
        *parts, last = name.split(".")
        place: Any = values
        for part in parts:
            place = place.get(part) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last not in place:
            known = f"; there are {', '.join(place)}" if isinstance(place, dict) else ""
            close = difflib.get_close_matches(last, place if isinstance(place, dict) else (), n=1)
            hint = f" Did you mean {'.'.join([*parts, *close])}?" if close else ""
            raise ConfigError(f"there is no setting {name!r}{known}.{hint}")
        if isinstance(place[last], tuple) and not isinstance(value, list):
            # As people write it: one value alone, or slashes between the words of a list.
            value = value.split("/") if isinstance(value, str) else [value]
        place[last] = value
    return config if names_only else config_from_dict(HomefoldConfig, values)


def candidates_for(config: HomefoldConfig, rule: str, texts: Sequence[str]) -> tuple[Candidate, ...]:
    """What the rule chooses among; a single one where it chooses only the epoch.

    Args:
        config: the settings as they are.
        rule: its name.
        texts: one candidate each; none gives three learning rates: as it is, a third of it, three times it.
    """
    if rule not in ("leave-one-source-out", "oracle"):
        if texts:
            raise ConfigError(f"candidates are for leave-one-source-out and oracle; the selection rule is {rule}.")
        return (Candidate("", config),)
    if not texts:
        rate = config.features.learning_rate
        texts = [f"features.learning_rate={rate * factor:.6g}" for factor in _RATE_FACTORS]
    return tuple(Candidate(text, with_settings(config, text)) for text in texts)


@dataclass(frozen=True)
class Choice:
    """What a rule chose.

    Args:
        candidate: the winner.
        scores: accuracies by candidate and by what they were measured on; None where the training failed.
    """

    candidate: Candidate
    scores: dict[str, dict[str, float | None]]

    def as_dict(self) -> dict[str, Any]:
        """For records."""
        return {"chosen": self.candidate.settings, "scores": self.scores}


def choose(candidates: Sequence[Candidate], judges: Sequence[str], score: Callable[[Candidate, str], float]) -> Choice:
    """The candidate with the highest mean score; the first of equals; one whose training fails cannot win.

    Args:
        candidates: what to choose among.
        judges: names of the domains that they are judged on.
        score: accuracy of a candidate on one of them.
    """
    scores: dict[str, dict[str, float | None]] = {}
    best, best_mean, failure = None, -1.0, ""
    for candidate in candidates:
        row: dict[str, float | None] = {}
        for judge in judges:
            try:
                row[judge] = score(candidate, judge)
            except HomefoldError as error:
                row[judge], failure = None, str(error)
        scores[candidate.settings] = row
        values = [value for value in row.values() if value is not None]
        mean = sum(values) / len(values) if len(values) == len(judges) else -1.0
        if mean > best_mean:
            best, best_mean = candidate, mean
    if best is None:
        raise ConfigError(f"every candidate failed, the last one because {failure}")
    return Choice(best, scores)
