"""An explanation as one picture: the image, both answers, and the source images it lies among."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from homefold.stages.source_images import NearestImage

if TYPE_CHECKING:
    from homefold.stages.explanation import Explanation

__all__ = ["explanation_png"]

_CLASSES_SHOWN = 5
_WITH, _WITHOUT, _LINE = "#0072B2", "#E69F00", "#888888"
_DOTS_PER_INCH = 120


def explanation_png(explanation: Explanation) -> bytes:
    """The bytes of the picture; the same explanation gives the same."""
    with matplotlib.rc_context({"font.size": 9, "text.parse_math": False}):
        columns = max(1, len(explanation.nearest_before))
        figure = Figure(figsize=(9, 5.6), layout="constrained")
        parts: Any = figure.subfigures(3, 1, height_ratios=(2.2, 1.4, 1.4))
        top, middle, below = parts
        _draw_answers(top, explanation)
        for part, title, images, pictures in (
            (
                middle,
                "Nearest source images before projection",
                explanation.nearest_before,
                explanation.pictures_before,
            ),
            (below, "Nearest source images after projection", explanation.nearest_after, explanation.pictures_after),
        ):
            part.suptitle(title, fontsize=10, x=0.01, ha="left")
            _draw_images(part, images, pictures, columns)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
        return stream.getvalue()


def _draw_answers(part: Any, explanation: Explanation) -> None:
    picture, answers, gauge = part.subplots(1, 3, width_ratios=(1, 1.8, 1))
    used = "with projection" if explanation.projection_was_used else "without projection"
    picture.imshow(explanation.image)
    picture.set_title(f"{explanation.used.label} ({100 * explanation.used.confidence:.0f} %)\n{used}", fontsize=10)
    picture.set_axis_off()
    both = (explanation.with_projection.probabilities, explanation.without_projection.probabilities)
    names = sorted(both[0], key=lambda name: -max(both[0][name], both[1][name]))[:_CLASSES_SHOWN]
    places = np.arange(len(names))
    for shift, colour, label, shares in ((-0.2, _WITH, "with", both[0]), (0.2, _WITHOUT, "without", both[1])):
        answers.barh(places + shift, [100 * shares[name] for name in names], 0.38, color=colour, label=label)
    answers.set_yticks(places, names)
    answers.invert_yaxis()
    answers.set(xlim=(0, 100), xlabel="probability in %", title="With and without projection")
    answers.legend(frameon=False, loc="lower right")
    far = explanation.off_manifold
    gauge.barh([0], [far], 0.4, color="#D55E00" if far > 1 else _WITH)
    gauge.axvline(1, color=_LINE, linestyle="--")
    gauge.set(yticks=[], xlim=(0, max(2, 1.1 * far)), ylim=(-1, 1), title=f"Off-manifold {far:.2f}")
    gauge.set_xlabel("95 % of held-out source images\nlie left of the line")
    for axis in (answers, gauge):
        axis.spines[["top", "right"]].set_visible(False)


def _draw_images(part: Any, images: tuple[NearestImage, ...], pictures: tuple[np.ndarray, ...], columns: int) -> None:
    """A picture for each, or where there is none a box that says what is known."""
    for axis in part.subplots(1, columns, squeeze=False)[0]:
        axis.set_axis_off()
    for place, (axis, image) in enumerate(zip(part.axes, images, strict=False)):
        words = f"{image.label}\n{image.domain}\n{image.cosine:.3f}"
        if pictures:
            axis.imshow(pictures[place])
            axis.set_title(words.replace("\n", " · "), fontsize=8)
        else:
            box = {"boxstyle": "round", "facecolor": "#F3F6F9", "edgecolor": _LINE}
            axis.text(0.5, 0.5, f"{words}\nrow {image.row}", ha="center", va="center", bbox=box)
