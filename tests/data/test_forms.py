"""Every form that people keep labelled images in: the same dataset from each, and sentences for what is wrong."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forms import (
    CELLS,
    CONTENT,
    FORMS,
    as_csv,
    as_folder,
    as_parquet_of_images,
    as_parquet_of_paths,
    as_saved_dataset,
    as_shards_of_webdataset,
    as_webdataset,
    image_table,
    save_split,
    write_csv,
)
from PIL import Image
from trees import Listener, png, write_folder, write_tar

from homefold.data import ImageCache, dataset_entry, load_dataset, verify_dataset
from homefold.data.given import given_images
from homefold.data.registry import domain_names, form_at
from homefold.errors import DataError

pytestmark = pytest.mark.slow


SIZE = (6, 6)


@pytest.fixture
def folder_dataset(tmp_path, cache_dir):
    return load_dataset(as_folder(tmp_path / "original"), size=SIZE)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_dataset(form, tmp_path, folder_dataset):
    (tmp_path / form).mkdir()
    data = FORMS[form](tmp_path / form)
    loaded = load_dataset(data, size=SIZE)
    assert loaded.fingerprint() == folder_dataset.fingerprint()
    assert (loaded.domain_names, loaded.class_names) == (("print", "street"), ("cat", "dog"))
    assert domain_names(data) == domain_names(str(data)) == ("print", "street")
    assert len(loaded.paths) == len(set(loaded.paths)) == len(CELLS)


@pytest.mark.parametrize("form", FORMS)
def test_the_second_load_comes_from_the_cache(form, tmp_path, cache_dir):
    data = FORMS[form](tmp_path)
    load_dataset(data, size=SIZE)
    listener = Listener()
    again = load_dataset(data, size=SIZE, reporter=listener)
    assert listener.decoded == 0
    assert isinstance(again.images, np.memmap)
    assert len(ImageCache().entries()) == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_part_can_be_asked_for_and_no_other_is_decoded(form, tmp_path, folder_dataset):
    listener = Listener()
    data = FORMS[form](tmp_path)
    street = load_dataset(data, size=SIZE, domains=["street"], reporter=listener, use_cache=False)
    assert listener.decoded == 6
    assert street.fingerprint() == folder_dataset.only("street").fingerprint()


@pytest.mark.parametrize("form", ["csv", "parquet_of_images", "saved_dataset", "webdataset"])
def test_bad_images_of_another_domain_are_never_met(form, tmp_path, cache_dir, monkeypatch):
    monkeypatch.setitem(CONTENT, CELLS[0][2], b"damaged")
    data = FORMS[form](tmp_path)
    assert len(load_dataset(data, size=SIZE, domains=["street"])) == 6
    with pytest.raises(DataError, match="is not an image"):
        load_dataset(data, size=SIZE)
    kept = load_dataset(data, size=SIZE, skip_bad=True)
    assert len(kept) == 11
    assert "is not an image" in kept.skipped[0][1]


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_known_by_what_lies_there_and_can_be_named(form, tmp_path, cache_dir):
    data = FORMS[form](tmp_path)
    name = form_at(data).name
    assert dataset_entry(f"{name}:{data}").domains == ("print", "street")
    assert verify_dataset(name, data).verdict == "ok"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_answered_without_labels(form, tmp_path):
    sources = given_images([str(FORMS[form](tmp_path))])
    pixels = {source.pixels(size=SIZE, resize="squash", max_megapixels=1).tobytes() for source in sources}
    assert len(sources) == len(pixels) == len(CELLS)


def test_paths_alone_are_enough_to_answer(tmp_path):
    write_folder(tmp_path / "photos", CONTENT)
    listed = write_csv(tmp_path / "list.csv", [(f"photos/{path}",) for _, _, path in CELLS[:2]], ("path",))
    alone = tmp_path / "photos" / CELLS[5][2]
    assert [source.path for source in given_images([listed, alone])] == [
        str(alone),
        *(str(tmp_path / "photos" / path) for _, _, path in CELLS[:2]),
    ]


def test_a_manifest_may_have_rows_in_any_order_and_more_columns(tmp_path, folder_dataset):
    write_folder(tmp_path, CONTENT)
    rows = [(domain, "x", label, path) for domain, label, path in reversed(CELLS)]
    data = write_csv(tmp_path / "list.csv", rows, ("domain", "note", "label", "path"))
    assert load_dataset(data, size=SIZE).fingerprint() == folder_dataset.fingerprint()


@pytest.mark.parametrize(("suffix", "join"), [(".csv", ";"), (".tsv", "\t"), (".csv", ",")])
def test_tables_of_text_as_programs_write_them(tmp_path, folder_dataset, suffix, join):
    write_folder(tmp_path, CONTENT)
    lines = [join.join(("Path", " Label ", "domain"))] + [join.join((p, f" {c} ", d)) for d, c, p in CELLS] + [""]
    data = tmp_path / f"list{suffix}"
    data.write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    assert load_dataset(data, size=SIZE).fingerprint() == folder_dataset.fingerprint()


def test_absolute_paths_and_numbers_as_labels(tmp_path):
    write_folder(tmp_path, CONTENT)
    rows = [(str(tmp_path / path), str(("cat", "dog").index(label)), domain) for domain, label, path in CELLS]
    assert load_dataset(write_csv(tmp_path / "list.csv", rows), size=SIZE).class_names == ("0", "1")


def test_official_splits_are_taken_where_all_rows_have_one(tmp_path):
    write_folder(tmp_path, CONTENT)
    rows = [(path, label, domain, ("train", "validation")[i % 2]) for i, (domain, label, path) in enumerate(CELLS)]
    data = write_csv(tmp_path / "list.csv", rows, ("path", "label", "domain", "split"))
    loaded = load_dataset(data, size=SIZE)
    assert sorted(set(loaded.splits)) == ["train", "val"]
    assert loaded.splits[0] == "train"


def test_a_manifest_without_domains_is_one_domain(tmp_path):
    write_folder(tmp_path, CONTENT)
    data = write_csv(tmp_path / "ward.csv", [(path, label) for _, label, path in CELLS], ("path", "label"))
    assert load_dataset(data, size=SIZE).domain_names == ("ward",)


BAD_ROWS = {
    "line 2: label is empty": ("{path}", "", "{domain}"),
    "line 2: path is empty": ("", "{label}", "{domain}"),
    "line 2: domain is empty": ("{path}", "{label}", " "),
    "line 2: it has 2 cells, the header 3": ("{path}", "{label}"),
    "line 2: there is no file ": ("nowhere.png", "{label}", "{domain}"),
    "is a folder, not an image": ("print", "{label}", "{domain}"),
    "stands in line 2 already, and each image may stand there once": (CELLS[1][2], "{label}", "{domain}"),
}


@pytest.mark.parametrize("told", BAD_ROWS)
def test_a_bad_row_is_told_with_its_line_and_what_was_expected(told, tmp_path):
    write_folder(tmp_path, CONTENT)
    rows: list[tuple[str, ...]] = [(path, label, domain) for domain, label, path in CELLS]
    domain, label, path = CELLS[0]
    rows[0] = tuple(cell.format(path=path, label=label, domain=domain) for cell in BAD_ROWS[told])
    data = write_csv(tmp_path / "list.csv", rows)
    with pytest.raises(DataError) as error:
        load_dataset(data, size=SIZE)
    assert str(data) in str(error.value)
    assert told in str(error.value)
    assert "Expected a row for each image with the columns path" in str(error.value)


def test_many_bad_rows_are_told_at_once(tmp_path):
    data = write_csv(tmp_path / "list.csv", [(f"{i}.png", "cat", "print") for i in range(40)])
    with pytest.raises(DataError, match=r"40 rows of .*line 2: there is no file .*9.png; and 30 more\. Expected"):
        load_dataset(data, size=SIZE)


def test_missing_files_can_be_left_out(tmp_path):
    write_folder(tmp_path, CONTENT)
    rows = [(path, label, domain) for domain, label, path in CELLS] + [("nowhere.png", "cat", "print")]
    loaded = load_dataset(write_csv(tmp_path / "list.csv", rows), size=SIZE, skip_bad=True)
    assert len(loaded) == len(CELLS)
    assert loaded.skipped == ((str(tmp_path / "nowhere.png"), "does not exist"),)


def test_a_held_out_domain_may_have_no_labels_and_no_files(tmp_path):
    write_folder(tmp_path, {path: content for path, content in CONTENT.items() if path.startswith("print")})
    rows = [(path, label if domain == "print" else "", domain) for domain, label, path in CELLS]
    data = write_csv(tmp_path / "list.csv", rows)
    assert domain_names(data) == ("print", "street")
    assert len(load_dataset(data, size=SIZE, domains=["print"])) == 6


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "has no column path; its columns are none"),
        (b"file,label\na.png,cat\n", "has no column path; its columns are file, label"),
        (b"path,path,label\n", "has more than one column path"),
        (b"path,label,domain\n", "There are no images in"),
        (b"path,label\xff\n", "cannot be read as a table in UTF-8"),
        (b'path,label,domain\n"a.png,cat,print\n', "line 2: this is no row of a table"),
        (b"path,domain\na.png,print\n", "it has no labels"),
    ],
)
def test_what_is_no_manifest_is_told(content, told, tmp_path):
    (tmp_path / "list.csv").write_bytes(content)
    with pytest.raises(DataError) as error:
        load_dataset(tmp_path / "list.csv", size=SIZE)
    assert told in str(error.value)


def test_a_manifest_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"There is no file .*list\.csv\. Expected a row"):
        load_dataset(tmp_path / "list.csv", size=SIZE)


@pytest.mark.parametrize("form", [as_parquet_of_paths, as_parquet_of_images, as_saved_dataset])
def test_without_pyarrow_a_sentence_says_what_to_install(form, tmp_path, monkeypatch):
    data = form(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"needs the pyarrow package to be read: pip install 'homefold\[parquet\]'"):
        load_dataset(data, size=SIZE)


def test_a_damaged_parquet_is_told(tmp_path):
    data = as_parquet_of_images(tmp_path)
    data.write_bytes(data.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"images\.parquet cannot be read as a parquet file .*write or fetch it anew"):
        load_dataset(data, size=SIZE)


def test_a_damaged_arrow_file_is_told(tmp_path):
    data = as_saved_dataset(tmp_path)
    arrow = next(data.glob("*.arrow"))
    arrow.write_bytes(arrow.read_bytes()[:100])
    with pytest.raises(DataError, match="cannot be read as an arrow file"):
        load_dataset(data, size=SIZE)


def test_rows_without_an_image_or_of_an_unknown_class_are_told(tmp_path):
    table = image_table()
    labels = pa.array([7, *table.column("label").to_pylist()[1:]])
    pq.write_table(table.set_column(2, table.schema.field("label"), labels), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"1 row of .*a\.parquet cannot be used: row 0: label is empty"):
        load_dataset(tmp_path / "a.parquet", size=SIZE)
    images = [None, *table.column("image").to_pylist()[1:]]
    pq.write_table(
        table.set_column(0, table.schema.field("image"), pa.array(images, table.schema.field("image").type)),
        tmp_path / "b.parquet",
    )
    with pytest.raises(DataError, match=r"b\.parquet\[0\] has no bytes"):
        load_dataset(tmp_path / "b.parquet", size=SIZE)


def test_images_as_numbers_are_refused(tmp_path):
    pq.write_table(pa.table({"image": [[1, 2]], "label": ["cat"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"The column image of .* holds list.*; expected the bytes of an image file"):
        load_dataset(tmp_path / "a.parquet", size=SIZE)


def test_a_parquet_that_changes_is_noticed(tmp_path, cache_dir):
    data = as_parquet_of_images(tmp_path)
    before = load_dataset(data, size=SIZE)
    table = image_table()
    pq.write_table(table.slice(1), data)
    assert len(load_dataset(data, size=SIZE)) == len(before) - 1


def test_splits_of_a_saved_dataset_are_official(tmp_path):
    save_split(tmp_path / "saved" / "train", image_table(CELLS[::2]))
    save_split(tmp_path / "saved" / "validation", image_table(CELLS[1::2]))
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation"]}))
    loaded = load_dataset(tmp_path / "saved", size=SIZE)
    assert len(loaded) == len(CELLS)
    assert sorted(set(loaded.splits)) == ["train", "val"]


def test_shards_of_parquet_tell_their_splits(tmp_path):
    pq.write_table(image_table(CELLS[::2]), tmp_path / "train-00000-of-00001.parquet")
    pq.write_table(image_table(CELLS[1::2]), tmp_path / "test-00000-of-00001.parquet")
    assert sorted(load_dataset(tmp_path, size=SIZE).splits) == ["test"] * 6 + ["train"] * 6


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("[]", "cannot be read as a description of a saved dataset"),
        ("{}", "was expected to name the dataset's arrow files"),
        ('{"_data_files": [{"filename": "../outside.arrow"}]}', "was expected to name the dataset's arrow files"),
        ('{"_indices_data_files": [{"filename": "indices.arrow"}]}', "save it after flatten_indices"),
    ],
)
def test_an_odd_saved_dataset_is_told(state, told, tmp_path):
    data = as_saved_dataset(tmp_path)
    (data / "state.json").write_text(state)
    with pytest.raises(DataError, match=told):
        load_dataset(data, size=SIZE)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"0000.json": b"{"}, r"sample 0000: its \.json is not valid JSON"),
        ({"0000.json": b"[]"}, r"sample 0000: its \.json is no object"),
        ({"0000.json": b'{"label": [1], "domain": "a"}'}, "sample 0000: label in its .json is a list"),
        ({"0000.cls": b"\xff\xfe"}, r"sample 0000: its \.cls is no text"),
        ({"0000.json": b"{}"}, "sample 0000: domain is empty"),
        ({"0000.right.png": png(99)}, "sample 0000: it has 2 images, 0000.png, 0000.right.png; expected one"),
    ],
)
def test_a_bad_sample_is_told_by_its_key(more, told, tmp_path):
    members = {f"{i:04}.png": CONTENT[path] for i, (_, _, path) in enumerate(CELLS)}
    members |= {f"{i:04}.cls": label.encode() for i, (_, label, _) in enumerate(CELLS)}
    members |= {f"{i:04}.json": json.dumps({"domain": domain}).encode() for i, (domain, _, _) in enumerate(CELLS)}
    data = write_tar(tmp_path / "samples.tar", members | more)
    with pytest.raises(DataError, match=told):
        load_dataset(f"webdataset:{data}", size=SIZE)


def test_a_missing_shard_is_told(tmp_path):
    data = as_shards_of_webdataset(tmp_path)
    (data.parent / "part-001.tar").unlink()
    with pytest.raises(DataError, match=r"There is no file .*part-001\.tar"):
        load_dataset(data, size=SIZE)


def test_a_tar_of_domain_folders_is_still_one(tmp_path, folder_dataset):
    packed = load_dataset(write_tar(tmp_path / "photos.tar", CONTENT), size=SIZE)
    assert packed.fingerprint() == folder_dataset.fingerprint()


def test_a_folder_of_tars_is_one_dataset(tmp_path, folder_dataset):
    shards = as_shards_of_webdataset(tmp_path)
    assert load_dataset(shards.parent, size=SIZE).fingerprint() == folder_dataset.fingerprint()


@pytest.mark.parametrize(
    "pattern",
    ["{domain}/{label}/*", "{domain}/{label}/*.png", "**/{domain}/{label}/?.png", r"^(?P<domain>\w+)/(?P<label>\w+)/"],
)
def test_a_pattern_tells_domain_and_label(pattern, tmp_path, folder_dataset):
    loaded = load_dataset(as_folder(tmp_path), size=SIZE, domain_from=pattern)
    assert loaded.fingerprint() == folder_dataset.fingerprint()


def test_a_pattern_reads_names_of_files_and_archives(tmp_path, folder_dataset):
    flat = {f"{domain}_{label}_{path[-5:]}": CONTENT[path] for domain, label, path in CELLS}
    pattern = "{domain}_{label}_*.png"
    loaded = load_dataset(write_folder(tmp_path / "flat", flat), size=SIZE, domain_from=pattern)
    assert loaded.fingerprint() == folder_dataset.fingerprint()
    with zipfile.ZipFile(tmp_path / "flat.zip", "w") as archive:
        for name, content in flat.items():
            archive.writestr(name, content)
    packed = load_dataset(tmp_path / "flat.zip", size=SIZE, domain_from=pattern)
    assert packed.fingerprint() == folder_dataset.fingerprint()


def test_a_pattern_fills_in_what_a_manifest_does_not_say(tmp_path, folder_dataset):
    write_folder(tmp_path, CONTENT)
    data = write_csv(tmp_path / "list.csv", [(path, label) for _, label, path in CELLS], ("path", "label"))
    loaded = load_dataset(data, size=SIZE, domain_from="{domain}/**")
    assert loaded.fingerprint() == folder_dataset.fingerprint()
    with pytest.raises(DataError, match=r"line 2: 'print/cat/0\.png' does not match the pattern x/\{domain\}"):
        load_dataset(data, size=SIZE, domain_from="x/{domain}")


def test_a_pattern_reads_the_paths_beside_stored_images(tmp_path, folder_dataset):
    pq.write_table(image_table().drop_columns(["domain"]), tmp_path / "a.parquet")
    loaded = load_dataset(tmp_path / "a.parquet", size=SIZE, domain_from="{domain}/*/*")
    assert loaded.fingerprint() == folder_dataset.fingerprint()


def test_images_that_do_not_match_are_passed_over_and_told(tmp_path):
    listener = Listener()
    data = write_folder(tmp_path / "folder", CONTENT | {"readme.png": png(50)})
    loaded = load_dataset(data, size=SIZE, domain_from="{domain}/{label}/*", reporter=listener)
    assert len(loaded) == len(CELLS)
    assert any("1 image of" in text and "does not match the pattern" in text for text in listener.messages)
    with pytest.raises(DataError, match=r"No image in .* matches the pattern"):
        load_dataset(data, size=SIZE, domain_from="{domain}/{label}/x/*")


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("{label}/*", "does not say where the domain stands"),
        ("{domain}/*", "does not say where the label stands"),
        ("{domain}/{clas}/*", "names clas; it can name domain, label, split"),
        ("(?P<domain>[a-z/*", "is no regular expression"),
    ],
)
def test_a_pattern_that_makes_no_sense_is_told(pattern, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        load_dataset(as_folder(tmp_path), size=SIZE, domain_from=pattern)


def test_a_named_dataset_has_domains_of_its_own(tmp_path):
    with pytest.raises(DataError, match="pacs says itself which domains it has: leave out the pattern"):
        load_dataset("pacs", root=as_folder(tmp_path), domain_from="{domain}/{label}/*")


def frame(**more) -> pd.DataFrame:
    columns = {"label": [label for _, label, _ in CELLS], "domain": [domain for domain, _, _ in CELLS]}
    return pd.DataFrame(columns | more)


def test_a_data_frame_of_paths(tmp_path, folder_dataset, cache_dir):
    write_folder(tmp_path, CONTENT)
    table = frame(path=[path for _, _, path in CELLS]).sample(frac=1, random_state=0)
    loaded = load_dataset(table, root=tmp_path, size=SIZE)
    assert loaded.fingerprint() == folder_dataset.fingerprint()
    table["path"] = [tmp_path / path for path in table["path"]]
    assert load_dataset(table, size=SIZE).fingerprint() == folder_dataset.fingerprint()
    assert domain_names(table) == ("print", "street")


def test_a_data_frame_of_images(folder_dataset):
    contents = [CONTENT[path] for _, _, path in CELLS]
    pictures = [Image.open(io.BytesIO(content)) for content in contents]
    structures = [{"bytes": content, "path": None} for content in contents]
    for images in (contents, pictures, structures):
        assert load_dataset(frame(image=images), size=SIZE).fingerprint() == folder_dataset.fingerprint()


def test_a_bad_row_of_a_data_frame_is_told():
    with pytest.raises(DataError, match="12 rows of the data frame cannot be used: row 0: image is int; expected"):
        load_dataset(frame(image=range(12)), size=SIZE)
    with pytest.raises(DataError, match="row 0: path is int, not text"):
        load_dataset(frame(path=range(12)), size=SIZE)
    with pytest.raises(DataError, match="The data frame has no column path or image; its columns are label, domain"):
        load_dataset(frame(), size=SIZE)


def test_missing_values_of_a_data_frame_are_empty(tmp_path):
    write_folder(tmp_path, CONTENT)
    table = frame(path=[path for _, _, path in CELLS])
    table.loc[3, "label"] = None
    table.loc[4, "label"] = float("nan")
    with pytest.raises(DataError, match="2 rows of the data frame cannot be used: row 3: label is empty; row 4: label"):
        load_dataset(table, root=tmp_path, size=SIZE)


def test_an_image_that_stands_twice_in_a_webdataset_is_two_samples(tmp_path):
    data = as_webdataset(tmp_path)
    assert verify_dataset("webdataset", data).images == len(CELLS)
    assert Path(data).name == "samples.tar"


def test_a_csv_keeps_its_name(tmp_path):
    assert load_dataset(as_csv(tmp_path), size=SIZE).name == "list"
