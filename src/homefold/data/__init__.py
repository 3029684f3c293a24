"""Domains and labels in, arrays of decoded images out."""

import homefold.data.cifar10_c
import homefold.data.digits_dg
import homefold.data.digits_few_shot
import homefold.data.office_home
import homefold.data.pacs
import homefold.data.vlcs  # noqa: F401 - like those above, it registers its dataset
from homefold.data.arrays import dataset_from_arrays, images_from_array
from homefold.data.cache_directory import cache_directory
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
