"""`homefold data cache`: the decoded images that are kept, shown, limited and cleared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from homefold.cli.output import note, print_json, result_console, result_table, show_bytes
from homefold.cli.parsing import Arg, JsonFlag, Positional, parse
from homefold.data import ImageCache, cache_directory
from homefold.data.cache.directory import cache_limit_bytes, parse_bytes, set_cache_limit
from homefold.data.cache.entry import CacheEntry
from homefold.errors import ConfigError

__all__ = ["CacheOptions", "run_cache"]


@dataclass(frozen=True)
class CacheOptions:
    """Show the decoded images that are kept for later runs, clear them, or limit what they may take.

    They lie in the folder that HOMEFOLD_CACHE names. What is deleted is decoded again when it is needed.

    Examples: homefold data cache · homefold data cache --clear pacs · homefold data cache --limit 20GB
    """

    name: Annotated[tuple[str, ...], Positional("[NAME]")] = ()
    """Only the entries of this dataset."""
    clear: bool = False
    """Delete the entries (with NAME, of that dataset alone); those that a running process uses stay."""
    limit: Annotated[str | None, Arg("SIZE")] = None
    """Keep at most this much, now and later, such as 20GB; HOMEFOLD_CACHE_LIMIT overrides it. What was not used for
    longest goes first."""
    json: JsonFlag = False


def run_cache(arguments: Sequence[str]) -> int:
    """`homefold data cache`."""
    options = parse(CacheOptions, "data cache", arguments)
    if len(options.name) > 1:
        raise ConfigError("homefold data cache takes one NAME.")
    name = options.name[0] if options.name else None
    cache = ImageCache()
    deleted: list[CacheEntry] = []
    in_use: list[CacheEntry] = []
    if options.limit is not None:
        set_cache_limit(parse_bytes(options.limit))
        deleted += cache.shrink()
    if options.clear:
        cleared, in_use = cache.clear(name)
        deleted += cleared
        if name in (None, "digits-mini"):
            for file in cache_directory().glob("digits-mini-*.npz"):
                file.unlink(missing_ok=True)
    entries = [entry for entry in cache.entries() if name is None or name in entry.names]
    if name is not None and not (entries or deleted or in_use):
        others = sorted({other for entry in cache.entries() for other in entry.names})
        note(f"Nothing is kept of {name}; there are entries of {', '.join(others) or 'no dataset'}.")
    if options.json:
        listed = {"entries": entries, "deleted": deleted, "in_use": in_use}
        of_all = {
            "directory": str(cache.directory),
            "limit_bytes": cache_limit_bytes(),
            "bytes": sum(entry.bytes for entry in cache.entries()),
        }
        print_json(of_all | {what: [*map(_entry_facts, these)] for what, these in listed.items()})
    else:
        _print_cache(cache, entries, deleted, in_use)
    return 0


def _entry_facts(entry: CacheEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "names": list(entry.names),
        "root": entry.root,
        "size": list(entry.size),
        "domains": [piece.domain for piece in entry.pieces],
        "images": sum(piece.rows for piece in entry.pieces),
        "skipped": sum(len(piece.bad) for piece in entry.pieces),
        "bytes": entry.bytes,
        "used": datetime.fromtimestamp(entry.used).astimezone().isoformat(timespec="seconds"),
        "folder": str(entry.folder),
    }


def _print_cache(
    cache: ImageCache, entries: list[CacheEntry], deleted: list[CacheEntry], in_use: list[CacheEntry]
) -> None:
    console = result_console()
    if entries:
        table = result_table("dataset", "domains", "px", "last used", "images", "on disk", numbers=2)
        for entry in entries:
            facts = _entry_facts(entry)
            table.add_row(
                _few(facts["names"]),
                _few(facts["domains"]),
                f"{entry.size[0]}×{entry.size[1]}",
                facts["used"].replace("T", " ")[:16],
                str(facts["images"]),
                show_bytes(entry.bytes),
            )
        console.print(table)
    for entry in in_use:
        note(f"{entry.name}: {show_bytes(entry.bytes)} are in use and were kept.")
    if deleted:
        freed = show_bytes(sum(entry.bytes for entry in deleted))
        console.print(f"Deleted {len(deleted)} of the entries, {freed}.", soft_wrap=True)
    total = show_bytes(sum(entry.bytes for entry in cache.entries()))
    console.print(f"{cache.directory}: {total} of at most {show_bytes(cache_limit_bytes())}.", soft_wrap=True)


def _few(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
