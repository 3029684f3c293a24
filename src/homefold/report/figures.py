"""Every figure that the runs can give, in the order of the report, and those that they cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from homefold.report.accuracy_figures import (
    ablation_bars,
    corruption_bars,
    scarce_curves,
    severity_curves,
    single_source_bars,
    stopping_curves,
    time_bars,
)
from homefold.report.answer_figures import confusion_matrices, coverage_curves, reliability_diagrams
from homefold.report.drawing import Figure
from homefold.report.feature_figures import loss_curves, source_distances, target_distances, tsne_maps
from homefold.report.image_figures import corrected_gallery, example_images, spoiled_gallery
from homefold.report.runs import RunFolder, slug
from homefold.runtime.progress import ProgressReporter, SilentReporter

__all__ = ["SECTIONS", "FigureSection", "build_figures"]


@dataclass(frozen=True)
class FigureSection:
    """One kind of picture, for each setup and target that has it.

    Args:
        family: of kinds that stand together.
        title: of the section.
        needs: what runs must hold for it to be there.
        figures: made from the runs; empty when they do not hold it.
    """

    family: str
    title: str
    needs: str
    figures: tuple[Figure, ...] = ()


Builder = Callable[[RunFolder], list[Figure]]

_PARTS, _SPACE, _ANSWERS, _IMAGES = "Accuracy", "Feature space", "Answers", "Images"

SECTIONS: tuple[tuple[str, str, str, Builder], ...] = (
    (_PARTS, "Ablation", "Deep All, the full method and one without projection or without f", ablation_bars),
    (_PARTS, "Scarce data", "runs of the suite scarce", scarce_curves),
    (_PARTS, "Single source", "runs of the suite single-source", single_source_bars),
    (_PARTS, "Types of corruption", "runs of the suite cifar10-c", corruption_bars),
    (_PARTS, "Ablation under corruption", "runs of the suite cifar10-c", severity_curves),
    (_PARTS, "Accuracy against the deviation from n*", "runs of the suite stopping", stopping_curves),
    (_PARTS, "Time per image", "times of at least two methods", time_bars),
    (_SPACE, "A-distance between sources and target", "features kept as artifacts", target_distances),
    (_SPACE, "A-distance between sources", "features of two source domains kept as artifacts", source_distances),
    (_SPACE, "t-SNE by class and domain", "features kept as artifacts", tsne_maps),
    (_SPACE, "Loss against step", "loss curves kept as artifacts", loss_curves),
    (_ANSWERS, "Confusion matrices", "answers of the full method kept as artifacts", confusion_matrices),
    (_ANSWERS, "Calibration", "probabilities before and after projection kept as artifacts", reliability_diagrams),
    (_ANSWERS, "Accuracy against coverage", "off-manifold scores kept as artifacts", coverage_curves),
    (_IMAGES, "Examples of each domain", "thumbnails kept as artifacts", example_images),
    (_IMAGES, "Corrected by the projection", "thumbnails of corrected images kept as artifacts", corrected_gallery),
    (_IMAGES, "Spoiled by the projection", "thumbnails of spoiled images kept as artifacts", spoiled_gallery),
)


def build_figures(folder: RunFolder, reporter: ProgressReporter | None = None) -> list[FigureSection]:
    """Draw everything there is data for; a section without data comes back without figures.

    Args:
        folder: the runs.
        reporter: told about progress.
    """
    reporter = reporter or SilentReporter()
    sections: list[FigureSection] = []
    seen: dict[str, int] = {}
    with reporter.task("Figures", len(SECTIONS)) as task:
        for family, title, needs, build in SECTIONS:
            figures = tuple(_named(figure, seen) for figure in build(folder))
            sections.append(FigureSection(family, title, needs, figures))
            task.advance()
    return sections


def _named(figure: Figure, seen: dict[str, int]) -> Figure:
    """A name that is safe for a file and stands once."""
    name = slug(figure.name)
    seen[name] = seen.get(name, 0) + 1
    return replace(figure, name=name if seen[name] == 1 else f"{name}-{seen[name]}")
