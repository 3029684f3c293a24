"""Names of files, classes and domains, which on Linux may be any bytes: which of them can be written down."""

from __future__ import annotations

from collections.abc import Sequence

from homefold.errors import DataError

__all__ = ["check_names", "written"]


def written(name: str) -> str:
    r"""`name` as it can be written to a file: what no character stands for is escaped.

    >>> written("café"), written("caf\udce9")
    ('café', 'caf\\udce9')
    """
    return name.encode(errors="backslashreplace").decode()


def check_names(what: str, names: Sequence[str], where: object) -> None:
    """Stop at a name that cannot be saved with a model.

    Args:
        what: `"class"` or `"domain"`.
        names: of all of them.
        where: what they belong to, for the message.
    """
    for name in map(str, names):
        if written(name) != name:
            raise DataError(
                f"The {what} {written(name)} in {written(str(where))} has a name that is not valid UTF-8, so that no "
                f"model could be saved with it; rename it."
            )
