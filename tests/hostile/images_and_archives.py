"""Images, folders, archives and arrays that are damaged, absurd or oddly named."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from homefold import Homefold, ManifoldProjector
from homefold.config import replace_settings
from homefold.data.images import IMAGE_EXTENSIONS
from hostile.campaign import ANSWER, EITHER, REFUSAL, Call, Case, Command, Scene
from hostile.damage import CONTENT_DAMAGE, PLACE_DAMAGE, garbage

Make = Callable[[Scene], Any]
FAMILY = "images_and_archives"


def cases() -> list[Case]:
    """The whole table."""
    parts = (
        _damaged_files, _odd_contents, _modes, _names, _places, _trees, _cut_archives, _archives, _arrays, _labels,
        _rows, _saved,
    )  # fmt: skip
    return [case for part in parts for case in part()]


def pixels(height: int = 24, width: int = 32) -> np.ndarray:
    """A smooth picture, so that every format stores it well."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([4 * x, 5 * y, 2 * (x + y)], axis=-1).astype(np.uint8)


def encoded(form: str, image: Image.Image | None = None, **options: Any) -> bytes:
    """An image file's bytes."""
    buffer = io.BytesIO()
    (image or Image.fromarray(pixels())).save(buffer, form, **options)
    return buffer.getvalue()


FORMATS = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "BMP": ".bmp", "TIFF": ".tif", "GIF": ".gif"}


def _predict(scene: Scene, path: Any, *more: str) -> Command:
    return Command(("predict", scene.model, path, "--json", "--device", "cpu", *more))


def _library(scene: Scene, path: Any) -> Call:
    return Call(lambda: scene.homefold.predict(path))


def _in_tree(scene: Scene, path: Path) -> Path:
    """A folder of domains in which the image is one of a class."""
    photos = scene.copy(scene.photos)
    if os.path.lexists(path):
        path.rename(photos / "day" / "across" / path.name)
    return photos


FILE_ROADS: dict[str, Callable[[Scene, Path], Command | Call]] = {
    "predict": _predict,
    "predict-skip-bad": lambda scene, path: _predict(scene, path, "--skip-bad"),
    "library": _library,
    "data-verify": lambda scene, path: Command(("data", "verify", _in_tree(scene, path))),
    "fit": lambda scene, path: _fit(scene, _in_tree(scene, path)),
}


def _fit(scene: Scene, data: Path, *more: str) -> Command:
    """The scene's own quick fit on other data."""
    _, _, *words = scene.same_fit
    return Command(("fit", data, *words, *more), out=Path("model"))


def _written(content: bytes, name: str) -> Make:
    def make(scene: Scene) -> Path:
        path = scene.place / name
        path.write_bytes(content)
        return path

    return make


def _case(name: str, road: str, make: Make, expected: frozenset[str]) -> Case:
    return Case(FAMILY, name, road, lambda scene: FILE_ROADS[road](scene, make(scene)), expected)


def _skipped(expected: frozenset[str], road: str) -> frozenset[str]:
    """With `--skip-bad` an image that cannot be read is left out."""
    return ANSWER if road == "predict-skip-bad" else expected


def _damaged_files() -> list[Case]:
    found = []
    for form, ending in FORMATS.items():
        whole = encoded(form)
        changed = {name: _damaged(whole, damage) for name, damage in CONTENT_DAMAGE.items()}
        changed |= {f"cut-at-{i}": whole[:i] for i in (2, 8, 20, 50, len(whole) - 20)}
        changed |= {f"flipped-{seed}": _flipped(whole, seed) for seed in range(4)}
        for i, (name, content) in enumerate(changed.items()):
            sure = name in ("empty", "one-byte", "garbage", "zeros") or (name.startswith("cut-at-") and i < 11)
            for road in ("predict", "predict-skip-bad" if i % 2 else "library", ("data-verify", "fit")[i % 2]):
                expected = _skipped(REFUSAL if sure else EITHER, road)
                found.append(_case(f"{form}-{name}", road, _written(content, f"image{ending}"), expected))
    return found


def _damaged(content: bytes, damage: Callable[[Path], None]) -> bytes:
    """What a damage of files makes of bytes in memory."""

    class InMemory:
        def read_bytes(self) -> bytes:
            return content

        def write_bytes(self, changed: bytes) -> None:
            self.changed = changed

    file = InMemory()
    damage(file)  # type: ignore[arg-type]
    return file.changed


def _flipped(content: bytes, seed: int) -> bytes:
    chosen, changed = random.Random(seed), bytearray(content)
    for _ in range(1 + len(content) // 100):
        changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
    return bytes(changed)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, *chunks: bytes, depth: int = 8, colour: int = 2, data: bytes | None = None) -> bytes:
    header = _png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    rows = zlib.compress(b"\0" * 1000) if data is None else zlib.compress(data)
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + _png_chunk(b"IDAT", rows) + _png_chunk(b"IEND", b"")


def _bmp(width: int, height: int, bits: int = 24, size: int = 40) -> bytes:
    info = struct.pack("<IiiHHIIiiII", size, width, height, 1, bits, 0, 0, 0, 0, 0, 0)
    return struct.pack("<2sIHHI", b"BM", 54 + 300, 0, 0, 54) + info + bytes(300)


