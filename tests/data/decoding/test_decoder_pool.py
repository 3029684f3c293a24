"""Decoder processes: the bytes and the words that threads give, and nothing left behind whatever happens."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile
from trees import Listener, write_tar, write_zip

from homefold.data import BadImageError, LoadRequest, load_dataset, load_images
from homefold.data.archives import FileImage, archive_images
from homefold.data.decoding import pool as decoder_pool
from homefold.data.decoding.many import decode_into
from homefold.data.decoding.pool import DecoderPool
from homefold.data.index import ImageSource
from homefold.errors import ConfigError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="decoder processes need a POSIX system")


def _encoded(kind: str, mode: str = "RGB", seed: int = 0, size: tuple[int, int] = (31, 22), **options: object) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    stored = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(stored, kind, **options)
    return stored.getvalue()


def _turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return _encoded("JPEG", exif=exif)


def _contents() -> dict[str, bytes]:
    """Good and bad images of every kind."""
    jpeg = _encoded("JPEG", size=(90, 70))
    return {
        "plain.jpg": jpeg,
        "large.jpg": _encoded("JPEG", size=(300, 200)),
        "grey.jpg": _encoded("JPEG", mode="L"),
        "press.jpg": _encoded("JPEG", mode="CMYK"),
        "some.png": _encoded("PNG"),
        "clear.png": _encoded("PNG", mode="RGBA"),
        "palette.gif": _encoded("GIF", mode="P"),
        "some.webp": _encoded("WEBP"),
        "some.bmp": _encoded("BMP"),
        "some.tif": _encoded("TIFF"),
        **{f"turned{i}.jpg": _turned(i) for i in range(1, 9)},
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "cut.png": _encoded("PNG")[:60],
        "empty.png": b"",
        "words.jpg": b"this is not an image",
    }


def _files(folder: Path) -> list[FileImage]:
    for name, content in _contents().items():
        (folder / name).write_bytes(content)
    (folder / "folder.png").mkdir()
    return [FileImage(folder / name) for name in [*_contents(), "folder.png", "missing.png"]]


def _by_threads(sources: list[ImageSource], size=(16, 20), resize="squash", max_megapixels=200.0):
    return _decoded(sources, 2, size, resize, max_megapixels)


def _decoded(sources, workers, size=(16, 20), resize="squash", max_megapixels=200.0):
    """The images, and by row name, reason and whole message of those that cannot be used."""
    images = np.zeros((len(sources) + 3, *size, 3), np.uint8)
    # Backwards, and not from the first row: places in the call and rows are not the same.
    rows = list(range(len(sources) + 1, 1, -1))
    bad = decode_into(images, sources, rows, LoadRequest(resize=resize, max_megapixels=max_megapixels, workers=workers))
    return images, [(row, error.name, error.reason, str(error)) for row, error in bad.items()]


def _assert_same(found, expected) -> None:
    assert np.array_equal(found[0], expected[0])
    assert found[1] == expected[1]


@pytest.fixture
def by_processes(monkeypatch):
    """Has every call decode in processes, and sees to it that none of them stays."""
    shared = DecoderPool()
    monkeypatch.setattr(decoder_pool, "_shared", shared)
    monkeypatch.setattr(decoder_pool, "allowed_cores", lambda: 2)
    monkeypatch.setenv("HOMEFOLD_DECODERS", "processes")
    yield shared
    _close_and_check(shared)


def _close_and_check(pool: DecoderPool) -> None:
    ended = pool.process_ids
    pool.close()
    for process_id in ended:
        with pytest.raises(ProcessLookupError):
            os.kill(process_id, 0)
    assert pool.process_ids == ()


@pytest.mark.slow
@pytest.mark.parametrize(("size", "resize"), [((16, 20), "squash"), ((40, 11), "crop"), ((1, 1), "squash")])
def test_files_of_every_kind_give_the_bytes_and_the_words_that_threads_give(tmp_path, by_processes, size, resize):
    sources = _files(tmp_path)
    expected = _by_threads(sources, size, resize)
    _assert_same(_decoded(sources, None, size, resize), expected)
    assert len(by_processes.process_ids) == 2
    assert [Path(name).name for _, name, _, _ in expected[1]] == [
        "cut.jpg",
        "cut.png",
        "empty.png",
        "words.jpg",
        "folder.png",
        "missing.png",
    ]


@pytest.mark.slow
def test_members_of_archives_give_the_bytes_and_the_words_that_threads_give(tmp_path, by_processes):
    for archive in (write_tar(tmp_path / "images.tar", _contents()), write_zip(tmp_path / "images.zip", _contents())):
        sources = [source for _, source in archive_images(archive)]
        assert len(sources) == len(_contents())
        _assert_same(_decoded(sources, None), _by_threads(sources))
    assert by_processes.process_ids


@pytest.mark.slow
def test_too_large_an_image_is_refused_with_the_same_words(tmp_path, by_processes):
    sources = _files(tmp_path)
    found = _decoded(sources, None, max_megapixels=0.005)
    _assert_same(found, _by_threads(sources, max_megapixels=0.005))
    assert any("more than the limit of 0.005" in reason for _, _, reason, _ in found[1])


@pytest.mark.slow
@pytest.mark.parametrize("tolerant", [False, True])
def test_the_programs_own_settings_decide_which_images_are_bad(tmp_path, by_processes, monkeypatch, tolerant):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", tolerant)
    sources = _files(tmp_path)
    found = _decoded(sources, None)
    _assert_same(found, _by_threads(sources))
    assert len(by_processes.process_ids) == 2
    assert ("cut.jpg" in {Path(name).name for _, name, _, _ in found[1]}) != tolerant


@pytest.mark.slow
def test_one_pool_serves_calls_of_any_number_and_size(tmp_path, by_processes):
    files = _files(tmp_path)
    _decoded(files[:1], None)
    first = by_processes.process_ids

    @given(chosen=st.lists(st.sampled_from(files), max_size=60), side=st.sampled_from([1, 8, 150, 1300]))
    def check(chosen, side):
        if side > 1000:
            chosen = chosen[:3]
        _assert_same(_decoded(chosen, None, (side, 8)), _by_threads(chosen, (side, 8)))

    check()
    assert by_processes.process_ids == first


@pytest.mark.slow
def test_long_names_and_long_answers_do_not_block_each_other(tmp_path, by_processes):
    folder = tmp_path.joinpath(*["x" * 200] * 15)
    sources = [FileImage(folder / f"{i}.png") for i in range(300)]
    found = _decoded(sources, None)
    assert [name for _, name, _, _ in found[1]] == [source.path for source in sources]
    assert {reason for _, _, reason, _ in found[1]} == {"does not exist"}


@pytest.mark.slow
def test_relative_names_are_found_from_where_the_caller_stands_now(tmp_path, by_processes, monkeypatch):
    for folder, seed in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "image.png").write_bytes(_encoded("PNG", seed=seed))
        monkeypatch.chdir(tmp_path / folder)
        images, paths, _ = load_images(["image.png"], size=(31, 22))
        assert paths == [Path("image.png")]
        assert np.array_equal(images[0], np.random.default_rng(seed).integers(0, 256, (31, 22, 3), dtype=np.uint8))
    _, _, skipped = load_images(["image.png", "gone.png"], size=(4, 4), skip_bad=True)
    assert skipped == [("gone.png", "does not exist")]


@pytest.mark.slow
def test_a_dataset_is_cached_with_the_same_bytes(tmp_path, by_processes, cache_dir, monkeypatch):
    for i in range(12):
        path = tmp_path / "photos" / f"d{i % 2}" / f"c{i % 3}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_encoded("JPEG", seed=i))
    listener = Listener()
    found = load_dataset(tmp_path / "photos", size=(9, 9), reporter=listener)
    assert by_processes.process_ids
    assert listener.decoded == 12
    monkeypatch.setenv("HOMEFOLD_DECODERS", "threads")
    assert load_dataset(tmp_path / "photos", size=(9, 9), use_cache=False).fingerprint() == found.fingerprint()


@pytest.mark.slow
def test_what_a_reporter_raises_comes_out_and_ends_the_processes(tmp_path, by_processes, monkeypatch):
    monkeypatch.setattr(Listener, "advance", lambda *_, **__: os.read(-1, 1))
    images = np.zeros((6, 8, 8, 3), np.uint8)
    with pytest.raises(OSError, match="Bad file descriptor"):
        decode_into(images, _files(tmp_path)[:6], range(6), LoadRequest(reporter=Listener()))
    assert by_processes.process_ids == ()


@pytest.mark.slow
def test_settings_that_cannot_work_are_told_as_threads_tell_them(tmp_path, by_processes):
    (tmp_path / "image.png").write_bytes(_encoded("PNG"))
    with pytest.raises(ConfigError, match="at least 1 each"):
        load_images([tmp_path / "image.png"], size=(0, 8))
    assert by_processes.process_ids


def test_the_setting_must_be_one_of_three(tmp_path, monkeypatch):
    monkeypatch.setenv("HOMEFOLD_DECODERS", "proceses")
    with pytest.raises(ConfigError, match="HOMEFOLD_DECODERS must be one of auto, threads, processes; got 'proceses'"):
        load_images([tmp_path / "image.png"])


@pytest.mark.parametrize(
    ("setting", "cores", "images", "running", "expected"),
    [
        ("auto", 4, 512, False, True),
        ("auto", 4, 511, False, False),
        ("auto", 3, 5000, False, False),
        ("auto", 4, 64, True, True),
        ("auto", 4, 63, True, False),
        ("processes", 1, 1, False, True),
        ("processes", 1, 0, False, False),
        ("threads", 64, 5000, True, False),
    ],
)
def test_processes_are_used_where_they_pay_or_are_asked_for(monkeypatch, setting, cores, images, running, expected):
    monkeypatch.setenv("HOMEFOLD_DECODERS", setting)
    monkeypatch.setattr(decoder_pool, "_shared", DecoderPool())
    monkeypatch.setattr(decoder_pool, "allowed_cores", lambda: cores)
    monkeypatch.setattr(DecoderPool, "process_ids", (1,) if running else ())
    with decoder_pool.borrowed_decoders(images) as pool:
        assert (pool is not None) == expected
        with decoder_pool.borrowed_decoders(images) as second:
            assert second is None, "one call at a time"


@pytest.mark.slow
def test_processes_that_were_started_ahead_are_those_that_decode(tmp_path, by_processes):
    decoder_pool.start_decoders(1)
    assert by_processes.process_ids
    ahead = by_processes.process_ids
    assert len(ahead) == decoder_pool.allowed_cores()
    sources = _files(tmp_path)
    _assert_same(_decoded(sources, None), _by_threads(sources))
    assert by_processes.process_ids == ahead


def test_no_process_is_started_ahead_where_threads_will_decode(by_processes, monkeypatch):
    decoder_pool.start_decoders(0)
    monkeypatch.setenv("HOMEFOLD_DECODERS", "threads")
    decoder_pool.start_decoders(5000)
    assert by_processes.process_ids == ()


@pytest.mark.parametrize(
    ("together", "expected"), [(None, 12), ("1", 12), ("4", 3), ("5", 2), ("64", 1), ("0", 12), ("many", 12)]
)
def test_processes_that_torchrun_started_share_the_cores(monkeypatch, together, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)), raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if together is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", together)
    assert decoder_pool.allowed_cores() == expected


def test_a_number_of_workers_means_threads(tmp_path, by_processes):
    _decoded(_files(tmp_path), 2)
    assert by_processes.process_ids == ()


def test_without_an_interpreter_to_start_threads_do_it(tmp_path, by_processes, monkeypatch):
    sources = _files(tmp_path)
    monkeypatch.setattr(sys, "executable", "/opt/program/uwsgi")
    _assert_same(_decoded(sources, None), _by_threads(sources))
    assert by_processes.process_ids == ()


@pytest.mark.slow
def test_processes_that_cannot_be_started_are_told_once_and_threads_do_it(tmp_path, by_processes, monkeypatch):
    sources = _files(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.warns(RuntimeWarning, match=r"no more decoder processes can be started \(No such file") as told:
        _assert_same(_decoded(sources, None), _by_threads(sources))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _assert_same(_decoded(sources, None), _by_threads(sources))


@pytest.mark.slow
@pytest.mark.parametrize("how_many", [1, 2])
def test_what_a_dead_process_would_have_done_threads_do_with_one_warning(tmp_path, by_processes, how_many):
    sources = _files(tmp_path) * 3
    expected = _by_threads(sources)
    _decoded(sources, None)
    for process_id in by_processes.process_ids[:how_many]:
        os.kill(process_id, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match=r"a decoder process ended \(signal 9\).*HOMEFOLD_DECODERS=threads") as told:
        _assert_same(_decoded(sources, None), expected)
    assert len(told) == 1
    assert len(by_processes.process_ids) == 2 - how_many
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _assert_same(_decoded(sources, None), expected)


_WAITING = """
import sys

