"""The points of the map as a parquet file, which embedding-atlas and data frames open."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from homefold.serving.explorer import Gallery
from homefold.serving.explorer.explorer import Surveyed

__all__ = ["can_write_points", "write_points"]


def can_write_points() -> bool:
    """Whether pyarrow is here."""
    return find_spec("pyarrow") is not None


def write_points(path: Path, gallery: Gallery, surveyed: Surveyed, pictures: dict[int, Path] | None) -> None:
    """A row for each image, in their order; `pictures` are files by row, whose bytes are taken over."""
    import pyarrow as pa
    from pyarrow import parquet

    given = surveyed.by_name
    classes, domains = np.asarray(gallery.classes, object), np.asarray(gallery.dataset.domain_names, object)
    named = {name: classes[given[name].astype(int)] for name in ("truth", "label", "plain_label")}
    columns = {
        "row": np.arange(len(gallery)),
        "x": given["x"],
        "y": given["y"],
        "label": named["truth"],
        "domain": domains[gallery.dataset.domains],
        "trained_on": gallery.is_source,
        "prediction": named["label"],
        "right": given["label"] == given["truth"],
        "prediction_without_projection": named["plain_label"],
        "confidence": given["confidence"],
        "confidence_without_projection": given["plain_confidence"],
        "off_manifold": given["off_manifold"],
        "projected": given["projected"].astype(bool),
    }
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    if pictures is not None:
        images = [{"bytes": file.read_bytes(), "path": file.name} for _, file in sorted(pictures.items())]
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        table = table.append_column("image", pa.array(images, kind))
    parquet.write_table(table, path)
