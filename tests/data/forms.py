"""The same small dataset in every form that people keep images in."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from trees import png, write_folder, write_tar

CELLS = [
    (domain, label, f"{domain}/{label}/{number}.png")
    for domain in ("print", "street")
    for label in ("cat", "dog")
    for number in range(3)
]
"""Domain, label and path of each image; a folder of domains has them in this order."""
CONTENT = {path: png(seed) for seed, (_, _, path) in enumerate(CELLS)}


def mixed() -> list[tuple[str, str, str]]:
    """The cells in an order in which domains and labels alternate."""
    return [CELLS[i] for i in np.random.default_rng(3).permutation(len(CELLS))]


def write_csv(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...] = ("path", "label", "domain")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def as_folder(root: Path) -> Path:
    return write_folder(root / "folder", CONTENT)


def as_csv(root: Path) -> Path:
    write_folder(root / "photos", CONTENT)
    return write_csv(root / "list.csv", [(f"photos/{path}", label, domain) for domain, label, path in mixed()])


def as_parquet_of_paths(root: Path) -> Path:
    write_folder(root / "photos", CONTENT)
    columns = {
        "path": [f"photos/{path}" for _, _, path in mixed()],
        "label": [label for _, label, _ in mixed()],
        "domain": [domain for domain, _, _ in mixed()],
    }
    pq.write_table(pa.table(columns), root / "list.parquet")
    return root / "list.parquet"


def image_table(cells=tuple(CELLS), *, classes: bool = True) -> pa.Table:
    """As Hugging Face's datasets writes them: structures of bytes and path, and numbers for classes."""
    images = [{"bytes": CONTENT[path], "path": path} for _, _, path in cells]
    columns = {
        "image": pa.array(images, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "domain": pa.array([domain for domain, _, _ in cells]),
        "label": pa.array([("cat", "dog").index(label) if classes else label for _, label, _ in cells]),
    }
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})} if classes else None
    return pa.table(columns).replace_schema_metadata(metadata)


def as_parquet_of_images(root: Path) -> Path:
    pq.write_table(image_table(), root / "images.parquet", row_group_size=5)
    return root / "images.parquet"


def as_parquet_of_bytes(root: Path) -> Path:
    table = image_table(classes=False)
    images = pa.array([CONTENT[path] for _, _, path in CELLS], pa.binary())
    pq.write_table(table.set_column(0, "image.bytes", images), root / "bytes.parquet", row_group_size=5)
    return root / "bytes.parquet"


def as_shards_of_parquet(root: Path) -> Path:
    folder = root / "shards"
    folder.mkdir()
    for i in range(2):
        pq.write_table(image_table(CELLS[6 * i : 6 * i + 6]), folder / f"train-{i:05}-of-00002.parquet")
    return folder


def save_split(folder: Path, table: pa.Table) -> None:
    folder.mkdir(parents=True)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as out,
    ):
        out.write_table(table, max_chunksize=5)


def as_saved_dataset(root: Path) -> Path:
    save_split(root / "saved", image_table())
    return root / "saved"


def as_webdataset(root: Path) -> Path:
    members: dict[str, bytes] = {}
    for i, (domain, label, path) in enumerate(CELLS):
        members |= {f"{i:04}.png": CONTENT[path], f"{i:04}.cls": label.encode()}
        members[f"{i:04}.json"] = json.dumps({"domain": domain}).encode()
    return write_tar(root / "samples.tar", members)


def as_shards_of_webdataset(root: Path) -> Path:
    for shard in range(2):
        members: dict[str, bytes] = {}
        for i, (domain, label, path) in list(enumerate(CELLS))[6 * shard : 6 * shard + 6]:
            members |= {f"{i:04}.json": json.dumps({"domain": domain, "label": label}).encode()}
            members[f"{i:04}.png"] = CONTENT[path]
        write_tar(root / "shards" / f"part-{shard:03}.tar", members)
    return root / "shards" / "part-{000..001}.tar"


FORMS: dict[str, Callable[[Path], Path]] = {
    name.removeprefix("as_"): make for name, make in list(globals().items()) if name.startswith("as_")
}


def moved(path: Path, to: Path) -> Path:
    """The same files in another place."""
    shutil.move(path, to)
    return to
