"""`homefold data make`: a dataset that is made from another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from homefold.cli.output import note, print_json, typed
from homefold.cli.parsing import Arg, JsonFlag, Names, Positional, parse, unique
from homefold.data.datasets.cifar10_c import CORRUPTIONS, SEVERITIES
from homefold.errors import ConfigError
from homefold.runtime.progress import RichReporter
from homefold.runtime.text import counted

__all__ = ["MakeOptions", "run_make"]


@dataclass(frozen=True)
class MakeOptions:
    """Make CIFAR-10-C from CIFAR-10's test images: 19 corruptions in 5 severities, 2.9 GB.

    Strengths are CIFAR-10-C's own. Single pixels differ from the published files, and frost is drawn where those took
    photographs. A stopped run goes on where it was; nothing that is there is replaced.

    Example: homefold data make cifar10-c /data/cifar
    """

    name: Annotated[str, Positional("NAME")]
    """What to make: cifar10-c."""
    data: Annotated[Path, Positional("DIR")]
    """Where CIFAR-10 lies (homefold data list says in which forms)."""
    to: Annotated[Path | None, Arg("FOLDER", "(default: DIR/CIFAR-10-C)")] = None
    """The folder to make."""
    corruptions: Annotated[Names, Arg("NAME", "(default: all)")] = ()
    """Only these."""
    severities: Annotated[tuple[int, ...], Arg("N", "(default: all)")] = ()
    """Only these of 1 to 5, each in a file of its own, which cifar10-c reads too."""
    seed: int = 0
    """Of all that is drawn; the same seed makes the same files."""
    json: JsonFlag = False


def run_make(arguments: Sequence[str]) -> int:
    """`homefold data make`."""
    options = parse(MakeOptions, "data make", arguments)
    if options.name != "cifar10-c":
        raise ConfigError(f"homefold data make makes cifar10-c and nothing else; got {options.name!r}.")
    corruptions = _chosen("--corruptions", unique(options.corruptions), CORRUPTIONS)
    severities = _chosen("--severities", sorted(set(options.severities)), SEVERITIES)
    from homefold.data.corrupted import make_cifar10_c  # takes a moment to import

    folder, files = make_cifar10_c(
        options.data,
        options.to,
        corruptions=corruptions,
        severities=severities,
        seed=options.seed,
        reporter=RichReporter(),
    )
    if options.json:
        print_json({"folder": folder, "made": files})
        return 0
    print(f"{folder}: {counted(len(files), 'file')} made.")
    if options.to is None:
        note(f"Next: {typed('homefold', 'data', 'verify', 'cifar10-c', options.data, '--counts-only')}")
    return 0


def _chosen(flag: str, given: Sequence[object], known: tuple[object, ...]) -> tuple:  # type: ignore[type-arg]
    for item in given:
        if item not in known:
            raise ConfigError(f"{flag} takes {', '.join(map(str, known))}; got {item}.")
    return tuple(given) or known
