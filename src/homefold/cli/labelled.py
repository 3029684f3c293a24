"""Labelled images beside a model or in it, for commands that show them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from homefold.cli.output import note
from homefold.data import DomainDataset, load_dataset
from homefold.data.decoding.image import MAX_MEGAPIXELS
from homefold.errors import ConfigError
from homefold.model import Homefold
from homefold.runtime.progress import RichReporter
from homefold.serving.explorer import Explorer, Gallery
from homefold.serving.explorer.layout import LayoutName
from homefold.store.model_folder import model_checksum

__all__ = ["labelled_images"]


def labelled_images(
    folder: Path, model: Homefold, data: str | None, *, layout: LayoutName, max_megapixels: float = MAX_MEGAPIXELS
) -> Explorer | None:
    """The images of `data`, brought to the model's size, or the thumbnails that the model keeps; else None.

    The model is that of `folder`.
    """
    if layout == "umap" and find_spec("umap") is None:
        raise ConfigError("--map umap needs the extra 'umap': pip install 'homefold[umap]'.")
    dataset = model.thumbnails() if data is None else _loaded(data, model, max_megapixels)
    if dataset is None:
        return None
    if data is None:
        note(
            f"Shown are the {len(dataset)} thumbnails that the model keeps; --data FOLDER shows the images themselves."
        )
    gallery = Gallery.of(dataset, model.class_names, model.source_domains, are_thumbnails=data is None)
    return Explorer(gallery, model_checksum(folder), layout)


def _loaded(data: str, model: Homefold, max_megapixels: float) -> DomainDataset:
    preprocessing = model.config.preprocessing
    dataset = load_dataset(
        data,
        size=(preprocessing.image_size, preprocessing.image_size),
        resize=preprocessing.resize,
        skip_bad=True,
        allow_one_class=True,
        max_megapixels=max_megapixels,
        reporter=RichReporter(),
    )
    if dataset.skipped:
        note(f"{len(dataset.skipped)} of its images cannot be read and are left out; homefold data verify names them.")
    return dataset
