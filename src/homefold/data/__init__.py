"""Domains and labels in, arrays of decoded images out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from homefold.data.arrays import dataset_from_arrays, images_from_array
    from homefold.data.cache.directory import cache_directory
    from homefold.data.cache.images import ImageCache
    from homefold.data.dataset import DomainDataset
    from homefold.data.datasets.digits_mini import load_digits_mini
    from homefold.data.decoding.image import IMAGE_EXTENSIONS, BadImageError, decode_image
    from homefold.data.decoding.many import load_images
    from homefold.data.download import download_dataset, list_downloads
    from homefold.data.given import find_images
    from homefold.data.index import ImageIndex, LoadRequest
    from homefold.data.registry import (
        DatasetEntry,
        dataset_entry,
        list_datasets,
        load_dataset,
        register_dataset,
        split_name,
    )
    from homefold.data.splits import holdout_split, selection_split
    from homefold.data.verify import VerificationReport, verify_dataset

__all__ = [
    "IMAGE_EXTENSIONS",
    "BadImageError",
    "DatasetEntry",
    "DomainDataset",
    "ImageCache",
    "ImageIndex",
    "LoadRequest",
    "VerificationReport",
    "cache_directory",
    "dataset_entry",
    "dataset_from_arrays",
    "decode_image",
    "download_dataset",
    "find_images",
    "holdout_split",
    "images_from_array",
    "list_datasets",
    "list_downloads",
    "load_dataset",
    "load_digits_mini",
    "load_images",
    "register_dataset",
    "selection_split",
    "split_name",
    "verify_dataset",
]

# A process that only decodes images must start fast and stay small: it needs neither torch nor the named datasets.
_IN = {
    "arrays": "dataset_from_arrays images_from_array",
    "cache.directory": "cache_directory",
    "cache.images": "ImageCache",
    "dataset": "DomainDataset",
    "datasets.digits_mini": "load_digits_mini",
    "decoding.image": "IMAGE_EXTENSIONS BadImageError decode_image",
    "decoding.many": "load_images",
    "download": "download_dataset list_downloads",
    "given": "find_images",
    "index": "ImageIndex LoadRequest",
    "registry": "DatasetEntry dataset_entry list_datasets load_dataset register_dataset split_name",
    "splits": "holdout_split selection_split",
    "verify": "VerificationReport verify_dataset",
}
_HOME = {name: module for module, names in _IN.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'homefold.data' has no attribute {name!r}")
    return getattr(import_module(f"homefold.data.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
