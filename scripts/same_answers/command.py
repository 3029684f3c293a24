"""The command: train and answer with both checkouts, compare, print a table."""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import platform
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from same_answers.cases import CASES, Case
from same_answers.checkout import Checkout, CheckoutError
from same_answers.comparing import Comparison, compare_folders
from same_answers.data import appearing, prepare_digits, prepare_photos, real_data

__all__ = ["main"]

_ABOUT = """Train and answer with two checkouts of homefold, and compare what comes out byte for byte.

Every command runs in a process of its own, on the CPU, with one thread and with CHECKOUT/src first on its path.
Only the public face is used: the command homefold, homefold.preset_config and homefold.ManifoldProjector.
The cases on photographs need the folder HOMEFOLD_TEST_DATA, with pacs/pacs_<domain>.tar and
weights/resnet18_imagenet.safetensors; without it they are skipped.

Compared are the tensors of models and of the benchmark's stages as bytes, whatever they are called and wherever
they lie; the answers to each image; the arrays of artifacts; reports and records but for times, settings and names
of stages. NEW must also open the models that OLD wrote, and answer as OLD does. What OLD gives is kept.
The exit code is 1 if anything differs, or if there was nothing to compare."""
_DECIDES_ANSWERS = ("cases.py", "checkout.py", "data.py", "probes.py", "spelling.py")
_MOST_SENTENCES = 5


@dataclass
class Made:
    """What came of a case in one checkout.

    Args:
        seconds: that it took.
        failure: why there is nothing; empty if there is.
        reopened: for each file that was answered by the other checkout's models, the file to compare it with.
        reopen_failure: why the other checkout's models could not be used.
    """

    seconds: float = 0.0
    failure: str = ""
    reopened: dict[str, str] = field(default_factory=dict)
    reopen_failure: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="same-answers", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="the checkout whose answers are right")
    parser.add_argument("new", type=Path, metavar="NEW", help="the checkout that must give the same")
    parser.add_argument(
        "--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE", help=", ".join(CASES)
    )
    parser.add_argument("--cache", type=Path, default=_default_cache(), metavar="DIR", help="keeps what OLD gives")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes side by side")
    parser.add_argument("--keep", action="store_true", help="leave NEW's files behind, and say where")
    options = parser.parse_args(arguments)
    try:
        return _run(options, {name: CASES[name] for name in CASES if name in options.only})
    except CheckoutError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "homefold-same-answers"


