"""The answers of a shard as parquet: the same bytes for the same answers, whoever computed them and when."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from homefold.runtime.text import as_text
from homefold.stages.predictions import Predictions

__all__ = ["Answers", "as_parquet", "counts_in", "probabilities_in"]

_ROWS_TOGETHER = 10_000


class Answers:
    """The answers of one shard, chunk by chunk, in the order of its images.

    Args:
        class_names: one a column of probabilities.
    """

    def __init__(self, class_names: Sequence[str]) -> None:
        import pyarrow

        self._pyarrow = pyarrow
        kinds: dict[str, Any] = {"path": pyarrow.string(), "label": pyarrow.string(), "confidence": pyarrow.float32()}
        kinds |= dict.fromkeys(("off_manifold", "similarity_before", "similarity_after"), pyarrow.float32())
        kinds |= {"iterations": pyarrow.int64(), "start": pyarrow.string(), "projected": pyarrow.bool_()}
        kinds |= {"label_without_projection": pyarrow.string(), "abstained": pyarrow.bool_(), "error": pyarrow.string()}
        probabilities = [(f"probability.{name}", pyarrow.float32()) for name in class_names]
        self._schema = pyarrow.schema([*kinds.items(), *probabilities])
        self._tables: list[Any] = []

    def add(
        self, names: Sequence[str], faults: Mapping[int, str], predictions: Predictions | None, abstained: np.ndarray
    ) -> None:
        """The next images: `faults` by position; predictions, and whether to abstain from them, for all the others."""
        n = len(names)
        good = np.setdiff1d(np.arange(n), list(faults))
        place = np.full(n, -1)
        place[good] = np.arange(len(good))
        columns = {} if predictions is None else _columns(predictions, abstained)
        values = {
            "path": [as_text(name) for name in names],
            "error": [faults.get(i) for i in range(n)],
        }
        pyarrow = self._pyarrow
        rows = pyarrow.array(place, mask=place < 0)
        arrays = []
        for field in self._schema:
            if field.name in values:
                arrays.append(pyarrow.array(values[field.name], field.type))
            elif field.name in columns:
                # NaN is a figure that there is not.
                arrays.append(pyarrow.array(columns[field.name], field.type, from_pandas=True).take(rows))
            else:
                arrays.append(pyarrow.nulls(n, field.type))
        self._tables.append(pyarrow.Table.from_arrays(arrays, schema=self._schema))

    def table(self) -> Any:
        """All of them."""
        tables = self._tables or [self._schema.empty_table()]
        return self._pyarrow.concat_tables(tables).combine_chunks()


def _columns(predictions: Predictions, abstained: np.ndarray) -> dict[str, Any]:
    names = np.asarray(predictions.start_names, dtype=object)
    class_names = np.asarray(predictions.class_names, dtype=object)
    found = {
        "label": class_names[predictions.indices],
        "confidence": predictions.confidences,
        "off_manifold": predictions.off_manifold,
        "similarity_before": predictions.similarity_before,
        "similarity_after": predictions.similarity_after,
        "iterations": predictions.iterations,
        "start": names[predictions.start],
        "projected": predictions.projected,
        "abstained": abstained,
    }
    if len(predictions.unprojected) == len(predictions):
        found["label_without_projection"] = class_names[predictions.unprojected]
    for i, name in enumerate(predictions.class_names):
        found[f"probability.{name}"] = np.ascontiguousarray(predictions.probabilities[:, i])
    return found


def as_parquet(table: Any) -> bytes:
    """The file of a table."""
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(table, stream, compression="zstd", row_group_size=_ROWS_TOGETHER)
    return stream.getvalue()


def counts_in(path: Path) -> tuple[int, int]:
    """How many images a file of answers has, and how many of them could not be read."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as stored:
        facts = stored.metadata
        column = stored.schema_arrow.get_field_index("error")
        groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
        return facts.num_rows, sum(
            group.num_rows - group.column(column).statistics.null_count for group in groups if group.num_rows
        )


def probabilities_in(content: bytes) -> tuple[np.ndarray, list[Any]]:
    """`(n, classes)` probabilities and the labels of a file of answers, both of the images that have them."""
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(content))
    rows = table.filter(table.column("label").is_valid())
    columns = [rows.column(name).to_numpy() for name in rows.column_names if name.startswith("probability.")]
    return np.stack(columns, axis=1), rows.column("label").to_pylist()
