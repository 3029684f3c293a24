"""The image files that arguments name: files, folders and patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from homefold.data.archives import is_archive, is_compressed_tar, is_image, walk
from homefold.data.decoding.image import IMAGE_EXTENSIONS
from homefold.data.paths import given_path
from homefold.errors import DataError

__all__ = ["find_images", "images_below"]


def find_images(paths: Sequence[str | Path] | str | Path) -> list[Path]:
    """The image files that the arguments name, sorted, each once.

    Args:
        paths: files (taken whatever they are called), folders (searched to the bottom) and glob patterns.
    """
    arguments = [paths] if isinstance(paths, str | Path) else list(paths)
    if not arguments:
        raise DataError("No image was given: name files, folders or patterns such as 'photos/*.jpg'.")
    matches = [_matches(argument) for argument in arguments]
    if not all(matches):
        raise DataError(" ".join(_why_nothing(arguments[i]) for i, hits in enumerate(matches) if not hits))
    found: dict[str, Path] = {}
    for path in chain.from_iterable(matches):
        found.setdefault(os.path.abspath(path), path)
    return sorted(found.values())


def images_below(folder: Path) -> list[Path]:
    """Every image below a folder, sorted."""
    return sorted(image for _, images, _ in walk([folder]) for image in images)


def _matches(argument: str | Path) -> list[Path]:
    path = given_path(argument)
    if os.path.isdir(path):
        return images_below(path)
    if os.path.exists(path):
        if is_archive(path) or is_compressed_tar(path):
            raise DataError(
                f"{path} is an archive, and single images are not read from one: unpack it first. "
                "(homefold fit and evaluate read <domain>/<class>/<image> in a tar or zip as it is.)"
            )
        return [path]
    if "\0" in str(path):  # no name has one, and `glob` stumbles over it
        return []
    hits = _expanded(path)
    return [found for hit in hits for found in (images_below(hit) if hit.is_dir() else [hit] if is_image(hit) else [])]


def _expanded(pattern: Path) -> list[Path]:
    """What a pattern matches; unlike `glob`'s, its `**` does not follow links round in circles."""
    parts, places = list(pattern.parts), [Path()]
    while parts and parts[-1] == "**":  # a folder stands for all in it
        parts.pop()
    while "**" in parts:
        at = parts.index("**")
        folders = [place for place in _matching(places, parts[:at]) if place.is_dir()]
        places, parts = [folder for folder, _, _ in walk(folders)], parts[at + 1 :]
    return _matching(places, parts)


def _matching(places: Sequence[Path], parts: Sequence[str]) -> list[Path]:
    """What lies in the places under names that match, one part of a path after the other."""
    if not parts:
        return list(places)
    return [Path(hit) for place in places for hit in glob.glob(os.path.join(glob.escape(str(place)), *parts))]


def _why_nothing(argument: str | Path) -> str:
    if os.path.isdir(given_path(argument)):
        return f"There are no images in the folder {argument} (looked for {', '.join(IMAGE_EXTENSIONS)})."
    if glob.has_magic(str(argument)):
        return f"No image matches the pattern {argument}."
    return f"There is no file or folder {argument}."
