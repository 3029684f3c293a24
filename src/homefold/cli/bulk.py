"""`homefold predict --out DIR/`: answers in shards, for any number of images."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from homefold.bulk import BulkOptions, Question, run_bulk
from homefold.bulk.places import is_address
from homefold.cli.ending import UsageError
from homefold.cli.given_settings import chosen_look_and_search
from homefold.cli.output import note
from homefold.config import LookConfig, SearchConfig
from homefold.data.paths import given_path
from homefold.runtime.progress import RichReporter, SilentReporter
from homefold.runtime.text import counted

if TYPE_CHECKING:
    from homefold.cli.predict import PredictOptions

__all__ = ["answer_in_shards", "is_in_shards", "question_of"]


def is_in_shards(options: PredictOptions) -> bool:
    """Whether answers are wanted in a folder of shards, which a slash at the end of --out says.

    A file cannot be called so: no other use of --out changes its meaning.
    """
    is_folder = (options.out or "").endswith(("/", os.sep))
    flags = {"--on": options.on, "--workers": options.workers, "--shard-size": options.shard_size}
    asked = [flag for flag, value in flags.items() if value is not None]
    far = [image for image in options.images if is_address(image)]
    if not is_folder and (asked or far):
        raise UsageError(f"{(asked or far)[0]} goes with answers in a folder: add --out answers/ (with the slash).")
    return is_folder


def question_of(options: PredictOptions, look: LookConfig, search: SearchConfig) -> Question:
    """What the flags ask about each image."""
    return Question(
        look=look,
        search=search,
        projected=not options.no_projection,
        compare=options.compare,
        abstain_above=options.abstain_above,
        abstain_below=options.abstain_below,
    )


def answer_in_shards(options: PredictOptions, settings: Mapping[str, Any]) -> int:
    """Begin a job, or do what is left of it."""
    out = options.out
    assert out is not None
    for flag, is_given in {
        "--json": options.json,
        "--csv": options.csv,
        "--overwrite": options.overwrite,
        "--explain": options.explain,
    }.items():
        if is_given:
            raise UsageError(f"{out} is a folder, in which answers are parquet files that stay; leave out {flag}.")
    if options.adapt:
        raise UsageError("Shards are answered in any order, and --adapt needs one; write to one file (--out FILE).")
    if len(options.images) != 1:
        raise UsageError(f"Answers in a folder are of one source of images; got {len(options.images)}.")
    if options.shard_size is not None and options.shard_size < 1:
        raise UsageError(f"--shard-size must be at least 1; got {options.shard_size}.")
    # These import torch, which --help does not need.
    from homefold.stages.description import images_config
    from homefold.store.model_folder import read_model_folder

    own = images_config(read_model_folder(options.model)[1], options.model)
    look, search = chosen_look_and_search(own, options.projection_preset, settings)
    bulk = BulkOptions(
        model=options.model,
        source=options.images[0],
        out=given_path(out),
        question=question_of(options, look, search),
        shard_size=options.shard_size,
        on=options.on or "local",
        workers=options.workers,
        device=options.device,
    )
    has_bar = sys.stderr.isatty()
    done = run_bulk(bulk, reporter=RichReporter() if has_bar else SilentReporter(), tell=note)
    unread = f"; {counted(done.unread, 'image')} could not be read (column error)" if done.unread else ""
    note(f"{done.images:,} answers in {counted(done.shards, 'file')} of {out}{unread}.")
    return 0
