"""`homefold serve` beside the bare model: images a second at 1, 8 and 64 clients, added latency, and a long soak.

    OMP_NUM_THREADS=1 python benchmarks/serving.py --out results/serving_1thread_2core.json
    python benchmarks/serving.py --soak 10000 --preset small --out results/serving_soak_2core.json
    python benchmarks/serving.py --quick

The bare loop gives `model.predict` the bytes of 64 files at a time, the bare call one at a time; both decode, as the
server does. All of them and the server take turns, round after round, so that what else the machine does meets each
alike. Processor time is that of the process that answers; what else the machine does changes it little. A client sends
one image, waits for the answer and sends the next. In the soak 5 % of the images are broken, another 5 % of the
clients hang up, and every answer is compared with the model's own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from measuring import print_table, surroundings, write_jpegs, write_result
from predict import make_model

from homefold import Homefold
from homefold.runtime.device import resolve_device
from homefold.runtime.json_lines import json_line

_BATCH = 64
_BROKEN = _GONE = 0.05
_PATIENCE_SECONDS = 120.0
_FLAT_FROM = 0.2
_REST_SECONDS = 0.02


@dataclass(frozen=True)
class Server:
    """A running server: its process, and how to reach it."""

    process: int
    port: int
    token: str

    @property
    def memory_mb(self) -> float:
        """Resident memory of its process."""
        status = Path(f"/proc/{self.process}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6

    @property
    def processor_seconds(self) -> float:
        """What its threads computed so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(model: Path, device: str) -> Iterator[Server]:
    """`homefold serve` as a process of its own."""
    command = [sys.executable, "-m", "homefold", "serve", str(model), "--port", "0", "--device", device]
    environment = {name: value for name, value in os.environ.items() if name != "HOMEFOLD_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(command)} did not start")
        address = urlsplit(line.split(" at ")[1].strip())
        yield Server(process.pid, address.port or 0, address.fragment.removeprefix("token="))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_PATIENCE_SECONDS)


class Client:
    """One connection that sends an image after the other."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None or self._streams[1].is_closing() or self._streams[0].at_eof():
            self._streams = await asyncio.open_connection("127.0.0.1", self._server.port)
        return self._streams

    async def ask(self, image: bytes, *, path: str = "/v1/predict") -> tuple[int, bytes]:
        """Status and body of the response."""
        reader, writer = await self._connected()
        writer.write(self._request(image, path))
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.split("content-length:")[1].split("\r\n")[0])
        body = await reader.readexactly(size)
        if "connection: close" in head:
            self.close()
        return int(head.split()[1]), body

    async def hang_up(self, image: bytes, wait_seconds: float) -> None:
        """Send some of a request, or all of it, and be gone."""
        _, writer = await self._connected()
        request = self._request(image, "/v1/predict")
        writer.write(request if wait_seconds else request[: len(request) // 2])
        await asyncio.sleep(wait_seconds)
        self.close()

    def _request(self, image: bytes, path: str) -> bytes:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._server.port}\r\n"
            f"Authorization: Bearer {self._server.token}\r\nContent-Length: {len(image)}\r\n\r\n"
        )
        return head.encode() + image

    def close(self) -> None:
        """Let go of the connection."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def seconds_of_each(server: Server, images: Sequence[bytes], clients: int) -> list[float]:
    """How long each answer took, asked for by so many clients at once."""
    waiting, seconds = iter(images), []

    async def work() -> None:
        client = Client(server)
        for image in waiting:
            began = time.perf_counter()
            status, body = await asyncio.wait_for(client.ask(image), _PATIENCE_SECONDS)
            seconds.append(time.perf_counter() - began)
            if status != 200:
                raise SystemExit(f"status {status}: {body!r}")
        client.close()

    await asyncio.gather(*(work() for _ in range(clients)))
    return seconds