def wait(event, arguments):
    if event == "open" and str(arguments[0]).endswith("waiting.png"):
        open({pipe!r}, "rb").read()

sys.addaudithook(wait)
"""


def _image_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An image that processes started from now on open only once the pipe beside it was opened and closed."""
    image, pipe, hook = tmp_path / "waiting.png", tmp_path / "pipe", tmp_path / "hook" / "sitecustomize.py"
    image.write_bytes(_encoded("PNG"))
    os.mkfifo(pipe)
    hook.parent.mkdir()
    hook.write_text(_WAITING.format(pipe=str(pipe)))
    places = [str(hook.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    return image, pipe


@pytest.mark.slow
def test_a_process_that_dies_over_an_image_leaves_it_to_threads(tmp_path, monkeypatch, by_processes):
    image, pipe = _image_that_waits(tmp_path, monkeypatch)
    sources = [*_files(tmp_path), FileImage(image)]

    def kill_whoever_opens_it() -> None:
        with pipe.open("wb"):
            for process_id in by_processes.process_ids:
                os.kill(process_id, signal.SIGKILL)

    killer = threading.Thread(target=kill_whoever_opens_it, daemon=True)
    killer.start()
    with pytest.warns(RuntimeWarning, match="a decoder process ended"):
        found = _decoded(sources, None)
    killer.join()
    _assert_same(found, _by_threads(sources))
    assert str(image) not in [name for _, name, _, _ in found[1]]


@pytest.mark.slow
def test_processes_with_nothing_to_do_end_and_are_started_again(tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(_encoded("PNG"))
    with DecoderPool(1, idle_seconds=0.0) as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pool.start() == 1
        first = pool._decoders[0].process
        assert first.wait(timeout=60) == 0
        assert pool.process_ids == ()
        assert pool.start() == 1
        assert pool._decoders[0].process is not first
        _close_and_check(pool)


@pytest.mark.slow
def test_processes_that_ended_are_no_zombies_though_nobody_asks_for_them():
    with DecoderPool(2, idle_seconds=0.0) as pool:
        pool.start()
        for decoder in pool._decoders:
            decoder.reaper.join(timeout=60)
            with pytest.raises(ProcessLookupError):
                os.kill(decoder.process.pid, 0)


def test_a_bad_image_is_the_same_after_a_journey():
    import pickle

    error = pickle.loads(pickle.dumps(BadImageError("a.png", "is empty", "Buy another.")))
    assert (error.name, error.reason, error.advice, str(error)) == (
        "a.png",
        "is empty",
        "Buy another.",
        "a.png is empty. Buy another.",
    )


_SCRIPT = """
import signal
import sys
from homefold.data import load_images
from homefold.data.decoding import pool

# What a shell starts in the background ignores interrupts, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No guard: a script that is run again by its own children would never end.
load_images(sys.argv[1:2], size=(8, 8))
print(*pool._shared.process_ids, flush=True)
load_images(sys.argv[2:], size=(8, 8))
"""


def _script(tmp_path: Path, *more: Path) -> subprocess.Popen[str]:
    """A script that decodes an image in processes, prints which they are, and decodes `more`.

    Its processes hold its standard error too, which so ends when all of them are gone.
    """
    image = tmp_path / "image.png"
    image.write_bytes(_encoded("PNG"))
    (tmp_path / "script.py").write_text(_SCRIPT)
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(image), *map(str, more or [image])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HOMEFOLD_DECODERS": "processes"},
    )


def _assert_gone(process_ids: str) -> None:
    assert process_ids.split()
    for process_id in process_ids.split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(process_id), 0)


@pytest.mark.slow
def test_a_script_without_a_guard_ends_and_its_processes_with_it(tmp_path):
    script = _script(tmp_path)
    said, errors = script.communicate(timeout=120)
    assert (script.returncode, errors) == (0, "")
    _assert_gone(said)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_script_in_the_middle_of_an_image_ends_its_processes(tmp_path, monkeypatch, how):
    image, pipe = _image_that_waits(tmp_path, monkeypatch)
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    script = _script(tmp_path, image)
    with pipe.open("wb"):
        # A decoder process has opened it, and waits for what never comes.
        script.send_signal(how)
        said, errors = script.communicate(timeout=120)
    assert script.returncode == -how
    assert said.split()
    assert ("KeyboardInterrupt" in errors) == (how == signal.SIGINT)
    assert "decoding/process" not in errors, "the decoders have nothing to say"
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "homefold" in name] if before else True


@pytest.mark.slow
def test_a_fork_of_a_process_that_decodes_starts_its_own(tmp_path):
    (tmp_path / "image.png").write_bytes(_encoded("PNG"))
    code = """
import os, sys
from homefold.data import load_images
from homefold.data.decoding import pool
expected = load_images(sys.argv[1:], size=(8, 8))[0]
ours = pool._shared.process_ids
child = os.fork()
assert (pool._shared.process_ids == ()) == (child == 0)
assert (load_images(sys.argv[1:], size=(8, 8))[0] == expected).all()
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert pool._shared.process_ids == ours
    assert (load_images(sys.argv[1:], size=(8, 8))[0] == expected).all()
else:
    assert not set(ours) & set(pool._shared.process_ids)
"""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "image.png")],
        capture_output=True,
        text=True,
        env=os.environ | {"HOMEFOLD_DECODERS": "processes"},
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
