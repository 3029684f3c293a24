"""Any folder or archive of images of which a pattern tells domain and label from the path."""

from __future__ import annotations

import os
from pathlib import Path

from homefold.data.archives import FileImage, archive_images, is_archive, walk
from homefold.data.index import ImageIndex, ImageSource, LoadRequest
from homefold.data.path_pattern import PathPattern
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.data.rows import Row, Table, index_rows
from homefold.errors import ConfigError, DataError
from homefold.runtime.text import as_text, counted, some

__all__ = ["find_by_pattern"]


def read_by_pattern(request: LoadRequest) -> Table:
    """The images whose paths below the root match."""
    pattern, root = PathPattern(request.domain_from), request.folder
    if "label" not in pattern.given:
        raise ConfigError(
            f"the pattern {request.domain_from} does not say where the label stands, and a folder says it nowhere "
            "else; write a template such as '{domain}/{label}/*'."
        )
    images = sorted(_images(root), key=lambda image: image[0])
    rows = [Row(source, as_text(name), name=name) for name, source in images if pattern.names(name)]
    passed = [name for name, _ in images if not pattern.names(name)]
    what = f"{counted(len(passed), 'image')} of {root} {'does' if len(passed) == 1 else 'do'} not match the pattern"
    told = f"{what} {request.domain_from}: {some(map(as_text, passed))}." if passed else "It holds none."
    if not rows:
        raise DataError(f"No image in {root} matches the pattern {request.domain_from}. {told}")
    return Table(
        name=as_text(root.stem if os.path.isfile(root) else root.resolve().name),
        root=root,
        rows=rows,
        expected=f"Expected paths below {root} like {request.domain_from}.",
        any_order=True,
        ignored=len(passed),
        warnings=(told,) if passed else (),
    )


def _images(root: Path) -> list[tuple[str, ImageSource]]:
    """Each image with its path below the root."""
    if os.path.isfile(root) and is_archive(root):
        return [(str(member), image) for member, image in archive_images(root)]
    if not os.path.isdir(root):
        raise DataError(f"{root} is neither a folder nor an uncompressed tar or a zip.")
    found = [image for _, images, _ in walk([root]) for image in images]
    return [(image.relative_to(root).as_posix(), FileImage(image)) for image in found]


@register_dataset(
    DatasetEntry(
        name="pattern",
        description="Any folder, tar or zip of images whose paths tell domain and label by a pattern of your own.",
        source="your own images",
        licence="your own",
        layout="paths below the folder that match the pattern, such as {domain}/{label}/*",
        table=read_by_pattern,
    )
)
def find_by_pattern(request: LoadRequest) -> ImageIndex:
    """The images whose paths match, with domains and labels from them."""
    return index_rows(read_by_pattern(request), request)
