"""`homefold check`: will a model hold up on images that nobody labelled?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from homefold.cli.output import fact_table, note, print_json, result_console, typed
from homefold.cli.parsing import (
    Arg,
    DeviceFlag,
    JsonFlag,
    PluginFlag,
    Positional,
    SkipBadFlag,
    parse,
)
from homefold.data import find_images
from homefold.errors import ConfigError
from homefold.runtime.progress import RichReporter
from homefold.stages.check_words import HOW_WRONG, facts_of, headline
from homefold.store.files import write_atomically

if TYPE_CHECKING:
    from homefold.stages.check import DomainCheck

__all__ = ["CheckOptions", "run"]


@dataclass(frozen=True)
class CheckOptions:
    """Will the model hold up on new images without labels? An estimated accuracy, how far the images are from the
    sources, and what to do next.

    Example: homefold check model new-images/ --html check.html --data photos/
    """

    model: Annotated[Path, Positional("MODEL")]
    """The folder of a model."""
    images: Annotated[tuple[str, ...], Positional("IMAGES …")]
    """Image files, folders (searched to the bottom) and patterns; labels are not needed."""
    html: Annotated[Path | None, Arg("FILE")] = None
    """Write a page with figures and the most unusual images, which needs no network."""
    no_pictures: bool = False
    """Leave the images off that page."""
    overwrite: bool = False
    """Replace FILE if it exists."""
    data: Annotated[str | None, Arg("DATA")] = None
    """The images that the model was trained on, to look for copies of them."""
    skip_bad: SkipBadFlag = False
    device: DeviceFlag = "auto"
    json: JsonFlag = False
    plugin: PluginFlag = ()


def run(arguments: Sequence[str]) -> int:
    """Check and tell."""
    options = parse(CheckOptions, "check", arguments)
    if options.html is not None and options.html.exists() and not (options.overwrite and options.html.is_file()):
        raise ConfigError(f"{options.html} exists already; choose another --html, or add --overwrite to replace it.")
    # These import torch, which --help does not need.
    from homefold.cli.unfinished import tidy_after_fit
    from homefold.model import Homefold

    model = Homefold.load(options.model, device=options.device, reporter=RichReporter())
    tidy_after_fit(options.model)
    paths = find_images(options.images)
    found = model.check(paths, sources=options.data, skip_bad=options.skip_bad)
    if len(found) < len(paths):
        note(f"Left out {len(paths) - len(found)} of {len(paths)} images that could not be read.")
    if options.html is not None:
        _write_page(options, found, typed("homefold", "check", *arguments))
    if options.json:
        print_json({"model": str(options.model), **found.as_dict(), "how_wrong": HOW_WRONG})
    else:
        _print(found, options)
    return 0


def _write_page(options: CheckOptions, found: DomainCheck, command: str) -> None:
    from homefold.report.check_page import check_page  # imports matplotlib, which takes a moment

    assert options.html is not None
    facts = {"Model": str(options.model), "Command": command}
    page = check_page(found, facts, pictures=not options.no_pictures)
    with write_atomically(options.html) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")


def _print(found: DomainCheck, options: CheckOptions) -> None:
    console = result_console()
    console.print(headline(found), soft_wrap=True)
    console.print(fact_table(facts_of(found)))
    for each in found.unusual[:3]:
        console.print(f"Unusual: {each.path or each.image} ({each.label}, {each.how_far})")
    if found.accuracy is not None:
        console.print(f"\n{HOW_WRONG}", soft_wrap=True)
    console.print("\nNext:")
    for sentence in found.advice:
        console.print(f"  {sentence}", soft_wrap=True)
    for sentence in found.unknown:
        note(sentence)
    if options.html is not None:
        console.print(f"\nThe page is {options.html}.", soft_wrap=True)
