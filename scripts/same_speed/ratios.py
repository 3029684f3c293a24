"""Ratios of what was measured in several rounds."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["HEADING", "ratio_row"]

HEADING = f"{'':30}{'OLD':>9}{'NEW':>9}{'new/old':>9}  {'by round':>11}{'processor':>11}  {'by round':>11}"


def ratio_row(name: str, old: Sequence[tuple[float, float]], new: Sequence[tuple[float, float]]) -> str:
    """A line of the table: the least that each side took, their ratio, and the range of the rounds' ratios.

    Other processes can only make a round slower, so the least is the nearest to what the code takes.

    Args:
        name: of what was measured.
        old: seconds and processor seconds, one pair a round.
        new: the same, round by round.
    """
    least = [min(wall for wall, _ in side) for side in (old, new)]
    row = f"{name:30}{_shown(least[0]):>9}{_shown(least[1]):>9}"
    for clock, width in ((0, 9), (1, 11)):
        before, after = ([taken[clock] for taken in side] for side in (old, new))
        rounds = [b / a for a, b in zip(before, after, strict=True)]
        row += f"{min(after) / min(before):{width}.2f}  {f'{min(rounds):.2f} – {max(rounds):.2f}':>11}"
    return row


def _shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
