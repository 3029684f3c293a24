"""Why a model answers as it does: both answers for one image, and the source images it lies among."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from homefold.config import LookConfig, SearchConfig
from homefold.stages.predictions import Prediction
from homefold.stages.source_images import NearestImage, SourceImages
from homefold.stages.style_move import StyleMove, style_moves
from homefold.stages.task import ImageSet
from homefold.stages.trained_model import TrainedModel

__all__ = ["Explanation", "explained"]

_CLASSES_TOLD = 3


@dataclass(frozen=True, eq=False)
class Explanation:
    """One image's answers and neighbours; as text, as plain values, and as a picture.

    Args:
        used: the answer that `predict` gives.
        with_projection, without_projection: both answers; one of them is the one used.
        familiar: whether the image was left as it is because its style is like the sources'; None where the model does
            not ask.
        style: what styles are moved towards, unless familiar; None where the model leaves styles as they are.
        nearest_before: the source images nearest to the image's feature as f gives it.
        nearest_after: those nearest to where its feature was brought.
        known: how many source images were compared with; 0 where the model keeps nothing of them.
        image: `(h, w, 3)` uint8 as the model sees it.
        pictures_before, pictures_after: pixels of the nearest source images; empty unless they were at hand.
    """

    used: Prediction
    with_projection: Prediction
    without_projection: Prediction
    familiar: bool | None
    style: StyleMove | None
    nearest_before: tuple[NearestImage, ...]
    nearest_after: tuple[NearestImage, ...]
    known: int
    image: np.ndarray = field(repr=False)
    pictures_before: tuple[np.ndarray, ...] = field(default=(), repr=False)
    pictures_after: tuple[np.ndarray, ...] = field(default=(), repr=False)

    @property
    def path(self) -> str:
        """The file of the image; empty where it came from memory."""
        return self.used.path

    @property
    def off_manifold(self) -> float:
        """How far from the source manifold it ended: 95 % of held-out source images stay below 1."""
        return self.with_projection.off_manifold

    @property
    def projection_was_used(self) -> bool:
        """Whether the answer is the one with projection."""
        return self.used.projected

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without pixels."""
        return {
            **({"path": self.path} if self.path else {}),
            "label": self.used.label,
            "confidence": self.used.confidence,
            "used": "with_projection" if self.projection_was_used else "without_projection",
            "familiar": self.familiar,
            "style": None if self.style is None else self.style.as_dict(),
            "off_manifold": self.off_manifold,
            "with_projection": _answer(self.with_projection),
            "without_projection": _answer(self.without_projection),
            "similarity_before": self.with_projection.similarity_before,
            "similarity_after": self.with_projection.similarity_after,
            "compared_with": self.known,
            "nearest_before": [image.as_dict() for image in self.nearest_before],
            "nearest_after": [image.as_dict() for image in self.nearest_after],
        }

    def __str__(self) -> str:
        used = "with projection" if self.projection_was_used else "without projection"
        lines = [
            f"{self.path or 'the image'}: {self.used.label}, {100 * self.used.confidence:.1f} % ({used})",
            f"  with projection     {_told(self.with_projection)}",
            f"  without projection  {_told(self.without_projection)}",
            f"  off-manifold        {self.off_manifold:.2f} (95 % of held-out source images stay below 1)",
        ]
        if self.familiar is not None:
            lines.append(f"  style               {_STYLES[self.familiar]}")
        if self.style is not None and not self.familiar:
            lines.append(f"  style               {self.style}")
        if not self.known:
            return "\n".join([*lines, f"  nearest             {_UNKNOWN}"])
        for name, images in (("before", self.nearest_before), ("after", self.nearest_after)):
            lines.append(f"  nearest {name}:")
            lines += [f"    {image}" for image in images]
        return "\n".join(lines)

    def png(self) -> bytes:
        """All of it as one picture."""
        from homefold.stages.explanation_picture import explanation_png  # matplotlib takes a moment to import

        return explanation_png(self)

    def save_png(self, path: Path | str) -> None:
        """Write the picture; the file appears when it is whole."""
        from homefold.store.files import write_atomically

        with write_atomically(Path(path)) as temporary:
            temporary.write_bytes(self.png())


_STYLES = {
    True: "like the sources': left as it is",
    False: "unlike the sources': projected",
}
_UNKNOWN = "not known: the model keeps nothing of its sources; give them with data="


def _answer(prediction: Prediction) -> dict[str, Any]:
    return {
        "label": prediction.label,
        "confidence": prediction.confidence,
        "probabilities": prediction.probabilities,
    }


def _told(prediction: Prediction) -> str:
    best: Sequence[tuple[str, float]] = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in best[:_CLASSES_TOLD])


def explained(
    trained: TrainedModel,
    images: ImageSet,
    sources: SourceImages | None,
    *,
    path: str = "",
    count: int = 5,
    look: LookConfig | None = None,
    search: SearchConfig | None = None,
) -> Explanation:
    """The explanation of the one image in `images`, beside the `count` nearest of `sources`."""
    asked = look or trained.config.look
    always = replace(asked, leave_familiar=False)
    answer = trained.answer(images, look=look, search=search, compare=True)
    moved = trained.answer(images, look=always, search=search, compare=True) if asked.leave_familiar else answer
    assert answer.plain is not None
    assert moved.plain is not None
    assert moved.found is not None
    nearest: list[tuple[NearestImage, ...]] = [(), ()]
    pictures: list[tuple[np.ndarray, ...]] = [(), ()]
    if sources is not None:
        model = trained.feature_model
        for i, z in enumerate((model.prepare(answer.plain.features), moved.found.features)):
            (places,), (cosines,) = sources.nearest(z.cpu().numpy(), count)
            nearest[i] = sources.described(places, cosines)
            if sources.images is not None:
                pictures[i] = tuple(np.asarray(sources.images[place]) for place in places)
    used, projected, plain = (each.predictions[0] for each in (answer, moved, answer.plain))
    return Explanation(
        used=replace(used, path=path),
        with_projection=replace(projected, path=path),
        without_projection=replace(plain, path=path),
        familiar=not used.projected if asked.leave_familiar else None,
        style=style_moves(trained, images, asked)[0],
        nearest_before=nearest[0],
        nearest_after=nearest[1],
        known=0 if sources is None else len(sources),
        image=images.pixels[0],
        pictures_before=pictures[0],
        pictures_after=pictures[1],
    )
