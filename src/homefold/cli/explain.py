"""`homefold predict --explain`: why each image is answered as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from homefold.cli.ending import UsageError
from homefold.cli.output import json_line, note
from homefold.config import LookConfig, SearchConfig
from homefold.data import BadImageError
from homefold.errors import ConfigError

if TYPE_CHECKING:
    from homefold.cli.predict import PredictOptions
    from homefold.model import Homefold

__all__ = ["explain_each", "require_explainable"]


def require_explainable(options: PredictOptions) -> None:
    """Refuse what makes no sense beside an explanation, and flags of one where none is asked for."""
    if not options.explain:
        for flag, is_given in (("--explain-png", options.explain_png), ("--data", options.data)):
            if is_given is not None:
                raise UsageError(f"{flag} goes with --explain.")
        return
    if options.adapt:
        raise UsageError("--explain says why an image is answered by itself; leave out --adapt.")
    others = {
        "--csv": options.csv,
        "--no-projection": options.no_projection,
        "--abstain-above": options.abstain_above is not None,
    }
    for flag, was_asked in others.items():
        if was_asked:
            raise UsageError(f"--explain shows both answers in full; leave out {flag}.")


def explain_each(
    model: Homefold,
    paths: Sequence[Path],
    options: PredictOptions,
    look: LookConfig,
    search: SearchConfig,
    stream: TextIO,
) -> int:
    """Write an explanation of every image, as text or a JSON object a line; how many could not be read."""
    if options.explain_png is not None and len(paths) != 1:
        raise ConfigError(f"--explain-png draws one image; {len(paths)} were given.")
    sources, bad = model.source_images(options.data), 0
    for path in paths:
        try:
            found = model.explain(path, data=sources, look=look, search=search)
        except BadImageError as error:
            if not options.skip_bad:
                raise
            note(f"left out: {error.name} {error.reason}")
            bad += 1
            continue
        stream.write(f"{json_line(found.as_dict()) if options.json else found}\n")
        stream.flush()
        if options.explain_png is not None:
            found.save_png(options.explain_png)
    return bad
