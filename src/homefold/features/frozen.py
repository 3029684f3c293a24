"""What a frozen backbone makes of images: computed once, and kept on disk by the content of network and image."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

from homefold.data.cache.computed import features_directory
from homefold.errors import ModelFileError
from homefold.features.extraction import extract_features, image_tile
from homefold.features.network import FeatureNet
from homefold.runtime.module_state import module_digest
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.tiles import apply_in_tiles, steady_tile
from homefold.store.files import digest, read_tensors, write_atomically, write_tensors

__all__ = ["FeatureCache", "backbone_features", "frozen_key", "head_features"]

_SEEN_AT_ONCE = 512
_DIGEST_BYTES = 16
_LAYOUT = 1  # raise it whenever a change of the code makes kept features obsolete
# The code of a network of the user's own may change while its weights stay.
_OF_PACKAGES = ("homefold", "timm", "torch", "torchvision")


class FeatureCache:
    """Features `(d,)` of images by the content of each, in files under `features_directory()`; one folder a network.

    Every file holds some rows, has a name that follows from their images, and appears whole. Whatever is damaged is
    computed again.
    """

    def __init__(self, key: str) -> None:
        self.folder = features_directory() / key

    def read(self, wanted: Iterable[bytes]) -> dict[bytes, torch.Tensor]:
        """What there is of the wanted images."""
        left, found = set(wanted), {}
        for path in sorted(self.folder.glob("*.safetensors")) if left else ():
            rows = _rows_of(path)
            if rows is None:
                path.unlink(missing_ok=True)
                continue
            digests, features = rows
            for row, own in enumerate(digests):
                if own in left:
                    found[own] = features[row]
                    left.remove(own)
        if found:
            with suppress(OSError):  # a cache that may only be read
                os.utime(self.folder)
        return found

    def write(self, digests: list[bytes], features: torch.Tensor) -> None:
        """Keep the features `(n, d)` of some images."""
        names = torch.from_numpy(np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(digests), -1).copy())
        self.folder.mkdir(parents=True, exist_ok=True)
        with write_atomically(self.folder / f"{digest([own.hex() for own in digests])}.safetensors") as temporary:
            write_tensors(temporary, {"images": names, "features": features})


def _rows_of(path: Path) -> tuple[list[bytes], torch.Tensor] | None:
    try:
        tensors, _ = read_tensors(path)
        names, features = tensors["images"], tensors["features"]
    except (ModelFileError, KeyError, OSError):
        return None
    of_images = names.dtype == torch.uint8 and names.ndim == 2 and names.shape[1] == _DIGEST_BYTES
    of_features = features.dtype == torch.float32 and features.ndim == 2 and len(features) == len(names)
    return ([row.tobytes() for row in names.numpy()], features) if of_images and of_features else None


def frozen_key(net: FeatureNet, device: torch.device) -> str:
    """Stands for all that decides what a backbone makes of an image: weights, code, statistics, kind of device.

    Empty for a network of the user's own.
    """
    kind = type(net.backbone)
    package = kind.__module__.partition(".")[0]
    if package not in _OF_PACKAGES:
        return ""
    statistics = [net.mean.flatten().tolist(), net.std.flatten().tolist()]
    code = [_LAYOUT, kind.__module__, kind.__qualname__, *map(_version_of, sorted({"torch", package}))]
    return digest([module_digest(net.backbone), statistics, code, device.type])


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def backbone_features(
    net: FeatureNet, images: np.ndarray, device: torch.device, reporter: ProgressReporter | None = None
) -> torch.Tensor:
    """`net.pooled` `(n, d)` of images `(n, h, w, 3)` uint8, in eval mode: read where they are kept, else computed."""
    reporter = reporter or SilentReporter()
    net.to(memory_format=torch.channels_last).eval()
    key = frozen_key(net, device)
    cache = FeatureCache(key) if key else None
    names = [_digest_of(image) for image in images] if cache is not None else []
    known = cache.read(names) if cache is not None else {}
    there = np.array([name in known for name in names] if known else np.zeros(len(images)), dtype=bool)
    missing, parts = np.flatnonzero(~there), []
    if not len(missing):
        return torch.stack([known[name] for name in names]).to(device)
    with reporter.task("Backbone", total=len(missing)) as bar:
        for start in range(0, len(missing), _SEEN_AT_ONCE):
            rows = missing[start : start + _SEEN_AT_ONCE]
            # A slice of mapped images is read as it is needed; rows picked out are copied.
            pixels = images[start : start + len(rows)] if not known else images[rows]
            parts.append(extract_features(net, pixels, device, pooled=True))
            if cache is not None and not _kept(cache, [names[row] for row in rows], parts[-1], reporter):
                cache = None
            bar.advance(len(rows))
    computed = torch.cat(parts)
    if not known:
        return computed
    features = torch.empty(len(images), computed.shape[1], device=device)
    features[torch.from_numpy(missing).to(device)] = computed
    kept = torch.stack([known[names[row]] for row in np.flatnonzero(there)])
    features[torch.from_numpy(np.flatnonzero(there)).to(device)] = kept.to(device)
    return features


def _digest_of(image: np.ndarray) -> bytes:
    hasher = hashlib.blake2b(repr(image.shape).encode(), digest_size=_DIGEST_BYTES)
    hasher.update(np.ascontiguousarray(image).data)
    return hasher.digest()


def _kept(cache: FeatureCache, names: list[bytes], features: torch.Tensor, reporter: ProgressReporter) -> bool:
    """Keep them; where that cannot be, say so once, as the next fit then computes them again."""
    try:
        cache.write(names, features)
    except OSError as error:
        reporter.message(f"The backbone's features are not kept: {cache.folder} cannot be written ({error.strerror}).")
        return False
    return True


def head_features(net: FeatureNet, pooled: torch.Tensor, image_size: tuple[int, int]) -> torch.Tensor:
    """z `(n, d)` of what the backbone gave, in tiles as large as those of the whole network."""
    net.head.eval()
    with torch.no_grad():
        preferred = image_tile(image_size, pooled.device)
        size = steady_tile(net.head, "head", net.head, tuple(pooled.shape[1:]), preferred, pooled.device)
        return apply_in_tiles(lambda rows: net.head(rows).float(), pooled, size)
