"""Making CIFAR-10-C: the published layout, from any form of CIFAR-10, stopped and resumed."""

from __future__ import annotations

import io
import shutil
import tarfile

import numpy as np
import pytest
from PIL import Image
from trees import write_folder

from homefold.cli.app import main
from homefold.data import corrupted, load_dataset, verify_dataset
from homefold.data.cifar10 import CIFAR10_CLASSES, cifar10_images
from homefold.data.corrupted import make_cifar10_c
from homefold.data.corruptions import corrupt
from homefold.errors import DataError
from homefold.runtime.seeding import derive_seed

pytestmark = pytest.mark.usefixtures("cache_dir")
TWO = ("fog", "saturate")


@pytest.fixture
def cifar(tmp_path):
    """Twelve test images."""
    images = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    np.savez(tmp_path / "cifar10.npz", x_test=images, y_test=np.arange(12) % 10, x_train=images[:2], y_train=[0, 1])
    return tmp_path


def test_a_file_has_five_blocks_of_severities_and_is_read_back(cifar):
    folder, made = make_cifar10_c(cifar, corruptions=TWO)
    assert folder == cifar / "CIFAR-10-C"
    assert [path.name for path in made] == ["fog.npy", "saturate.npy"]
    clean = np.load(cifar / "cifar10.npz")["x_test"]
    saturated = np.load(folder / "saturate.npy")
    assert (saturated.shape, saturated.dtype) == ((60, 32, 32, 3), np.uint8)
    for severity in range(1, 6):
        expected = corrupt(clean, "saturate", severity, np.random.default_rng())
        assert (saturated[12 * (severity - 1) : 12 * severity] == expected).all()
    assert np.load(folder / "labels.npy").tolist() == (np.arange(12) % 10).tolist() * 5
    third = load_dataset("cifar10-c", root=cifar, domains=["saturate-3"])
    assert third.images.tolist() == saturated[24:36].tolist()
    assert verify_dataset("cifar10-c", cifar, domains=["fog-1"]).counts["fog-1"]["airplane"] == 2


def test_what_is_drawn_depends_on_seed_corruption_severity_and_place(cifar, monkeypatch):
    monkeypatch.setattr(corrupted, "_CHUNK", 5)
    folder, _ = make_cifar10_c(cifar, corruptions=["fog"], seed=3)
    clean, found = np.load(cifar / "cifar10.npz")["x_test"], np.load(folder / "fog.npy")
    draws = np.random.default_rng(derive_seed(3, "cifar10-c", "fog", 2, 5))
    assert (found[12 + 5 : 12 + 10] == corrupt(clean[5:10], "fog", 2, draws)).all()
    other, _ = make_cifar10_c(cifar, cifar / "other", corruptions=["fog"], seed=4)
    assert (np.load(other / "fog.npy") != found).any()


def test_a_stopped_run_goes_on_and_replaces_nothing(cifar):
    folder, _ = make_cifar10_c(cifar, corruptions=TWO)
    before = (folder / "fog.npy").read_bytes()
    (folder / "fog.npy").unlink()
    kept = (folder / "saturate.npy").stat()
    assert make_cifar10_c(cifar, corruptions=TWO)[1] == [folder / "fog.npy"]
    assert (folder / "fog.npy").read_bytes() == before
    assert (folder / "saturate.npy").stat() == kept
    assert make_cifar10_c(cifar, corruptions=TWO)[1] == []


def test_a_run_that_fails_leaves_no_half_file(cifar, monkeypatch):
    monkeypatch.setattr(np, "save", lambda file, array: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make_cifar10_c(cifar, corruptions=["fog"])
    assert [path.name for path in (cifar / "CIFAR-10-C").iterdir()] == ["made.json"]


def test_files_of_another_origin_are_left_alone(cifar):
    make_cifar10_c(cifar, corruptions=["fog"])
    with pytest.raises(DataError, match=r"was made from other images or with another seed .* give another folder"):
        make_cifar10_c(cifar, corruptions=["snow"], seed=1)
    (cifar / "CIFAR-10-C" / "made.json").unlink()
    with pytest.raises(DataError, match="holds files that homefold has not made, perhaps the published ones"):
        make_cifar10_c(cifar, corruptions=["snow"])


@pytest.mark.slow
def test_some_severities_are_files_of_their_own(cifar):
    folder, made = make_cifar10_c(cifar, corruptions=["fog"], severities=[2, 5])
    assert [path.name for path in made] == ["fog-2.npy", "fog-5.npy"]
    two = load_dataset("cifar10-c", root=cifar, domains=["fog-2", "fog-5"])
    assert two.images[:12].tolist() == np.load(folder / "fog-2.npy").tolist()
    assert two.labels.tolist() == (np.arange(12) % 10).tolist() * 2
    with pytest.raises(DataError, match="no files of fog-1"):
        load_dataset("cifar10-c", root=cifar, domains=["fog-1"])
    make_cifar10_c(cifar, corruptions=["fog"])
    whole = np.load(folder / "fog.npy")
    assert whole[12:24].tolist() == two.images[:12].tolist()


def test_room_on_the_disk_is_looked_for_first(cifar, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, 100))
    with pytest.raises(DataError, match=r"needs 0\.0 GB and the disk has 0\.0 GB free; make room, .* --severities"):
        make_cifar10_c(cifar)
    assert not (cifar / "CIFAR-10-C").exists()


