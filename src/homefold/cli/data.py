"""`homefold data`: list, describe and verify datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from homefold.cli.commands import Command, run_command
from homefold.cli.domains import is_dataset_name
from homefold.cli.output import fact_table, note, print_json, result_console, result_table
from homefold.cli.parsing import DebugFlag, JsonFlag, parse
from homefold.data import DomainDataset, dataset_entry, list_datasets, load_dataset, scan_folder, verify_folder
from homefold.data.verify import VerificationReport
from homefold.errors import DataError
from homefold.progress import RichReporter

__all__ = ["DescribeOptions", "ListOptions", "VerifyOptions", "run"]

COMMANDS = {
    "list": Command("the datasets that are known by name", __name__, "run_list"),
    "describe": Command("the domains and classes of a dataset or a folder", __name__, "run_describe"),
    "verify": Command("decode every image of a folder; report bad and duplicate ones", __name__, "run_verify"),
}
_END = """\
examples:
  homefold data list
  homefold data describe photos/
  homefold data verify photos/ --json
"""

_SHOWN = ("folder", "name", "description", "source", "licence", "layout", "images")

Counts = dict[str, dict[str, int]]


def run(arguments: Sequence[str]) -> int:
    """Find the subcommand and run it."""
    return run_command("homefold data", COMMANDS, arguments, about="List, describe and verify datasets.", end=_END)


@dataclass(frozen=True)
class ListOptions:
    """List the datasets that can be named in place of a folder."""

    json: JsonFlag = False
    debug: DebugFlag = False


def run_list(arguments: Sequence[str]) -> int:
    """`homefold data list`."""
    options = parse(ListOptions, "data list", arguments)
    entries = list_datasets()
    if options.json:
        print_json({"datasets": [entry.as_dict() for entry in entries]})
        return 0
    table = result_table("name", "needs files", "what it shows", "where from")
    for entry in entries:
        table.add_row(entry.name, "no" if entry.embedded else "yes", entry.description, entry.source)
    result_console().print(table)
    return 0


@dataclass(frozen=True)
class DescribeOptions:
    """Show the domains of a dataset or a folder, and how many images each class has there.

    Example: homefold data describe photos/
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME_OR_PATH")]
    """The name of a dataset, or a folder of domains."""
    json: JsonFlag = False
    debug: DebugFlag = False


def run_describe(arguments: Sequence[str]) -> int:
    """`homefold data describe`."""
    options = parse(DescribeOptions, "data describe", arguments)
    folder = Path(options.data).expanduser()
    if is_dataset_name(options.data) or not folder.exists():
        facts = _describe_named(options.data)
    else:
        facts = _describe_folder(folder)
    if options.json:
        print_json(facts)
        return 0
    console = result_console()
    console.print(fact_table(_lines(facts)))
    if facts["counts"]:
        console.print(_count_table(facts["counts"]))
    for warning in facts["warnings"]:
        note(f"warning: {warning}")
    return 0


def _lines(facts: dict[str, Any]) -> dict[str, str]:
    """What is not in the table of counts, in words."""
    lines = {name.capitalize(): str(facts[name]) for name in _SHOWN if name in facts}
    if facts["classes"]:
        lines["Classes"] = f"{len(facts['classes'])}: {', '.join(facts['classes'])}"
    return lines


def _describe_named(name: str) -> dict[str, Any]:
    entry = dataset_entry(name)
    counts = _counts(load_dataset(name)) if entry.embedded else {}
    return {**entry.as_dict(), "counts": counts, "warnings": []}


def _describe_folder(folder: Path) -> dict[str, Any]:
    index = scan_folder(folder, allow_one_class=True)
    rows = zip(index.domain_names, index.counts().tolist(), strict=True)
    return {
        "folder": str(folder),
        "images": len(index),
        "domains": list(index.domain_names),
        "classes": list(index.class_names),
        "counts": {domain: dict(zip(index.class_names, row, strict=True)) for domain, row in rows},
        "ignored": index.ignored,
        "warnings": list(index.warnings),
    }


def _counts(dataset: DomainDataset) -> Counts:
    counts: Counts = {domain: dict.fromkeys(dataset.class_names, 0) for domain in dataset.domain_names}
    for domain, label in zip(dataset.domains.tolist(), dataset.labels.tolist(), strict=True):
        counts[dataset.domain_names[domain]][dataset.class_names[label]] += 1
    return counts


def _count_table(counts: Counts) -> Table:
    table = result_table("domain", "images", "classes", "fewest", "most", numbers=4)
    for domain, of_class in counts.items():
        fewest, most = min(of_class, key=of_class.__getitem__), max(of_class, key=of_class.__getitem__)
        table.add_row(
            domain,
            str(sum(of_class.values())),
            str(sum(count > 0 for count in of_class.values())),
            f"{of_class[fewest]} ({fewest})",
            f"{of_class[most]} ({most})",
        )
    return table


@dataclass(frozen=True)
class VerifyOptions:
    """Decode every image of a folder; report what cannot be read, what stands there twice, and what is missing.

    The exit code is 0 when the folder can be used, also with warnings, and 1 when something must be repaired.

    Example: homefold data verify photos/
    """

    path: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PATH")]
    """A folder PATH/domain/class/image."""
    json: JsonFlag = False
    debug: DebugFlag = False


def run_verify(arguments: Sequence[str]) -> int:
    """`homefold data verify`."""
    options = parse(VerifyOptions, "data verify", arguments)
    folder = Path(options.path).expanduser()
    if not folder.exists() and is_dataset_name(options.path) and dataset_entry(options.path).embedded:
        raise DataError(f"{options.path} is embedded: it has no files that could be damaged.")
    report = verify_folder(folder, reporter=RichReporter())
    if options.json:
        print_json(report.as_dict())
    else:
        _print_report(report)
    return 1 if report.verdict == "errors" else 0


def _print_report(report: VerificationReport) -> None:
    console = result_console()
    if report.counts:
        console.print(_count_table(report.counts))
    for what, sentences in (("error", report.errors), ("warning", report.warnings)):
        for sentence in sentences:
            console.print(f"{what}: {sentence}", soft_wrap=True)
    verdicts = {
        "ok": "ok: every image can be read, and none stands there twice.",
        "warnings": "usable, with warnings.",
        "errors": "not usable as it is.",
    }
    console.print(f"{report.root}: {report.images} images, {verdicts[report.verdict]}", soft_wrap=True)
