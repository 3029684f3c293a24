"""By which versions of the code runs were made: figures of several may not compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from homefold.errors import DataError
from homefold.evaluation.records import RunRecord

__all__ = ["code_versions", "in_words", "require_one_code_version"]


def code_versions(runs: Iterable[RunRecord]) -> dict[str, int]:
    """How many finished runs each version of the code made, by its name for people."""
    return Counter(_version(run) for run in runs if run.accuracy is not None)


def _version(run: RunRecord) -> str:
    commit, _, changed = run.commit.partition(" ")
    at = f"at commit {commit[:12]} {changed}".strip() if commit else "at no recorded commit"
    return f"homefold {run.versions.get('homefold', 'of no recorded version')} {at}"


def in_words(versions: Mapping[str, int]) -> str:
    """Each version and its runs.

    >>> in_words({"homefold 1.0 at commit abc": 1, "homefold 1.1 at commit def": 4})
    'homefold 1.0 at commit abc (1 run), homefold 1.1 at commit def (4 runs)'
    """
    return ", ".join(f"{name} ({count} run{'' if count == 1 else 's'})" for name, count in versions.items())


def require_one_code_version(versions: Mapping[str, int]) -> None:
    """Refuse runs that several versions of the code made."""
    if len(versions) > 1:
        raise DataError(
            f"these runs were made by {len(versions)} versions of the code, so their figures may not compare: "
            f"{in_words(versions)}. Report the runs of one version, or go on with --mixed-code: the page will say so."
        )
