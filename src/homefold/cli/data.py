"""`homefold data`: list, describe, verify, fetch and make datasets, and look after the cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table

from homefold.cli.commands import Command, run_command
from homefold.cli.domain_from import DomainFromFlag
from homefold.cli.domains import is_dataset_name
from homefold.cli.output import fact_table, note, print_json, result_console, result_table
from homefold.cli.parsing import Arg, JsonFlag, Names, PluginFlag, Positional, parse, unique
from homefold.data import (
    DomainDataset,
    LoadRequest,
    dataset_entry,
    download_dataset,
    list_datasets,
    list_downloads,
    load_dataset,
    split_name,
    verify_dataset,
)
from homefold.data.paths import given_path
from homefold.data.registry import DatasetEntry, form_at
from homefold.data.verify import VerificationReport
from homefold.errors import ConfigError, DataError
from homefold.runtime.progress import RichReporter

__all__ = ["DescribeOptions", "GetOptions", "ListOptions", "VerifyOptions", "run"]

COMMANDS = {
    "list": Command("the datasets that are known by name", __name__, "run_list"),
    "describe": Command("the domains and classes of a dataset or a folder", __name__, "run_describe"),
    "verify": Command("decode every image; report wrong counts, bad and duplicate ones", __name__, "run_verify"),
    "get": Command("download a dataset, where torchvision can", __name__, "run_get"),
    "make": Command("make cifar10-c, the corruptions, from CIFAR-10", "homefold.cli.data_make", "run_make"),
    "cache": Command("show, limit and clear the cache", "homefold.cli.data_cache", "run_cache"),
}
_END = """\
examples:
  homefold data list
  homefold data describe photos/
  homefold data verify photos/ --json
  homefold data verify pacs /data/pacs
  homefold data get digits-few-shot --to /data/digits
  homefold data make cifar10-c /data/cifar
  homefold data cache --limit 20GB
"""

_SHOWN = ("folder", "name", "description", "source", "licence", "layout", "images")

Counts = dict[str, dict[str, int]]


def run(arguments: Sequence[str]) -> int:
    """Find the subcommand and run it."""
    return run_command(
        "homefold data", COMMANDS, arguments, about="Datasets, and the cache of what is made from them.", end=_END
    )


@dataclass(frozen=True)
class ListOptions:
    """List the datasets that can be named: where people get each, its licence, and how its files must lie.

    One with files is written NAME:PATH in place of a folder: homefold fit pacs:/data/pacs --out model
    """

    plugin: PluginFlag = ()
    json: JsonFlag = False


def run_list(arguments: Sequence[str]) -> int:
    """`homefold data list`."""
    options = parse(ListOptions, "data list", arguments)
    entries = list_datasets()
    if options.json:
        print_json({"datasets": [entry.as_dict() for entry in entries]})
        return 0
    console = result_console()
    for entry in entries:
        facts = {"": entry.description, "from": entry.source, "licence": entry.licence, "layout": entry.layout}
        console.print(entry.name, style="bold")
        console.print(fact_table({f"  {what}": text for what, text in facts.items()}))
    return 0


@dataclass(frozen=True)
class DescribeOptions:
    """Show the domains of a dataset or a folder, and how many images each class has there.

    Example: homefold data describe photos/
    """

    data: Annotated[str, Positional("NAME_OR_PATH")]
    """The name of a dataset, NAME:PATH with where its files lie, a folder of domains, also as a tar or zip, or a file
    that lists images."""
    domain_from: DomainFromFlag = ""
    plugin: PluginFlag = ()
    json: JsonFlag = False


def run_describe(arguments: Sequence[str]) -> int:
    """`homefold data describe`."""
    options = parse(DescribeOptions, "data describe", arguments)
    folder = given_path(options.data)
    name, root = split_name(options.data)
    named = is_dataset_name(name) or not (os.path.exists(folder) or form_at(folder).table)
    facts = (
        _describe_named(name, root, options.domain_from)
        if named
        else _described(folder, form_at(folder, options.domain_from), options.domain_from)
    )
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
    if "splits" in facts:
        official = ", ".join(f"{split} {count}" for split, count in facts["splits"].items())
        lines["Splits"] = official or "none official: a seeded part is held out"
    return lines


def _describe_named(name: str, root: Path | None, domain_from: str) -> dict[str, Any]:
    entry = dataset_entry(name)
    if root is None or entry.index is None:
        counts = _counts(load_dataset(name, root=root)) if entry.embedded else {}
        return {**entry.as_dict(), "counts": counts, "warnings": []}
    return {**entry.as_dict(), **_described(root, entry, domain_from)}


def _described(root: Path, entry: DatasetEntry, domain_from: str) -> dict[str, Any]:
    """What lies at a place, without decoding any of it."""
    assert entry.index is not None
    index = entry.index(LoadRequest(root=root, allow_one_class=True, domain_from=domain_from))
    return {
        "folder": str(root),
        "images": len(index),
        "domains": list(index.domain_names),
        "classes": list(index.class_names),
        "counts": index.named_counts(),
        "splits": {split: index.splits.count(split) for split in sorted(set(index.splits))},
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
    """Decode every image; report what cannot be read, what stands there twice, and what is missing.

    A named dataset is also compared with the published number of images of each domain and class. The exit code is 0
    when the images can be used, also with warnings, and 1 when something must be repaired.

    Examples: homefold data verify photos/ · homefold data verify pacs /data/pacs
    """

    data: Annotated[tuple[str, ...], Positional("[NAME] PATH", default="(required)")]
    """A folder PATH/domain/class/image, also packed as a tar or zip; or a dataset's name and where its files lie
    (NAME:PATH is the same)."""
    domain: Annotated[Names, Arg("NAME")] = ()
    """Only these domains; all by default."""
    domain_from: DomainFromFlag = ""
    counts_only: bool = False
    """Compare a named dataset's counts and decode nothing."""
    plugin: PluginFlag = ()
    json: JsonFlag = False


