"""Image folders: what is found, what is decoded, and the sentence for everything that is amiss."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trees import load_folder, scan_folder

from homefold.data import LoadRequest, find_images, load_images
from homefold.data.decoding.many import map_images
from homefold.data.registry import domain_names
from homefold.errors import DataError

AS_ROOT = os.name == "nt" or getattr(os, "geteuid", lambda: 1)() == 0


class Listener:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.tasks: list[tuple[str, int]] = []
        self.steps = 0

    @contextmanager
    def task(self, description, total):
        self.tasks.append((description, total))
        yield self

    def advance(self, steps: int = 1, **facts: object) -> None:
        self.steps += steps

    def message(self, text: str) -> None:
        self.messages.append(text)


def _image(path: Path, colour: Sequence[int] = (10, 20, 30), side: int = 6) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side, side), tuple(colour)).save(path)
    return path


def _bad(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("this is not an image")
    return path


@pytest.fixture
def photos(tmp_path):
    """Two domains of two classes, two images in each; the colour says which image it is."""
    root = tmp_path / "photos"
    for d, domain in enumerate(("inside", "outside")):
        for c, name in enumerate(("cat", "dog")):
            for i in range(2):
                _image(root / domain / name / f"{i}.png", (100 * d, 100 * c, 100 * i))
    return root


def test_labels_domains_and_pixels_belong_together(photos):
    dataset = load_folder(photos, size=(4, 4))
    assert dataset.name == "photos"
    assert dataset.class_names == ("cat", "dog")
    assert dataset.domain_names == ("inside", "outside")
    assert dataset.images.shape == (8, 4, 4, 3)
    assert dataset.images[:, 0, 0].tolist() == [
        [100 * d, 100 * c, 100 * i] for d in range(2) for c in range(2) for i in range(2)
    ]
    assert dataset.domains.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert dataset.labels.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert dataset.paths[5] == str(photos / "outside" / "cat" / "1.png")
    assert dataset.skipped == ()


def test_the_order_does_not_depend_on_the_number_of_threads(tmp_path):
    for i in range(60):
        _image(tmp_path / "d" / f"class{i % 3}" / f"{i}.png", (i, i, i), side=1 + i * 7 % 50)
    alone, many = (load_folder(tmp_path, size=(8, 8), workers=workers) for workers in (1, 8))
    assert alone.fingerprint() == many.fingerprint()
    assert alone.paths == many.paths == tuple(sorted(alone.paths))


def test_images_below_a_class_belong_to_it_and_other_files_are_counted(photos):
    _image(photos / "inside" / "cat" / "2020" / "may" / "x.JPG")
    for stray in ("notes.txt", ".hidden.jpg", "inside/Thumbs.db", "inside/cat/list.csv"):
        (photos / stray).write_text("no image")
    _image(photos / ".cache" / "cat" / "x.png")
    _image(photos / "inside" / ".trash" / "x.png")
    _image(photos / "__MACOSX" / "cat" / "x.png")
    index = scan_folder(photos)
    assert index.domain_names == ("inside", "outside")
    assert index.class_names == ("cat", "dog")
    assert index.counts().tolist() == [[3, 2], [2, 2]]
    assert index.ignored == 4
    assert index.warnings == ()


def test_domains_can_be_chosen_and_bring_only_their_own_classes(photos):
    _image(photos / "outside" / "fox" / "0.png")
    dataset = load_folder(photos, size=(2, 2), domains=["inside"])
    assert dataset.domain_names == ("inside",)
    assert dataset.class_names == ("cat", "dog")
    assert len(dataset) == 4
    both = load_folder(photos, size=(2, 2), domains=["outside", "inside"])
    assert both.domain_names == ("outside", "inside")
    assert both.images[0, 0, 0].tolist() == [100, 0, 0]


def test_an_unknown_domain_is_answered_with_those_there_are(photos):
    with pytest.raises(DataError, match=r"no domain 'outsde'.*inside, outside.*Did you mean 'outside'"):
        scan_folder(photos, domains=["outsde"])
    with pytest.raises(DataError, match="each named once"):
        scan_folder(photos, domains=["inside", "inside"])


def test_domains_and_classes_are_sorted_by_name_and_not_as_the_disk_lists_them(tmp_path):
    names = [f"{letter}{number}" for letter in "qbxe" for number in (7, 0, 3)]
    for domain in names:
        for name in ("dog", "cat"):
            _image(tmp_path / domain / name / "0.png")
    index = scan_folder(tmp_path)
    assert list(index.domain_names) == sorted(names)
    assert index.class_names == ("cat", "dog")


def test_progress_and_warnings_are_reported(photos):
    (photos / "outside" / "dog" / "0.png").unlink()
    (photos / "outside" / "dog" / "1.png").unlink()
    listener = Listener()
    dataset = load_folder(photos, size=(2, 2), reporter=listener)
    assert len(dataset) == 6
    assert listener.tasks == [("decoding images", 6)]
    assert listener.steps == 6
    assert any("class dog has no images in outside (only in inside)" in text for text in listener.messages)
    assert scan_folder(photos).warnings == tuple(listener.messages)


def test_a_missing_folder_and_a_file_are_told_apart(tmp_path):
    with pytest.raises(DataError, match=r"There is no folder .*gone.*<domain>/<class>/<image>"):
        scan_folder(tmp_path / "gone")
    archive = tmp_path / "photos.tar.gz"
    archive.write_bytes(b"PK")
    with pytest.raises(DataError, match=r"photos\.tar\.gz is a file, not a folder.*unpack it first"):
        scan_folder(archive)


def test_an_empty_folder_is_told(tmp_path):
    with pytest.raises(DataError, match=r"There are no images in .*Expected .*<domain>/<class>/<image>.*\.webp"):
        scan_folder(tmp_path)
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "inside" / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match=r"no images in .* \(1 other file passed over\)"):
        scan_folder(tmp_path)


def test_classes_without_a_domain_are_one_that_is_called_like_the_folder(tmp_path):
    for name in ("cat", "dog"):
        for i in range(2):
            _image(tmp_path / "hospital4" / name / f"{i}.png")
    index = scan_folder(tmp_path / "hospital4")
    assert (index.domain_names, index.class_names) == (("hospital4",), ("cat", "dog"))
    assert index.named_counts() == {"hospital4": {"cat": 2, "dog": 2}}
    assert domain_names(tmp_path / "hospital4") == ("hospital4",)
    below = load_folder(tmp_path, size=(4, 4))
    assert np.array_equal(load_folder(tmp_path / "hospital4", size=(4, 4)).images, below.images)
    _image(tmp_path / "hospital4" / "dog" / "small" / "0.png")
    with pytest.raises(DataError, match=r"4 images in .* are in no class folder"):
        scan_folder(tmp_path / "hospital4")


def test_loose_images_are_named(photos):
    _image(photos / "lost.png")
    _image(photos / "inside" / "astray.png")
    with pytest.raises(DataError, match=r"2 images in .* in no class folder: .*lost\.png, .*astray\.png\. Expected"):
        scan_folder(photos)
    (photos / "lost.png").unlink()
    with pytest.raises(DataError, match=r"1 image in .* is in no class folder: .*astray\.png"):
        scan_folder(photos)


def test_images_only_in_the_root_are_told_where_to_go(tmp_path):
    _image(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"in no class folder: .*a\.png.*<domain>/<class>/<image>"):
        scan_folder(tmp_path)


def test_one_class_only_is_refused_unless_asked_for(tmp_path):
    for domain in ("inside", "outside"):
        _image(tmp_path / domain / "cat" / "0.png")
    with pytest.raises(DataError, match=r"one class only \(cat\)"):
        load_folder(tmp_path, size=(2, 2))
    assert load_folder(tmp_path, size=(2, 2), allow_one_class=True).class_names == ("cat",)


def test_domains_without_a_common_class_are_refused(tmp_path):
    for domain, name in (("inside", "cat"), ("inside", "dog"), ("outside", "Katze"), ("outside", "Hund")):
        _image(tmp_path / domain / name / "0.png")
    with pytest.raises(DataError, match=r"inside .*no class in common.*cat, dog.*Hund, Katze.*same folder name"):
        scan_folder(tmp_path)


def test_a_class_missing_from_a_domain_and_an_empty_folder_are_warned_of(photos):
    _image(photos / "inside" / "fox" / "0.png")
    (photos / "outside" / "fox").mkdir()
    (photos / "later").mkdir()
    index = scan_folder(photos)
    assert index.class_names == ("cat", "dog", "fox")
    assert index.domain_names == ("inside", "outside")
    empty, missing = index.warnings
    assert "no images and were passed over" in empty
    assert str(photos / "later") in empty
    assert str(photos / "outside" / "fox") in empty
    assert "The class fox has no images in outside (only in inside)" in missing


def test_a_single_domain_works(photos):
    for path in sorted((photos / "outside").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (photos / "outside").rmdir()
    assert scan_folder(photos).warnings == ()
    assert load_folder(photos, size=(2, 2)).domain_names == ("inside",)


def test_one_bad_image_is_named(photos):
    bad = _bad(photos / "inside" / "cat" / "broken.png")
    with pytest.raises(DataError, match=r"broken\.png is not an image.*skip_bad") as caught:
        load_folder(photos, size=(2, 2))
    assert str(bad) in str(caught.value)


def test_a_bad_image_can_be_skipped_and_is_counted(photos):
    bad = _bad(photos / "inside" / "cat" / "0a.png")
    listener = Listener()
    dataset = load_folder(photos, size=(4, 4), skip_bad=True, reporter=listener)
    assert dataset.skipped == ((str(bad), "is not an image, or is damaged from its first bytes on"),)
    bad.unlink()
    assert dataset.fingerprint() == load_folder(photos, size=(4, 4)).fingerprint()
    assert str(bad) not in dataset.paths
    assert "Left out 1 image that could not be decoded." in listener.messages


def test_all_bad_images_are_named_up_to_ten_with_their_number(photos):
    for i in range(12):
        _bad(photos / "inside" / "cat" / f"broken{i:02}.png")
    with pytest.raises(DataError, match="12 of 20 images cannot be used") as caught:
        load_folder(photos, size=(2, 2))
    message = str(caught.value)
    assert all(f"broken{i:02}.png" in message for i in range(10))
    assert "broken10.png" not in message
    assert "and 2 more" in message
    assert "skip_bad" in message


def test_skipping_may_not_empty_a_class_or_a_domain(photos):
    for domain in ("inside", "outside"):
        _bad(photos / domain / "fox" / "0.png")
    with pytest.raises(DataError, match=r"2 bad images .* no image of the class fox"):
        load_folder(photos, size=(2, 2), skip_bad=True)
    for domain in ("inside", "outside"):
        (photos / domain / "fox" / "0.png").unlink()
    _bad(photos / "attic" / "cat" / "0.png")
    with pytest.raises(DataError, match=r"1 bad image .* no image of the domain attic"):
        load_folder(photos, size=(2, 2), skip_bad=True)


def test_nothing_but_bad_images_is_refused_even_when_skipping(tmp_path):
    _bad(tmp_path / "d" / "cat" / "0.png")
    _bad(tmp_path / "d" / "dog" / "0.png")
    with pytest.raises(DataError, match="No image could be decoded"):
        load_folder(tmp_path, size=(2, 2), skip_bad=True)


def test_an_image_above_the_size_limit_counts_as_bad(photos):
    _image(photos / "inside" / "cat" / "large.png", side=40)
    with pytest.raises(DataError, match=r"large\.png has 0 megapixels \(40 × 40\), more than the limit of 0\.001"):
        load_folder(photos, size=(2, 2), max_megapixels=0.001)


def test_a_link_that_leads_nowhere_is_a_bad_image(photos):
    (photos / "inside" / "cat" / "gone.png").symlink_to(photos / "nowhere.png")
    with pytest.raises(DataError, match=r"gone\.png does not exist"):
        load_folder(photos, size=(2, 2))


def test_folders_that_link_in_a_circle_are_walked_once(photos):
    (photos / "inside" / "cat" / "again").symlink_to(photos / "inside")
    (photos / "inside" / "cat" / "itself").symlink_to(photos / "inside" / "cat" / "itself")
    index = scan_folder(photos)
    # Through `again` lie the four images of `inside`: cat's own two are not taken twice.
    assert index.counts().tolist() == [[4, 2], [2, 2]]


def test_a_domain_that_links_back_to_the_root_does_not_hang(photos):
    (photos / "loop").symlink_to(photos)
    with pytest.raises(DataError, match=r"The domain loop .* has no class in common"):
        scan_folder(photos)


def test_a_domain_may_be_a_link(photos, tmp_path):
    linked = tmp_path / "linked"
    linked.mkdir()
    for domain in ("inside", "outside"):
        (linked / domain).symlink_to(photos / domain)
    assert load_folder(linked, size=(2, 2)).labels.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_called_like_an_image_is_passed_over(photos):
    os.mkfifo(photos / "inside" / "cat" / "pipe.png")
    index = scan_folder(photos)
    assert index.counts().tolist() == [[2, 2], [2, 2]]
    assert index.ignored == 1
    assert len(find_images(photos)) == 8
    assert find_images(str(photos / "inside" / "cat" / "*")) == find_images(photos / "inside" / "cat")
    with pytest.raises(DataError, match=r"No image matches the pattern .*pipe\.\*"):
        find_images(str(photos / "inside" / "cat" / "pipe.*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_given_for_a_folder_is_refused(tmp_path):
    for name in ("pipe", "pipe.tar", "pipe.zip"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match=rf"{name} is a pipe, not a folder\. Expected a folder of domains"):
            load_folder(tmp_path / name)


@pytest.mark.skipif(AS_ROOT, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_named(photos):
    closed = photos / "inside" / "cat"
    closed.chmod(0)
    try:
        with pytest.raises(DataError, match=r"inside.cat may not be read \(Permission denied\); make it readable"):
            scan_folder(photos)
    finally:
        closed.chmod(0o700)


@pytest.mark.skipif(AS_ROOT, reason="root may read everything")
def test_an_image_that_may_not_be_read_is_named_or_skipped(photos):
    closed = photos / "inside" / "cat" / "0.png"
    closed.chmod(0)
    with pytest.raises(DataError, match=r"0\.png may not be read"):
        load_folder(photos, size=(2, 2))
    assert load_folder(photos, size=(2, 2), skip_bad=True).skipped[0][0] == str(closed)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENAMETOOLONG, errno.ENOENT, errno.EIO])
def test_a_folder_that_the_system_refuses_becomes_a_sentence(photos, monkeypatch, code):
    def refuse(_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "scandir", refuse)
    for search in (scan_folder, find_images, lambda root: find_images(str(root / "**" / "*.png"))):
        with pytest.raises(DataError, match=rf"The folder .*photos may not be read \({os.strerror(code)}\); make it"):
            search(photos)


def test_more_images_than_memory_holds_get_a_sentence(photos):
    with pytest.raises(DataError, match=r"8 images of 10000000 × 10000000 px need .* GB of memory"):
        load_folder(photos, size=(10**7, 10**7))


def test_files_folders_and_patterns_are_found_once_each_in_order(photos, tmp_path):
    single = _image(tmp_path / "z.png")
    (photos / "inside" / "cat" / "notes.txt").write_text("no image")
    arguments = [
        single,
        photos / "inside",
        str(photos / "**" / "cat" / "*"),
        f"{photos}/inside/../inside/dog/0.png",
    ]
    cats_and_dogs = [photos / "inside" / name / f"{i}.png" for name in ("cat", "dog") for i in range(2)]
    expected = [
        *cats_and_dogs,
        photos / "outside" / "cat" / "0.png",
        photos / "outside" / "cat" / "1.png",
        single,
    ]
    assert find_images(arguments) == expected
    assert find_images(str(photos / "inside")) == cats_and_dogs
    assert find_images([str(photos / "in*")]) == cats_and_dogs


@pytest.mark.parametrize(
    "pattern",
    [
        "*/cat/*",
        "**/cat/*",
        "**",
        "**/**",
        "in*/**",
        "**/*.png",
        "*/**/1.*",
        "**/[cd]*/**/0.png",
        "**/.h*/**",
        "in*/c?t",
    ],
)
def test_patterns_find_what_the_standard_library_finds(photos, monkeypatch, pattern):
    _image(photos / "inside" / "cat" / "deep" / "er" / "0.png")
    _image(photos / ".hidden" / "cat" / "0.png")
    _image(photos / "inside" / ".hidden.png")
    monkeypatch.chdir(photos)
    hits = [Path(hit) for hit in glob.glob(pattern, recursive=True)]
    below = [path for hit in hits for path in [hit, *(hit.rglob("*.png") if hit.is_dir() else [])]]
    shown = {path for path in below if path.suffix == ".png" and not path.name.startswith(".")}
    assert set(find_images(pattern)) == shown
    assert set(find_images(str(photos / pattern))) == {photos / path for path in shown}


@pytest.mark.parametrize("pattern", ["**/*.png", "**/**/**/*.png", "**/cat/**/*.png", "**"])
def test_a_pattern_does_not_go_round_in_links(photos, pattern):
    expected = find_images(str(photos / pattern))
    for name in ("cat", "dog"):
        (photos / "inside" / name / "round").symlink_to(photos)
        (photos / "outside" / name / "round").symlink_to(photos)
    found = find_images(str(photos / pattern))
    assert {path.resolve() for path in found} >= {path.resolve() for path in expected}
    assert len(found) <= 3 * len(expected)


def test_a_file_named_outright_is_taken_whatever_it_is_called(tmp_path):
    path = tmp_path / "upload"
    Image.new("RGB", (2, 2), (1, 2, 3)).save(path, "PNG")
    assert find_images([path]) == [path]
    images, paths, skipped = load_images([path], size=(2, 2))
    assert images.tolist() == [[[[1, 2, 3]] * 2] * 2]
    assert (paths, skipped) == ([path], [])


@pytest.mark.parametrize("name", ["new.zip", "new.tar", "new.tar.gz"])
def test_an_archive_among_single_images_is_told_to_be_unpacked(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=rf"{name} is an archive, .*unpack it first"):
        find_images(tmp_path / name)


def test_a_file_whose_name_looks_like_a_pattern_is_found(tmp_path):
    path = _image(tmp_path / "cat[1].png")
    assert find_images([path]) == [path]


def test_an_empty_name_is_refused(photos, monkeypatch):
    monkeypatch.chdir(photos)
    for given in ("", [""], [photos, ""]):
        with pytest.raises(DataError, match=r"A path is empty: name a file or a folder"):
            find_images(given)
    for read in (scan_folder, load_folder):
        with pytest.raises(DataError, match="A path is empty"):
            read("")
    assert len(find_images(".")) == 8


@pytest.mark.parametrize("given", ["~nobody-of-this-name/a.png", "x" * 5000, "a\0b", "a\0b/*.png", "~nobody/*.png"])
def test_a_name_that_no_file_can_have_is_not_found(given):
    with pytest.raises(DataError, match=r"There is no file or folder|No image matches the pattern"):
        find_images([given])
    with pytest.raises(DataError, match="There is no folder"):
        scan_folder(given)


def test_every_argument_that_finds_nothing_is_named(photos, tmp_path):
    (tmp_path / "bare").mkdir()
    with pytest.raises(DataError) as caught:
        find_images([photos, tmp_path / "gone.png", tmp_path / "bare", str(tmp_path / "*.gif")])
    message = str(caught.value)
    assert f"no file or folder {tmp_path / 'gone.png'}" in message
    assert f"no images in the folder {tmp_path / 'bare'}" in message
    assert f"No image matches the pattern {tmp_path / '*.gif'}" in message
    assert str(photos) not in message
    with pytest.raises(DataError, match="No image was given"):
        find_images([])


def test_unlabelled_images_are_decoded_in_the_order_given(photos):
    files = [photos / "outside" / "dog" / "1.png", photos / "inside" / "cat" / "0.png"]
    listener = Listener()
    images, paths, _ = load_images(files, size=(3, 3), reporter=listener)
    assert images[:, 0, 0].tolist() == [[100, 100, 100], [0, 0, 0]]
    assert paths == files
    assert listener.steps == 2


def test_a_bad_unlabelled_image_is_named_or_skipped(photos):
    good, bad = photos / "inside" / "cat" / "0.png", _bad(photos / "bad.png")
    with pytest.raises(DataError, match=r"bad\.png is not an image"):
        load_images([bad, good], size=(3, 3))
    images, paths, skipped = load_images([bad, good], size=(3, 3), skip_bad=True)
    assert (len(images), paths) == (1, [good])
    assert [path for path, _ in skipped] == [str(bad)]


def test_an_unexpected_error_in_a_thread_stops_the_rest():
    seen = []

    def fail(number: int) -> None:
        seen.append(number)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(map_images(fail, range(1000), "failing", LoadRequest(workers=1)))
    assert len(seen) < 1000


@pytest.mark.parametrize(("old", "new", "what"), [("cat", b"caf\xe9", "class"), ("inside", b"caf\xe9", "domain")])
def test_a_folder_name_that_is_no_text_is_refused_before_anything_is_decoded(photos, old, new, what):
    for folder in [photos, *photos.iterdir()]:
        if (folder / old).exists():
            (folder / old).rename(os.fsdecode(os.path.join(os.fsencode(folder), new)))
    for image in photos.rglob("*.png"):
        image.write_text("decoding this would fail")
    with pytest.raises(
        DataError, match=rf"The {what} caf\\udce9 in .*photos .* not valid UTF-8.*; rename it\."
    ) as told:
        load_folder(photos, size=(2, 2))
    str(told.value).encode()


def test_classes_that_differ_only_in_case_or_form_are_warned_of(photos):
    _image(photos / "inside" / "Cat" / "0.png")
    _image(photos / "outside" / "caf\u00e9" / "0.png")
    _image(photos / "outside" / "cafe\u0301" / "0.png")
    clashes = [text for text in scan_folder(photos).warnings if "can be told apart only by" in text]
    assert [text.split(" can be")[0] for text in clashes] == [
        "The classes 'Cat' and 'cat'",
        "The classes 'cafe\u0301' and 'caf\u00e9'",
    ]
