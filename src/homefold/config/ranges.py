"""Where to look for a better value of a setting, declared beside its default; and values drawn from there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["SearchRange"]


@dataclass(frozen=True)
class SearchRange:
    """Between `low` and `high`, on a logarithmic scale if `log`, or one of `choices`.

    Args:
        low, high: both belong to the range.
        log: whether values are even on a logarithmic scale.
        choices: the values worth trying, in the place of a range.
        times: whether `low` and `high` are factors of the value that the setting has otherwise.
        drawn: whether a random search draws it; not so for what only suits a learning rate of its own.
    """

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Any, ...] = ()
    times: bool = False
    drawn: bool = True

    @property
    def words(self) -> str:
        """For people.

        >>> SearchRange(0.2, 5, log=True, times=True).words
        '0.2 to 5 times its value, logarithmic'
        >>> SearchRange(choices=(16, (0.5, 1.0))).words
        '16, 0.5/1.0'
        """
        if self.choices:
            return ", ".join(
                "/".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in self.choices
            )
        times = " times its value" if self.times else ""
        return f"{self.low:g} to {self.high:g}{times}{', logarithmic' if self.log else ''}"

    def draw(self, u: float, now: Any) -> Any:
        """The value at `u` in [0, 1) of the range, of the type of the value `now`; numbers have three digits.

        >>> SearchRange(1, 100, log=True).draw(0.5, 3.0), SearchRange(0.5, 2, times=True).draw(0.5, 64)
        (10.0, 80)
        >>> SearchRange(choices=("sgd", "adam")).draw(0.7, "sgd")
        'adam'
        """
        if self.choices:
            return self.choices[int(u * len(self.choices))]
        low, high = (now * self.low, now * self.high) if self.times else (self.low, self.high)
        value = math.exp(math.log(low) + u * math.log(high / low)) if self.log else low + u * (high - low)
        return round(value) if isinstance(now, int) else float(f"{value:.3g}")
