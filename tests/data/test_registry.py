"""Datasets by name or by path."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trees import verify_folder

from homefold import Homefold, preset_config
from homefold.data import LoadRequest, registry, verify_dataset
from homefold.data.dataset import DomainDataset
from homefold.data.registry import (
    DatasetEntry,
    count_images,
    dataset_entry,
    domain_names,
    list_datasets,
    load_dataset,
    register_dataset,
)
from homefold.errors import DataError


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOMEFOLD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def photos(tmp_path):
    for domain in ("inside", "outside"):
        for name in ("cat", "dog"):
            path = tmp_path / "photos" / domain / name / "0.png"
            path.parent.mkdir(parents=True)
            Image.new("RGB", (10, 10), (1, 2, 3)).save(path)
    return tmp_path / "photos"


@pytest.fixture
def toy():
    """A dataset with files, registered for one test; it remembers what it was asked."""
    requests: list[LoadRequest] = []

    def load(request: LoadRequest) -> DomainDataset:
        requests.append(request)
        return DomainDataset(np.zeros((1, 2, 2, 3), np.uint8), np.zeros(1), np.zeros(1), ("a",), ("x",))

    entry = DatasetEntry("toy", "A toy.", "nowhere", "none", "<root>/<toy>", ("x",), ("a",), load=load)
    register_dataset(entry)(lambda request: pytest.fail("it was looked for"))
    yield requests
    registry._entries.remove("toy")


def test_what_there_is_is_listed_with_all_one_must_know():
    entries = {entry.name: entry for entry in list_datasets()}
    assert entries["digits-mini"].embedded
    assert entries["digits-mini"].domains == ("scan", "photo", "print", "street")
    assert len(entries["digits-mini"].classes) == 10
    assert not entries["folder"].embedded
    assert entries["folder"].layout == "<folder>/<domain>/<class>/<image>"
    assert all(e.description and e.source and e.licence and e.layout for e in entries.values())
    assert list_datasets()[0].name == "digits-mini"


def test_an_entry_is_plain_json_without_its_loader():
    entry = json.loads(json.dumps(dataset_entry("digits-mini").as_dict()))
    assert entry["name"] == "digits-mini"
    assert not {"load", "index"} & set(entry)


@pytest.mark.slow
def test_the_embedded_dataset_is_loaded_by_name_as_it_is_drawn():
    dataset = load_dataset("digits-mini", seed=0)
    assert dataset.name == "digits-mini"
    assert dataset.images.shape == (3480, 32, 32, 3)


@pytest.mark.slow
def test_the_embedded_dataset_comes_in_the_size_domains_and_seed_asked_for():
    small = load_dataset("digits-mini", size=(16, 20), domains=["street", "scan"])
    assert small.images.shape == (1740, 16, 20, 3)
    assert small.domain_names == ("street", "scan")
    other = load_dataset("digits-mini", size=(16, 20), domains=["street", "scan"], seed=1)
    assert small.fingerprint() != other.fingerprint()


def test_a_folder_is_loaded_by_its_path_at_the_usual_size(photos):
    assert load_dataset(photos).images.shape == (4, 224, 224, 3)
    assert load_dataset(str(photos), size=(8, 9), domains=["inside"]).images.shape == (2, 8, 9, 3)
    assert load_dataset("folder", root=photos, size=(4, 4)).name == "photos"


def test_settings_reach_the_folder(photos):
    (photos / "inside" / "cat" / "bad.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"bad\.png is empty"):
        load_dataset(photos, size=(4, 4))
    assert len(load_dataset(photos, size=(4, 4), skip_bad=True).skipped) == 1
    with pytest.raises(DataError, match="more than the limit"):
        load_dataset(photos, size=(4, 4), max_megapixels=1e-6)


@pytest.mark.slow
def test_a_known_name_wins_over_a_folder_of_that_name(photos, monkeypatch):
    monkeypatch.chdir(photos.parent)
    photos.rename("digits-mini")
    assert load_dataset("digits-mini").class_names == tuple("0123456789")
    assert load_dataset("./digits-mini", size=(2, 2)).class_names == ("cat", "dog")
    assert load_dataset(Path("digits-mini"), size=(2, 2)).class_names == ("cat", "dog")


def test_an_unknown_name_is_answered_with_those_there_are():
    with pytest.raises(
        DataError, match=r"no dataset and no folder 'digit-mini'.*digits-mini.*Did you mean digits-mini"
    ):
        load_dataset("digit-mini")
    with pytest.raises(DataError, match="no dataset 'nothing-like-it'") as caught:
        dataset_entry("nothing-like-it")
    assert "Did you mean" not in str(caught.value)


def test_an_empty_name_is_refused(photos, monkeypatch):
    monkeypatch.chdir(photos)
    reads = [
        lambda: load_dataset(""),
        lambda: load_dataset("folder", root=""),
        lambda: domain_names(""),
        lambda: Homefold(preset_config("small"), device="cpu").fit(""),
    ]
    for read in reads:
        with pytest.raises(DataError, match=r"A path is empty: name a file or a folder"):
            read()
    for report in (verify_folder(""), verify_dataset("pacs", "")):
        assert report.errors[0].startswith("A path is empty")


def test_a_name_that_no_folder_can_have_is_not_found():
    for name in ("~nobody-of-this-name/x", "x" * 5000, "a\0b", "pacs:" + "x" * 5000, "folder:~nobody-of-this-name"):
        with pytest.raises(DataError, match=r"[Tt]here is no "):
            load_dataset(name)
        with pytest.raises(DataError, match=r"[Tt]here is no "):
            domain_names(name)


def test_files_are_asked_for_where_they_are_needed_and_refused_where_not(toy, photos):
    with pytest.raises(DataError, match=r"toy needs its files.*<root>/<toy>"):
        load_dataset("toy")
    with pytest.raises(DataError, match=r"toy needs its files.*toy:FOLDER"):
        count_images("toy")
    with pytest.raises(DataError, match="digits-mini is embedded"):
        load_dataset("digits-mini", root=photos)
    with pytest.raises(DataError, match=r"There is no dataset 'toi' to look for in .*Did you mean toy"):
        load_dataset("toi", root=photos)
    assert toy == []


def test_a_new_dataset_is_one_entry_and_is_given_what_was_asked(toy, photos):
    load_dataset("toy", root=photos, size=(7, 8), resize="crop", skip_bad=True, domains=["x"], seed=5)
    (request,) = toy
    assert request == LoadRequest(root=photos, size=(7, 8), resize="crop", skip_bad=True, domains=("x",), seed=5)
    assert "toy" in [entry.name for entry in list_datasets()]


def test_a_name_can_be_taken_once(toy):
    with pytest.raises(DataError, match="there already is a dataset 'toy'"):
        register_dataset(dataset_entry("toy"))(lambda request: pytest.fail("it was looked for"))
