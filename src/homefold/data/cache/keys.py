"""What decoded pixels depend on, as keys of the cache: the bytes of every image, and every setting."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

import PIL

from homefold.data.decoding.image import BadImageError
from homefold.data.decoding.many import map_images
from homefold.data.index import ImageIndex, KeyKind, LoadRequest

__all__ = ["content_keys", "stamp_keys"]

_DECODER = 1  # raise it whenever decode_image gives other pixels, so that no cache serves the old ones
_CLOCK_TICK_NS = 20_000_000  # file systems note times to a few milliseconds at worst, where they note fractions at all


def content_keys(
    index: ImageIndex, domains: Sequence[int], settings: dict[str, Any], request: LoadRequest
) -> dict[int, str]:
    """By domain, a hash of the stored bytes of its images and of all else that their decoded pixels depend on."""
    hashes = {domain: _hash_of(settings, "content") for domain in domains}
    positions = [(domain, position) for domain in domains for position in index.positions_of(domain)]
    sources = [index.sources[position] for _, position in positions]
    digests = map_images(lambda source: source.digest(), sources, "reading images", request)
    for (domain, _), digest in zip(positions, digests, strict=True):
        assert not isinstance(digest, BadImageError)
        hashes[domain].update(digest.encode() + b"\n")
    return {domain: found.hexdigest()[:32] for domain, found in hashes.items()}


def stamp_keys(index: ImageIndex, settings: dict[str, Any]) -> tuple[str, ...]:
    """One key for each domain of the index: where its images lie, their sizes and times, and the settings."""
    settled = time.time_ns() - _CLOCK_TICK_NS
    keys = []
    for domain in range(len(index.domain_names)):
        digest = _hash_of(settings, "times")
        for position in index.positions_of(domain):
            text, changed_ns = index.sources[position].stamp()
            if settled < changed_ns < settled + 2 * _CLOCK_TICK_NS:
                # Changed a moment ago: one more change within the same tick of the clock could not be told.
                time.sleep(_CLOCK_TICK_NS / 1e9)
                return stamp_keys(index, settings)
            digest.update(text.encode(errors="surrogatepass") + b"\n")
        keys.append(digest.hexdigest()[:32])
    return tuple(keys)


def _hash_of(settings: dict[str, Any], kind: KeyKind) -> hashlib._Hash:
    versions = {"decoder": _DECODER, "pillow": PIL.__version__, "kind": kind}
    return hashlib.sha256(json.dumps({**settings, **versions}, sort_keys=True).encode())
