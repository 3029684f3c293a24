"""`homefold evaluate`: accuracy on whole domains, with and without projection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from rich.table import Table

from homefold.cli.answers import ADAPTED
from homefold.cli.domain_from import DomainFromFlag
from homefold.cli.domains import domain_names, require_domains
from homefold.cli.given_settings import chosen_look_and_search, inference_settings
from homefold.cli.output import note, print_json, result_console, result_table, show_share
from homefold.cli.parsing import (
    Arg,
    DeviceFlag,
    JsonFlag,
    Names,
    PluginFlag,
    Positional,
    ProjectionPresetFlag,
    SetInferenceFlag,
    SkipBadFlag,
    parse,
    unique,
)
from homefold.config import LookConfig, SearchConfig
from homefold.data import DomainDataset, load_dataset
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter, RichReporter
from homefold.stages.predictions import rows_named

if TYPE_CHECKING:
    from homefold.model import Homefold

__all__ = ["DomainResult", "EvaluateOptions", "measure", "run"]

_IMAGES_AT_ONCE = 512


@dataclass(frozen=True)
class EvaluateOptions:
    """Measure a model's accuracy on labelled images, with and without projection, side by side.

    Example: homefold evaluate model photos/ --domain hospital4 --per-class
    """

    model: Annotated[Path, Positional("MODEL")]
    """The folder of a model."""
    data: Annotated[str, Positional("DATA")]
    """A folder DATA/domain/class/image (or its tar or zip), a file that lists images with labels and domains
    (docs/datasets.md), or a dataset's name; its classes must be the model's."""
    domain: Annotated[Names, Arg("NAME")] = ()
    """Domains to measure on; all by default. Those that the model was trained on are marked."""
    per_class: bool = False
    """Show the accuracy of every class too."""
    scores: bool = False
    """Show how well confidence, off-manifold and other scores tell wrong answers from right ones (area under the ROC
    curve; 0.5 is chance)."""
    adapt: bool = False
    """Measure with a memory of each domain's surest images too (T3A), where each answer depends on the images before
    it, in an order that is the same every time."""
    projection_preset: ProjectionPresetFlag = None
    set: SetInferenceFlag = ()
    domain_from: DomainFromFlag = ""
    skip_bad: SkipBadFlag = False
    device: DeviceFlag = "auto"
    json: JsonFlag = False
    plugin: PluginFlag = ()


@dataclass(frozen=True)
class DomainResult:
    """What was measured on one domain."""

    domain: str
    seen_in_training: bool
    """Whether a source domain of the model is called the same."""
    images: int
    skipped: int
    """How many could not be read."""
    accuracy_without_projection: float
    accuracy_with_projection: float
    corrected: int
    """Images that only the projected answer gets right."""
    spoiled: int
    """Images that only the unprojected answer gets right."""
    left_familiar: int
    """Images that kept the answer without projection, because their style is one of the sources'."""
    balanced_accuracy: float
    """Mean accuracy of the classes that occur, with projection."""
    worst_class: str
    """The class with the lowest accuracy, with projection."""
    worst_class_accuracy: float
    calibration_error: float
    """Expected calibration error of the confidences with projection, over 15 bins."""
    tells_errors: dict[str, float | None]
    """By score, how well it tells wrong answers from right ones; none where all answers are right, or all wrong."""
    per_class: dict[str, dict[str, float]]
    """For each class that occurs its `images` and its accuracies."""
    accuracy_with_memory: float | None = None
    """On top of styles and projection, where that was asked; all else is without."""


class _Bars(RichReporter):
    """Progress without the data layer's remarks, which are for those who train on the folder."""

    def message(self, text: str) -> None:
        """Say nothing."""


def run(arguments: Sequence[str]) -> int:
    """Measure and print."""
    options = parse(EvaluateOptions, "evaluate", arguments, short_flags=dict)
    settings = inference_settings(options.set, "evaluate")
    # These import torch, which --help does not need.
    from homefold.cli.unfinished import tidy_after_fit
    from homefold.model import Homefold

    model = Homefold.load(options.model, device=options.device)
    tidy_after_fit(options.model)
    look, search = chosen_look_and_search(model.config, options.projection_preset, settings)
    known = domain_names(options.data, options.domain_from)
    domains = unique(options.domain) or known
    require_domains(domains, known, options.data)
    reporter = _Bars()
    results = []
    for domain in domains:
        dataset = _load(model, options, domain, reporter)
        results.append(measure(model, dataset, look, search, reporter, adapt=options.adapt))
    if options.json:
        _print_json(options, look, search, results)
    else:
        _print_tables(options, results)
    return 0