def run_verify(arguments: Sequence[str]) -> int:
    """`homefold data verify`."""
    options = parse(VerifyOptions, "data verify", arguments)
    name, path = _name_and_path(options.data)
    if name is None and options.counts_only:
        raise ConfigError("nothing is published of a folder to compare its counts with: leave out --counts-only.")
    domains, decode = unique(options.domain) or None, not options.counts_only
    report = verify_dataset(
        name or form_at(path, options.domain_from).name,
        path,
        domains=domains,
        decode=decode,
        reporter=RichReporter(),
        domain_from=options.domain_from,
    )
    if options.json:
        print_json(report.as_dict())
    else:
        _print_report(report)
    return 1 if report.verdict == "errors" else 0


def _name_and_path(words: tuple[str, ...]) -> tuple[str | None, Path]:
    """The dataset's name, None for a plain folder, and where its files lie."""
    if len(words) == 1:
        name, root = split_name(words[0])
        if root is not None:
            return name, root
        if not is_dataset_name(words[0]):
            return None, given_path(words[0])
        if dataset_entry(words[0]).embedded:
            raise DataError(f"{words[0]} is embedded: it has no files that could be damaged.")
        here = f" (here perhaps ./{words[0]})" if os.path.exists(words[0]) else ""
        raise DataError(f"say where the files of {words[0]} lie{here}: homefold data verify {words[0]} PATH")
    if len(words) == 2:
        return dataset_entry(words[0]).name, given_path(words[1])
    raise ConfigError("homefold data verify takes a PATH, or a NAME and a PATH.")


def _print_report(report: VerificationReport) -> None:
    console = result_console()
    if report.counts:
        console.print(_verified_table(report) if report.published else _count_table(report.counts))
    for what, sentences in (("error", report.errors), ("warning", report.warnings)):
        for sentence in sentences:
            console.print(f"{what}: {sentence}", soft_wrap=True)
    fine = "every image can be read, and none stands there twice." if report.decoded else "the counts are right."
    verdicts = {"ok": f"ok: {fine}", "warnings": "usable, with warnings.", "errors": "not usable as it is."}
    undecoded = "" if report.decoded else " No image was decoded."
    as_published = ", as published" if report.published and report.verdict != "errors" else ""
    if report.by_domain_only:
        console.print("Published is the number of images of each domain; those of each class were not compared.")
    console.print(
        f"{report.root}: {report.images} images{as_published}, {verdicts[report.verdict]}{undecoded}", soft_wrap=True
    )


def _verified_table(report: VerificationReport) -> Table:
    table = result_table("domain", "images", "published", "classes", numbers=3)
    for domain, published in report.published.items():
        counts = report.counts.get(domain, {}).values()
        table.add_row(domain, str(sum(counts)), str(published), str(sum(count > 0 for count in counts)))
    return table


@dataclass(frozen=True)
class GetOptions:
    """Download a dataset through torchvision. Nothing else in homefold downloads a dataset.

    Of the others it says where people get them.

    Example: homefold data get digits-few-shot --to /data/digits
    """

    name: Annotated[str, Positional("NAME")]
    """mnist, usps, svhn, cifar10; digits-few-shot is the first three."""
    to: Annotated[Path, Arg("DIR")]
    """Where to put it."""
    plugin: PluginFlag = ()
    json: JsonFlag = False


def run_get(arguments: Sequence[str]) -> int:
    """`homefold data get`."""
    options = parse(GetOptions, "data get", arguments)
    if options.name not in list_downloads() and not is_dataset_name(options.name):
        raise DataError(
            f"there is no dataset {options.name!r}; those that can be downloaded are {', '.join(list_downloads())}."
        )
    then = download_dataset(options.name, options.to)
    if options.json:
        print_json({"name": options.name, "folder": options.to, "next": then})
    else:
        print(then)
    return 0
