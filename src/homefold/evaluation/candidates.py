"""The candidates of a selection rule: typed, drawn by a random search, or three learning rates."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from homefold.config import HomefoldConfig
from homefold.config.grammar import parse_settings
from homefold.config.migration import current_names
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.suites import Variation
from homefold.methods import Method
from homefold.methods.candidates import drawn_settings
from homefold.methods.registry import typed_settings

__all__ = ["Candidate", "candidates_for"]

_RATE_FACTORS = (1.0, 1 / 3, 3.0)


@dataclass(frozen=True)
class Candidate:
    """Settings among which a rule chooses, as people type them (empty: as they are), and their place in the list."""

    number: int
    settings: str


def candidates_for(
    options: BenchOptions, name: str, method: Method, config: HomefoldConfig, variation: Variation
) -> tuple[Candidate, ...]:
    """What the rule chooses among; nothing where it chooses only the epoch.

    What was typed or is varied by the suite stays as it is in a random search.

    Args:
        options: what was asked for.
        name: of the method, as it was typed.
        method: itself, as the suite varies it.
        config: its settings.
        variation: the suite's.
    """
    texts: Collection[str] = options.candidates
    if options.search:
        kept = {*typed_settings(name), *current_names(parse_settings(" ".join(options.settings)))}
        kept |= {*variation.settings, *variation.method}
        # Where there is nothing to draw, all are the same.
        drawn = (drawn_settings(method, config, options.search_seed, number, kept) for number in range(options.search))
        texts = dict.fromkeys(drawn)
    elif not texts and options.selection in ("leave-one-source-out", "oracle"):
        rate = config.features.learning_rate
        texts = [f"features.learning_rate={rate * factor:.6g}" for factor in _RATE_FACTORS]
    return tuple(Candidate(number, text) for number, text in enumerate(texts))