def _load(model: Homefold, options: EvaluateOptions, domain: str, reporter: ProgressReporter) -> DomainDataset:
    side = model.config.preprocessing.image_size
    dataset = load_dataset(
        options.data,
        size=(side, side),
        resize=model.config.preprocessing.resize,
        skip_bad=options.skip_bad,
        domains=(domain,),
        reporter=reporter,
        allow_one_class=True,
        domain_from=options.domain_from,
    )
    for path, reason in dataset.skipped:
        note(f"left out: {path} {reason}")
    _require_known_classes(model, dataset, domain)
    return dataset


def _require_known_classes(model: Homefold, dataset: DomainDataset, domain: str) -> None:
    found = {dataset.class_names[label] for label in np.unique(dataset.labels)}
    extra = sorted(found - set(model.class_names))
    missing = [name for name in model.class_names if name not in found]
    if extra:
        raise DataError(
            f"{domain} in {dataset.name} has the class {', '.join(extra)}, which the model does not know; it knows "
            f"{', '.join(model.class_names)}. Rename the folders to the model's classes, or leave these out."
        )
    if missing:
        note(f"{domain} has no images of {', '.join(missing)}; the figures say nothing about that.")


def measure(
    model: Homefold,
    dataset: DomainDataset,
    look: LookConfig,
    search: SearchConfig,
    reporter: ProgressReporter,
    *,
    adapt: bool = False,
) -> DomainResult:
    """Answer for every image of a dataset of one domain, whose classes the model knows, with and without projection.

    Where `adapt` is asked for, with a memory on top too.
    """
    from homefold.report.figures.answers import reliability
    from homefold.stages.folder_memory import FolderMemory
    from homefold.stages.novelty import novelty_scores
    from homefold.stages.predictions import Predictions
    from homefold.stages.task import ImageSet

    (domain,) = dataset.domain_names
    # A class without images, which the model may not know, is never looked up.
    known = {name: label for label, name in enumerate(model.class_names)}
    position = np.array([known.get(name, -1) for name in dataset.class_names])
    truth = position[dataset.labels]
    # One image has none before it.
    memory = FolderMemory(model.feature_model) if adapt and len(dataset) > 1 else None
    parts: list[Predictions] = []
    novelty: dict[str, list[np.ndarray]] = {}
    with reporter.task(f"Evaluating {domain}", total=len(dataset)) as bar:
        for start in range(0, len(dataset), _IMAGES_AT_ONCE):
            part = slice(start, start + _IMAGES_AT_ONCE)
            images = ImageSet(np.asarray(dataset.images[part]))
            with rows_named(dataset.paths[part]):
                answer = model.trained.answer(images, look=look, search=search, compare=True)
            assert answer.plain is not None
            parts.append(answer.predictions)
            if memory is not None:
                memory.add(answer)
            prepared = model.feature_model.prepare(answer.plain.features)
            for name, values in novelty_scores(model.feature_model, prepared).items():
                novelty.setdefault(name, []).append(values.cpu().numpy())
            bar.advance(len(images.pixels))
    found = Predictions.concatenate(parts)
    scores = {"confidence": -found.confidences, "off_manifold": found.off_manifold}
    scores |= {name: np.concatenate(values) for name, values in novelty.items()}
    right_without, right_projected = found.unprojected == truth, found.indices == truth
    right = {"accuracy_without_projection": right_without, "accuracy_with_projection": right_projected}
    if memory is not None:
        right["accuracy_with_memory"] = memory.answers().indices == truth
    classes = {
        model.class_names[label]: {
            "images": int((truth == label).sum()),
            **{name: float(rows[truth == label].mean()) for name, rows in right.items()},
        }
        for label in np.unique(truth).tolist()
    }
    accuracies = {name: figures["accuracy_with_projection"] for name, figures in classes.items()}
    worst = min(accuracies, key=accuracies.__getitem__)
    return DomainResult(
        domain=domain,
        seen_in_training=domain in model.source_domains,
        images=len(truth),
        skipped=len(dataset.skipped),
        **{name: float(rows.mean()) for name, rows in right.items()},
        corrected=int((right_projected & ~right_without).sum()),
        spoiled=int((right_without & ~right_projected).sum()),
        left_familiar=int((~found.projected).sum()),
        balanced_accuracy=float(np.mean(list(accuracies.values()))),
        worst_class=worst,
        worst_class_accuracy=accuracies[worst],
        calibration_error=reliability(found.probabilities, truth).error,
        tells_errors={name: _area_under_roc(values, ~right_projected) for name, values in scores.items()},
        per_class=classes,
    )


