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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from homefold.config import HomefoldConfig
from homefold.config.grammar import with_settings
from homefold.errors import ConfigError, HomefoldError

__all__ = ["Candidate", "Choice", "candidates_for", "choose", "select_epoch"]

_RULES = ("source-validation", "last", "leave-one-source-out", "oracle")
_RATE_FACTORS = (1.0, 1 / 3, 3.0)


def select_epoch(config: HomefoldConfig, rule: str) -> HomefoldConfig:
    """`config` with the choice of f's epoch that the rule asks for."""
    if rule not in _RULES:
        raise ConfigError(f"there is no selection rule {rule!r}; choose one of {', '.join(_RULES)}.")
    return replace(config, features=replace(config.features, select="last" if rule == "last" else "best"))


@dataclass(frozen=True)
class Candidate:
    """Settings among which a rule chooses, as a person writes them (empty: as they are), and all that they make."""

    settings: str
    config: HomefoldConfig


def candidates_for(config: HomefoldConfig, rule: str, texts: Sequence[str]) -> tuple[Candidate, ...]:
    """What the rule chooses among; a single one where it chooses only the epoch.

    Each of `texts` gives one; none gives three learning rates: as it is, a third of it, three times it.
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
    """What a rule chose; accuracies by candidate and by what they were measured on, None where the training failed."""

    candidate: Candidate
    scores: dict[str, dict[str, float | None]]

    def as_dict(self) -> dict[str, Any]:
        """For records."""
        return {"chosen": self.candidate.settings, "scores": self.scores}


def choose(candidates: Sequence[Candidate], judges: Sequence[str], score: Callable[[Candidate, str], float]) -> Choice:
    """The candidate with the highest mean score on the domains that judge; the first of equals.

    One whose training fails cannot win.
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