def measure(model: Homefold, server: Server, files: Sequence[bytes], rounds: int, most: int) -> list[dict[str, Any]]:
    """A row for each way to get the same images answered."""
    spent: dict[str, list[float]] = {}
    answers: dict[str, list[float]] = {}
    computed: dict[str, list[float]] = {}

    def bare(images: Sequence[bytes], size: int) -> list[float]:
        seconds = []
        for start in range(0, len(images), size):
            began = time.perf_counter()
            model.predict(list(images[start : start + size]))
            seconds.append(time.perf_counter() - began)
        return seconds

    few = files[: max(most // 4, 2)]
    ways = {
        f"bare loop, {_BATCH} images a call": lambda: (files, bare(files, _BATCH)),
        "bare call, 1 image at a time": lambda: (few, bare(few, 1)),
        **{
            f"server, {clients} clients" if clients > 1 else "server, 1 client": lambda clients=clients: (
                files if clients > 1 else few,
                asyncio.run(seconds_of_each(server, files if clients > 1 else few, clients)),
            )
            for clients in (1, 8, 64)
        },
    }
    for number in range(rounds + 1):
        for name, way in ways.items():
            clock = time.process_time if name.startswith("bare") else lambda: server.processor_seconds
            began, before = time.perf_counter(), clock()
            images, each = way()
            if number:  # the first round warms up
                spent.setdefault(name, []).append((time.perf_counter() - began) / len(images))
                answers.setdefault(name, []).extend(each)
                computed.setdefault(name, []).append((clock() - before) / len(images))
    loop, call = (statistics.median(spent[name]) for name in list(ways)[:2])
    return [
        {
            "way": name,
            "images_per_second": 1 / statistics.median(spent[name]),
            "times_bare_loop": loop / statistics.median(spent[name]),
            "times_one_at_a_time": call / statistics.median(spent[name]),
            "processor_ms_per_image": 1000 * statistics.median(computed[name]),
            "median_latency_ms": 1000 * statistics.median(answers[name]),
            "slowest_of_20_ms": 1000 * sorted(answers[name])[int(0.95 * len(answers[name]))],
        }
        for name in ways
    ]


def added_latency(model: Homefold, server: Server, files: Sequence[bytes], pairs: int) -> dict[str, float]:
    """What HTTP, decoding beside and the queue add to one call: each request next to a bare call for the same image."""

    async def paired() -> list[tuple[float, float]]:
        client, found = Client(server), []
        for i in range(pairs):
            image = files[i % len(files)]
            await asyncio.sleep(_REST_SECONDS)  # OpenMP's threads spin a while after a call, on the other's cores
            began = time.perf_counter()
            model.predict([image])
            call = time.perf_counter() - began
            await asyncio.sleep(_REST_SECONDS)
            began = time.perf_counter()
            await client.ask(image)
            found.append((call, time.perf_counter() - began))
        client.close()
        return found

    found = asyncio.run(paired())
    calls, requests = ([1000 * pair[i] for pair in found] for i in (0, 1))
    return {
        "bare_call_ms": statistics.median(calls),
        "request_ms": statistics.median(requests),
        "added_ms": statistics.median(request - call for call, request in zip(calls, requests, strict=True)),
    }


def soak(model: Homefold, server: Server, files: Sequence[bytes], requests: int, clients: int) -> dict[str, Any]:
    """Many requests, some broken, some abandoned: what came of them, and what the server's memory did."""
    expected = [
        json_line({**answer.as_dict(), "abstained": False}).encode() + b"\n" for answer in model.predict(list(files))
    ]
    broken = [b"", b"not an image", *(image[: len(image) // 2] for image in files[:8])]
    chances, counts, memory = random.Random(0), Counter[str](), list[float]()
    numbers = iter(range(requests))

    async def one(client: Client) -> str:
        chance, row = chances.random(), chances.randrange(len(files))
        if chance < _GONE:
            await client.hang_up(files[row], chances.choice([0.0, 0.001, 0.02]))
            return "hung up"
        is_broken = chance < _GONE + _BROKEN
        status, body = await client.ask(chances.choice(broken) if is_broken else files[row])
        if is_broken:
            return "refused" if status == 422 and json.loads(body)["error"] else "wrong"
        return "answered" if status == 200 and body == expected[row] else "wrong"

    async def work() -> None:
        client = Client(server)
        for number in numbers:
            if number % max(requests // 50, 1) == 0:
                memory.append(server.memory_mb)
            try:
                counts[await asyncio.wait_for(one(client), _PATIENCE_SECONDS)] += 1
            except TimeoutError:
                counts["stuck"] += 1
                client.close()
        client.close()

    async def all_of_them() -> str:
        await asyncio.gather(*(work() for _ in range(clients)))
        await asyncio.sleep(1)
        _, writer = streams = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        return (await streams[0].read()).decode()

    began = time.perf_counter()
    metrics = asyncio.run(all_of_them())
    gauges = dict(line.split() for line in metrics.splitlines() if line.startswith("homefold_") and "{" not in line)
    memory.append(server.memory_mb)
    settled = memory[int(_FLAT_FROM * len(memory))]
    return {
        "requests": requests,
        "clients": clients,
        "seconds": time.perf_counter() - began,
        **{name: counts[name] for name in ("answered", "refused", "hung up", "wrong", "stuck")},
        "images_left_waiting": int(gauges["homefold_images_waiting"]),
        "bytes_left_held": int(gauges["homefold_upload_bytes"]),
        "memory_mb_after_a_fifth": settled,
        "memory_mb_at_the_end": memory[-1],
        "memory_grew_percent": 100 * (memory[-1] / settled - 1),
    }


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--images", type=int, default=192, help="of each way in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=int, default=0, metavar="REQUESTS", help="this many requests instead")
    parser.add_argument("--soak-clients", type=int, default=32)
    parser.add_argument("--preset", choices=["default", "small"], default="default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    device = resolve_device(arguments.device)
    pairs = 30
    if arguments.quick:
        arguments.images, arguments.preset, arguments.rounds, pairs = 8, "small", 1, 2
        arguments.soak, arguments.soak_clients = min(arguments.soak, 40), 4
    facts = surroundings(device)
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder) / "model", arguments.preset)
        files = [path.read_bytes() for path in write_jpegs(Path(folder) / "images", arguments.images)]
        model = Homefold.load(Path(folder) / "model", device=device)
        with serving(Path(folder) / "model", str(device)) as server:
            if arguments.soak:
                rows = [soak(model, server, files[:_BATCH], arguments.soak, arguments.soak_clients)]
                more = {}
            else:
                rows = measure(model, server, files, arguments.rounds, arguments.images)
                more = {"one_client": added_latency(model, server, files, pairs)}
    print_table(f"preset {arguments.preset}, {facts['hardware']}", rows)
    print(more)
    write_result(arguments.out, facts, rows, images=arguments.images, preset=arguments.preset, **more)


if __name__ == "__main__":
    main()
