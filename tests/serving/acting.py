"""What the tests of the server share: image files in memory, a token, a model that stands in, a bare client."""

from __future__ import annotations

import io
import socket
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

TOKEN = "a-token-for-these-tests-alone"


def file_of(pixels: np.ndarray, kind: str = "PNG", side: int = 16) -> bytes:
    """The file of an image `(height, width, 3)`, resized."""
    stream = io.BytesIO()
    Image.fromarray(pixels).resize((side, side)).save(stream, kind)
    return stream.getvalue()


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG whose header speaks of that many pixels, and which has none: decoding it would say that it is cut off."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = b"IDAT" + zlib.compress(b"")
    chunks = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (header, body)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def parts(files: list[bytes]) -> list[tuple[str, tuple[str, bytes]]]:
    """The files as httpx sends them in one multipart body."""
    return [("image", (f"{i}.png", content)) for i, content in enumerate(files)]


class Standing:
    """A model in all but what is given in place of its own."""

    def __init__(self, model: Any, **own: Any) -> None:
        self._model, self._own = model, own

    def __getattr__(self, name: str) -> Any:
        return self._own[name] if name in self._own else getattr(self._model, name)


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Return once something holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def spoken(port: int, sent: bytes) -> bytes:
    """What the server says until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(sent)
        received = b""
        try:
            while chunk := connection.recv(1 << 16):
                received += chunk
        except ConnectionResetError:
            pass
    return received
