"""`homefold predict`: answers for images, a chunk at a time, as a table, JSON lines or CSV."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import numpy as np

from homefold.bulk.answering import answered, decoded
from homefold.bulk.question import Question
from homefold.cli.answers import ADAPTED, AnswerWriter, CsvWriter, JsonLinesWriter, TableWriter
from homefold.cli.bulk import answer_in_shards, is_in_shards, question_of
from homefold.cli.ending import UsageError
from homefold.cli.explain import explain_each, require_explainable
from homefold.cli.given_settings import chosen_look_and_search, inference_settings
from homefold.cli.output import note
from homefold.cli.parsing import (
    Arg,
    DeviceFlag,
    PluginFlag,
    Positional,
    ProjectionPresetFlag,
    SetInferenceFlag,
    SkipBadFlag,
    parse,
)
from homefold.data import BadImageError
from homefold.data.archives import FileImage
from homefold.data.decoding.many import one_ahead
from homefold.data.decoding.pool import start_decoders
from homefold.data.given import given_images
from homefold.data.index import Decodable
from homefold.data.paths import given_path
from homefold.errors import ConfigError, DataError
from homefold.runtime.progress import ProgressReporter, RichReporter, SilentReporter, Task
from homefold.stages.predictions import Prediction, require_confidence, require_threshold, rows_named
from homefold.store.files import write_atomically

if TYPE_CHECKING:
    from homefold.model import Homefold

__all__ = ["PredictOptions", "run"]

_Answers = tuple[Iterator[tuple[Prediction, bool]], dict[int, BadImageError]]
"""For each good image of a chunk its answer and whether to abstain from it; and what is wrong with the others."""

_IMAGES_AT_ONCE = 512
_NAMED_AT_MOST = 10


@dataclass(frozen=True)
class PredictOptions:
    """Label images of any domain: each one's feature is brought to the source manifold, then classified.

    The off-manifold score says how far from the source images one is: 95 % of held-out source images stay below 1.

    Example: homefold predict model new-images/ 'more/*.jpg' --abstain-above 1.5
    """

    model: Annotated[Path, Positional("MODEL")]
    """The folder of a model."""
    images: Annotated[tuple[str, ...], Positional("IMAGES …")]
    """Image files, folders (searched to the bottom), patterns, and files that list images (CSV, parquet, tars)."""
    json: bool = False
    """Print JSON lines: one object an image, and nothing else, on standard output."""
    csv: bool = False
    """Print CSV: a header, then one row an image."""
    out: Annotated[str | None, Arg("FILE | DIR/")] = None
    """Write the answers to FILE instead of standard output; it appears when all are there. Into a folder DIR/ images
    are answered in shards, any number of them, and the same command goes on after a crash (docs/bulk.md)."""
    overwrite: bool = False
    """Replace FILE if it exists."""
    abstain_above: Annotated[float | None, Arg("SCORE")] = None
    """Mark images with a higher off-manifold score as abstained; from 0, and inf marks none."""
    abstain_below: Annotated[float | None, Arg("CONFIDENCE")] = None
    """Mark images with a lower confidence as abstained; from 0 to 1."""
    compare: bool = False
    """Tell the label without projection too, where it differs (for most models one more pass of the network)."""
    no_projection: bool = False
    """Classify the features as they are: the control."""
    adapt: bool = False
    """Let a memory of each class's surest images answer (T3A), for a folder of one domain. An answer then depends on
    those before it, in a fixed order."""
    explain: bool = False
    """Show both answers of each image, with and without projection, and its nearest source images."""
    explain_png: Annotated[Path | None, Arg("FILE")] = None
    """Draw the explanation of the one image given."""
    data: Annotated[str | None, Arg("DATA")] = None
    """The images that the model was trained on, for --explain to compare with all of them and name their files."""
    projection_preset: ProjectionPresetFlag = None
    set: SetInferenceFlag = ()
    skip_bad: SkipBadFlag = False
    on: Annotated[Literal["local", "ray"] | None, Arg("WHERE", "")] = None
    """Who answers shards: local, processes of this machine (the default), or ray, a cluster (RAY_ADDRESS=HOST:PORT)."""
    workers: int | None = None
    """How many answer shards at once; by default one a GPU, or one a core."""
    shard_size: int | None = None
    """Images in a file of answers in shards (default: 10000)."""
    device: DeviceFlag = "auto"
    plugin: PluginFlag = ()


def run(arguments: Sequence[str]) -> int:
    """Predict and print."""
    options = parse(PredictOptions, "predict", arguments, short_flags=dict)
    if options.json and options.csv:
        raise UsageError("homefold predict prints one format: --json or --csv.")
    require_explainable(options)
    settings = inference_settings(options.set, "predict")
    in_shards = is_in_shards(options)
    if options.abstain_above is not None and options.no_projection:
        raise ConfigError("--abstain-above needs the off-manifold score, which --no-projection does not give.")
    if options.compare and options.no_projection:
        raise ConfigError("--compare tells answers with and without projection apart, and --no-projection has but one.")
    if options.abstain_above is not None:
        require_threshold(options.abstain_above)
    if options.abstain_below is not None:
        require_confidence(options.abstain_below)
    if in_shards:
        return answer_in_shards(options, settings)
    # These import torch, which --help does not need.
    from homefold.cli.unfinished import tidy_after_fit
    from homefold.model import Homefold
    from homefold.projection import chosen_engine

    # Meanwhile; but what is wrong with the model is told first.
    with ThreadPoolExecutor(max_workers=1) as beside:
        found = beside.submit(_find_images, options.images)
        model = Homefold.load(options.model, device=options.device)
    tidy_after_fit(options.model)
    look, search = chosen_look_and_search(model.config, options.projection_preset, settings)
    sources = found.result()
    out = None if options.out is None else given_path(options.out)
    _require_free(options, out, sources)
    if model.device.type == "cuda" and not options.no_projection:
        model.feature_model.get_ready(search)
    question = question_of(options, look, search)
    with _open_output(out) as stream:
        if options.explain:
            explain_each(model, [Path(source.path) for source in sources], options, look, search, stream)
            return 0
        writer = _writer(options, stream, [Path(source.path) for source in sources], model)
        # On a terminal the rows themselves show the progress, and a bar would be drawn over them.
        reporter = SilentReporter() if stream.isatty() else RichReporter()
        bad = _predict_all(model, sources, question, writer, reporter, skip_bad=options.skip_bad, adapt=options.adapt)
    if not options.no_projection:
        engine = chosen_engine(search, model.feature_model.manifold)
        if engine != "none":
            note(f"Projected by the {engine} engine on {model.device}.")
    if bad:
        note(f"Left out {bad} of {len(sources)} images that could not be read.")
    return 0


def _find_images(given: Sequence[str]) -> list[Decodable]:
    """The images, and where decoder processes pay, these started: they take a moment, as the model does to load."""
    sources = given_images(given)
    start_decoders(min(len(sources), _IMAGES_AT_ONCE))
    return sources


def _require_free(options: PredictOptions, out: Path | None, sources: Sequence[Decodable]) -> None:
    """Refuse an --out that would replace what the answers are made from, or any file without --overwrite."""
    if out is None:
        return
    if Path(os.path.realpath(options.model)) in Path(os.path.realpath(out)).parents:
        raise ConfigError(f"{out} lies in the folder of the model; choose another --out.")
    if not os.path.lexists(out):
        return
    if not out.is_file():
        hint = f" (--out {out}/ with a slash answers in shards there)" if out.is_dir() else ""
        raise ConfigError(f"{out} is not a plain file, so answers cannot be written to it; choose another --out{hint}.")
    if any(source.file.samefile(out) for source in sources if isinstance(source, FileImage)):
        raise ConfigError(f"{out} is one of the images to answer for; choose another --out.")
    if any(os.path.exists(given) and os.path.samefile(given, out) for given in options.images):
        raise ConfigError(f"{out} lists the images to answer for; choose another --out.")
    if not options.overwrite:
        raise ConfigError(f"{out} exists already; choose another --out, or add --overwrite to replace it.")


@contextmanager
def _open_output(out: Path | None) -> Iterator[TextIO]:
    """Standard output as it is now, before a progress bar stands before it; or a file that appears when complete."""
    if out is None:
        yield sys.stdout
        return
    with (
        write_atomically(out) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        yield file


def _writer(options: PredictOptions, stream: TextIO, paths: Sequence[Path], model: Homefold) -> AnswerWriter:
    if options.json:
        return JsonLinesWriter(stream)
    if options.csv:
        return CsvWriter(stream, model.class_names, adapted=options.adapt)
    if options.adapt:
        stream.write(f"{ADAPTED}\n")
    return TableWriter(
        stream,
        paths,
        model.class_names,
        abstains=options.abstain_above is not None or options.abstain_below is not None,
    )


def _predict_all(
    model: Homefold,
    sources: Sequence[Decodable],
    question: Question,
    writer: AnswerWriter,
    reporter: ProgressReporter,
    *,
    skip_bad: bool,
    adapt: bool = False,
) -> int:
    """Write an answer for every image in order; returns how many could not be read."""
    bad = 0
    with reporter.task("Predicting", total=len(sources)) as bar:
        chunks = [sources[start : start + _IMAGES_AT_ONCE] for start in range(0, len(sources), _IMAGES_AT_ONCE)]
        # An accelerator computes while the processor decodes the next chunk and writes the answers for the last.
        ahead = _works_ahead(model)
        ready = one_ahead(lambda chunk: (chunk, *decoded(model, chunk)), chunks, enabled=ahead)
        answers_of: Iterable[_Answers]
        if adapt:
            answers_of = _answer_together(model, ready, question, skip_bad, bar)
        else:
            answers_of = one_ahead(lambda chunk: _answer(model, *chunk, question, skip_bad), ready, enabled=ahead)
        for chunk, (answers, failures) in zip(chunks, answers_of, strict=True):
            for position, source in enumerate(chunk):
                if failure := failures.get(position):
                    note(f"left out: {failure.name} {failure.reason}")
                    writer.failure(Path(source.path), failure.reason)
                else:
                    writer.answer(Path(source.path), *next(answers))
            writer.stream.flush()
            bad += len(failures)
            if not adapt:
                bar.advance(len(chunk))
    return bad


def _works_ahead(model: Homefold) -> bool:
    """Whether what the processor does and what the model computes share no cores."""
    return model.device.type != "cpu"


def _answer(
    model: Homefold,
    sources: Sequence[Decodable],
    images: np.ndarray,
    failures: dict[int, BadImageError],
    question: Question,
    skip_bad: bool,
) -> _Answers:
    """The answers for a chunk."""
    _require_good(failures, skip_bad)
    if not len(images):
        return iter(()), failures
    with rows_named(_good(sources, failures)):
        predictions, abstained = answered(model, images, question)
    return zip(predictions, abstained.tolist(), strict=True), failures


def _answer_together(
    model: Homefold,
    ready: Iterable[tuple[Sequence[Decodable], np.ndarray, dict[int, BadImageError]]],
    question: Question,
    skip_bad: bool,
    bar: Task,
) -> Iterator[_Answers]:
    """`_answer` for every chunk, by the memory of all of them."""
    from homefold.stages.folder_memory import FolderMemory
    from homefold.stages.task import ImageSet

    memory, failed, good = FolderMemory(model.feature_model), [], 0
    for sources, images, failures in ready:
        _require_good(failures, skip_bad)
        failed.append(failures)
        good += len(images)
        if len(images):
            with rows_named(_good(sources, failures)):
                memory.add(
                    model.trained.answer(
                        ImageSet(images),
                        projected=question.projected,
                        look=question.look,
                        search=question.search,
                        compare=question.compare,
                    )
                )
        bar.advance(len(sources))
    rows: Iterator[tuple[Prediction, bool]] = iter(())
    if good:
        predictions = memory.answers()
        rows = zip(predictions, question.abstained(predictions).tolist(), strict=True)
    yield from ((rows, failures) for failures in failed)


def _good(sources: Sequence[Decodable], failures: dict[int, BadImageError]) -> list[str]:
    return [source.path for position, source in enumerate(sources) if position not in failures]


def _require_good(failures: dict[int, BadImageError], skip_bad: bool) -> None:
    if failures and not skip_bad:
        raise DataError(_tell(list(failures.values())))


def _tell(failures: Sequence[BadImageError]) -> str:
    if len(failures) == 1:
        return str(failures[0])
    listed = "; ".join(f"{error.name} {error.reason}" for error in failures[:_NAMED_AT_MOST])
    rest = f"; and {len(failures) - _NAMED_AT_MOST} more" if len(failures) > _NAMED_AT_MOST else ""
    return f"{len(failures)} images cannot be used: {listed}{rest}. Replace them, or leave them out with --skip-bad."
