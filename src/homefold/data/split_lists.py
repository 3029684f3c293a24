"""Lists of images, one file a domain and split, beside the images or in their archives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from homefold.data.archives import ArchiveImage, archive_texts
from homefold.data.index import ImageIndex
from homefold.data.paths import reading
from homefold.errors import DataError

__all__ = ["SplitList", "lists_beside", "lists_packed"]


@dataclass(frozen=True)
class SplitList:
    """A list as it was found."""

    path: str
    content: bytes

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines that are not empty, with their numbers from 1."""
        try:
            lines = self.content.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise DataError(f"{self.path} is no text; take the official lists, or move it away.") from None
        yield from ((number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip())


def lists_beside(root: Path, names: Sequence[str], places: Sequence[str]) -> dict[str, SplitList]:
    """Each list that is there, from the first of the places in or beside the root that has it."""
    folder = root if root.is_dir() else root.parent
    lists = {}
    for name in names:
        path = next((path for place in places for path in sorted(folder.glob(f"{place}/{name}"))), None)
        if path is not None:
            with reading(path, "a list of images"):
                lists[name] = SplitList(str(path), path.read_bytes())
    return lists


def lists_packed(index: ImageIndex, names: Sequence[str]) -> dict[str, SplitList]:
    """Likewise from the archives that the images lie in."""
    lists: dict[str, SplitList] = {}
    for archive in dict.fromkeys(source.archive for source in index.sources if isinstance(source, ArchiveImage)):
        for name, content in archive_texts(archive, *names).items():
            if name in names:
                lists.setdefault(name, SplitList(f"{archive}/{name}", content))
    return lists
