"""Images, folders and archives that are damaged, absurd or oddly named; arrays stand in `arrays`."""

from __future__ import annotations

import gzip
import io
import os
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from homefold.data.decoding.image import IMAGE_EXTENSIONS
from hostile import arrays
from hostile.campaign import ANSWER, EITHER, NO, REFUSAL, Call, Case, Command, Scene
from hostile.damage import CONTENT_DAMAGE, PLACE_DAMAGE, Damage, garbage

Make = Callable[[Scene], Any]
Act = Callable[[Scene, Any], Command | Call]
_case = partial(Case, "images_and_archives")


def cases() -> list[Case]:
    """The whole table."""
    parts = (_damaged_files, _contents, _names, _places, _trees, _cut_archives, _archives, arrays.cases)
    return list(chain.from_iterable(part() for part in parts))


def pixels(height: int = 24, width: int = 32) -> np.ndarray:
    """A smooth picture, so that every format stores it well."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([4 * x, 5 * y, 2 * (x + y)], axis=-1).astype(np.uint8)


def encoded(form: str, mode: str = "RGB", image: Image.Image | None = None, **options: Any) -> bytes:
    """An image file's bytes."""
    buffer = io.BytesIO()
    (image or Image.fromarray(pixels()).convert(mode)).save(buffer, form, **options)
    return buffer.getvalue()


def _predict(scene: Scene, path: Any, *more: str) -> Command:
    return Command(("predict", scene.model, path, "--json", "--device", "cpu", *more))


def _fit(scene: Scene, data: Any) -> Command:
    """The scene's own quick fit, on other data, with no domain held out."""
    words = [word for word in scene.same_fit[2:] if word not in ("--holdout", "night")]
    return Command(("fit", data, *words), out=Path("model"))


def _in_tree(scene: Scene, path: Path) -> Path:
    """A folder of domains in which the image is one of a class."""
    photos = scene.copy(scene.photos)
    if os.path.lexists(path):
        path.rename(photos / "day" / "across" / path.name)
    return photos


IMAGE_ROADS: dict[str, Act] = {
    "predict": _predict,
    "library": lambda scene, path: Call(lambda: scene.homefold.predict(path)),
    "predict-skip-bad": lambda scene, path: _predict(scene, path, "--skip-bad"),
    "data-verify": lambda scene, path: Command(("data", "verify", _in_tree(scene, path))),
    "fit": lambda scene, path: _fit(scene, _in_tree(scene, path)),
}
DATA_ROADS: dict[str, Act] = {
    "data-verify": lambda scene, data: Command(("data", "verify", data)),
    "fit": _fit,
    "evaluate": lambda scene, data: Command(("evaluate", scene.model, data, "--device", "cpu")),
    "data-describe": lambda scene, data: Command(("data", "describe", data)),
}


def _file(content: bytes, name: str, damage: Damage = lambda path: None) -> Make:
    def make(scene: Scene) -> Path:
        path = scene.place / name
        path.write_bytes(content)
        damage(path)
        return path

    return make


def _image(name: str, road: str, make: Make, expected: frozenset[str]) -> Case:
    """With `--skip-bad` a file that is no image is left out."""
    right = ANSWER if road == "predict-skip-bad" and expected == REFUSAL else expected
    return _case(name, road, lambda scene: IMAGE_ROADS[road](scene, make(scene)), right)


FORMATS = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "BMP": ".bmp", "TIFF": ".tif", "GIF": ".gif"}


def _damaged_files() -> list[Case]:
    found = []
    for form, ending in FORMATS.items():
        whole = encoded(form)
        changed = {name: change(whole) for name, change in CONTENT_DAMAGE.items()}
        changed |= {f"cut-at-{i}": whole[:i] for i in (2, 8, 20)}
        changed |= {f"flipped-{seed}": _flipped(whole, seed) for seed in range(4)}
        for i, (name, content) in enumerate(changed.items()):
            sure = name.startswith(("empty", "one-byte", "zeros", "cut-at-")) or name == "garbage"
            for road in ("predict", list(IMAGE_ROADS)[1 + i % 4]):
                make = _file(content, f"image{ending}")
                found.append(_image(f"{form}-{name}", road, make, REFUSAL if sure else EITHER))
    return found


