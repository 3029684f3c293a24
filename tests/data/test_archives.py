"""Images inside tars and zips: found, read by their place, and never trusted."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from trees import numbered, pixels_of, png, verify_folder, write_folder, write_tar, write_zip

from homefold.data import load_dataset
from homefold.data.archives import archive_images, archive_texts
from homefold.data.decoding.image import BadImageError
from homefold.data.registry import domain_names
from homefold.errors import DataError

NAMES = [f"top/a/{i}.png" for i in range(20)]
_DATASET = [f"{domain}/{name}/{i}.png" for domain in "ab" for name in ("cat", "dog") for i in range(2)]
_BLOCK = 512


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


def _add(archive: tarfile.TarFile, name: str, kind: bytes, content: bytes = b"", link: str = "") -> None:
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, len(content), link
    archive.addfile(member, io.BytesIO(content))


def test_a_hard_link_inside_a_tar_shows_the_image_it_is_linked_to(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        _add(archive, "real.png", tarfile.REGTYPE, png(3))
        _add(archive, "twin.png", tarfile.LNKTYPE, link="real.png")
        _add(archive, "pipe.png", tarfile.FIFOTYPE)
        _add(archive, "folder.png", tarfile.DIRTYPE)
    found = archive_images(tmp_path / "x.tar")
    assert [str(name) for name, _ in found] == ["real.png", "twin.png"]
    assert all((_pixels(image) == pixels_of(3)).all() for _, image in found)


def test_a_link_inside_a_tar_is_not_followed_and_not_lost_in_silence(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        _add(archive, "soft.png", tarfile.SYMTYPE, link="/etc/passwd")
        _add(archive, "hard.png", tarfile.LNKTYPE, link="gone.png")
    for _, image in archive_images(tmp_path / "x.tar"):
        with pytest.raises(BadImageError, match=r"(soft|hard)\.png is a link, and links are not followed in a tar"):
            _pixels(image)
        assert image.digest() == ""


def test_an_image_stored_in_pieces_is_not_lost_in_silence(tmp_path):
    header = bytearray(tarfile.TarInfo("holes.png").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    (tmp_path / "x.tar").write_bytes(bytes(header) + bytes(2 * _BLOCK))
    ((_, image),) = archive_images(tmp_path / "x.tar")
    with pytest.raises(BadImageError, match=r"holes\.png is stored in pieces"):
        _pixels(image)


@pytest.mark.parametrize("top", ["", "photos/", "./"])
def test_a_packed_folder_is_a_dataset(tmp_path, cache_dir, top):
    path = write_tar(tmp_path / "photos.tar", numbered(f"{top}{name}" for name in _DATASET))
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
    flat = load_dataset(write_zip(tmp_path / "flat.zip", numbered(["cat/0.png", "dog/0.png"])), size=(6, 6))
    assert (flat.domain_names, flat.class_names) == (("flat",), ("cat", "dog"))
    assert all((image == pixels_of(i)).all() for i, image in enumerate(flat.images))
    with pytest.raises(DataError, match="no images in"):
        load_dataset(write_zip(tmp_path / "empty.zip", {"a.txt": b""}))
    one = write_zip(tmp_path / "one.zip", numbered(["a/cat/0.png", "b/cat/0.png"]))
    with pytest.raises(DataError, match="one class only"):
        load_dataset(one)
    with pytest.raises(DataError, match="no domain 'c'"):
        load_dataset(one, domains=["c"])


def _end_of_members(path) -> int:
    with tarfile.open(path) as archive:
        last = archive.getmembers()[-1]
    return last.offset_data + -(-last.size // _BLOCK) * _BLOCK


def _refusal(path) -> str:
    """What both readers say, which is the same."""
    with pytest.raises(DataError) as images:
        archive_images(path)
    with pytest.raises(DataError) as texts:
        archive_texts(path, ".txt")
    assert str(images.value) == str(texts.value)
    return str(images.value)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_tar_is_refused_wherever_it_is_cut(tmp_path, form):
    long_name = f"a/{'long' * 30}/0.png" if form == tarfile.USTAR_FORMAT else f"a/{'long' * 60}/0.png"
    files = {"a/cat/0.png": png(0), "a/empty.png": b"", long_name: png(1), "a/lists.txt": b"text", "b/é.png": png(2)}
    whole = write_tar(tmp_path / "whole.tar", files, form)
    content, end = whole.read_bytes(), _end_of_members(whole)
    assert len(archive_images(whole)) == 4
    cut = tmp_path / "cut.tar"
    for length in [*range(0, end + 1, _BLOCK), *range(1, end + _BLOCK, 97), end + 1, end + _BLOCK - 1]:
        cut.write_bytes(content[:length])
        sentence = _refusal(cut)
        assert sentence.startswith(f"{cut} cannot be read as an uncompressed tar ("), length
        assert "fetch it anew" in sentence


def test_one_empty_block_ends_a_tar_and_as_many_may_follow_as_programs_write(tmp_path):
    whole = write_tar(tmp_path / "x.tar", numbered(NAMES[:3]))
    content, end = whole.read_bytes(), _end_of_members(whole)
    for blocks in (1, 2, 3, 20):
        whole.write_bytes(content[:end] + bytes(blocks * _BLOCK))
        assert len(archive_images(whole)) == 3
    for record in (10_240, 1 << 15, 1 << 20):
        whole.write_bytes(content[:end].ljust(-(-(end + 2 * _BLOCK) // record) * record, b"\0"))
        assert len(archive_images(whole)) == 3


@pytest.mark.parametrize("room", [60_000, 1 << 22])
def test_a_tar_whose_room_was_made_and_not_filled_is_told(tmp_path, room):
    path = write_tar(tmp_path / "x.tar", numbered(NAMES[:3]))
    with tarfile.open(path) as archive:
        start = archive.getmembers()[2].offset
    path.write_bytes(path.read_bytes()[:start].ljust(room, b"\0"))
    with pytest.raises(
        DataError, match=rf"x\.tar cannot be read .*all is empty from byte {start}, as where a download"
    ):
        archive_images(path)


def test_every_reader_refuses_a_cut_tar(tmp_path, cache_dir):
    path = write_tar(tmp_path / "photos.tar", numbered(_DATASET))
    with tarfile.open(path) as archive:
        half = archive.getmembers()[4].offset
    path.write_bytes(path.read_bytes()[:half])
    for read in (load_dataset, domain_names, lambda path: load_dataset(f"folder:{path}")):
        with pytest.raises(DataError, match=r"photos\.tar cannot be read .* ends without the empty block"):
            read(path)
    report = verify_folder(path)
    assert report.verdict == "errors"
    assert "photos.tar cannot be read" in report.errors[0]


def test_a_damaged_header_in_the_middle_of_a_tar_is_told(tmp_path):
    path = write_tar(tmp_path / "x.tar", numbered(NAMES[:3]))
    content = path.read_bytes()
    with tarfile.open(path) as archive:
        second = archive.getmembers()[1].offset
    for damage in (b"?" * 200, bytes(_BLOCK), bytes(3 * _BLOCK)):
        path.write_bytes(content[:second] + damage + content[second + len(damage) :])
        assert f"byte {second}" in _refusal(path), damage[:1]


def test_two_tars_in_one_file_are_told(tmp_path):
    path = write_tar(tmp_path / "x.tar", numbered(NAMES[:3]))
    path.write_bytes(2 * path.read_bytes())
    assert "more follows" in _refusal(path)


@pytest.mark.parametrize("size", [-_BLOCK, -10 * _BLOCK, 2**40, 2**62])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE])
def test_a_header_that_lies_about_its_size_neither_hangs_nor_escapes(tmp_path, kind, size):
    first, lying = tarfile.TarInfo("a.png"), tarfile.TarInfo("b.png")
    lying.type = kind
    header = bytearray(lying.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (b"\xff" if size < 0 else b"\x80") + (size % 256**11).to_bytes(11, "big")
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    path = tmp_path / "x.tar"
    path.write_bytes(first.tobuf() + bytes(header) + bytes(4 * _BLOCK))
    _refusal(path)


def test_a_size_in_an_extended_header_that_leads_back_does_not_hang(tmp_path):
    member = tarfile.TarInfo("a.png")
    member.pax_headers = {"size": "-2048"}
    path = tmp_path / "x.tar"
    path.write_bytes(member.tobuf(tarfile.PAX_FORMAT) + bytes(2 * _BLOCK))
    _refusal(path)


def test_a_tar_of_nothing_but_extended_headers_is_told(tmp_path):
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    path = tmp_path / "x.tar"
    path.write_bytes(header.tobuf(tarfile.USTAR_FORMAT) * 5000 + bytes(2 * _BLOCK))
    with pytest.raises(DataError, match=r"x\.tar cannot be read as an uncompressed tar"):
        archive_images(path)


def _patched_zip(path, files, at_signature: bytes, patches: dict[int, bytes]):
    """A zip in which bytes of the last header of a kind are replaced, each at its place in the header."""
    content = bytearray(write_zip(path, files).read_bytes())
    start = content.rindex(at_signature)
    for place, new in patches.items():
        content[start + place : start + place + len(new)] = new
    path.write_bytes(content)
    return path


_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"


def test_a_zip_whose_table_lost_members_is_told(tmp_path):
    path = write_zip(tmp_path / "x.zip", numbered(NAMES[:4]))
    content = bytearray(path.read_bytes())
    first = content.index(_CENTRAL)
    second = content.index(_CENTRAL, first + 1)
    # The second entry as the comment of the first.
    content[first + 32 : first + 34] = (content.index(_CENTRAL, second + 1) - second).to_bytes(2, "little")
    path.write_bytes(content)
    assert "its table has 3 members and should have 4" in _refusal(path)


def test_a_zip_of_more_members_than_its_old_table_can_count_is_read(tmp_path):
    path = _patched_zip(tmp_path / "x.zip", numbered(NAMES[:4]), _END, {10: b"\xff\xff"})
    assert len(archive_images(path)) == 4


@pytest.mark.parametrize("size", [0, 5, 10**6, 2**32 - 2])
@pytest.mark.parametrize("place", [20, 24])
def test_a_zip_that_lies_about_a_size_has_a_bad_image(tmp_path, place, size):
    path = _patched_zip(tmp_path / "x.zip", {"a.png": png(0)}, _CENTRAL, {place: size.to_bytes(4, "little")})
    ((_, image),) = archive_images(path)
    with pytest.raises(BadImageError, match=r"a\.png is (damaged|cut off|empty|too large)"):
        _pixels(image)


@pytest.mark.parametrize("offset", [-1, -(2**70), 2**40, 2**70])
def test_a_zip_that_lies_about_a_place_has_a_bad_image(tmp_path, offset):
    ((_, image),) = archive_images(write_zip(tmp_path / "x.zip", {"a.png": png(0)}))
    with pytest.raises(BadImageError, match=r"a\.png (is damaged|cannot be read)"):
        _pixels(replace(image, offset=offset))


def test_a_zip_without_a_members_own_header_has_a_bad_image(tmp_path):
    ((_, image),) = archive_images(write_zip(tmp_path / "x.zip", {"a.png": png(0)}))
    with pytest.raises(BadImageError, match=r"the zip's header for it is not where it should be"):
        _pixels(replace(image, offset=7))


@pytest.mark.slow
def test_a_small_member_that_unfolds_to_more_than_it_says_is_not_unfolded(tmp_path):
    bomb = _patched_zip(tmp_path / "x.zip", {"a.png": bytes(10**8)}, _CENTRAL, {24: (1000).to_bytes(4, "little")})
    ((_, image),) = archive_images(bomb)
    tracemalloc.start()
    with pytest.raises(BadImageError, match=r"a\.png is damaged \(it does not unfold to the 1000 bytes it should"):
        _pixels(image)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_member_too_large_for_an_image_is_not_read(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("homefold.data.archives.LARGEST_BYTES", 1000)
    write = {"tar": write_tar, "zip": write_zip}[kind]
    found = archive_images(write(tmp_path / f"x.{kind}", {"a.png": bytes(1001), "b.png": png(0)}))
    with pytest.raises(BadImageError, match=r"a\.png is too large for an image \(1001 bytes\)"):
        _pixels(found[0][1])
    assert (_pixels(found[1][1]) == pixels_of(0)).all()


def test_a_zip_may_begin_with_something_else_and_end_with_a_comment(tmp_path):
    path = write_zip(tmp_path / "x.zip", numbered(NAMES[:3]))
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"a comment"
    found = archive_images(path)
    assert all((_pixels(image) == pixels_of(i)).all() for i, (_, image) in enumerate(found))


def test_a_zip_with_names_that_are_no_text_is_told(tmp_path):
    path = _patched_zip(tmp_path / "x.zip", {"é.png": png(0)}, _CENTRAL, {46: b"\xff"})
    assert "x.zip cannot be read as a zip" in _refusal(path)


@pytest.mark.parametrize("name", ["a\udce9/cat/0.png", "a/c\udce9t/0.png"])
def test_a_name_in_a_tar_that_is_no_text_is_refused_before_anything_is_decoded(tmp_path, cache_dir, name):
    path = write_tar(tmp_path / "x.tar", {name: b"decoding this would fail", **numbered(_DATASET)})
    with pytest.raises(DataError, match=r"The (class|domain) c?a?\\udce9t? in .*x\.tar .* not valid UTF-8") as told:
        load_dataset(path)
    str(told.value).encode()
    assert verify_folder(path).verdict == "errors"


def test_an_image_in_a_tar_may_have_any_name(tmp_path, cache_dir):
    names = [f"{domain}/{name}/\udce9\n\x1b{i}.png" for domain in "ab" for name in ("cat", "dog") for i in range(2)]
    path = write_tar(tmp_path / "x.tar", numbered(names))
    assert load_dataset(path, size=(6, 6)).images[3].tolist() == pixels_of(3).tolist()
