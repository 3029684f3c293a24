"""Selection rules: by what, and on which images, the settings of a run are chosen; the name stands in its record.

| rule | what is looked at |
|---|---|
| `source-validation` | held-out source images: f's best epoch, as the paper says, and the best candidate |
| `last` | nothing: f's last epoch |
| `leave-one-source-out` | candidates are trained on all sources but one and judged on that one, in rotation |
| `oracle` | candidates are judged on the target itself: an upper bound, marked as such, never a result |

Each candidate is trained with every seed, one record each. A rule chooses among the records of all seeds, so the spread
over seeds is that of one setting. The manifold and the classifier keep their best epoch on held-out source features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from homefold.config import HomefoldConfig
from homefold.errors import ConfigError
from homefold.evaluation.records import RunRecord

__all__ = ["AMONG", "Choice", "choices", "choose", "mean_score", "select_epoch", "settings_of"]

AMONG = ("source-validation", "leave-one-source-out", "oracle")
"""The rules that choose among candidates."""
_RULES = (AMONG[0], "last", *AMONG[1:])

R = TypeVar("R", bound=RunRecord)


def select_epoch(config: HomefoldConfig, rule: str) -> HomefoldConfig:
    """`config` with the choice of f's epoch that the rule asks for."""
    if rule not in _RULES:
        raise ConfigError(f"there is no selection rule {rule!r}; choose one of {', '.join(_RULES)}.")
    return replace(config, features=replace(config.features, select="last" if rule == "last" else "best"))


@dataclass(frozen=True)
class Choice(Generic[R]):
    """What a rule chose among candidates.

    Args:
        rule: its name.
        records: of the chosen candidate, one a seed.
        candidates: how many there are.
        judged: how many of them had a score for every seed, and could win.
    """

    rule: str
    records: tuple[R, ...]
    candidates: int
    judged: int

    @property
    def settings(self) -> str:
        """The chosen candidate's, as people type them; empty for the settings as they are."""
        return settings_of(self.records[0]) or ""

    @property
    def accuracies(self) -> list[float]:
        """The chosen candidate's on the target, one a seed."""
        return [record.accuracy for record in self.records if record.accuracy is not None]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        first = self.records[0]
        names = {name: getattr(first, name) for name in ("backbone", "method", "target")}
        facts = {name: value for name, value in first.facts.items() if name in ("split", "variation") and value}
        return {
            **names,
            **facts,
            "rule": self.rule,
            "settings": self.settings,
            "accuracies": {str(record.seed): record.accuracy for record in self.records},
            "candidates": self.candidates,
            "judged": self.judged,
        }


def settings_of(record: RunRecord) -> str | None:
    """The settings of a candidate, as people type them; None for a run without any choice."""
    about = record.facts.get("candidate")
    return None if about is None else str(about.get("settings") or "")


def mean_score(record: RunRecord, rule: str) -> float | None:
    """By what the rule judges a candidate with one seed; None where it has no such score, or a part of it failed."""
    if record.accuracy is None or rule == "oracle":
        return record.accuracy
    scores: Mapping[str, Any] = (record.facts.get("candidate") or {}).get("scores") or {}
    values = list((scores.get(rule) or {}).values())
    return sum(values) / len(values) if values and None not in values else None


def choose(records: Sequence[R], rule: str) -> Choice[R] | None:
    """The candidate with the highest mean score over all seeds; the first of equals, None where none has them all.

    Args:
        records: of every candidate with every seed, of one method on one target.
        rule: one of `AMONG`.
    """
    seeds = {record.seed for record in records}
    tried: dict[str, dict[int, R]] = {}
    for record in sorted(records, key=lambda record: (record.facts["candidate"].get("number") or 0, record.seed)):
        tried.setdefault(settings_of(record) or "", {})[record.seed] = record
    means: dict[str, float] = {}
    for settings, by_seed in tried.items():
        scores = [score for record in by_seed.values() if (score := mean_score(record, rule)) is not None]
        if len(scores) == len(seeds):
            means[settings] = sum(scores) / len(scores)
    if not means:
        return None
    best = max(means, key=lambda settings: means[settings])
    return Choice(rule, tuple(tried[best].values()), len(tried), len(means))


def choices(records: Sequence[R]) -> list[Choice[R]]:
    """What each rule chooses that these records have scores for."""
    return [choice for rule in AMONG if (choice := choose(records, rule)) is not None]