def test_without_test_images_it_is_said_what_was_expected(tmp_path):
    with pytest.raises(DataError, match=r"no test images of CIFAR-10 in .* cifar10\.npz .* folders \{train,test\}"):
        make_cifar10_c(tmp_path)


def test_the_command_says_what_it_made_and_refuses_what_it_cannot_make(cifar, capsys):
    assert main(["data", "make", "cifar10-c", str(cifar), "--corruptions", "fog", "--severities", "3"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{cifar / 'CIFAR-10-C'}: 1 file made.\n"
    assert f"homefold data verify cifar10-c {cifar} --counts-only" in said.err
    for words, reason in (
        (["pacs", str(cifar)], "makes cifar10-c and nothing else; got 'pacs'"),
        (["cifar10-c", str(cifar), "--corruptions", "fgo"], "--corruptions takes gaussian_noise"),
        (["cifar10-c", str(cifar), "--severities", "6"], "--severities takes 1, 2, 3, 4, 5; got 6"),
    ):
        assert main(["data", "make", *words]) != 0
        assert reason in capsys.readouterr().err


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=75)
    return file.getvalue()


FILES = {
    f"{split}/{name}/{number:04}.jpg": jpeg(100 * place + number)
    for place, split in enumerate(("train", "test"))
    for name in CIFAR10_CLASSES
    for number in range(1 + place)
}


@pytest.mark.parametrize("form", ["tree", "tar.xz", "tar"])
def test_cifar_is_read_as_a_tree_of_jpegs_and_packed(tmp_path, form):
    if form == "tree":
        write_folder(tmp_path / "cifar", FILES)
    else:
        with tarfile.open(tmp_path / f"cifar10_jpeg.{form}", "w:xz" if form == "tar.xz" else "w") as archive:
            for name in sorted(FILES, reverse=True):
                member = tarfile.TarInfo(f"./{name}")
                member.size = len(FILES[name])
                archive.addfile(member, io.BytesIO(FILES[name]))
    for split, a_class in (("train", 1), ("test", 2)):
        (part,) = cifar10_images(tmp_path, split)
        assert part.labels.tolist() == np.repeat(np.arange(10), a_class).tolist()
        shown = [source.pixels(size=None, resize="squash", max_megapixels=1) for source in part.images]
        expected = [FILES[name] for name in FILES if name.startswith(split)]
        assert all(
            (image == np.asarray(Image.open(io.BytesIO(content)))).all()
            for image, content in zip(shown, expected, strict=True)
        )
    clean = load_dataset("cifar10-c", root=tmp_path, domains=["clean"])
    assert clean.labels.tolist() == list(range(10))
    assert make_cifar10_c(tmp_path, corruptions=["contrast"])[1]
    assert len(load_dataset("cifar10-c", root=tmp_path, domains=["contrast-5"])) == 20


def test_a_tree_without_a_class_and_a_tar_without_images_are_told(tmp_path):
    write_folder(tmp_path / "a", {name: content for name, content in FILES.items() if "/truck/" not in name})
    with pytest.raises(DataError, match=r"CIFAR-10 is incomplete: there is no folder .*truck"):
        cifar10_images(tmp_path / "a", "train")
    packed = tmp_path / "b" / "cifar10.tar.gz"
    packed.parent.mkdir()
    with tarfile.open(packed, "w:gz"):
        pass
    with pytest.raises(DataError, match=r"cifar10\.tar\.gz has no images train/<class>/<image>"):
        cifar10_images(packed.parent, "train")
    packed.write_bytes(b"no tar")
    with pytest.raises(DataError, match=r"cannot be read as a tar of CIFAR-10's images"):
        cifar10_images(packed.parent, "train")


def test_a_tar_of_cifar100_is_not_taken(tmp_path):
    shutil.copy(__file__, tmp_path / "cifar100_jpeg.tar.xz")
    assert cifar10_images(tmp_path, "train") == []
