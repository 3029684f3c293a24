"""`homefold data cache`: what is kept for later runs, shown, limited and cleared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from homefold.cli.output import note, print_json, result_console, result_table, show_bytes
from homefold.cli.parsing import Arg, JsonFlag, Positional, parse
from homefold.data import ImageCache, cache_directory
from homefold.data.cache.computed import Computed, computed_entries
from homefold.data.cache.directory import cache_limit_bytes, parse_bytes, set_cache_limit
from homefold.data.cache.entry import CacheEntry
from homefold.errors import ConfigError

__all__ = ["CacheOptions", "run_cache"]

_TITLES = {"features": "features of frozen backbones (networks)", "explorer": "answers for the explorer (maps)"}


@dataclass(frozen=True)
class CacheOptions:
    """Show what is kept for later runs, clear it, or limit what it may take.

    Decoded images, features of frozen backbones and the explorer's maps lie in the folder that HOMEFOLD_CACHE names.
    What is deleted is made again when it is needed.

    Examples: homefold data cache · homefold data cache --clear pacs · homefold data cache --limit 20GB
    """

    name: Annotated[tuple[str, ...], Positional("[NAME]")] = ()
    """Only the entries of this dataset."""
    clear: bool = False
    """Delete everything (with NAME, the images of that dataset alone); what a running process uses stays."""
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
    deleted: list[CacheEntry | Computed] = []
    in_use: list[CacheEntry] = []
    if options.limit is not None:
        set_cache_limit(parse_bytes(options.limit))
        deleted += cache.shrink()
    if options.clear:
        cleared, in_use = cache.clear(name)
        deleted += cleared
        deleted += [] if name else [entry for entry in computed_entries() if entry.remove()]
        if name in (None, "digits-mini"):
            for file in cache_directory().glob("digits-mini-*.npz"):
                file.unlink(missing_ok=True)
    entries = [entry for entry in cache.entries() if name is None or name in entry.names]
    if name is not None and not (entries or deleted or in_use):
        others = sorted({other for entry in cache.entries() for other in entry.names})
        note(f"Nothing is kept of {name}; there are entries of {', '.join(others) or 'no dataset'}.")
    everything: list[CacheEntry | Computed] = [*cache.entries(), *computed_entries()]
    computed = [] if name else [entry for entry in everything if isinstance(entry, Computed)]
    total = sum(entry.bytes for entry in everything)
    if options.json:
        listed: dict[str, Sequence[CacheEntry | Computed]] = {
            "entries": entries,
            "computed": computed,
            "deleted": deleted,
            "in_use": in_use,
        }
        of_all = {"directory": str(cache_directory()), "limit_bytes": cache_limit_bytes(), "bytes": total}
        print_json(of_all | {what: [*map(_facts, these)] for what, these in listed.items()})
    else:
        _print_cache(entries, computed, deleted, in_use)
        limit = show_bytes(cache_limit_bytes())
        result_console().print(f"{cache_directory()}: {show_bytes(total)} of at most {limit}.", soft_wrap=True)
    return 0


def _facts(entry: CacheEntry | Computed) -> dict[str, Any]:
    used = datetime.fromtimestamp(entry.used).astimezone().isoformat(timespec="seconds")
    if isinstance(entry, Computed):
        path = str(entry.path)
        return {"kind": entry.kind, "files": entry.files, "bytes": entry.bytes, "used": used, "path": path}
    return {
        "name": entry.name,
        "names": list(entry.names),
        "root": entry.root,
        "size": list(entry.size),
        "domains": [piece.domain for piece in entry.pieces],
        "images": sum(piece.rows for piece in entry.pieces),
        "skipped": sum(len(piece.bad) for piece in entry.pieces),
        "bytes": entry.bytes,
        "used": used,
        "folder": str(entry.folder),
    }


def _print_cache(
    entries: list[CacheEntry],
    computed: list[Computed],
    deleted: list[CacheEntry | Computed],
    in_use: list[CacheEntry],
) -> None:
    console = result_console()
    if entries:
        table = result_table("dataset", "domains", "px", "last used", "images", "on disk", numbers=2)
        for entry in entries:
            facts = _facts(entry)
            table.add_row(
                _few(facts["names"]),
                _few(facts["domains"]),
                f"{entry.size[0]}×{entry.size[1]}",
                facts["used"].replace("T", " ")[:16],
                str(facts["images"]),
                show_bytes(entry.bytes),
            )
        console.print(table)
    if computed:
        table = result_table("computed from images", "last used", "number", "on disk", numbers=2)
        for kind, title in _TITLES.items():
            if of_kind := [entry for entry in computed if entry.kind == kind]:
                last = _facts(of_kind[0])["used"].replace("T", " ")[:16]
                table.add_row(title, last, str(len(of_kind)), show_bytes(sum(entry.bytes for entry in of_kind)))
        console.print(table)
    for busy in in_use:
        note(f"{busy.name}: {show_bytes(busy.bytes)} are in use and were kept.")
    if deleted:
        freed = show_bytes(sum(entry.bytes for entry in deleted))
        console.print(f"Deleted {len(deleted)} of the entries, {freed}.", soft_wrap=True)


def _few(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