ODD_CONTENTS: dict[str, tuple[bytes, frozenset[str]]] = {
    "png-huge": (_png(100_000, 100_000), REFUSAL),
    "png-largest": (_png(2**31 - 1, 2**31 - 1), REFUSAL),
    "png-no-width": (_png(0, 10), REFUSAL),
    "png-too-few-rows": (_png(500, 500), REFUSAL),
    "png-depth-7": (_png(8, 8, depth=7), REFUSAL),
    "png-colour-9": (_png(8, 8, colour=9), REFUSAL),
    "png-no-data": (b"\x89PNG\r\n\x1a\n" + _png_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)), REFUSAL),
    "png-palette-without": (_png(8, 8, colour=3), EITHER),
    "png-text-bomb": (_png(8, 8, _png_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(70 << 20), 1))), EITHER),
    "png-profile-bomb": (_png(8, 8, _png_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(70 << 20), 1))), EITHER),
    "png-pixels-bomb": (_png(20_000, 20_000, data=bytes(20 << 20)), REFUSAL),
    "png-long-chunk": (_png(8, 8)[:-16] + struct.pack(">I", 2**31 - 1) + b"IDAT", EITHER),
    "bmp-huge": (_bmp(2**31 - 1, 2**31 - 1), REFUSAL),
    "bmp-no-width": (_bmp(0, 5), REFUSAL),
    "bmp-negative-width": (_bmp(-5, 5), REFUSAL),
    "bmp-7-bits": (_bmp(4, 4, bits=7), REFUSAL),
    "bmp-odd-header": (_bmp(4, 4, size=2**31), REFUSAL),
    "bmp-largest-header": (_bmp(2**31 - 1, -(2**31)), REFUSAL),
    "gif-header-alone": (b"GIF89a\xff\xff\xff\xff\0\0\0", REFUSAL),
    "gif-huge": (b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x08\x01\0\0;", REFUSAL),
    "tiff-loop": (b"II*\0\x08\0\0\0" + b"\0\0" + b"\x08\0\0\0", REFUSAL),
    "tiff-far-directory": (b"II*\0\xff\xff\xff\x7f", REFUSAL),
    "tiff-many-tags": (b"II*\0\x08\0\0\0\xff\xff" + bytes(100), REFUSAL),
    "jpeg-start-alone": (b"\xff\xd8\xff", REFUSAL),
    "jpeg-start-and-end": (b"\xff\xd8\xff\xd9", REFUSAL),
    "jpeg-two-glued": (encoded("JPEG") * 2, EITHER),
    "webp-header-alone": (b"RIFF\x10\0\0\0WEBPVP8 ", REFUSAL),
    "eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF", REFUSAL),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', REFUSAL),
    "ppm": (encoded("PPM"), REFUSAL),
    "ico": (encoded("ICO"), REFUSAL),
    "pdf": (b"%PDF-1.4\n", REFUSAL),
    "html": (b"<!doctype html><title>404</title>", REFUSAL),
    "pickle": (b"\x80\x04\x95\x0b\0\0\0\0\0\0\0\x8c\x02os\x94.", REFUSAL),
    "numpy": (b"\x93NUMPY\x01\0", REFUSAL),
    "gzip": (gzip.compress(encoded("PNG")), REFUSAL),
    "text": (b"hello", REFUSAL),
    "newline": (b"\n", REFUSAL),
}  # fmt: skip


def _odd_contents() -> list[Case]:
    """Contents by themselves, and good ones under every other name."""
    found = [
        _case(f"content-{name}", road, _written(content, "image.png"), _skipped(expected, road))
        for i, (name, (content, expected)) in enumerate(ODD_CONTENTS.items())
        for road in ("predict", ("library", "data-verify", "predict-skip-bad")[i % 3])
    ]
    wrong = itertools.product(FORMATS, (*IMAGE_EXTENSIONS, ".PNG", ".txt", ""))
    return found + [
        _case(f"{form}-named-image{ending or '-alone'}", road, _written(encoded(form), f"image{ending}"), ANSWER)
        for i, (form, ending) in enumerate(wrong)
        for road in [("predict", "library")[i % 2]]
        if ending != FORMATS[form]
    ]


def _frames(form: str, **options: Any) -> bytes:
    frames = [Image.fromarray(np.roll(pixels(), i, axis=0)) for i in range(3)]
    return encoded(form, frames[0], save_all=True, append_images=frames[1:], **options)


def _turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded("JPEG", exif=exif)


def _mode(form: str, mode: str, **options: Any) -> bytes:
    return encoded(form, Image.fromarray(pixels()).convert(mode), **options)


MODES: dict[str, bytes] = {
    **{f"png-{mode}": _mode("PNG", mode) for mode in ("1", "L", "LA", "P", "RGBA")},
    **{f"tiff-{mode}": _mode("TIFF", mode) for mode in ("1", "L", "P", "RGBA", "CMYK", "YCbCr", "LAB", "F", "I")},
    **{f"jpeg-{mode}": _mode("JPEG", mode) for mode in ("L", "CMYK", "YCbCr")},
    **{f"gif-{mode}": _mode("GIF", mode) for mode in ("1", "L", "P")},
    **{f"webp-{mode}": _mode("WEBP", mode) for mode in ("RGBA", "L")},
    **{f"bmp-{mode}": _mode("BMP", mode) for mode in ("1", "L", "P", "RGBA")},
    "png-16-bit": encoded("PNG", Image.fromarray(pixels()[..., 0].astype(np.uint16) * 256)),
    "tiff-float-huge": encoded("TIFF", Image.fromarray(np.full((9, 9), 1e38, np.float32))),
    "png-16-bit-colour": _png(4, 4, depth=16, data=b"".join(b"\0" + bytes(range(24)) for _ in range(4))),
    "png-transparent": _mode("PNG", "P", transparency=0),
    "png-odd-profile": encoded("PNG", icc_profile=garbage(300)),
    "jpeg-odd-exif": encoded("JPEG", exif=b"Exif\0\0" + garbage(200)),
    "jpeg-progressive": encoded("JPEG", progressive=True),
    "webp-lossless": encoded("WEBP", lossless=True),
    "tiff-lzw": encoded("TIFF", compression="tiff_lzw"),
    "tiff-jpeg": encoded("TIFF", compression="jpeg"),
    **{f"{form}-frames": _frames(form) for form in ("GIF", "WEBP", "PNG", "TIFF")},
    **{f"jpeg-turned-{orientation}": _turned(orientation) for orientation in (0, 5, 8, 9, 65535)},
    **{f"png-{h}x{w}": encoded("PNG", Image.fromarray(pixels(h, w))) for h, w in ((1, 1), (1, 5000), (5000, 1), (3, 3000))},
}  # fmt: skip