def _run(options: argparse.Namespace, cases: Mapping[str, Case]) -> int:
    began = time.monotonic()
    place = options.cache.resolve() / _recipe()
    old, new = (Checkout(path, place / "data") for path in (options.old, options.new))
    print(f"OLD {old.title}\nNEW {new.title}\n", flush=True)
    skipped = {name: reason for name, case in cases.items() if (reason := case.lacks())}
    cases = {name: case for name, case in cases.items() if name not in skipped}
    digests = old.digest(), new.digest()
    kept = place / f"old-{digests[0]}"
    scratch = Path(tempfile.mkdtemp(prefix="new-", dir=_prepared(old, new, cases)))
    try:
        differences = _compare_all(cases, old, new, kept, scratch, options.jobs)
    finally:
        if options.keep:
            print(f"NEW's files are in {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    for name, reason in skipped.items():
        print(f"{name:15} skipped: {reason}")
    _require_unchanged((old, new), digests, kept)
    print(f"\n{differences or 'no'} differences in {len(cases)} cases, {time.monotonic() - began:.0f} s")
    return 1 if differences or not cases else 0


def _require_unchanged(checkouts: Sequence[Checkout], digests: Sequence[str], kept: Path) -> None:
    """Refuse a result of sources that were edited meanwhile; what OLD gave then is not kept either."""
    for side, checkout, digest in zip(("OLD", "NEW"), checkouts, digests, strict=True):
        if checkout.digest() != digest:
            if side == "OLD":
                shutil.rmtree(kept, ignore_errors=True)
            raise CheckoutError(f"the source of {side} changed meanwhile, so the table says nothing; run it again.")


def _recipe() -> str:
    """Stands for all that decides what OLD gives, but its source."""
    digest = hashlib.sha256(f"{version('torch')} {platform.python_version()} {_processor()}".encode())
    for name in _DECIDES_ANSWERS:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()[:16]


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    return next((line for line in lines if line.startswith("model name")), platform.machine())


def _prepared(old: Checkout, new: Checkout, cases: Mapping[str, Case]) -> Path:
    """See that both checkouts can be imported, and write the data of the cases; returns the folder beside them."""
    old.data.mkdir(parents=True, exist_ok=True)
    if not (old.known_settings and new.known_settings):
        raise CheckoutError("a checkout has no settings at all.")
    prepare_digits(old)
    real = real_data()
    if real and any(case.needs for case in cases.values()):
        prepare_photos(real, old.data)
    return old.data.parent


def _compare_all(cases: Mapping[str, Case], old: Checkout, new: Checkout, kept: Path, scratch: Path, jobs: int) -> int:
    """Print a table row for each comparison; returns the number of differences."""
    differences = 0
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {}
        for name, case in cases.items():
            of_old = pool.submit(_make, case, old, kept / name)
            # It waits for what was submitted before it, so that no two of them can wait for each other.
            of_new = pool.submit(_make, case, new, scratch / name, of_old, kept / name)
            waiting[name] = of_old, of_new
        try:
            for name, futures in waiting.items():
                made = [future.result() for future in futures]
                for result in _judge(made, kept / name, scratch / name):
                    _print_row(name, result)
                    differences += len(result.differences)
                print(f"{name:15} took {made[0].seconds:.0f} s in OLD, {made[1].seconds:.0f} s in NEW", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return differences


def _make(
    case: Case, checkout: Checkout, folder: Path, of_old: Future[Made] | None = None, old: Path | None = None
) -> Made:
    """Fill a folder unless it is there; for NEW also answer with OLD's models."""
    made, began = Made(), time.monotonic()
    try:
        if not folder.exists():
            with appearing(folder) as part:
                case.make(checkout, part)
                shutil.rmtree(part / ".cache", ignore_errors=True)
    except (CheckoutError, LookupError) as error:
        made.failure = str(error)
    if of_old and old and case.reopen and not made.failure and not of_old.result().failure:
        try:
            made.reopened = case.reopen(checkout, old, folder)
        except (CheckoutError, LookupError) as error:
            made.reopen_failure = str(error)
    made.seconds = time.monotonic() - began
    return made


def _judge(made: Sequence[Made], old: Path, new: Path) -> list[Comparison]:
    """Compare what both checkouts gave; whatever failed is a difference."""
    failed = Comparison("what failed", "steps")
    for side, one in zip(("OLD", "NEW"), made, strict=True):
        if one.failure:
            failed.differs(f"{side}: {one.failure}")
        if one.reopen_failure:
            failed.differs(f"{side} with OLD's model: {one.reopen_failure}")
    results: list[Comparison] = []
    if not any(one.failure for one in made):
        try:
            results = compare_folders(old, new, made[1].reopened)
        except (LookupError, ValueError, OSError) as error:
            failed.differs(f"NEW's files are of another form than OLD's: {error!r}")
    return [*results, failed] if failed.differences else results


def _print_row(case: str, result: Comparison) -> None:
    """A line of the table, and below it what differs and what was not compared."""
    verdict = f"DIFFERS in {len(result.differences)}" if result.differences else "equal"
    if result.differences and math.isfinite(result.largest):
        verdict += f", by {result.largest:.3g} at most"
    print(f"{case:15} {result.what:40} {f'{result.count} {result.unit}':>16}  {verdict}")
    notes = [f"{note} ({times} times)" if times > 1 else note for note, times in Counter(result.notes).items()]
    for sentences in (result.differences, notes):
        for sentence in sentences[:_MOST_SENTENCES]:
            print(f"{'':18}{sentence}")
        if len(sentences) > _MOST_SENTENCES:
            print(f"{'':18}and {len(sentences) - _MOST_SENTENCES} more")
