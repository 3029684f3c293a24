"""Images inside tars and zips: found, read by their place, and never trusted."""

from __future__ import annotations

import io
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from trees import numbered, pixels_of, png, write_folder, write_tar, write_zip

from homefold.data import load_dataset, verify_folder
from homefold.data.archives import archive_images
from homefold.data.images import BadImageError
from homefold.data.registry import domain_names
from homefold.errors import DataError

NAMES = [f"top/a/{i}.png" for i in range(20)]


def _pixels(image):
    return image.pixels(size=None, resize="squash", max_megapixels=1.0)


@pytest.mark.parametrize("kind", ["tar", "deflated zip", "stored zip"])
def test_every_member_is_read_from_its_own_place_also_by_many_threads(tmp_path, kind):
    files = {**numbered(NAMES), "top/readme.txt": b"no image", "top/.hidden.png": png(1), "__MACOSX/x.png": png(2)}
    if kind == "tar":
        path = write_tar(tmp_path / "x.tar", files)
    else:
        how = zipfile.ZIP_DEFLATED if kind == "deflated zip" else zipfile.ZIP_STORED
        path = write_zip(tmp_path / "x.zip", files, how)
    found = archive_images(path)
    assert [str(name) for name, _ in found] == NAMES
    assert found[3][1].path == f"{path}/top/a/3.png"
    with ThreadPoolExecutor(8) as executor:
        pixels = list(executor.map(_pixels, [image for _, image in found] * 10))
    assert all((pixels[i] == pixels_of(i % 20)).all() for i in range(200))


def test_a_member_with_a_wrong_checksum_is_a_bad_image(tmp_path):
    path = write_zip(tmp_path / "x.zip", {"a.png": b"A" * 50 + png(0)}, zipfile.ZIP_STORED)
    (_, image), *_ = archive_images(path)
    content = path.read_bytes().replace(b"A" * 50, b"A" * 49 + b"B")
    path.write_bytes(content)
    with pytest.raises(BadImageError, match=r"x\.zip/a\.png is damaged \(its checksum is wrong\)"):
        _pixels(image)


def test_an_archive_that_ends_too_early_is_told(tmp_path):
    path = write_tar(tmp_path / "x.tar", {"a.png": png(0, side=40)})
    (_, image), *_ = archive_images(path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(BadImageError, match="is cut off"):
        _pixels(image)
    with pytest.raises(DataError, match="changed while it was being read"):
        image.stamp()


def test_what_is_no_archive_is_told(tmp_path):
    write_folder(tmp_path, {"x.tar": b"something else" * 100, "x.zip": b"something else"})
    with pytest.raises(DataError, match=r"x\.tar cannot be read as an uncompressed tar"):
        archive_images(tmp_path / "x.tar")
    with pytest.raises(DataError, match=r"x\.zip cannot be read as a zip"):
        archive_images(tmp_path / "x.zip")


def test_a_zip_packed_in_a_way_that_cannot_be_read_alone_is_told(tmp_path):
    path = write_zip(tmp_path / "x.zip", {"a.png": png(0)}, zipfile.ZIP_BZIP2)
    with pytest.raises(DataError, match="other than deflate; unpack it"):
        archive_images(path)


def test_members_that_are_no_plain_files_are_passed_over(tmp_path):
    import tarfile

    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        real = tarfile.TarInfo("real.png")
        real.size = len(png(3))
        archive.addfile(real, io.BytesIO(png(3)))
    ((name, image),) = archive_images(tmp_path / "x.tar")
    assert str(name) == "real.png"
    assert (_pixels(image) == pixels_of(3)).all()


@pytest.mark.parametrize("top", ["", "photos/", "./"])
def test_a_packed_folder_is_a_dataset(tmp_path, cache_dir, top):
    names = [f"{top}{domain}/{name}/{i}.png" for domain in "ab" for name in ("cat", "dog") for i in range(2)]
    path = write_tar(tmp_path / "photos.tar", numbered(names))
    dataset = load_dataset(path, size=(6, 6))
    assert (dataset.name, dataset.domain_names, dataset.class_names) == ("photos", ("a", "b"), ("cat", "dog"))
    assert all((image == pixels_of(i)).all() for i, image in enumerate(dataset.images))
    assert load_dataset(f"folder:{path}", size=(6, 6), domains=["b"]).labels.tolist() == [0, 0, 1, 1]
    assert domain_names(path) == ("a", "b")
    assert verify_folder(path).verdict == "ok"


def test_a_packed_folder_is_checked_like_one_that_lies_open(tmp_path, cache_dir):
    files = numbered(["a/cat/0.png", "a/dog/0.png", "b/cat/0.png"])
    packed, open_folder = write_zip(tmp_path / "p.zip", files), write_folder(tmp_path / "p", files)
    (warning,) = verify_folder(packed).warnings
    assert "The class dog has no images in b (only in a)" in warning
    assert verify_folder(open_folder).warnings == (warning,)
    apart = write_zip(tmp_path / "apart.zip", numbered(["a/cat/0.png", "b/dog/0.png"]))
    with pytest.raises(DataError, match="has no class in common with the others"):
        load_dataset(apart)
    loose = write_zip(tmp_path / "loose.zip", {**files, "b/1.png": files["a/cat/0.png"]})
    with pytest.raises(DataError, match=r"1 image in .*loose\.zip is in no class folder: .*b/1\.png"):
        load_dataset(loose)


def test_a_zip_whose_folders_are_parted_by_backslashes_is_read(tmp_path, cache_dir):
    names = [f"photos\\{domain}\\{name}\\0.png" for domain in "ab" for name in ("cat", "dog")]
    dataset = load_dataset(write_zip(tmp_path / "photos.zip", numbered(names)), size=(6, 6))
    assert (dataset.domain_names, dataset.class_names) == (("a", "b"), ("cat", "dog"))
    assert all((image == pixels_of(i)).all() for i, image in enumerate(dataset.images))


def test_a_packed_folder_of_another_shape_is_told(tmp_path, cache_dir):
    with pytest.raises(
        DataError, match=r"flat\.zip holds images directly in its folders \(cat, dog\): it has classes but no domains"
    ):
        load_dataset(write_zip(tmp_path / "flat.zip", numbered(["cat/0.png", "dog/0.png"])))
    with pytest.raises(DataError, match="no images in"):
        load_dataset(write_zip(tmp_path / "empty.zip", {"a.txt": b""}))
    one = write_zip(tmp_path / "one.zip", numbered(["a/cat/0.png", "b/cat/0.png"]))
    with pytest.raises(DataError, match="one class only"):
        load_dataset(one)
    with pytest.raises(DataError, match="no domain 'c'"):
        load_dataset(one, domains=["c"])