def _modes() -> list[Case]:
    return [
        _case(f"mode-{name}", road, _written(content, "image.png"), ANSWER)
        for i, (name, content) in enumerate(MODES.items())
        for road in ("predict", ("library", "data-verify")[i % 2])
    ]


ODD_NAMES: dict[str, bytes] = {
    "newline": b"a\nb.png", "tab": b"a\tb.png", "escape": b"a\x1b[31mb.png", "bad-bytes": b"a\xff\xfe.png",
    "surrogates": "a\ud800.png".encode("utf-8", "surrogatepass"), "long": b"a" * 251 + b".png", "dash": b"-a.png",
    "two-dashes": b"--json.png", "stars": b"*.png", "brackets": b"[a].png", "question": b"?.png", "blank": b" .png",
    "quotes": b"a'b\"c.png", "dollar": b"$HOME.png", "tilde": b"~.png", "percent": b"%s%n.png", "braces": b"{0}.png",
    "right-to-left": "‮gnp.png".encode(), "emoji": "🙈.png".encode(), "combining": ("e" + "́" * 50 + ".png").encode(),
    "markup": b"[bold]a.png", "comma": b"a,b.png", "equals": b"a=b.png", "colon": b"pacs:a.png",
    "backslash": b"a\\b.png", "bell": b"\x07.png", "carriage-return": b"a\rerror: b.png", "only-ending": b"a.png.png",
}  # fmt: skip


def _names() -> list[Case]:
    """Files, classes and domains by these names."""
    found = []
    for i, (name, raw) in enumerate(ODD_NAMES.items()):
        written = _written(encoded("PNG"), os.fsdecode(raw))
        for road, form in (("predict", ("--csv", "--out", "a.csv")), ("predict-table", ()), ("predict-json", ("--json",))):
            arrange = _answered(written, form)
            found.append(Case(FAMILY, f"name-{name}", road, arrange, ANSWER))
        found.append(_case(f"name-{name}", "library", written, ANSWER))
        folder = os.fsdecode(raw.removesuffix(b".png"))
        for what, old in (("class", "across"), ("domain", "night")):
            road = ("data-describe", "data-verify", "fit", "fit")[(i + (what == "domain")) % 4]
            found.append(Case(FAMILY, f"{what}-{name}", road, _renamed(old, folder, road), EITHER))
    return found


def _answered(written: Make, form: tuple[str, ...]) -> Callable[[Scene], Command]:
    out = Path("a.csv") if "--out" in form else None
    return lambda scene: Command(("predict", scene.model, written(scene), "--device", "cpu", *form), out=out)


def _renamed(old: str, new: str, road: str) -> Callable[[Scene], Command]:
    def arrange(scene: Scene) -> Command:
        photos = scene.copy(scene.photos)
        for folder in list(photos.rglob(old)):
            folder.rename(folder.with_name(new))
        if road == "fit":
            words = [word for word in scene.same_fit[2:] if word not in ("--holdout", "night")]
            return Command(("fit", photos, *words), out=Path("model"))
        return Command(("data", road.removeprefix("data-"), photos))

    return arrange


def _places() -> list[Case]:
    """What is given in the place of an image, and what lies among images."""
    found = []
    for i, (name, damage) in enumerate(PLACE_DAMAGE.items()):
        for road in ("predict", "library", ("data-verify", "fit")[i % 2]):
            def make(scene: Scene, damage: Callable[[Path], None] = damage) -> Path:
                path = _written(encoded("PNG"), "image.png")(scene)
                damage(path)
                return path

            expected = EITHER if road in ("data-verify", "fit") or name == "full-folder" else REFUSAL
            found.append(_case(f"place-{name}", road, make, expected))
    for name, (given, expected) in PLACES.items():
        for road in ("predict", "library"):
            found.append(_case(f"place-{name}", road, lambda scene, g=given: g(scene), expected))
    return found


def _made(scene: Scene, *folders: str) -> Path:
    for folder in folders:
        (scene.place / folder).mkdir(parents=True)
    return scene.place / folders[0]


def _loop(scene: Scene) -> Path:
    folder = _made(scene, "folder")
    (folder / "again").symlink_to(folder)
    (folder / "a.png").write_bytes(encoded("PNG"))
    return folder


PLACES: dict[str, tuple[Make, frozenset[str]]] = {
    "no-name": (lambda scene: "", REFUSAL),
    "blank": (lambda scene: " ", REFUSAL),
    "here-empty": (lambda scene: ".", REFUSAL),
    "nowhere": (lambda scene: "nowhere.png", REFUSAL),
    "pattern-of-nothing": (lambda scene: "*.png", REFUSAL),
    "pattern-odd": (lambda scene: "[", REFUSAL),
    "pattern-stars": (lambda scene: "*" * 200, REFUSAL),
    "pattern-deep": (lambda scene: "/".join(["**"] * 30), REFUSAL),
    "empty-folder": (lambda scene: _made(scene, "folder"), REFUSAL),
    "folder-named-like-an-image": (lambda scene: _made(scene, "folder.png"), REFUSAL),
    "loop-of-folders": (_loop, ANSWER),
    "deep-folders": (lambda scene: _made(scene, "d/" * 200), REFUSAL),
    "device": (lambda scene: "/dev/null", REFUSAL),
    "endless-device": (lambda scene: "/dev/zero", REFUSAL),
    "long": (lambda scene: "a" * 5000, REFUSAL),
    "slash-behind": (lambda scene: f"{scene.image}/", EITHER),
    "home-of-nobody": (lambda scene: "~nobody-at-all/a.png", REFUSAL),
    "url": (lambda scene: "https://example.org/a.png", REFUSAL),
    "model": (lambda scene: scene.model, REFUSAL),
}


