"""A gallery beside the model: surveyed in the background, then ready to be asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch.nn import functional as F

from homefold.errors import HomefoldError
from homefold.serving.batching import Batcher
from homefold.serving.explorer.gallery import Gallery
from homefold.serving.explorer.layout import LAYOUTS, Layout, LayoutName, nearest
from homefold.serving.explorer.survey import Survey, survey_of, survey_path
from homefold.stages.source_images import SourceImages
from homefold.stages.trained_model import TrainedModel

__all__ = ["AT_ONCE", "COLUMNS", "Explorer", "Neighbour", "Surveyed"]

COLUMNS = (
    "x",
    "y",
    "truth",
    "domain",
    "label",
    "plain_label",
    "confidence",
    "plain_confidence",
    "off_manifold",
    "projected",
)
"""What `Surveyed.columns` has of every image, in this order."""

AT_ONCE = 16
"""Images that are surveyed together; other requests wait for no more than these."""

_MOST_COMPARED = 20_000

OnThread = Callable[[Callable[[], Survey]], Awaitable[Survey]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Neighbour:
    """A source image, and the cosine of its feature to that of another."""

    row: int
    similarity: float


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What is known once every image was answered.

    Args:
        layout: of the map.
        columns: `COLUMNS` of every image, one column after the other, little-endian float32.
        source_rows: `(m,)` rows of source images.
        source_directions: `(m, d)` their features, each of length one.
    """

    layout: Layout
    columns: bytes
    source_rows: torch.Tensor
    source_directions: torch.Tensor

    @staticmethod
    def of(gallery: Gallery, survey: Survey, layout: LayoutName) -> Surveyed:
        """The survey laid out."""
        rows = torch.from_numpy(gallery.is_source).nonzero()[:, 0]
        source = survey.features[rows]
        laid_out = LAYOUTS[layout](source)
        places = laid_out.place(survey.features)
        found = {
            **{name: value for name, value in vars(survey).items() if name != "features"},
            "x": places[:, 0],
            "y": places[:, 1],
            "truth": gallery.truth,
            "domain": gallery.dataset.domains,
        }
        columns = np.stack([np.asarray(found[name], dtype="<f4") for name in COLUMNS])
        return Surveyed(laid_out, columns.tobytes(), rows, F.normalize(source, dim=1))

    @property
    def by_name(self) -> dict[str, np.ndarray]:
        """The columns as arrays, by their names."""
        return dict(zip(COLUMNS, np.frombuffer(self.columns, "<f4").reshape(len(COLUMNS), -1), strict=True))

    def nearest_sources(self, z: torch.Tensor, most: int) -> list[list[Neighbour]]:
        """The source images whose features are most like each of `z: (n, d)`, as the manifold is given it."""
        places, similarity = nearest(z.cpu(), self.source_directions, most)
        rows = self.source_rows[places].tolist()
        return [list(map(Neighbour, *each)) for each in zip(rows, similarity.tolist(), strict=True)]


class Explorer:
    """Looks at every image of a gallery once, between the requests that the server answers.

    Args:
        gallery: the images.
        checksum: of the model, by which what was found is kept in the cache; None keeps nothing.
        layout: of the map.
    """

    def __init__(self, gallery: Gallery, checksum: str | None = None, layout: LayoutName = "pca") -> None:
        self.gallery, self.layout = gallery, layout
        self._checksum = checksum
        self._task: asyncio.Task[None] | None = None
        self.doing = "Reading the images"
        self.share_done = 0.0
        self.error = ""
        self.surveyed: Surveyed | None = None

    def start(self, model: TrainedModel, batcher: Batcher) -> None:
        """Begin; needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(model, batcher))

    @cached_property
    def _sources(self) -> SourceImages:
        assert self.surveyed is not None
        known = self.surveyed
        return self.gallery.source_images(known.source_rows.numpy(), known.source_directions.numpy())

    async def sources(self) -> SourceImages | None:
        """The source images to look for copies of; None where there is no map yet, of thumbnails, and of very many."""
        found = self.surveyed
        if found is None or self.gallery.are_thumbnails or len(found.source_rows) > _MOST_COMPARED:
            return None
        await asyncio.to_thread(lambda: self._sources.by_digest)
        return self._sources

    async def stop(self) -> None:
        """End where it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, model: TrainedModel, batcher: Batcher) -> None:
        try:
            await self.survey(model, batcher.on_thread)
        except HomefoldError as error:
            self.error = str(error)
        except Exception:
            _log.exception("the map was not made")
            self.error = "the map could not be made; the server's own messages say why."

    async def survey(self, model: TrainedModel, on_thread: OnThread) -> Surveyed:
        """Look at every image; `on_thread` gives what a function gives that needs the model."""
        survey = await self._survey(model, on_thread)
        self.doing = "Laying out the map"
        self.surveyed = await asyncio.to_thread(Surveyed.of, self.gallery, survey, self.layout)
        return self.surveyed

    async def _survey(self, model: TrainedModel, on_thread: OnThread) -> Survey:
        path = None
        if self._checksum is not None:
            path = survey_path(self._checksum, await asyncio.to_thread(self.gallery.dataset.fingerprint))
            kept = await asyncio.to_thread(Survey.kept, path, len(self.gallery))
            if kept is not None:
                return kept
        self.doing = "Asking the model about every image"
        images, parts = self.gallery.dataset.images, []
        for start in range(0, len(images), AT_ONCE):
            pixels = np.ascontiguousarray(images[start : start + AT_ONCE])
            parts.append(await on_thread(partial(survey_of, model, pixels)))
            self.share_done = min(1.0, (start + AT_ONCE) / len(images))
        survey = Survey.joined(parts)
        if path is not None:
            await asyncio.to_thread(survey.keep, path)
        return survey
