"""Domains and labels in, arrays of decoded images out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not put off like the others: whoever imports the file of that name would leave the file in the function's place.
from homefold.data.cache_directory import cache_directory

if TYPE_CHECKING:
    from homefold.data.arrays import dataset_from_arrays, images_from_array
    from homefold.data.dataset import DomainDataset
    from homefold.data.digits_mini import load_digits_mini
    from homefold.data.download import download_dataset, list_downloads
    from homefold.data.folder import FolderIndex, find_images, load_folder, load_images, scan_folder
    from homefold.data.image_cache import ImageCache
    from homefold.data.images import IMAGE_EXTENSIONS, BadImageError, decode_image
    from homefold.data.registry import (
        DatasetEntry,
        dataset_entry,
        list_datasets,
        load_dataset,
        register_dataset,
        split_name,
    )
    from homefold.data.splits import holdout_split, selection_split
    from homefold.data.verify import VerificationReport, verify_dataset, verify_folder

__all__ = [
    "IMAGE_EXTENSIONS",
    "BadImageError",
    "DatasetEntry",
    "DomainDataset",
    "FolderIndex",
    "ImageCache",
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
    "load_folder",
    "load_images",
    "register_dataset",
    "scan_folder",
    "selection_split",
    "split_name",
    "verify_dataset",
    "verify_folder",
]

# A process that only decodes images must start fast and stay small: it needs neither torch nor the named datasets.
_HOME = {
    "IMAGE_EXTENSIONS": "images",
    "BadImageError": "images",
    "DatasetEntry": "registry",
    "DomainDataset": "dataset",
    "FolderIndex": "folder",
    "ImageCache": "image_cache",
    "VerificationReport": "verify",
    "dataset_entry": "registry",
    "dataset_from_arrays": "arrays",
    "decode_image": "images",
    "download_dataset": "download",
    "find_images": "folder",
    "holdout_split": "splits",
    "images_from_array": "arrays",
    "list_datasets": "registry",
    "list_downloads": "download",
    "load_dataset": "registry",
    "load_digits_mini": "digits_mini",
    "load_folder": "folder",
    "load_images": "folder",
    "register_dataset": "registry",
    "scan_folder": "folder",
    "selection_split": "splits",
    "split_name": "registry",
    "verify_dataset": "verify",
    "verify_folder": "verify",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'homefold.data' has no attribute {name!r}")
    return getattr(import_module(f"homefold.data.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