def _flipped(content: bytes, seed: int) -> bytes:
    chosen, changed = random.Random(seed), bytearray(content)
    for _ in range(1 + len(content) // 100):
        changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
    return bytes(changed)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, *chunks: bytes, depth: int = 8, colour: int = 2, data: bytes = bytes(1000)) -> bytes:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    body = b"".join(chunks) + _chunk(b"IDAT", zlib.compress(data, 1)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + body


def _bmp(width: int, height: int, bits: int = 24, size: int = 40) -> bytes:
    info = struct.pack("<IiiHHIIiiII", size, width, height, 1, bits, 0, 0, 0, 0, 0, 0)
    return struct.pack("<2sIHHI", b"BM", 54 + 300, 0, 0, 54) + info + bytes(300)


def _turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


_BOMB = b"a\0\0" + zlib.compress(bytes(8 << 20), 1)
REFUSED_CONTENTS: dict[str, bytes] = {
    "png-huge": _png(100_000, 100_000),
    "png-largest": _png(2**31 - 1, 2**31 - 1),
    "png-no-width": _png(0, 10),
    "png-too-few-rows": _png(500, 500),
    "png-depth-7": _png(8, 8, depth=7),
    "png-colour-9": _png(8, 8, colour=9),
    "png-header-alone": _png(8, 8)[:33],
    "png-pixel-bomb": _png(20_000, 20_000, data=bytes(8 << 20)),
    "bmp-huge": _bmp(2**31 - 1, 2**31 - 1),
    "bmp-no-width": _bmp(0, 5),
    "bmp-negative-width": _bmp(-5, 5),
    "bmp-7-bits": _bmp(4, 4, bits=7),
    "bmp-odd-header": _bmp(4, 4, size=2**31),
    "gif-header-alone": b"GIF89a\xff\xff\xff\xff\0\0\0",
    "gif-huge": b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x08\x01\0\0;",
    "tiff-loop": b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
    "tiff-far-directory": b"II*\0\xff\xff\xff\x7f",
    "tiff-many-tags": b"II*\0\x08\0\0\0\xff\xff" + bytes(100),
    "jpeg-start-and-end": b"\xff\xd8\xff\xd9",
    "webp-header-alone": b"RIFF\x10\0\0\0WEBPVP8 ",
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF",
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
    "ppm": encoded("PPM"),
    "html": b"<!doctype html><title>404</title>",
    "pickle": b"\x80\x04\x95\x0b\0\0\0\0\0\0\0\x8c\x02os\x94.",
    "gzip": gzip.compress(encoded("PNG")),
    "newline": b"\n",
    "tiff-nan": encoded("TIFF", image=Image.fromarray(np.full((9, 9), np.nan, np.float32))),
}
_FRAMES = {"save_all": True, "append_images": [Image.fromarray(pixels()[::-1]), Image.fromarray(pixels()[:, ::-1])]}
ANSWERED_CONTENTS: dict[str, bytes] = {
    **{f"png-{mode}": encoded("PNG", mode) for mode in ("1", "L", "LA", "P", "RGBA")},
    **{f"tiff-{mode}": encoded("TIFF", mode) for mode in ("1", "L", "P", "RGBA", "CMYK", "YCbCr", "LAB", "F", "I")},
    **{f"jpeg-{mode}": encoded("JPEG", mode) for mode in ("L", "CMYK", "YCbCr")},
    **{f"gif-{mode}": encoded("GIF", mode) for mode in ("1", "L", "P")},
    **{f"webp-{mode}": encoded("WEBP", mode) for mode in ("RGBA", "L")},
    **{f"bmp-{mode}": encoded("BMP", mode) for mode in ("1", "L", "P", "RGBA")},
    **{f"{form}-frames": encoded(form, **_FRAMES) for form in ("GIF", "WEBP", "PNG", "TIFF")},
    **{f"jpeg-turned-{turn}": encoded("JPEG", exif=_turned(turn)) for turn in (0, 6, 9)},
    **{f"png-{h}x{w}": encoded("PNG", image=Image.fromarray(pixels(h, w))) for h, w in ((1, 1), (1, 5000), (5000, 1))},
    "png-16-bit": encoded("PNG", image=Image.fromarray(pixels()[..., 0].astype(np.uint16) * 256)),
    "png-16-bit-colour": _png(4, 4, depth=16, data=b"".join(b"\0" + bytes(range(24)) for _ in range(4))),
    "png-transparent": encoded("PNG", "P", transparency=0),
    "png-odd-profile": encoded("PNG", icc_profile=garbage(300)),
    "jpeg-odd-exif": encoded("JPEG", exif=b"Exif\0\0" + garbage(200)),
    "jpeg-progressive": encoded("JPEG", progressive=True),
    "tiff-float-huge": encoded("TIFF", image=Image.fromarray(np.full((9, 9), 1e38, np.float32))),
    "tiff-jpeg": encoded("TIFF", compression="jpeg"),
    **{f"{form}-named{end}": encoded(form) for form, end in product(FORMATS, (*IMAGE_EXTENSIONS, ".txt", ".PNG"))},
}  # fmt: skip
ODD_CONTENTS: dict[str, bytes] = {
    "png-palette-without": _png(8, 8, colour=3),
    "png-text-bomb": _png(8, 8, _chunk(b"zTXt", _BOMB)),
    "png-profile-bomb": _png(8, 8, _chunk(b"iCCP", _BOMB)),
    "png-long-chunk": _png(8, 8)[:-16] + struct.pack(">I", 2**31 - 1) + b"IDAT",
    "jpeg-two-glued": encoded("JPEG") * 2,
}


def _contents() -> list[Case]:
    tables = ((REFUSED_CONTENTS, REFUSAL), (ANSWERED_CONTENTS, ANSWER), (ODD_CONTENTS, EITHER))
    return [
        _image(f"content-{name}", road, _file(content, f"image{ending or '.png'}"), expected)
        for table, expected in tables
        for i, (name, content) in enumerate(table.items())
        for ending in [name.partition("named")[2]]
        for road in (["predict"] if i % 2 else ["library"]) + ([] if ending else [list(IMAGE_ROADS)[2 + i % 3]])
    ]


ODD_NAMES: dict[str, bytes] = {
    "newline": b"a\nb", "tab": b"a\tb", "escape": b"a\x1b[31mb", "bad-bytes": b"a\xff\xfe", "long": b"a" * 251,
    "surrogates": "a\ud800".encode("utf-8", "surrogatepass"), "dash": b"-a", "two-dashes": b"--json", "stars": b"*",
    "brackets": b"[a]", "question": b"?", "blank": b" ", "quotes": b"a'b\"c", "dollar": b"$HOME", "tilde": b"~",
    "percent": b"%s%n", "braces": b"{0}", "right-to-left": "‮gnp".encode(), "emoji": "🙈".encode(), "markup": b"[bold]a",
    "combining": ("e" + "\u0301" * 50).encode(), "comma": b"a,b", "equals": b"a=b", "colon": b"pacs:a", "bell": b"\x07",
    "backslash": b"a\\b", "carriage-return": b"a\rerror: b", "twice-an-ending": b"a.png",
}  # fmt: skip


def _names() -> list[Case]:
    """Files, classes and domains by these names."""
    forms = {"predict-csv": ("--csv", "--out", "a.csv"), "predict-table": (), "predict-json": ("--json",)}
    found = []
    for i, (name, raw) in enumerate(ODD_NAMES.items()):
        make = _file(encoded("PNG"), os.fsdecode(raw + b".png"))
        found.append(_image(f"name-{name}", "library", make, ANSWER))
        for road in ("predict-csv", ("predict-table", "predict-json")[i % 2]):

            def arrange(scene: Scene, make: Make = make, form: tuple[str, ...] = forms[road]) -> Command:
                words = ("predict", scene.model, make(scene), "--device", "cpu", *form)
                return Command(words, out=Path("a.csv") if form[1:] else None)

            found.append(_case(f"name-{name}", road, arrange, ANSWER))
        for j, old in enumerate(("across", "night")):
            road = list(DATA_ROADS)[(i + j) % 4] if j else "fit"
            # What no text can hold may be refused, but before any training.
            right = EITHER if name in ("bad-bytes", "surrogates") or road == "evaluate" else ANSWER
            arranged = partial(_renamed, old, os.fsdecode(raw), DATA_ROADS[road])
            found.append(_case(f"{'class' if old == 'across' else 'domain'}-{name}", road, arranged, right))
    return found


def _renamed(old: str, new: str, act: Act, scene: Scene) -> Command | Call:
    photos = scene.copy(scene.photos)
    for folder in list(photos.rglob(old)):
        folder.rename(folder.with_name(new))
    return act(scene, photos)


def _places() -> list[Case]:
    """What is given in the place of an image, and what lies among images."""
    found = []
    for i, (name, damage) in enumerate(PLACE_DAMAGE.items()):
        make = _file(encoded("PNG"), "image.png", damage)
        for road in ("predict", "library", ("data-verify", "fit")[i % 2]):
            among_others = road in ("data-verify", "fit") or name == "full-folder"
            found.append(_image(f"place-{name}", road, make, EITHER if among_others else REFUSAL))
    return found + [
        _image(f"place-{name}", road, given, expected)
        for name, (given, expected) in PLACES.items()
        for road in ("predict", "library")
    ]


def _folder(scene: Scene, name: str = "folder") -> Path:
    (scene.place / name).mkdir(parents=True)
    return scene.place / name


def _loop(scene: Scene) -> Path:
    folder = _folder(scene)
    (folder / "again").symlink_to(folder)
    (folder / "a.png").write_bytes(encoded("PNG"))
    return folder


PLACES: dict[str, tuple[Make, frozenset[str]]] = {
    "no-name": (lambda scene: "", NO),
    "blank": (lambda scene: " ", REFUSAL),
    "here-empty": (lambda scene: ".", REFUSAL),
    "nowhere": (lambda scene: "nowhere.png", REFUSAL),
    "pattern-of-nothing": (lambda scene: "*.png", REFUSAL),
    "pattern-odd": (lambda scene: "[", REFUSAL),
    "pattern-stars": (lambda scene: "*" * 200, REFUSAL),
    "pattern-deep": (lambda scene: "/".join(["**"] * 30), REFUSAL),
    "empty-folder": (_folder, REFUSAL),
    "folder-named-like-an-image": (lambda scene: _folder(scene, "folder.png"), REFUSAL),
    "loop-of-folders": (_loop, ANSWER),
    "deep-folders": (lambda scene: _folder(scene, "d/" * 200), REFUSAL),
    "device": (lambda scene: "/dev/null", REFUSAL),
    "endless-device": (lambda scene: "/dev/zero", REFUSAL),
    "long": (lambda scene: "a" * 5000, REFUSAL),
    "slash-behind": (lambda scene: f"{scene.image}/", EITHER),
    "home-of-nobody": (lambda scene: "~nobody-at-all/a.png", REFUSAL),
    "url": (lambda scene: "https://example.org/a.png", REFUSAL),
    "model": (lambda scene: scene.model, REFUSAL),
}


_GOOD = "day/across day/upright dusk/across dusk/upright"
TREES: dict[str, tuple[str, int, frozenset[str]]] = {
    "one-domain": ("day/across day/upright", 4, EITHER),
    "one-class": ("day/across dusk/across", 4, REFUSAL),
    "one-image-each": (_GOOD, 1, EITHER),
    "one-image": ("day/across", 1, REFUSAL),
    "class-in-one-domain": ("day/across day/upright dusk/across", 4, EITHER),
    "no-class-shared": ("day/across dusk/upright", 4, EITHER),
    "domain-named-as-class": ("across/across across/upright dusk/across dusk/upright", 4, EITHER),
    "classes-by-case": ("day/Across day/across dusk/Across dusk/across", 4, EITHER),
    "classes-by-accents": ("day/\u00e9 day/e\u0301 dusk/\u00e9 dusk/e\u0301", 4, EITHER),
    "no-domains": ("across upright", 4, ANSWER),
    "no-classes": (".", 4, REFUSAL),
    "images-in-a-domain": (f"{_GOOD} dusk", 4, EITHER),
    "images-in-root": (f"{_GOOD} .", 4, EITHER),
    "deeper": ("day/across/more day/upright dusk/across dusk/upright", 4, EITHER),
    "hidden": (".day/across .day/upright", 4, REFUSAL),
    "mac-folder": (f"{_GOOD} __MACOSX/across", 4, EITHER),
    "many-classes": (" ".join(f"day/{i}" for i in range(60)), 1, EITHER),
    "nothing": ("", 0, REFUSAL),
    "empty-classes": ("day/across day/upright", 0, REFUSAL),
}


def _trees() -> list[Case]:
    def tree(scene: Scene, cells: str, images: int) -> Path:
        root = _folder(scene, "tree")
        for number, folder in enumerate(cells.split()):
            (root / folder).mkdir(parents=True, exist_ok=True)
            for i in range(images):
                Image.fromarray(np.roll(pixels(), 7 * number + i, axis=1)).save(root / folder / f"{i}.png")
        return root

    return [
        _case(f"tree-{name}", road, lambda s, c=cells, n=images, a=act: a(s, tree(s, c, n)), right)
        for name, (cells, images, expected) in TREES.items()
        for road, act in DATA_ROADS.items()
        # A single class can be described and measured, but not learned.
        for right in [expected if road == "fit" or name not in ("one-class", "one-image") else EITHER]
    ]


Members = dict[str, bytes]


def _tar(members: Members, *types: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for i, kind in enumerate(types):
            member = tarfile.TarInfo(f"day/across/odd{i}.png")
            member.type, member.linkname = kind, "../../x.png"
            archive.addfile(member)
    return buffer.getvalue()


def _zip(members: Members, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


def _archived(name: str, road: str, file: str, make: Callable[[Members], bytes], expected: frozenset[str]) -> Case:
    def arrange(scene: Scene) -> Command | Call:
        path = scene.place / file
        files = sorted(scene.photos.rglob("*.png"))
        path.write_bytes(make({str(file.relative_to(scene.photos)): file.read_bytes() for file in files}))
        return DATA_ROADS[road](scene, path)

    return _case(name, road, arrange, expected)


def _cut_archives() -> list[Case]:
    """Cut at every kind of place: nothing that was in the archive may vanish without a word."""
    found = []
    for i, part in enumerate(np.linspace(0.02, 0.98, 25).tolist()):
        for kind, pack in (("tar", _tar), ("zip", _zip)):

            def cut(members: Members, part: float = part, pack: Callable[[Members], bytes] = pack) -> bytes:
                return (whole := pack(members))[: int(part * len(whole))]

            # Behind the last member of a tar there are only zeros.
            expected = EITHER if kind == "tar" and part > 0.9 else REFUSAL
            found.append(_archived(f"{kind}-cut-at-{part:.2f}", list(DATA_ROADS)[i % 3], f"p.{kind}", cut, expected))
    return found + [
        _archived(
            f"tar-cut-{name}", road, "p.tar", lambda m, n=number, b=more: _tar(m)[: _start(_tar(m), n) + b], REFUSAL
        )
        for i, (name, (number, more)) in enumerate(TAR_CUTS.items())
        for road in ("data-verify", list(DATA_ROADS)[1 + i % 3])
    ]


def _start(content: bytes, number: int) -> int:
    """Where a member of a tar begins."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return archive.getmembers()[number].offset


TAR_CUTS = {
    "between-members": (12, 0),
    "after-the-first": (1, 0),
    "before-the-last": (-1, 0),
    "in-a-header": (12, 100),
    "one-byte-into-a-header": (5, 1),
    "at-the-end-of-a-header": (5, 512),
    "in-a-member": (5, 700),
    "one-byte-before-a-member": (7, -1),
}


def _locked(members: Members) -> bytes:
    """A zip whose members say that they have a password."""
    changed = bytearray(_zip(members))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = changed.find(signature)
        while start >= 0:
            changed[start + place] |= 1
            start = changed.find(signature, start + 4)
    return bytes(changed)


def _patched(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


ARCHIVES: dict[str, tuple[str, Callable[[Members], bytes], frozenset[str]]] = {
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
    "gzip-named-tar": ("p.tar", lambda m: gzip.compress(_tar(m), 1), REFUSAL),
    "gzip": ("p.tar.gz", lambda m: gzip.compress(_tar(m), 1), REFUSAL),
    "tgz": ("p.tgz", lambda m: gzip.compress(_tar(m), 1), REFUSAL),
    "tar-named-gzip": ("p.tar.gz", _tar, REFUSAL),
    "tar-header-damaged": ("p.tar", lambda m: _patched(_tar(m), _start(_tar(m), 6) + 3), REFUSAL),
    "tar-size-damaged": ("p.tar", lambda m: _patched(_tar(m), _start(_tar(m), 6) + 128), REFUSAL),
    "tar-first-header-damaged": ("p.tar", lambda m: _patched(_tar(m), 3), REFUSAL),
    "tar-pixels-damaged": ("p.tar", lambda m: _patched(_tar(m), _start(_tar(m), 6) + 700), EITHER),
    "tar-twice": ("p.tar", lambda m: 2 * _tar(m), EITHER),
    "tar-garbage-behind": ("p.tar", lambda m: _tar(m) + garbage(5000), EITHER),
    "tar-links": ("p.tar", lambda m: _tar(m, tarfile.SYMTYPE, tarfile.LNKTYPE), EITHER),
    "tar-devices": ("p.tar", lambda m: _tar(m, tarfile.FIFOTYPE, tarfile.CHRTYPE), EITHER),
    "tar-links-alone": ("p.tar", lambda m: _tar({}, tarfile.SYMTYPE), REFUSAL),
    "tar-folders-alone": ("p.tar", lambda m: _tar({}, tarfile.DIRTYPE), REFUSAL),
    "tar-empty-image": ("p.tar", lambda m: _tar({**m, "day/across/e.png": b""}), REFUSAL),
    "tar-garbage-image": ("p.tar", lambda m: _tar({**m, "day/across/g.png": garbage(500)}), REFUSAL),
    "tar-of-a-zip": ("p.tar", lambda m: _tar({"day/across/p.zip": _zip(m)}), REFUSAL),
    "zip-empty-image": ("p.zip", lambda m: _zip({**m, "day/across/e.png": b""}), REFUSAL),
    "zip-password": ("p.zip", _locked, REFUSAL),
    "zip-bzip2": ("p.zip", lambda m: _zip(m, zipfile.ZIP_BZIP2), REFUSAL),
    "zip-lzma": ("p.zip", lambda m: _zip(m, zipfile.ZIP_LZMA), REFUSAL),
    "zip-bomb": ("p.zip", lambda m: _zip({**m, "day/across/bomb.png": bytes(100 << 20)}), REFUSAL),
    "zip-data-damaged": ("p.zip", lambda m: _patched(_zip(m, zipfile.ZIP_STORED), 300), REFUSAL),
    "zip-local-header-damaged": ("p.zip", lambda m: _patched(_zip(m), 0), REFUSAL),
    "zip-directory-damaged": ("p.zip", lambda m: _patched(_zip(m), _zip(m).find(b"PK\x01\x02")), REFUSAL),
    "zip-end-damaged": ("p.zip", lambda m: _patched(_zip(m), len(_zip(m)) - 8), REFUSAL),
    "zip-garbage-before": ("p.zip", lambda m: garbage(500) + _zip(m), EITHER),
    "zip-garbage-behind": ("p.zip", lambda m: _zip(m) + garbage(500), EITHER),
    "zip-backslashes": ("p.zip", lambda m: _zip({name.replace("/", "\\"): m[name] for name in m}), EITHER),
}
MEMBER_NAMES = {
    "up": "../../day/across/x.png", "absolute": "/day/across/x.png", "dots": "./day/./across/x.png", "alone": "x.png",
    "up-inside": "day/across/../across/x.png", "long": f"day/across/{'x' * 3000}.png", "emoji": "day/🙈/x.png",
    "deep": f"day/across/{'y/' * 500}x.png", "blank-folder": "day/ /x.png", "newline": "day/across/x\ny.png",
    "drive": "C:/day/x.png", "hidden": "day/across/.x.png", "slashes": "day//across//x.png",
    "again": "day/across/00.png",
}  # fmt: skip


def _archives() -> list[Case]:
    found = [
        _archived(f"archive-{name}", road, file, make, expected if road != "data-describe" else EITHER)
        for i, (name, (file, make, expected)) in enumerate(ARCHIVES.items())
        for road in ("data-verify", list(DATA_ROADS)[1 + i % 3])
    ]
    return found + [
        _archived(
            f"{kind}-member-{name}", list(DATA_ROADS)[i % 3], f"p.{kind}",
            lambda members, p=pack, n=member: p({**members, n: encoded("PNG")}), EITHER,
        )
        for i, (name, member) in enumerate(MEMBER_NAMES.items())
        for kind, pack in (("tar", _tar), ("zip", _zip))
    ]  # fmt: skip