TREES: dict[str, tuple[dict[str, int], frozenset[str]]] = {
    "one-domain": ({"day/across": 4, "day/upright": 4}, EITHER),
    "one-class": ({"day/across": 4, "dusk/across": 4}, REFUSAL),
    "one-image-each": ({"day/across": 1, "day/upright": 1, "dusk/across": 1, "dusk/upright": 1}, EITHER),
    "one-image": ({"day/across": 1}, REFUSAL),
    "class-in-one-domain": ({"day/across": 4, "day/upright": 4, "dusk/across": 4}, EITHER),
    "no-class-shared": ({"day/across": 4, "dusk/upright": 4}, EITHER),
    "domain-named-as-class": ({"across/across": 4, "across/upright": 4, "dusk/across": 4, "dusk/upright": 4}, EITHER),
    "classes-by-case": ({"day/Across": 4, "day/across": 4, "dusk/Across": 4, "dusk/across": 4}, EITHER),
    "classes-by-accents": ({"day/é": 4, "day/é": 4, "dusk/é": 4, "dusk/é": 4}, EITHER),
    "classes-by-blanks": ({"day/a": 4, "day/a ": 4, "dusk/a": 4, "dusk/a ": 4}, EITHER),
    "no-domains": ({"across": 4, "upright": 4}, REFUSAL),
    "no-classes": ({".": 4}, REFUSAL),
    "images-at-two-depths": ({"day/across": 4, "day/upright": 4, "dusk": 4}, EITHER),
    "images-in-root": ({"day/across": 4, "day/upright": 4, ".": 2}, EITHER),
    "deeper": ({"day/across/more": 4, "day/upright": 4, "dusk/across": 4, "dusk/upright": 4}, EITHER),
    "hidden": ({".day/across": 4, ".day/upright": 4}, REFUSAL),
    "mac-folder": ({"__MACOSX/across": 4, "day/across": 4, "day/upright": 4}, EITHER),
    "many-classes": ({f"day/{i}": 1 for i in range(60)}, EITHER),
    "nothing": ({}, REFUSAL),
    "empty-classes": ({"day/across": 0, "day/upright": 0}, REFUSAL),
    "empty-class": ({"day/across": 4, "day/upright": 4, "day/more": 0}, EITHER),
}  # fmt: skip


def _tree(scene: Scene, cells: dict[str, int]) -> Path:
    root = scene.place / "tree"
    root.mkdir()
    for number, (folder, images) in enumerate(cells.items()):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for i in range(images):
            Image.fromarray(np.roll(pixels(), 7 * number + i, axis=1)).save(root / folder / f"{i}.png")
    return root


def _unheld(scene: Scene, data: Path) -> Command:
    words = [word for word in scene.same_fit[2:] if word not in ("--holdout", "night")]
    return Command(("fit", data, *words), out=Path("model"))


def _trees() -> list[Case]:
    roads: dict[str, Callable[[Scene, Path], Command]] = {
        "fit": _unheld,
        "data-verify": lambda scene, tree: Command(("data", "verify", tree)),
        "data-describe": lambda scene, tree: Command(("data", "describe", tree)),
        "evaluate": lambda scene, tree: Command(("evaluate", scene.model, tree, "--device", "cpu")),
    }
    return [
        Case(FAMILY, f"tree-{name}", road, lambda s, c=cells, a=act: a(s, _tree(s, c)), right)
        for name, (cells, expected) in TREES.items()
        for road, act in roads.items()
        # A single class can be described and measured, but not learned.
        for right in [expected if road == "fit" or name not in ("one-class", "one-image") else EITHER]
    ]


def _members(scene: Scene) -> dict[str, bytes]:
    """The photos by their names in an archive."""
    files = sorted(path for path in scene.photos.rglob("*.png"))
    return {str(path.relative_to(scene.photos)): path.read_bytes() for path in files}


