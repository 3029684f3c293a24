"""What the cache holds beside decoded images: features of frozen backbones, and answers for the explorer's map."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from homefold.data.cache.directory import cache_directory

__all__ = ["Computed", "computed_entries", "explorer_directory", "features_directory"]

Kind = Literal["features", "explorer"]


def features_directory() -> Path:
    """Where features of frozen backbones are kept: one folder a network, files of some images in it."""
    return cache_directory() / "features"


def explorer_directory() -> Path:
    """Where the explorer keeps answers and features of its images: one file a model and dataset."""
    return cache_directory() / "explorer"


@dataclass(frozen=True)
class Computed:
    """All that is kept of one network, or of one map.

    Args:
        kind: `features` of a frozen backbone, or the answers of an `explorer`'s map.
        path: a folder, or a file.
        files, bytes, used: how many, what they take, and when it was last used, in seconds since 1970.
    """

    kind: Kind
    path: Path
    files: int
    bytes: int
    used: float

    def remove(self) -> bool:
        """Delete it; whoever reads it meanwhile computes it again."""
        if self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            with suppress(OSError):
                self.path.unlink()
        return not self.path.exists()


def computed_entries() -> list[Computed]:
    """All of it, what was used last first."""
    places: tuple[tuple[Kind, Path], ...] = (("features", features_directory()), ("explorer", explorer_directory()))
    found = [entry for kind, place in places for path in _inside(place) if (entry := _entry(kind, path)) is not None]
    return sorted(found, key=lambda entry: -entry.used)


def _entry(kind: Kind, path: Path) -> Computed | None:
    """None for what vanished meanwhile, and for what is not ours."""
    try:
        files = [file.stat() for file in (path.iterdir() if path.is_dir() else [path]) if file.is_file()]
        used = max([path.stat().st_mtime, *(file.st_mtime for file in files)])
    except OSError:
        return None
    return Computed(kind, path, len(files), sum(file.st_size for file in files), used)


def _inside(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    return []
