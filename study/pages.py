"""Writes the tables of the study's pages from its records: python study/pages.py, or --check to compare only.

A table stands in a page between `<!-- table NAME -->` and `<!-- end -->`; the modules of `tables/` make it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import tables
from tables.registry import TABLES

for _module in iter_modules(tables.__path__):
    import_module(f"tables.{_module.name}")

_BLOCK = re.compile(r"(<!-- table ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def rewritten(text: str) -> str:
    """A page with its tables as the records have them."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{TABLES[block[2]]()}\n\n{block[4]}", text)


def main(arguments: Sequence[str]) -> int:
    """Rewrite all pages of a folder, or of this one; with --check say which differ, and change nothing."""
    folders = [Path(word) for word in arguments if word != "--check"] or [Path(__file__).parent]
    differ = []
    for page in sorted(page for folder in folders for page in folder.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        new = rewritten(text)
        if new != text:
            differ.append(page.name)
            if "--check" not in arguments:
                page.write_text(new, encoding="utf-8")
    if differ and "--check" in arguments:
        print(f"pages that differ from the records: {', '.join(differ)}; python study/pages.py rewrites them")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
