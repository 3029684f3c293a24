"""The named datasets, in every layout that people have them in."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import pickle
import struct

import numpy as np
import pytest
from trees import numbered, pixels_of, png, write_folder, write_tar, write_zip

from homefold import Homefold
from homefold.data import load_dataset, verify_dataset
from homefold.data.cifar10 import CIFAR10_CLASSES
from homefold.data.datasets.office_home import OFFICE_HOME_CLASSES
from homefold.data.datasets.pacs import PACS_CLASSES, PACS_COUNTS, PACS_DOMAINS, find_pacs
from homefold.data.index import LoadRequest
from homefold.data.registry import dataset_entry, domain_names, list_datasets, split_name
from homefold.errors import DataError

pytestmark = pytest.mark.usefixtures("cache_dir")
SIZE = (6, 6)


def cells(dataset) -> list[tuple[str, str]]:
    """The domain and class of each image, by name."""
    return [
        (dataset.domain_names[d], dataset.class_names[c])
        for d, c in zip(dataset.domains.tolist(), dataset.labels.tolist(), strict=True)
    ]


def seeds(dataset, known: int) -> list[int]:
    """Which of the numbered images each is."""
    by_pixels = {pixels_of(seed).tobytes(): seed for seed in range(known)}
    return [by_pixels[image.tobytes()] for image in dataset.images]


PACS = [f"{domain}/{name}/pic_{i}.png" for domain in PACS_DOMAINS for name in PACS_CLASSES for i in range(2)]
PACS_CELLS = [(domain, name) for domain in PACS_DOMAINS for name in PACS_CLASSES for _ in range(2)]


def pacs_lists(label_of=lambda name: PACS_CLASSES.index(name) + 1) -> dict[str, bytes]:
    """Official lists in which pic_0 is trained on and pic_1 is for validation, with another extension."""
    files = {}
    for domain in PACS_DOMAINS:
        for i, kind in enumerate(("train", "crossval")):
            lines = [f"{domain}/{name}/pic_{i}.jpg {label_of(name)}" for name in PACS_CLASSES]
            files[f"{domain}_{kind}_kfold.txt"] = ("\n".join(lines) + "\n").encode()
    return files


@pytest.mark.parametrize("layout", ["folders", "kfold folders", "DomainBed", "tar a domain", "bare tars", "one zip"])
def test_pacs_is_the_same_in_every_layout(tmp_path, layout):
    files, root = numbered(PACS), tmp_path / "data"
    if layout == "folders":
        write_folder(root, files)
    elif layout == "kfold folders":
        write_folder(root / "kfold", files)
    elif layout == "DomainBed":
        write_folder(root / "PACS", files)
    elif layout == "one zip":
        write_zip(root / "PACS.zip", {f"PACS/{name}": content for name, content in files.items()})
    for domain in PACS_DOMAINS if "tar" in layout else ():
        own = {name: content for name, content in files.items() if name.startswith(domain)}
        if layout == "tar a domain":
            write_tar(root / f"pacs_{domain}.tar", own)
        else:
            write_tar(root / f"{domain}.tar", {name.partition("/")[2]: content for name, content in own.items()})
    dataset = load_dataset("pacs", root=root, size=SIZE)
    assert dataset.name == "pacs"
    assert (dataset.domain_names, dataset.class_names) == (PACS_DOMAINS, PACS_CLASSES)
    assert cells(dataset) == PACS_CELLS
    assert seeds(dataset, 56) == list(range(56))
    assert dataset.splits == ()


@pytest.mark.parametrize("place", ["splits", "."])
def test_pacs_official_lists_become_splits_whatever_the_extension(tmp_path, place):
    write_folder(tmp_path, numbered(PACS))
    write_folder(tmp_path / place, pacs_lists())
    dataset = load_dataset(f"pacs:{tmp_path}", size=SIZE)
    assert dataset.splits == ("train", "val") * 28
    assert load_dataset(f"pacs:{tmp_path}", size=SIZE, domains=["photo"]).splits == ("train", "val") * 7


@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_pacs_official_lists_are_read_from_the_archive_of_the_images(tmp_path, write):
    files = {f"pacs/images/{name}": content for name, content in numbered(PACS).items()}
    lists = {f"pacs/splits/{name}": content for name, content in pacs_lists().items()}
    archive = write(tmp_path / f"pacs.{write.__name__[-3:]}", {**files, **lists})
    assert find_pacs(LoadRequest(root=archive)).splits == ("train", "val") * 28
    assert find_pacs(LoadRequest(root=tmp_path, domains=("photo",))).splits == ("train", "val") * 7


def test_a_pacs_list_that_is_no_text_is_told(tmp_path):
    write_folder(tmp_path, {**numbered(PACS), **pacs_lists(), "photo_train_kfold.txt": b"\xff\xfep"})
    with pytest.raises(DataError, match=r"photo_train_kfold\.txt is no text; take the official lists"):
        find_pacs(LoadRequest(root=tmp_path))


def test_pacs_lists_that_count_from_0_are_refused(tmp_path):
    write_folder(tmp_path, numbered(PACS))
    write_folder(tmp_path, pacs_lists(PACS_CLASSES.index))
    with pytest.raises(DataError, match=r"train_kfold\.txt, line 1: the label of dog is 1, .* count from 1; got 0"):
        load_dataset("pacs", root=tmp_path, size=SIZE)


def test_pacs_images_in_no_list_and_lists_of_no_image_are_told(tmp_path):
    write_folder(tmp_path, numbered(PACS))
    write_folder(tmp_path, pacs_lists())
    (tmp_path / "photo" / "dog" / "pic_1.png").unlink()
    index = find_pacs(LoadRequest(root=tmp_path))
    assert any("1 images of the official lists are not in" in text for text in index.warnings)
    write_folder(tmp_path, {"photo/dog/own.png": png(99)})
    with pytest.raises(DataError, match=r"stand in no official list: photo/dog/own\. Move them away"):
        find_pacs(LoadRequest(root=tmp_path))


def test_pacs_with_lists_for_some_domains_has_no_official_split(tmp_path):
    write_folder(tmp_path, numbered(PACS))
    write_folder(tmp_path, {name: text for name, text in pacs_lists().items() if not name.startswith("sketch")})
    index = find_pacs(LoadRequest(root=tmp_path))
    assert index.splits == ()
    assert any("no complete split lists for sketch" in text for text in index.warnings)


def test_unpacked_images_are_preferred_to_the_archive_beside_them(tmp_path):
    files = numbered(PACS)
    write_folder(tmp_path, files)
    write_tar(tmp_path / "pacs_photo.tar", {name: png(77) for name in files if name.startswith("photo")})
    assert seeds(load_dataset("pacs", root=tmp_path, size=SIZE), 56) == list(range(56))


def test_two_copies_of_a_domain_are_refused(tmp_path):
    write_folder(tmp_path / "one", numbered(PACS))
    write_folder(tmp_path / "two", numbered(PACS))
    with pytest.raises(DataError, match=r"art_painting of pacs is there more than once: .*one.* and .*two"):
        load_dataset("pacs", root=tmp_path, size=SIZE)


def test_a_folder_of_no_class_is_refused(tmp_path):
    write_folder(tmp_path, {**numbered(PACS), "photo/cat/0.png": png(99)})
    with pytest.raises(DataError, match=r"1 image in .* lie in no class of pacs: .*photo/cat/0\.png.*dog, elephant"):
        load_dataset("pacs", root=tmp_path, size=SIZE)


def test_other_datasets_in_the_same_folder_are_passed_over(tmp_path):
    write_folder(tmp_path / "PACS", numbered(PACS))
    others = ("office_home/Art/Alarm_Clock/1.png", "office_home/Real/Bed/1.png", "VLCS/SUN09/dog/1.png")
    write_folder(tmp_path, numbered(others))
    assert seeds(load_dataset("pacs", root=tmp_path, size=SIZE), 56) == list(range(56))
    assert find_pacs(LoadRequest(root=tmp_path)).ignored == 3


def test_a_domain_of_which_no_class_is_known_is_told(tmp_path):
    write_folder(tmp_path, {name.replace("photo/", "photo/x"): content for name, content in numbered(PACS).items()})
    with pytest.raises(DataError, match=r"14 images in .* lie in no class of pacs: .*photo/xdog/pic_0\.png"):
        load_dataset("pacs", root=tmp_path, size=SIZE)


def test_a_class_that_a_domain_lacks_is_warned_of(tmp_path):
    write_folder(tmp_path, {name: content for name, content in numbered(PACS).items() if "sketch/house" not in name})
    assert find_pacs(LoadRequest(root=tmp_path)).warnings == (f"sketch of pacs in {tmp_path} has no images of house.",)


def test_missing_domains_are_warned_of_and_refused_when_asked_for(tmp_path):
    write_folder(tmp_path, {name: content for name, content in numbered(PACS).items() if "photo" in name})
    assert domain_names(f"pacs:{tmp_path}") == ("photo",)
    assert "no images of the domain art_painting, cartoon, sketch" in find_pacs(LoadRequest(root=tmp_path)).warnings[0]
    with pytest.raises(DataError, match="no images of the domain sketch of pacs"):
        load_dataset("pacs", root=tmp_path, domains=["sketch"])
    with pytest.raises(DataError, match=r"no domain 'sketches' in pacs; it has art_painting"):
        load_dataset("pacs", root=tmp_path, domains=["sketches"])


def test_a_folder_that_may_not_be_read_is_told_and_not_passed_over(tmp_path, monkeypatch):
    import os

    write_folder(tmp_path, numbered(PACS))
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("house"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"folder .*house may not be read .*make it readable"):
        find_pacs(LoadRequest(root=tmp_path))


def test_nothing_found_says_what_was_expected(tmp_path):
    with pytest.raises(DataError, match=r"no images of pacs in .*Expected …/<domain>/<class>"):
        load_dataset("pacs", root=tmp_path)
    with pytest.raises(DataError, match="There is no folder or archive"):
        load_dataset("pacs", root=tmp_path / "gone")
    (tmp_path / "pacs.tar.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"pacs\.tar\.gz is compressed as a whole.*unpack it first"):
        load_dataset("pacs", root=tmp_path)


VLCS = ("caltech", "labelme", "pascal", "sun")
VLCS_CLASSES = ("bird", "car", "chair", "dog", "person")


def test_vlcs_as_domainbed_has_it(tmp_path):
    folders = ("Caltech101", "LabelMe", "VOC2007", "SUN09")
    write_folder(tmp_path / "VLCS", numbered(f"{d}/{c}/{i}.png" for d in folders for c in VLCS_CLASSES for i in (0, 1)))
    dataset = load_dataset("vlcs", root=tmp_path, size=SIZE)
    assert cells(dataset) == [(d, c) for d in VLCS for c in VLCS_CLASSES for _ in (0, 1)]
    assert seeds(dataset, 40) == list(range(40))
    assert dataset.splits == ()


def test_vlcs_with_splits_takes_each_image_once_and_none_for_two_purposes(tmp_path):
    files = {}
    for d, domain in enumerate(("CALTECH", "LABELME", "PASCAL", "SUN")):
        for c in range(5):
            for i, split in enumerate(("train", "train", "test", "crossval")):
                files[f"{domain}/{split}/{c}/im_{i}.png"] = png(100 * d + 10 * c + i)
            files[f"{domain}/train/{c}/im_3.png"] = png(100 * d + 10 * c + 3)
            files[f"{domain}/test/{c}/im_0.png"] = png(100 * d + 10 * c + 4)
            for i in range(4):
                files[f"{domain}/full/{c}/im_{i}.png"] = png(100 * d + 10 * c + i)
    write_folder(tmp_path, files)
    dataset = load_dataset("vlcs", root=tmp_path, size=SIZE)
    assert len(dataset) == 4 * 5 * 5
    by_seed = dict(zip(seeds(dataset, 400), dataset.splits, strict=True))
    expected = {0: "train", 1: "train", 2: "test", 3: "val", 4: "test"}
    assert by_seed == {100 * d + 10 * c + i: s for d in range(4) for c in range(5) for i, s in expected.items()}
    assert set(cells(dataset)) == {(d, c) for d in VLCS for c in VLCS_CLASSES}


def test_vlcs_in_the_names_of_its_copy_with_splits(tmp_path):
    splits = ("train", "crossval", "test")
    files = numbered(f"SUN/{split}/{c}/{split}_imgs_{c + 1}.png" for c in range(5) for split in splits)
    full = {name.replace("/train/", "/full/").replace("/crossval/", "/full/"): files[name] for name in files}
    full = {name: content for name, content in full.items() if "/full/" in name}
    everything = write_folder(tmp_path / "everything", {**files, **full})
    dataset = load_dataset("vlcs", root=everything, size=SIZE)
    assert dict(zip(seeds(dataset, 15), dataset.splits, strict=True)) == dict(enumerate(("train", "val", "test") * 5))
    tested = {name: content for name, content in files.items() if "/test/" in name}
    dataset = load_dataset("vlcs", root=write_folder(tmp_path / "two", {**tested, **full}), size=SIZE)
    assert dict(zip(seeds(dataset, 15), dataset.splits, strict=True)) == dict(enumerate(("train", "train", "test") * 5))


def test_vlcs_full_alone_has_no_split(tmp_path):
    write_folder(tmp_path, numbered(f"SUN/full/{c}/0.png" for c in range(5)))
    dataset = load_dataset("vlcs", root=tmp_path, size=SIZE)
    assert (len(dataset), dataset.splits) == (5, ())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Real World", "Real_World", "RealWorld"])
def test_office_home_real_world_may_be_written_in_any_way(tmp_path, name):
    folders = ("Art", "Clipart", "Product", name)
    write_folder(tmp_path, numbered(f"{folder}/{c}/00001.png" for folder in folders for c in OFFICE_HOME_CLASSES))
    dataset = load_dataset("office-home", root=tmp_path, size=SIZE)
    assert dataset.domain_names == ("art", "clipart", "product", "real_world")
    assert len(dataset.class_names) == 65
    assert seeds(dataset, 260) == list(range(260))


@pytest.mark.parametrize("packed", [False, True])
def test_digits_dg_has_its_official_split(tmp_path, packed):
    domains = ("mnist", "mnist_m", "svhn", "syn")
    names = [f"digits_dg/{d}/{s}/{c}/0.png" for d in domains for c in range(10) for s in ("train", "val")]
    files = numbered(names)
    root = write_zip(tmp_path / "digits_dg.zip", files) if packed else write_folder(tmp_path, files)
    dataset = load_dataset("digits-dg", root=root, size=SIZE)
    assert seeds(dataset, 80) == list(range(80))
    assert dataset.splits == ("train", "val") * 40
    assert cells(dataset)[::2] == [(d, str(c)) for d in domains for c in range(10)]
    assert load_dataset("digits-dg", root=root).image_size == (32, 32)


def test_images_beside_the_folders_of_a_split_are_refused(tmp_path):
    write_folder(tmp_path, numbered(["mnist/train/0/0.png", "mnist/0/1.png"]))
    with pytest.raises(DataError, match="in folders of splits and beside them"):
        load_dataset("digits-dg", root=tmp_path)


def test_a_named_dataset_can_be_written_with_its_path(tmp_path):
    write_folder(tmp_path / "p", numbered(PACS))
    assert split_name(f"pacs:{tmp_path}/p") == ("pacs", tmp_path / "p")
    assert split_name("C:/photos") == ("C:/photos", None)
    assert dataset_entry(f"pacs:{tmp_path}/p").domains == PACS_DOMAINS
    assert len(load_dataset(f"folder:{tmp_path}/p", size=SIZE)) == 56
    with pytest.raises(DataError, match="so does root"):
        load_dataset(f"pacs:{tmp_path}/p", root=tmp_path)
    with pytest.raises(DataError, match="embedded"):
        load_dataset(f"digits-mini:{tmp_path}")


def test_fitting_to_a_named_dataset_never_decodes_the_domain_held_out(tmp_path, monkeypatch, quick_config):
    files = numbered(name for name in PACS if "/dog/" in name or "/house/" in name)
    write_folder(tmp_path, {name: b"no image" if name.startswith("sketch") else files[name] for name in files})
    seen = []

    def stop(config, net, dataset, *rest, **settings):
        seen.append(dataset)
        raise KeyboardInterrupt

    monkeypatch.setattr("homefold.stages.features.train_features", stop)
    with pytest.raises(KeyboardInterrupt):
        Homefold(quick_config, device="cpu").fit(f"pacs:{tmp_path}", holdout="sketch")
    assert seen[0].domain_names == ("art_painting", "cartoon", "photo")
    assert len(seen[0]) == 12


def _digit_arrays(n: int, side: int, seed: int, colour: bool = False) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    shape = (n, side, side, 3) if colour else (n, side, side)
    return random.integers(0, 256, shape, dtype=np.uint8), np.arange(n, dtype=np.uint8) % 10


def test_few_shot_digits_from_npz(tmp_path):
    for seed, (domain, side) in enumerate((("mnist", 28), ("usps", 16))):
        x_train, y_train = _digit_arrays(20, side, seed)
        x_test, y_test = _digit_arrays(10, side, seed + 10)
        np.savez(tmp_path / f"{domain}.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    x_test, y_test = _digit_arrays(10, 32, 5, colour=True)
    np.savez(tmp_path / "svhn_test.npz", x_test=x_test, y_test=y_test)
    dataset = load_dataset("digits-few-shot", root=tmp_path)
    assert dataset.domain_names == ("mnist", "usps", "svhn")
    assert dataset.images.shape == (70, 32, 32, 3)
    assert dataset.splits == (("train",) * 20 + ("test",) * 10) * 2 + ("test",) * 10
    assert dataset.only("svhn").images.tolist() == x_test.tolist()
    assert dataset.labels[:10].tolist() == list(range(10))
    small = load_dataset("digits-few-shot", root=tmp_path, domains=["usps"], size=(16, 16))
    assert small.images[0, :, :, 1].tolist() == _digit_arrays(20, 16, 1)[0][0].tolist()


def test_few_shot_svhn_borrows_training_images_from_digits_dg_and_says_so(tmp_path):
    x_test, y_test = _digit_arrays(10, 32, 5, colour=True)
    np.savez(tmp_path / "svhn.npz", x_test=x_test, y_test=y_test)
    write_zip(tmp_path / "digits_dg.zip", {f"digits_dg/svhn/train/{c}/0.png": png(c, 32) for c in range(10)})
    index = dataset_entry("digits-few-shot").index(LoadRequest(root=tmp_path, domains=("svhn",)))
    assert index.splits == ("train",) * 10 + ("test",) * 10
    assert "Digits-DG beside it (10 of them) stand in" in index.warnings[0]
    dataset = load_dataset("digits-few-shot", root=tmp_path, domains=["svhn"])
    assert dataset.images[3].tolist() == pixels_of(3, 32).tolist()


def test_few_shot_digits_as_torchvision_leaves_them(tmp_path):
    from scipy.io import savemat

    images, labels = _digit_arrays(10, 28, 0)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 10, 28, 28) + images.tobytes())
    (raw / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 10) + labels.tobytes())
    (raw / "t10k-images-idx3-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">IIII", 0x803, 10, 28, 28) + images.tobytes())
    )
    (raw / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">II", 0x801, 10) + labels.tobytes()))
    lines = [f"{i + 1} " + " ".join(f"{j + 1}:{1.0 if j == i else -1.0}" for j in range(256)) for i in range(10)]
    (tmp_path / "usps.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))
    house, _ = _digit_arrays(10, 32, 2, colour=True)
    savemat(tmp_path / "train_32x32.mat", {"X": house.transpose(1, 2, 3, 0), "y": np.arange(1, 11)[:, None]})
    dataset = load_dataset("digits-few-shot", root=tmp_path)
    assert dataset.splits == ("train",) * 10 + ("test",) * 10 + ("train",) * 20
    assert dataset.labels.tolist() == [*range(10), *range(10), *range(10), *range(1, 10), 0]
    assert dataset.only("svhn").images.tolist() == house.tolist()
    usps = load_dataset("digits-few-shot", root=tmp_path, domains=["usps"], size=(16, 16))
    assert np.argwhere(usps.images[3, :, :, 0]).tolist() == [[0, 3]]
    assert usps.images[3, 0, 3].tolist() == [255, 255, 255]


def test_fashion_beside_mnist_in_files_of_the_same_names_is_never_taken_for_it(tmp_path):
    labels = np.arange(10, dtype=np.uint8)
    for folder, grey in (("FashionMNIST", 1), ("KMNIST", 2), ("MNIST", 3)):
        raw = tmp_path / folder / "raw"
        raw.mkdir(parents=True)
        images = np.full((10, 28, 28), grey, dtype=np.uint8)
        (raw / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 10, 28, 28) + images.tobytes())
        (raw / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 10) + labels.tobytes())
    dataset = load_dataset("digits-few-shot", root=tmp_path, domains=["mnist"])
    assert np.unique(dataset.images).tolist() == [3]


def test_digits_with_one_channel_are_taken_and_with_the_channels_first_told(tmp_path):
    images, labels = _digit_arrays(10, 32, 0)
    np.savez(tmp_path / "usps.npz", x_train=images[..., None], y_train=labels)
    taken = load_dataset("digits-few-shot", root=tmp_path, domains=["usps"])
    assert taken.images[..., 1].tolist() == images.tolist()
    np.savez(tmp_path / "usps.npz", x_train=np.zeros((10, 3, 32, 32), np.uint8), y_train=labels)
    with pytest.raises(DataError, match=r"it holds uint8 \(10, 3, 32, 32\)\. Save the images in that form"):
        load_dataset("digits-few-shot", root=tmp_path, domains=["usps"])
    assert "Save the images" in verify_dataset("digits-few-shot", tmp_path, domains=["usps"]).errors[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    ("dataset", "pipe"),
    [
        ("pacs", "photo_train_kfold.txt"),
        ("digits-few-shot", "mnist.npz"),
        ("digits-few-shot", "t10k-labels-idx1-ubyte"),
        ("digits-few-shot", "usps.bz2"),
        ("digits-few-shot", "test_32x32.mat"),
        ("cifar10-c", "data_batch_1"),
        ("cifar10-c", "fog.npy"),
    ],
)
def test_a_pipe_in_place_of_a_file_is_told(tmp_path, dataset, pipe):
    write_folder(tmp_path, {**numbered(PACS), "t10k-images-idx3-ubyte": b"", "labels.npy": b""})
    for number in range(2, 6):
        (tmp_path / f"data_batch_{number}").touch()
    os.mkfifo(tmp_path / pipe)
    with pytest.raises(DataError, match=rf"{pipe} is a pipe, not a file; save what comes from it"):
        load_dataset(dataset, root=tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_called_like_images_or_archives_are_passed_over(tmp_path):
    write_folder(tmp_path, numbered(PACS))
    os.mkfifo(tmp_path / "photo" / "dog" / "pipe.png")
    os.mkfifo(tmp_path / "sketch.tar")
    assert len(load_dataset("pacs", root=tmp_path, size=(6, 6))) == len(PACS)


def test_damaged_digit_files_are_named(tmp_path):
    (tmp_path / "mnist.npz").write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"mnist\.npz cannot be read"):
        load_dataset("digits-few-shot", root=tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros((2, 28, 28), np.uint8), y_train=np.array([3, 10]))
    with pytest.raises(DataError, match=r"run from 3 to 10; there are 10 classes"):
        load_dataset("digits-few-shot", root=tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros((3, 28, 28), np.uint8), y_train=np.array([3, 1]))
    with pytest.raises(DataError, match="expected to hold 2 uint8 images"):
        load_dataset("digits-few-shot", root=tmp_path)


def _idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


def _saved(save, *arrays, **named) -> bytes:
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


_IMAGES, _LABELS = np.arange(5 * 4 * 4, dtype=np.uint8).reshape(5, 4, 4), np.arange(5, dtype=np.uint8)
_DAMAGED = {
    "npz": ("digits-few-shot", {"mnist.npz": _saved(np.savez_compressed, x_train=_IMAGES, y_train=_LABELS)}),
    "idx": (
        "digits-few-shot",
        {
            "train-labels-idx1-ubyte.gz": gzip.compress(_idx(_LABELS)),
            "train-images-idx3-ubyte.gz": gzip.compress(_idx(_IMAGES)),
        },
    ),
    "npy": ("cifar10-c", {"labels.npy": _saved(np.save, _LABELS), "fog.npy": _saved(np.save, _IMAGES)}),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid escape sequence")
@pytest.mark.parametrize("kind", _DAMAGED)
def test_a_file_of_arrays_that_is_damaged_anywhere_gives_images_or_a_sentence(tmp_path, kind):
    dataset, files = _DAMAGED[kind]
    write_folder(tmp_path, files)
    name, content = next(iter(files.items()))
    refused = 0
    for place in range(0, len(content), max(1, len(content) // 100)):
        for value in (0x00, 0x5C, 0xFF):
            (tmp_path / name).write_bytes(content[:place] + bytes([value]) + content[place + 1 :])
            try:
                load_dataset(dataset, root=tmp_path, size=(4, 4), use_cache=False)
            except DataError:
                refused += 1
    assert refused > 20


@pytest.fixture
def cifar(tmp_path):
    """Four images a batch, ten a severity."""
    batches = tmp_path / "cifar-10-batches-py"
    batches.mkdir()
    clean, labels = _digit_arrays(20, 32, 0, colour=True)
    for i in range(5):
        rows = clean[4 * i : 4 * i + 4].transpose(0, 3, 1, 2).reshape(4, 3072)
        content = {b"data": rows, b"labels": labels[4 * i : 4 * i + 4].tolist(), b"batch_label": b"a batch"}
        (batches / f"data_batch_{i + 1}").write_bytes(pickle.dumps(content, protocol=2))
    corrupted = tmp_path / "CIFAR-10-C"
    corrupted.mkdir()
    for seed, name in enumerate(("fog", "spatter"), start=1):
        np.save(corrupted / f"{name}.npy", _digit_arrays(50, 32, seed, colour=True)[0])
    np.save(corrupted / "labels.npy", np.arange(50, dtype=np.uint8) % 10)
    return tmp_path


@pytest.mark.slow
def test_cifar_corruptions_and_severities_are_domains(cifar):
    assert domain_names(f"cifar10-c:{cifar}") == (
        "clean",
        *(f"{name}-{severity}" for name in ("fog", "spatter") for severity in range(1, 6)),
    )
    assert len(dataset_entry("cifar10-c").domains) == 1 + 19 * 5
    clean = load_dataset("cifar10-c", root=cifar, domains=["clean"])
    assert clean.images.tolist() == _digit_arrays(20, 32, 0, colour=True)[0].tolist()
    assert clean.class_names == CIFAR10_CLASSES
    assert set(clean.splits) == {"train"}
    fog = _digit_arrays(50, 32, 1, colour=True)[0]
    third = load_dataset("cifar10-c", root=cifar, domains=["fog-3"])
    assert third.images.tolist() == fog[20:30].tolist()
    assert isinstance(third.images, np.memmap)
    assert third.labels.tolist() == list(range(10))
    assert set(third.splits) == {"test"}
    mixed = load_dataset("cifar10-c", root=cifar, domains=["spatter-1", "fog-5", "clean"], size=(32, 32))
    assert mixed.domain_names == ("spatter-1", "fog-5", "clean")
    assert mixed.images[10:20].tolist() == fog[40:].tolist()
    two = load_dataset("cifar10-c", root=cifar, domains=["fog-2", "fog-3"])
    assert (two.images.tolist(), two.domains.tolist()) == (fog[10:30].tolist(), [0] * 10 + [1] * 10)
    assert load_dataset("cifar10-c", root=cifar, domains=["fog-3"], size=(8, 8)).images.shape == (10, 8, 8, 3)


def test_an_unknown_corruption_and_missing_labels_are_told(cifar):
    with pytest.raises(DataError, match=r"no domain 'fog' in cifar10-c; .*such as fog-3"):
        load_dataset("cifar10-c", root=cifar, domains=["fog"])
    with pytest.raises(DataError, match="no files of snow-1"):
        load_dataset("cifar10-c", root=cifar, domains=["snow-1"])
    (cifar / "CIFAR-10-C" / "labels.npy").unlink()
    with pytest.raises(DataError, match=r"no labels\.npy beside"):
        load_dataset("cifar10-c", root=cifar, domains=["fog-1"])


def test_the_corruptions_of_cifar100_beside_it_are_not_taken(cifar):
    other = cifar / "CIFAR-100-C"
    other.mkdir()
    np.save(other / "snow.npy", _digit_arrays(50, 32, 9, colour=True)[0])
    np.save(other / "labels.npy", np.arange(50, dtype=np.uint8))
    with pytest.raises(DataError, match="no files of snow-1"):
        load_dataset("cifar10-c", root=cifar, domains=["snow-1"])


def test_cifar_from_npz(tmp_path):
    images, labels = _digit_arrays(10, 32, 0, colour=True)
    np.savez(tmp_path / "cifar10.npz", x_train=images, y_train=labels)
    assert load_dataset("cifar10-c", root=tmp_path).images.tolist() == images.tolist()


class _Attack:
    def __reduce__(self):
        return (print, ("this ran",))


def test_a_pickle_that_asks_for_anything_but_data_is_refused_and_runs_nothing(cifar, capsys):
    content = {b"data": _Attack(), b"labels": []}
    (cifar / "cifar-10-batches-py" / "data_batch_2").write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=r"data_batch_2 cannot be read .* \(it asks for builtins\.print"):
        load_dataset("cifar10-c", root=cifar, domains=["clean"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({b"\xff": 1}, "can't decode byte 0xff"),
        ([1, 2], "it holds a list, not a dict"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": ["a"]}, "invalid literal"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [2**70]}, "too large"),
    ],
)
def test_a_pickle_of_other_data_is_told(cifar, content, reason):
    (cifar / "cifar-10-batches-py" / "data_batch_2").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=rf"data_batch_2 cannot be read as a .* of CIFAR-10 \(.*{reason}"):
        load_dataset("cifar10-c", root=cifar, domains=["clean"])


def test_an_array_cannot_be_made_of_another_type(cifar):
    class Odd(np.ndarray):
        pass

    import homefold.data.arrays as restricted

    with pytest.raises(pickle.UnpicklingError):
        restricted._rebuild_array(Odd, (0,), b"b")


def test_every_entry_says_all_a_person_must_know_and_its_published_counts_fit_it():
    names = {"pacs", "vlcs", "office-home", "digits-dg", "cifar10-c", "digits-few-shot", "digits-mini"}
    names |= {"camelyon17", "domainnet", "terra-incognita"}
    names |= {"folder", "manifest", "pattern", "saved-dataset", "webdataset"}
    entries = {entry.name: entry for entry in list_datasets()}
    assert set(entries) == names
    totals = {}
    for name, entry in entries.items():
        if entry.published:
            assert tuple(entry.published) == entry.domains
            per_domain = [n if isinstance(n, int) else sum(n.values()) for n in entry.published.values()]
            totals[name] = sum(per_domain)
            assert all(isinstance(n, int) or tuple(n) == entry.classes for n in entry.published.values())
    assert totals == {
        "pacs": 9_991,
        "vlcs": 10_729,
        "office-home": 15_588,
        "digits-dg": 24_000,
        "cifar10-c": 50_000 + 19 * 5 * 10_000,
        "digits-few-shot": 70_000 + 9_298 + 99_289,
        "camelyon17": 455_954,
        "domainnet": 586_575,
        "terra-incognita": 24_330,
    }
    assert {domain: sum(counts) for domain, counts in PACS_COUNTS.items()} == {
        "art_painting": 2048,
        "cartoon": 2344,
        "photo": 1670,
        "sketch": 3929,
    }


def test_real_pacs_has_the_published_counts_and_splits(real_data):
    index = find_pacs(LoadRequest(root=real_data / "pacs"))
    assert index.counts().tolist() == [list(PACS_COUNTS[domain]) for domain in PACS_DOMAINS]
    splits = np.array(index.splits)
    assert [[int((splits[index.domains == d] == s).sum()) for s in ("train", "val")] for d in range(4)] == [
        [1840, 208],
        [2107, 237],
        [1499, 171],
        [3531, 398],
    ]
    assert index.warnings == ()
