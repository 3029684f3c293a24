"""Who does which run: several benchmarks may share a folder, and each run is done and recorded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from homefold.evaluation.records import RunRecord, append_record, read_records
from homefold.store.locking import claimed

__all__ = ["Ledger"]


class Ledger:
    """The records of a folder, as a benchmark adds to them while others may do the same.

    Whoever does a run holds its claim until the record is written. A claim ends with its process: after a kill the
    next one does the run.

    Args:
        path: of the records.
        known: how many records there were when the benchmark began; those that are there now by default.
    """

    def __init__(self, path: Path, known: int | None = None) -> None:
        self.path = path
        self.known = len(self._records()) if known is None else known

    def once(self, run: str, do: Callable[[], RunRecord], *, wait: bool = True) -> RunRecord | None:
        """The record of a run: that of whoever did it since the benchmark began, or else what `do` returns, recorded.

        Args:
            run: its id.
            do: is called while nobody else does the same run.
            wait: for another process that is doing it; without waiting the answer is None.
        """
        with claimed(self.path.with_name(f".{run}.lock"), wait=wait) as held:
            if not held:
                return None
            found = self._settled(run)
            if found is None:
                found = do()
                append_record(self.path, found)
            return found

    def _settled(self, run: str) -> RunRecord | None:
        """A success whenever it came, or a failure since the benchmark began: earlier ones are tried again."""
        numbered = [(number, record) for number, record in enumerate(self._records()) if record.run == run]
        settled = [record for number, record in numbered if record.status == "finished" or number >= self.known]
        return settled[-1] if settled else None

    def _records(self) -> list[RunRecord]:
        return read_records(self.path) if self.path.exists() else []
