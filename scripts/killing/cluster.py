"""`scripts/bulk-kills`: a cluster of several Ray nodes on this machine loses workers, nodes and its driver.

    scripts/bulk-kills --kills 20 --seed 0

One process of this machine answers undisturbed first. Then Ray answers the same images, and nodes are killed, then
workers, then the driver: each in the middle of a shard, at a random time after another shard was finished. After the
death of the driver the same command is given again. All files of answers must have the bytes of the first, and each
image must have one row.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_KINDS = ("node", "worker", "driver")
_AT_WORK = "ray::_Actor.do"  # what Ray calls the process of a worker while it answers a shard
_STORE_BYTES = 80 << 20


class Ground:
    """A model, images, and the answers that an undisturbed command gives."""

    def __init__(self, folder: Path, images: int, shard_size: int) -> None:
        self.images, self.answers, self.shard_size = folder / "images", folder / "answers", shard_size
        self.model, self.count = folder / "model", images
        quick = ["--preset", "small", "--epochs", "1", "--manifold.epochs", "5", "--classifier.epochs", "5"]
        self._write_images(folder / "sources")
        _homefold("fit", str(folder / "sources"), "--out", str(self.model), "--device", "cpu", *quick)
        _homefold(*self.command("local", folder / "expected", 1)[3:])
        self.expected = digests(folder / "expected")

    def _write_images(self, sources: Path) -> None:
        """Some to train on, three domains of three classes, and those to answer."""
        from PIL import Image

        from homefold.data import load_digits_mini

        digits = load_digits_mini()
        places = [
            *(sources / str(i % 3) / str(i // 3 % 3) / f"{i}.png" for i in range(180)),
            *(self.images / f"{i:06d}.png" for i in range(self.count)),
        ]
        for i, place in enumerate(places):
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(digits.images[i % len(digits)]).save(place)

    def command(self, where: str, out: Path, workers: int) -> list[str]:
        """That answers all images."""
        size = ["--shard-size", str(self.shard_size), "--workers", str(workers), "--on", where, "--device", "cpu"]
        return [
            sys.executable,
            "-m",
            "homefold",
            "predict",
            str(self.model),
            str(self.images),
            "--out",
            f"{out}/",
            *size,
        ]

    def faults(self) -> list[str]:
        """What is wrong with the answers; nothing where all is as it should be."""
        import pyarrow.parquet

        found = digests(self.answers)
        paths = [path for name in found for path in pyarrow.parquet.read_table(self.answers / name)["path"].to_pylist()]
        told = [f"{name} has other bytes" for name in self.expected if found.get(name) != self.expected[name]]
        told += [f"{name} should not be there" for name in set(found) - set(self.expected)]
        twice = sum(count > 1 for count in Counter(paths).values())
        if twice or len(set(paths)) != self.count:
            told.append(f"{len(set(paths))} of {self.count} images have a row, {twice} more than one")
        return told


def digests(folder: Path) -> dict[str, str]:
    """The hash of every file directly in a folder."""
    files = [file for file in folder.iterdir() if file.is_file()]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _homefold(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "homefold", *words], check=True, stderr=subprocess.DEVNULL)


class Campaign:
    """Kills until it has killed enough."""

    def __init__(self, ground: Ground, cluster: Any, nodes: list[Any], seed: int) -> None:
        self.ground, self.cluster, self.nodes = ground, cluster, nodes
        self.random = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.jobs, self.faults = 0, list[str]()

    def run(self, kills: int) -> None:
        """Kill so many times, and then let the last job end."""
        driver, done = self._start(), self._done()
        while (number := sum(self.killed.values())) < kills:
            if not self._wait_for_another_shard(driver, done):
                self._end(driver)
                shutil.rmtree(self.ground.answers)
                driver, done = self._start(), 0
                continue
            time.sleep(self.random.uniform(0, 3))
            kind = _KINDS[number * len(_KINDS) // kills]
            if driver.poll() is None and getattr(self, f"_kill_{kind}")(driver):
                self.killed[kind] += 1
                done = self._done()
                print(f"killed a {kind}; {done} of {len(self.ground.expected)} shards done", flush=True)
            if driver.poll() is not None and kind == "driver":
                driver = self._start()
        driver.wait()
        self._end(driver)

    def _wait_for_another_shard(self, driver: subprocess.Popen[bytes], done: int) -> bool:
        """Whether there is one before the job ends."""
        while driver.poll() is None and self._done() <= done:
            time.sleep(0.05)
        return driver.poll() is None

    def _done(self) -> int:
        return len(list(self.ground.answers.glob("part-*.parquet")))

    def tell(self, arguments: argparse.Namespace, seconds: int) -> None:
        """Print the figures as JSON, and write them where they are wanted."""
        asked = {name: vars(arguments)[name] for name in ("images", "shard_size", "nodes", "seed")}
        facts = {"kills": dict(self.killed), "jobs": self.jobs, "faults": self.faults, **asked, "seconds": seconds}
        print(json.dumps(facts), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")

    def _start(self) -> subprocess.Popen[bytes]:
        command = self.ground.command("ray", self.ground.answers, len(self.nodes))
        environment = {**os.environ, "RAY_ADDRESS": self.cluster.address}
        return subprocess.Popen(command, env=environment)

    def _end(self, driver: subprocess.Popen[bytes]) -> None:
        self.jobs += 1
        if driver.returncode:
            self.faults.append(f"job {self.jobs} ended with exit code {driver.returncode}")
        self.faults += self.ground.faults()

    def _kill_driver(self, driver: subprocess.Popen[bytes]) -> bool:
        if at_work := self._at_work():
            driver.kill()
            driver.wait()
        return bool(at_work)

    def _kill_worker(self, driver: subprocess.Popen[bytes]) -> bool:
        if at_work := self._at_work():
            self.random.choice(at_work)[1].send_signal(signal.SIGKILL)
        return bool(at_work)

    def _kill_node(self, driver: subprocess.Popen[bytes]) -> bool:
        if at_work := self._at_work():
            place, _ = self.random.choice(at_work)
            self.cluster.remove_node(self.nodes[place], allow_graceful=False)
            self.nodes[place] = add_node(self.cluster)
        return bool(at_work)

    def _at_work(self) -> list[tuple[int, Any]]:
        """The processes that answer a shard at this moment, each with the place of its node."""
        import psutil

        found = []
        for place, node in enumerate(self.nodes):
            (raylet,) = node.all_processes["raylet"]
            for process in psutil.Process(raylet.process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if " ".join(process.cmdline()).startswith(_AT_WORK):
                        found.append((place, process))
        return found


def add_node(cluster: Any) -> Any:
    """Another machine of one processor, as far as Ray can tell."""
    return cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1", object_store_memory=_STORE_BYTES)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--shard-size", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=2, help="beside the head, which answers nothing")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args(words)
    # Ray reads these when it is imported: nobody else reaches the cluster.
    os.environ |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "OMP_NUM_THREADS": "1"}
    os.environ |= {"RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder), arguments.images, arguments.shard_size)
        head = {"num_cpus": 0, "node_ip_address": "127.0.0.1", "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={**head, "object_store_memory": _STORE_BYTES})
        try:
            campaign = Campaign(ground, cluster, [add_node(cluster) for _ in range(arguments.nodes)], arguments.seed)
            campaign.run(arguments.kills)
            campaign.tell(arguments, round(time.monotonic() - began))  # the cluster takes half a minute to end
        finally:
            cluster.shutdown()
    return 1 if campaign.faults else 0