def _area_under_roc(scores: np.ndarray, wrong: np.ndarray) -> float | None:
    """The chance that a wrong answer has the higher score of the two, where there are wrong and right ones."""
    if wrong.all() or not wrong.any():
        return None
    from sklearn.metrics import roc_auc_score  # takes a second to import

    return float(roc_auc_score(wrong, scores))


def _print_json(options: EvaluateOptions, look: LookConfig, search: SearchConfig, results: list[DomainResult]) -> None:
    rows = [asdict(result) for result in results]
    unasked = {"per_class": options.per_class, "accuracy_with_memory": options.adapt}
    for row in rows:
        for name in [name for name, asked in unasked.items() if not asked]:
            del row[name]
    remark = {"with_memory": ADAPTED} if options.adapt else {}
    settings = {"model": options.model, "data": options.data, "look": asdict(look), "search": asdict(search)}
    print_json({**settings, **remark, "domains": rows})


def _print_tables(options: EvaluateOptions, results: list[DomainResult]) -> None:
    console = result_console()
    columns = ("images", "without projection", "with projection", *(("with memory",) if options.adapt else ()))
    table = result_table("domain", *columns, "corrected", "spoiled", "", numbers=len(columns) + 3)
    table.columns[-1].justify = "left"
    for result in results:
        shares = [show_share(result.accuracy_without_projection), show_share(result.accuracy_with_projection)]
        if options.adapt:  # one image has no memory
            shares.append("" if result.accuracy_with_memory is None else show_share(result.accuracy_with_memory))
        seen = "seen in training" if result.seen_in_training else ""
        counts = (str(result.corrected), str(result.spoiled))
        table.add_row(result.domain, str(result.images), *shares, *counts, seen)
    console.print(table)
    if options.adapt:
        console.print(f"With memory: {ADAPTED[0].lower()}{ADAPTED[1:]}", soft_wrap=True)
    for line in _remarks(results):
        console.print(line, soft_wrap=True)
    if options.scores:
        console.print(_score_table(results))
    for result in results if options.per_class else ():
        table = result_table("class", *columns, title=result.domain, numbers=len(columns))
        for name, figures in result.per_class.items():
            images, *accuracies = figures.values()
            table.add_row(name, str(images), *map(show_share, accuracies))  # a column may be empty
        console.print(table)


def _remarks(results: list[DomainResult]) -> Iterator[str]:
    """What the mean accuracies hide."""
    for result in results:
        left = f"; {result.left_familiar} familiar images were left as they are" if result.left_familiar else ""
        yield (
            f"On {result.domain}: mean of classes {show_share(result.balanced_accuracy)}, worst {result.worst_class} "
            f"{show_share(result.worst_class_accuracy)}; confidence is off by {show_share(result.calibration_error)} "
            f"on average{left}"
        )
    if len(results) > 1:
        worst = min(results, key=lambda result: result.accuracy_with_projection)
        mean = sum(result.accuracy_with_projection for result in results) / len(results)
        yield (
            f"Mean of domains {show_share(mean)}; worst {worst.domain} {show_share(worst.accuracy_with_projection)}."
        )


def _score_table(results: list[DomainResult]) -> Table:
    """How well each score tells wrong answers from right ones."""
    names = list(results[0].tells_errors)
    table = result_table("domain", *names, title="wrong answers told from right ones (AUROC)", numbers=len(names))
    for result in results:
        cells = ("–" if value is None else f"{value:.2f}" for value in result.tells_errors.values())
        table.add_row(result.domain, *cells)
    return table
