"""Images in every form, a crew in this process with whatever mishap a test wants, and jobs that run with it."""

from __future__ import annotations

import io
import tarfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from homefold import Homefold
from homefold.bulk import BulkOptions, Question, run_bulk
from homefold.bulk.crew import Answered, Event, Failed, Progressed, Ready, Request
from homefold.bulk.job import Outcome
from homefold.bulk.worker import Worker
from homefold.errors import HomefoldError
from homefold.runtime.progress import SilentReporter

COUNT = 20
FORMS = ("folder", "csv", "list", "bytes", "tars")

Mishap = Callable[[int, Request], Event | None]


def write_form(form: str, folder: Path, encoded: Sequence[bytes]) -> Path:
    """The images in one of the forms that people have them in; what to give to homefold."""
    import pyarrow
    from pyarrow import parquet

    photos = folder / "photos"
    photos.mkdir(parents=True)
    if form == "bytes":
        halves = encoded[: len(encoded) // 2], encoded[len(encoded) // 2 :]
        for i, half in enumerate(halves):
            rows = [{"bytes": content, "path": None} for content in half]
            parquet.write_table(pyarrow.table({"image": rows}), photos / f"{i}.parquet", row_group_size=3)
        return photos
    if form == "tars":
        for i in range(2):
            with tarfile.open(photos / f"{i}.tar", "w") as tar:
                for j, content in list(enumerate(encoded))[i::2]:
                    member = tarfile.TarInfo(f"{j:03d}.png")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        return photos
    for i, content in enumerate(encoded):
        place = photos / ("ab"[i % 2] if form == "folder" else "") / f"{i:03d}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
    names = [f"photos/{i:03d}.png" for i in range(len(encoded))]
    if form == "csv":
        (folder / "list.csv").write_text("path\n" + "\n".join(names) + "\n", encoding="utf-8")
        return folder / "list.csv"
    if form == "list":
        parquet.write_table(pyarrow.table({"path": names}), folder / "list.parquet")
        return folder / "list.parquet"
    return photos


class InlineCrew:
    """Answers a request when it is asked; of several workers the last asked is heard first.

    Args:
        worker: does what all of them are asked.
        size: how many there are.
        mishap: gives the event that takes place instead of a request, if one does.
    """

    def __init__(self, worker: Worker, size: int, mishap: Mishap) -> None:
        self.size, self.asked, self.closed = size, list[tuple[int, Request]](), False
        self._worker, self._mishap, self.facts = worker, mishap, worker.facts()
        self.events: deque[Event] = deque(Ready(i, self.facts) for i in range(size))

    def ask(self, worker: int, request: Request) -> None:
        self.asked.append((worker, request))
        if (event := self._mishap(worker, request)) is not None:
            self.events.append(event)
            return
        what, shard = request
        try:
            if what == "probe":
                self.events.append(Answered(worker, self._worker.probe(shard), 0))
                return
            told: list[int] = []
            content, images = self._worker.answer(shard, told.append)
        except HomefoldError as error:
            self.events.append(Failed(worker, str(error)))
            return
        self.events.extendleft([Answered(worker, content, images), *(Progressed(worker, n) for n in told)])

    def hear(self) -> Event:
        return self.events.popleft()

    def close(self) -> None:
        self.closed = True


class Job:
    """Runs jobs, and keeps what was said, and the crew of the last one."""

    def __init__(self, model: Path, out: Path) -> None:
        self.model, self.out = model, out
        self.said: list[str] = []
        self.crew: InlineCrew | None = None
        self.mishap: Mishap = lambda worker, request: None
        self.question: dict[str, Any] = {}

    def __call__(self, source: Path | str, *, model: Path | None = None, workers: int = 2, **options: Any) -> Outcome:
        settings = Homefold.load(self.model, device="cpu").config
        question = Question(look=settings.look, search=settings.search, **self.question)
        asked = BulkOptions(model or self.model, str(source), self.out, question, workers=workers, **options)
        return run_bulk(asked, reporter=SilentReporter(), tell=self.said.append)

    def parts(self) -> dict[str, bytes]:
        """Every file of answers."""
        return {file.name: file.read_bytes() for file in sorted(self.out.glob("part-*"))}

    def rows(self) -> list[dict[str, Any]]:
        """The answers in their order."""
        from pyarrow import parquet

        tables = [parquet.read_table(self.out / name) for name in self.parts()]
        return [row for table in tables for row in table.to_pylist()]