def _tar(members: dict[str, bytes], **types: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, kind in types.items():
            member = tarfile.TarInfo(f"day/across/{name}.png")
            member.type, member.linkname = kind, "../../x.png"
            archive.addfile(member)
    return buffer.getvalue()


def _zip(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


ARCHIVE_ROADS: dict[str, Callable[[Scene, Path], Command]] = {
    "data-verify": lambda scene, path: Command(("data", "verify", path)),
    "fit": lambda scene, path: _fit(scene, path),
    "evaluate": lambda scene, path: Command(("evaluate", scene.model, path, "--device", "cpu")),
    "data-describe": lambda scene, path: Command(("data", "describe", path)),
}


def _archived(name: str, road: str, file: str, make: Callable[[dict[str, bytes]], bytes], expected: frozenset[str]) -> Case:
    def arrange(scene: Scene) -> Command:
        path = scene.place / file
        path.write_bytes(make(_members(scene)))
        return ARCHIVE_ROADS[road](scene, path)

    return Case(FAMILY, name, road, arrange, expected)


def _cut_archives() -> list[Case]:
    """Cut at every kind of place: nothing that was in the archive may vanish without a word."""
    found = []
    roads = list(ARCHIVE_ROADS)
    for i, part in enumerate(np.linspace(0.02, 0.98, 25).tolist()):
        for kind, pack in (("tar", _tar), ("zip", _zip)):
            cut = lambda members, p=part, k=pack: (whole := k(members))[: int(p * len(whole))]  # noqa: E731
            # Behind the last member of a tar there are only zeros.
            expected = EITHER if kind == "tar" and part > 0.9 else REFUSAL
            found.append(_archived(f"{kind}-cut-at-{part:.2f}", roads[i % 2], f"p.{kind}", cut, expected))
    for i, (name, place) in enumerate(TAR_CUTS.items()):
        for road in (roads[0], roads[1 + i % 3]):
            cut = lambda members, p=place: _tar(members)[: p(_starts(_tar(members)))]  # noqa: E731
            found.append(_archived(f"tar-cut-{name}", road, "p.tar", cut, REFUSAL))
    return found


def _starts(content: bytes) -> list[int]:
    """Where each member of a tar begins."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return [member.offset for member in archive]


TAR_CUTS: dict[str, Callable[[list[int]], int]] = {
    "between-members": lambda starts: starts[len(starts) // 2],
    "after-the-first": lambda starts: starts[1],
    "before-the-last": lambda starts: starts[-1],
    "in-a-header": lambda starts: starts[len(starts) // 2] + 100,
    "one-byte-into-a-header": lambda starts: starts[5] + 1,
    "at-the-end-of-a-header": lambda starts: starts[5] + 512,
    "in-a-member": lambda starts: starts[5] + 700,
    "one-byte-before-a-member": lambda starts: starts[7] - 1,
}


def _locked(content: bytes) -> bytes:
    """A zip whose members say that they have a password."""
    changed = bytearray(content)
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = changed.find(signature)
        while start >= 0:
            changed[start + place] |= 1
            start = changed.find(signature, start + 4)
    return bytes(changed)


def _bomb(members: dict[str, bytes]) -> bytes:
    return _zip({**members, "day/across/bomb.png": bytes(300 << 20)})


def _patched(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


ARCHIVES: dict[str, tuple[str, Callable[[dict[str, bytes]], bytes], frozenset[str]]] = {
    "tar-empty": ("p.tar", lambda m: _tar({}), REFUSAL),
    "zip-empty": ("p.zip", lambda m: _zip({}), REFUSAL),
    "tar-no-bytes": ("p.tar", lambda m: b"", REFUSAL),
    "zip-no-bytes": ("p.zip", lambda m: b"", REFUSAL),
    "tar-zeros": ("p.tar", lambda m: bytes(20_000), REFUSAL),
    "tar-garbage": ("p.tar", lambda m: garbage(20_000), REFUSAL),
    "zip-garbage": ("p.zip", lambda m: garbage(20_000), REFUSAL),
    "tar-named-zip": ("p.zip", _tar, REFUSAL),
    "zip-named-tar": ("p.tar", _zip, REFUSAL),
    "image-named-tar": ("p.tar", lambda m: encoded("PNG"), REFUSAL),
    "gzip-named-tar": ("p.tar", lambda m: gzip.compress(_tar(m)), REFUSAL),
    "gzip": ("p.tar.gz", lambda m: gzip.compress(_tar(m)), REFUSAL),
    "tgz": ("p.tgz", lambda m: gzip.compress(_tar(m)), REFUSAL),
    "tar-named-gzip": ("p.tar.gz", _tar, REFUSAL),
    "tar-header-damaged": ("p.tar", lambda m: _patched(_tar(m), _starts(_tar(m))[6] + 3), REFUSAL),
    "tar-size-damaged": ("p.tar", lambda m: _patched(_tar(m), _starts(_tar(m))[6] + 128), REFUSAL),
    "tar-first-header-damaged": ("p.tar", lambda m: _patched(_tar(m), 3), REFUSAL),
    "tar-pixels-damaged": ("p.tar", lambda m: _patched(_tar(m), _starts(_tar(m))[6] + 700), EITHER),
    "tar-twice": ("p.tar", lambda m: _tar(m) + _tar(m), EITHER),
    "tar-garbage-behind": ("p.tar", lambda m: _tar(m) + garbage(5000), EITHER),
    "tar-links": ("p.tar", lambda m: _tar(m, soft=tarfile.SYMTYPE, hard=tarfile.LNKTYPE), EITHER),
    "tar-devices": ("p.tar", lambda m: _tar(m, pipe=tarfile.FIFOTYPE, character=tarfile.CHRTYPE), EITHER),
    "tar-links-alone": ("p.tar", lambda m: _tar({}, soft=tarfile.SYMTYPE), REFUSAL),
    "tar-folders-alone": ("p.tar", lambda m: _tar({}, folder=tarfile.DIRTYPE), REFUSAL),
    "tar-empty-image": ("p.tar", lambda m: _tar({**m, "day/across/e.png": b""}), REFUSAL),
    "zip-empty-image": ("p.zip", lambda m: _zip({**m, "day/across/e.png": b""}), REFUSAL),
    "zip-password": ("p.zip", lambda m: _locked(_zip(m)), REFUSAL),
    "zip-bzip2": ("p.zip", lambda m: _zip(m, zipfile.ZIP_BZIP2), REFUSAL),
    "zip-lzma": ("p.zip", lambda m: _zip(m, zipfile.ZIP_LZMA), REFUSAL),
    "zip-stored": ("p.zip", lambda m: _zip(m, zipfile.ZIP_STORED), EITHER),
    "zip-bomb": ("p.zip", _bomb, REFUSAL),
    "zip-data-damaged": ("p.zip", lambda m: _patched(_zip(m, zipfile.ZIP_STORED), 300), REFUSAL),
    "zip-local-header-damaged": ("p.zip", lambda m: _patched(_zip(m), 0), REFUSAL),
    "zip-directory-damaged": ("p.zip", lambda m: _patched(_zip(m), _zip(m).find(b"PK\x01\x02")), REFUSAL),
    "zip-end-damaged": ("p.zip", lambda m: _patched(_zip(m), len(_zip(m)) - 8), REFUSAL),
    "zip-garbage-before": ("p.zip", lambda m: garbage(500) + _zip(m), EITHER),
    "zip-garbage-behind": ("p.zip", lambda m: _zip(m) + garbage(500), EITHER),
    "zip-backslashes": ("p.zip", lambda m: _zip({n.replace("/", "\\"): c for n, c in m.items()}), EITHER),
    "archive-in-archive": ("p.tar", lambda m: _tar({"day/across/p.zip": _zip(m)}), REFUSAL),
    "image-bytes-garbage": ("p.tar", lambda m: _tar({**m, "day/across/g.png": garbage(500)}), REFUSAL),
}  # fmt: skip

MEMBER_NAMES = {
    "up": "../../day/across/x.png", "absolute": "/day/across/x.png", "dots": "./day/./across/x.png", "no-name": "x.png",
    "up-inside": "day/across/../across/x.png", "long": f"day/across/{'x' * 3000}.png", "deep": f"day/across/{'y/' * 500}x.png",
    "blank-folder": "day/ /x.png", "newline": "day/across/x\ny.png", "nul-like": "day/across/\\0.png", "drive": "C:/day/x.png",
    "device": "day/across/con.png", "hidden": "day/across/.x.png", "slashes": "day//across//x.png", "emoji": "day/🙈/x.png",
}  # fmt: skip


def _archives() -> list[Case]:
    found = [
        _archived(f"archive-{name}", road, file, make, expected if road != "data-describe" else EITHER)
        for i, (name, (file, make, expected)) in enumerate(ARCHIVES.items())
        for road in ("data-verify", list(ARCHIVE_ROADS)[1 + i % 3])
    ]
    for i, (name, member) in enumerate(MEMBER_NAMES.items()):
        for kind, pack in (("tar", _tar), ("zip", _zip)):
            make = lambda members, m=member, p=pack: p({**members, m: encoded("PNG")})  # noqa: E731
            road = list(ARCHIVE_ROADS)[i % 3]
            found.append(_archived(f"{kind}-member-{name}", road, f"p.{kind}", make, EITHER))
    return found


def _images(count: int = 8) -> np.ndarray:
    return np.stack([np.roll(pixels(16, 16), i, axis=0) for i in range(count)])


ARRAYS: dict[str, tuple[Callable[[], Any], frozenset[str]]] = {
    "bytes": (_images, ANSWER),
    "floats": (lambda: _images() / 255.0, ANSWER),
    "float16": (lambda: (_images() / 255.0).astype(np.float16), ANSWER),
    "int64": (lambda: _images().astype(np.int64), ANSWER),
    "channels-first": (lambda: _images().transpose(0, 3, 1, 2), ANSWER),
    "greys": (lambda: _images()[..., 0], ANSWER),
    "one-image": (lambda: _images()[0], ANSWER),
    "other-size": (lambda: pixels(50, 7)[None], ANSWER),
    "fortran": (lambda: np.asfortranarray(_images()), ANSWER),
    "backwards": (lambda: _images()[:, ::-1, ::-1], ANSWER),
    "every-second": (lambda: _images()[::2, ::2], ANSWER),
    "read-only": (lambda: _frozen(_images()), ANSWER),
    "big-endian": (lambda: (_images() / 255.0).astype(">f4"), ANSWER),
    "broadcast": (lambda: np.broadcast_to(np.uint8(7), (3, 16, 16, 3)), ANSWER),
    "tensor": (lambda: torch.from_numpy(_images()), ANSWER),
    "tensor-bfloat16": (lambda: torch.from_numpy(_images() / 255.0).bfloat16(), ANSWER),
    "tensor-gradient": (lambda: torch.from_numpy(_images() / 255.0).requires_grad_(), ANSWER),
    "tensor-meta": (lambda: torch.zeros(2, 3, 16, 16, device="meta"), REFUSAL),
    "tensor-sparse": (lambda: torch.zeros(2, 3, 16, 16).to_sparse(), REFUSAL),
    "tensor-complex": (lambda: torch.zeros(2, 3, 16, 16, dtype=torch.complex64), REFUSAL),
    "tensor-quantised": (lambda: torch.quantize_per_tensor(torch.zeros(2, 3, 16, 16), 1.0, 0, torch.quint8), REFUSAL),
    "bools": (lambda: _images() > 9, EITHER),
    "nan": (lambda: np.full((2, 16, 16, 3), np.nan), REFUSAL),
    "inf": (lambda: np.full((2, 16, 16, 3), np.inf), REFUSAL),
    "negative": (lambda: np.full((2, 16, 16, 3), -0.1), REFUSAL),
    "too-large": (lambda: np.full((2, 16, 16, 3), 256), REFUSAL),
    "floats-of-255": (lambda: _images().astype(float), REFUSAL),
    "complex": (lambda: _images().astype(complex), REFUSAL),
    "text": (lambda: np.full((2, 16, 16, 3), "a"), REFUSAL),
    "objects": (lambda: _images().astype(object), EITHER),
    "dates": (lambda: np.zeros((2, 16, 16, 3), "datetime64[s]"), REFUSAL),
    "no-images": (lambda: _images()[:0], REFUSAL),
    "no-pixels": (lambda: np.zeros((2, 0, 16, 3), np.uint8), REFUSAL),
    "scalar": (lambda: np.uint8(3) * np.ones(()), REFUSAL),
    "one-axis": (lambda: np.zeros(5, np.uint8), REFUSAL),
    "two-axes": (lambda: np.zeros((5, 5), np.uint8), REFUSAL),
    "five-axes": (lambda: np.zeros((1, 1, 5, 5, 3), np.uint8), REFUSAL),
    "four-channels": (lambda: np.zeros((2, 16, 16, 4), np.uint8), REFUSAL),
    "one-pixel": (lambda: np.zeros((1, 1, 1, 3), np.uint8), ANSWER),
    "list": (lambda: _images().tolist(), EITHER),
    "empty-list": (lambda: [], REFUSAL),
    "ragged-list": (lambda: [[1], [2, 3]], REFUSAL),
    "list-of-numbers": (lambda: [1, 2, 3], REFUSAL),
    "list-of-none": (lambda: [None], REFUSAL),
    "none": (lambda: None, REFUSAL),
    "number": (lambda: 5, REFUSAL),
    "bytes-object": (lambda: b"image.png", REFUSAL),
    "dictionary": (lambda: {"a": 1}, REFUSAL),
    "masked": (lambda: np.ma.masked_array(_images(), mask=True), EITHER),
    "record": (lambda: np.zeros((2, 16, 16), [("r", "u1"), ("g", "u1")]), REFUSAL),
}  # fmt: skip


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _arrays() -> list[Case]:
    found = []
    for name, (make, expected) in ARRAYS.items():
        found.append(Case(FAMILY, f"array-{name}", "library", lambda s, m=make: Call(lambda: s.homefold.predict(m())), expected))
        # Labels for as many images as there are; what no array is, has none.
        right = expected if name in ("bytes", "floats", "fortran", "backwards", "tensor-bfloat16", "channels-first") else EITHER
        found.append(Case(FAMILY, f"fit-array-{name}", "library", lambda s, m=make: _fitted(s, m), right))
    return found


def _fitted(scene: Scene, make: Callable[[], Any], labels: Any = None, domains: Any = None) -> Call:
    def fit() -> None:
        images = make()
        count = len(images) if hasattr(images, "__len__") else 8
        given = np.arange(count) % 2 if labels is None else labels
        origins = np.arange(count) // 2 % 2 if domains is None else domains
        # The nearest feature is a manifold that cannot collapse.
        config = replace_settings(scene.homefold.config, {"manifold.kind": "nearest"})
        Homefold(config, device="cpu").fit(images, given, origins)

    return Call(fit)


ODD_LABELS: dict[str, tuple[Any, frozenset[str]]] = {
    "text": (list("abababab"), EITHER),
    "floats": ([0.0, 1.0] * 4, EITHER),
    "fractions": ([0.5, 1.0] * 4, REFUSAL),
    "nan": ([float("nan"), 1.0] * 4, REFUSAL),
    "none": ([None] * 8, REFUSAL),
    "mixed": ([0, "a"] * 4, EITHER),
    "too-few": ([0, 1], REFUSAL),
    "too-many": ([0, 1] * 9, REFUSAL),
    "two-axes": ([[0, 1]] * 8, REFUSAL),
    "negative": ([-1, 5] * 4, EITHER),
    "huge": ([0, 2**62] * 4, EITHER),
    "objects": ([{"a": 1}] * 8, REFUSAL),
    "bytes": ([b"a", b"b"] * 4, EITHER),
    "one-class": ([0] * 8, REFUSAL),
    "each-its-own": (list(range(8)), EITHER),
    "number": (3, REFUSAL),
    "empty-text": (["", "a"] * 4, EITHER),
    "surrogates": (["\ud800", "a"] * 4, EITHER),
    "newlines": (["a\nb", "a"] * 4, EITHER),
    "bools": ([True, False] * 4, EITHER),
}  # fmt: skip


def _labels() -> list[Case]:
    found = []
    for name, (values, expected) in ODD_LABELS.items():
        found.append(Case(FAMILY, f"labels-{name}", "library", lambda s, v=values: _fitted(s, _images, labels=v), expected))
        right = EITHER if name in ("one-class", "number") and name == "one-class" else expected
        found.append(Case(FAMILY, f"domains-{name}", "library", lambda s, v=values: _fitted(s, _images, domains=v), right))

        def projector(scene: Scene, values: Any = values) -> Call:
            x = np.random.default_rng(0).normal(size=(8, 6))
            model = ManifoldProjector(manifold="nearest", classifier_epochs=2, device="cpu")
            return Call(lambda: model.fit(x, values), errors=(ValueError, TypeError))

        found.append(Case(FAMILY, f"projector-labels-{name}", "library", projector, EITHER))
    return found


def _features(count: int = 24) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, 12)).astype(np.float32)


ROWS: dict[str, tuple[Callable[[], Any], frozenset[str]]] = {
    "floats": (_features, ANSWER),
    "float64": (lambda: _features().astype(float), ANSWER),
    "float16": (lambda: _features().astype(np.float16), ANSWER),
    "ints": (lambda: (10 * _features()).astype(int), ANSWER),
    "bools": (lambda: _features() > 0, ANSWER),
    "big-endian": (lambda: _features().astype(">f4"), ANSWER),
    "fortran": (lambda: np.asfortranarray(_features()), ANSWER),
    "backwards": (lambda: _features()[:, ::-1], ANSWER),
    "upside-down": (lambda: _features()[::-1], ANSWER),
    "every-second": (lambda: np.repeat(_features(), 2, axis=1)[:, ::2], ANSWER),
    "read-only": (lambda: _frozen(_features()), ANSWER),
    "list": (lambda: _features().tolist(), ANSWER),
    "tensor": (lambda: torch.from_numpy(_features()), ANSWER),
    "tensor-bfloat16": (lambda: torch.from_numpy(_features()).bfloat16(), ANSWER),
    "tensor-half": (lambda: torch.from_numpy(_features()).half(), ANSWER),
    "tensor-gradient": (lambda: torch.from_numpy(_features()).requires_grad_(), ANSWER),
    "tensor-transposed": (lambda: torch.from_numpy(np.ascontiguousarray(_features().T)).T, ANSWER),
    "tensor-meta": (lambda: torch.zeros(24, 12, device="meta"), REFUSAL),
    "tensor-sparse": (lambda: torch.from_numpy(_features()).to_sparse(), REFUSAL),
    "tensor-complex": (lambda: torch.zeros(24, 12, dtype=torch.complex64), REFUSAL),
    "zeros": (lambda: np.zeros((24, 12)), EITHER),
    "nan": (lambda: np.full((24, 12), np.nan), REFUSAL),
    "inf": (lambda: np.full((24, 12), np.inf), REFUSAL),
    "huge": (lambda: np.full((24, 12), 1e300), REFUSAL),
    "largest": (lambda: np.full((24, 12), 3e38, np.float32), EITHER),
    "tiny": (lambda: np.full((24, 12), 1e-45), EITHER),
    "complex": (lambda: _features().astype(complex), REFUSAL),
    "text": (lambda: _features().astype(str), EITHER),
    "words": (lambda: np.full((24, 12), "a"), REFUSAL),
    "objects": (lambda: _features().astype(object), ANSWER),
    "objects-odd": (lambda: np.full((24, 12), None), REFUSAL),
    "dates": (lambda: np.zeros((24, 12), "datetime64[s]"), EITHER),
    "no-rows": (lambda: _features()[:0], REFUSAL),
    "no-columns": (lambda: _features()[:, :0], REFUSAL),
    "one-row": (lambda: _features()[:1], EITHER),
    "one-axis": (lambda: _features()[0], REFUSAL),
    "three-axes": (lambda: _features()[None], REFUSAL),
    "other-width": (lambda: _features()[:, :5], EITHER),
    "none": (lambda: None, REFUSAL),
    "number": (lambda: 3.0, REFUSAL),
    "ragged": (lambda: [[1.0], [1.0, 2.0]], REFUSAL),
    "masked": (lambda: np.ma.masked_array(_features(), mask=True), EITHER),
}  # fmt: skip


def _rows() -> list[Case]:
    """Features given to the estimator, to fit and to answer for; scikit-learn's own refusals are as good."""
    found = []
    for name, (make, expected) in ROWS.items():
        def fit(scene: Scene, make: Callable[[], Any] = make) -> Call:
            model = ManifoldProjector(manifold="nearest", classifier_epochs=2, device="cpu")
            return Call(lambda: model.fit(rows := make(), np.arange(len(rows)) % 2), errors=(ValueError, TypeError))

        def predict(scene: Scene, make: Callable[[], Any] = make) -> Call:
            return Call(lambda: scene.features.predict(make()), errors=(ValueError, TypeError))

        found.append(Case(FAMILY, f"rows-{name}", "library", predict, REFUSAL if name == "other-width" else expected))
        found.append(Case(FAMILY, f"fit-rows-{name}", "library", fit, EITHER if expected == ANSWER else expected))
    return found


def _saved() -> list[Case]:
    """What a model may and may not be saved onto, by the library."""
    found = []
    for which in ("homefold", "features"):
        for name, (make, expected) in SAVE_PLACES.items():
            def arrange(scene: Scene, which: str = which, make: Make = make) -> Call:
                place = make(scene)
                return Call(lambda: getattr(scene, which).save(place), out=Path(place))

            found.append(Case(FAMILY, f"save-{which}-on-{name}", "library", arrange, expected))
    return found


def _file(scene: Scene, name: str = "notes.txt", content: bytes = b"mine") -> Path:
    path = scene.place / name
    path.write_bytes(content)
    return path




def _linked(scene: Scene, target: Path) -> Path:
    link = scene.place / "link"
    link.symlink_to(target)
    return link


SAVE_PLACES: dict[str, tuple[Make, frozenset[str]]] = {
    "nothing": (lambda scene: "new", ANSWER),
    "nothing-deep": (lambda scene: "a/b/c", ANSWER),
    "empty-folder": (lambda scene: _made(scene, "folder"), ANSWER),
    "model": (lambda scene: scene.copy(scene.model), ANSWER),
    "projector": (lambda scene: scene.copy(scene.projector), ANSWER),
    "photos": (lambda scene: scene.copy(scene.photos), REFUSAL),
    "here": (lambda scene: (_file(scene), ".")[1], REFUSAL),
    "file": (_file, REFUSAL),
    "below-a-file": (lambda scene: _file(scene) / "model", REFUSAL),
    "pipe": (lambda scene: (os.mkfifo(scene.place / "pipe"), scene.place / "pipe")[1], REFUSAL),
    "link-to-photos": (lambda scene: _linked(scene, scene.copy(scene.photos)), REFUSAL),
    "link-to-nowhere": (lambda scene: _linked(scene, scene.place / "nowhere"), REFUSAL),
    "link-loop": (lambda scene: _linked(scene, Path("link")), REFUSAL),
    "folder-with-other-config": (lambda scene: _file(scene, "config.json", b"{}").parent, REFUSAL),
    "folder-of-hidden-files": (lambda scene: (_file(scene, ".secret"), ".")[1], REFUSAL),
    "no-name": (lambda scene: "", REFUSAL),
    "long-name": (lambda scene: "m" * 300, REFUSAL),
}  # fmt: skip
