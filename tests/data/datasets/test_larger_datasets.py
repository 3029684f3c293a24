"""TerraIncognita, DomainNet and Camelyon17-WILDS, in small trees of the published layouts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_named_datasets import cells, seeds
from trees import numbered, write_folder, write_zip

from homefold.data import load_dataset, verify_dataset
from homefold.data.datasets.camelyon17 import find_camelyon17
from homefold.data.datasets.domainnet import DOMAINNET_CLASSES, find_domainnet
from homefold.data.index import LoadRequest
from homefold.data.registry import dataset_entry
from homefold.data.splits import selection_split
from homefold.errors import DataError
from homefold.evaluation.protocols import LeaveOneDomainOut, source_dataset

pytestmark = pytest.mark.usefixtures("cache_dir")
SIZE = (6, 6)


TERRA = [f"{place}/{name}/{i}.png" for place in (38, 43, 46, 100) for name in ("bird", "dog", "empty") for i in "ab"]


@pytest.mark.parametrize("form", ["terra_incognita/location_{}", "L{}"])
def test_terra_incognita_by_its_locations(tmp_path, form):
    write_folder(tmp_path, {f"{form.format(*name.split('/')[:1])}{name[name.index('/') :]}": content
                            for name, content in numbered(TERRA).items()})  # fmt: skip
    dataset = load_dataset("terra-incognita", root=tmp_path, size=SIZE)
    assert dataset.domain_names == ("location_38", "location_43", "location_46", "location_100")
    assert len(dataset.class_names) == 10
    assert seeds(dataset, 24) == list(range(24))
    assert cells(dataset)[-1] == ("location_100", "empty")
    report = verify_dataset("terra-incognita", tmp_path, domains=["location_43"])
    assert report.published == {"location_43": 3970}
    assert "location_43 has 6 images, published are 3970" in " ".join(report.errors)


@pytest.mark.parametrize("lacking", [0, 1])
def test_an_earlier_release_is_as_published_too(tmp_path, monkeypatch, lacking):
    entry = dataset_entry("terra-incognita")
    assert (sum(entry.published.values()), sum(entry.earlier.values())) == (24_330, 24_788)
    smaller = replace(entry, earlier=dict.fromkeys(entry.domains, 6 + lacking))
    monkeypatch.setattr("homefold.data.verify.dataset_entry", lambda name: smaller)
    write_folder(tmp_path, {f"L{name}": content for name, content in numbered(TERRA).items()})
    for domains in (None, ["location_43"]):
        report = verify_dataset("terra-incognita", tmp_path, domains=domains)
        assert bool(report.errors) == bool(lacking)
        assert (set(report.published.values()) == {6}) == (not lacking)


NET = [
    f"{domain}/{name}/{domain}_{i}.png" for domain in ("clipart", "real") for name in ("ant", "t-shirt") for i in "012"
]


def net_lists(label: str = "0") -> dict[str, bytes]:
    """The first image of each class is trained on, the second is for testing, the third is in no list."""
    return {
        f"{domain}_{split}.txt": "".join(
            f"{domain}/{name}/{domain}_{i}.png {label}\n" for name in ("ant", "t-shirt")
        ).encode()
        for domain in ("clipart", "real")
        for i, split in enumerate(("train", "test"))
    }


def test_domainnet_has_345_classes_and_all_images_where_no_list_is(tmp_path):
    assert len(set(DOMAINNET_CLASSES)) == 345
    write_folder(tmp_path / "domain_net", numbered(NET))
    dataset = load_dataset("domainnet", root=tmp_path, size=SIZE)
    assert (dataset.domain_names, len(dataset), dataset.splits) == (("clipart", "real"), 12, ())
    assert cells(dataset)[3:6] == [("clipart", "t-shirt")] * 3


@pytest.mark.parametrize("place", [".", "splits", "packed"])
def test_domainnets_lists_say_which_images_count_and_how(tmp_path, place):
    if place == "packed":
        for domain in ("clipart", "real"):
            own = {name: content for name, content in {**numbered(NET), **net_lists()}.items() if domain in name}
            write_zip(tmp_path / f"{domain}.zip", own)
    else:
        write_folder(tmp_path, numbered(NET))
        write_folder(tmp_path / place, net_lists())
    index = find_domainnet(LoadRequest(root=tmp_path))
    assert index.splits == ("train", "test") * 4
    assert index.ignored == 4
    assert seeds(load_dataset("domainnet", root=tmp_path, size=SIZE), 12) == [0, 1, 3, 4, 6, 7, 9, 10]
    assert find_domainnet(LoadRequest(root=tmp_path, domains=("real",))).splits == ("train", "test") * 2


def test_domainnets_lists_must_be_whole_and_its_own(tmp_path):
    write_folder(tmp_path, numbered(NET))
    lists = net_lists()
    write_folder(tmp_path, {"clipart_train.txt": lists["clipart_train.txt"]})
    index = find_domainnet(LoadRequest(root=tmp_path))
    assert (len(index), index.splits) == (12, ())
    assert any("There is no list clipart_test.txt, real_train.txt, real_test.txt" in text for text in index.warnings)
    write_folder(tmp_path, {**lists, "real_test.txt": b"real/ant/other.png 6\nreal/ant/real_1.png 6\n"})
    index = find_domainnet(LoadRequest(root=tmp_path))
    assert any("1 images of the official lists are not in" in text for text in index.warnings)
    for line, reason in (
        (b"real/ant/real_0.png 6", "both hold real/ant/real_0.png"),
        (b"real/bug/a.png 1", "line 1: exp"),
    ):
        write_folder(tmp_path, {"real_test.txt": line})
        with pytest.raises(DataError, match=reason):
            find_domainnet(LoadRequest(root=tmp_path))
    write_folder(tmp_path, dict.fromkeys(lists, b"") | {"real_test.txt": b"real/ant/other.png 6"})
    with pytest.raises(DataError, match=r"None of the images in .* stands in its lists"):
        find_domainnet(LoadRequest(root=tmp_path))


ROWS = [(f"00{center}", center, x, tumor, split) for center in range(5) for x, tumor, split in
        ((1, 0, 0), (2, 1, 0), (3, 0, 1), (4, 1, 1), (5, 0, 0), (6, 1, 0))]  # fmt: skip
"""Patient, centre, place, tumour, split: as WILDS writes them, centres 1 and 2 have splits like the others."""


def camelyon(root, header: str = ",patient,node,x_coord,y_coord,tumor,slide,center,split", rows=ROWS) -> None:
    """A patch of its own for each row."""
    lines = [
        f"{i},{patient},4,{x},7,{tumor},{center},{center},{split}"
        for i, (patient, center, x, tumor, split) in enumerate(rows)
    ]
    names = [
        f"patches/patient_{patient}_node_4/patch_patient_{patient}_node_4_x_{x}_y_7.png" for patient, _, x, _, _ in rows
    ]
    write_folder(root, {"metadata.csv": "\n".join([header, *lines]).encode(), **numbered(names)})


@pytest.mark.parametrize("folder", [".", "camelyon17_v1.0"])
def test_camelyon17_by_hospital_with_the_splits_of_wilds(tmp_path, folder):
    camelyon(tmp_path / folder)
    dataset = load_dataset("camelyon17", root=tmp_path, size=SIZE)
    assert dataset.domain_names == ("center_0", "center_1", "center_2", "center_3", "center_4")
    assert dataset.class_names == ("normal", "tumor")
    assert seeds(dataset, 30) == list(range(30))
    own = ("train", "train", "val", "val", "train", "train")
    assert dataset.splits == (*own, *("val",) * 6, *("test",) * 6, *own, *own)
    assert dataset.labels.tolist() == [0, 1] * 15
    one = find_camelyon17(LoadRequest(root=tmp_path, domains=("center_3",)))
    assert (one.domain_names, one.splits) == (("center_3",), own)


def test_leaving_the_test_hospital_out_is_the_protocol_of_wilds(tmp_path):
    camelyon(tmp_path)
    dataset = load_dataset("camelyon17", root=tmp_path, size=SIZE)
    (split,) = (split for split in LeaveOneDomainOut().splits(dataset, 0) if split.targets[0].name == "center_2")
    source = source_dataset(dataset, split.source)
    train, held_out = selection_split(source, 0.1, 0)
    names = [source.domain_names[i] for i in source.domains]
    assert {names[i] for i in train} == {"center_0", "center_3", "center_4"}
    assert {names[i] for i in held_out} == {"center_0", "center_1", "center_3", "center_4"}
    assert (len(train), len(held_out), len(split.targets[0].indices)) == (12, 12, 6)


def test_camelyon17s_metadata_are_checked_line_by_line(tmp_path):
    with pytest.raises(DataError, match=r"There is no metadata\.csv in .*\. Expected metadata\.csv and patches/"):
        find_camelyon17(LoadRequest(root=tmp_path))
    camelyon(tmp_path, header=",patient,node,x_coord,y_coord,tumour,slide,center,split")
    with pytest.raises(DataError, match=r"metadata\.csv has no column tumor"):
        find_camelyon17(LoadRequest(root=tmp_path))
    camelyon(tmp_path, rows=[*ROWS[:2], ("004", 5, 1, 0, 0)])
    with pytest.raises(DataError, match=r"metadata\.csv, line 4: .* got tumor '0', center '5', split '0'"):
        find_camelyon17(LoadRequest(root=tmp_path))
    camelyon(tmp_path, rows=ROWS[:6])
    assert "lists no patches of center_1, center_2" in find_camelyon17(LoadRequest(root=tmp_path)).warnings[0]
    with pytest.raises(DataError, match="lists no patches of center_3"):
        find_camelyon17(LoadRequest(root=tmp_path, domains=("center_3",)))


def test_a_patch_that_is_not_there_is_found_by_verification(tmp_path):
    camelyon(tmp_path)
    next((tmp_path / "patches").glob("*000*/*x_3*")).unlink()
    report = verify_dataset("camelyon17", tmp_path)
    assert len(report.bad) == 1
    assert "x_3_y_7.png" in report.bad[0][0]
    assert report.images == 30
