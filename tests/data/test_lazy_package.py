"""`homefold.data` gives its names when they are asked for, and a decoder of images without torch."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import homefold.data


def _says(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_decoding_an_image_needs_neither_torch_nor_the_named_datasets():
    found = _says(
        "import sys, homefold.data.archives; "
        "print([name for name in ('PIL.Image', 'torch', 'rich', 'homefold.data.registry') if name in sys.modules])"
    )
    assert found == "['PIL.Image']"


def test_every_public_name_is_what_its_own_file_defines():
    for file in pkgutil.walk_packages(homefold.data.__path__, "homefold.data."):
        import_module(file.name)
    assert set(homefold.data._HOME) == set(homefold.data.__all__)
    for name, file in homefold.data._HOME.items():
        assert getattr(homefold.data, name) is vars(import_module(f"homefold.data.{file}"))[name]
    assert dir(homefold.data) == sorted(homefold.data.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'homefold\.data' has no attribute 'load_imagse'"):
        homefold.data.load_imagse  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["registry", "datasets.digits_dg", "datasets.digits_few_shot", "datasets.pacs", "verify"]
)
def test_all_built_in_datasets_are_known_whichever_file_is_imported_first(first):
    names = _says(
        f"import homefold.data.{first}; from homefold.data import list_datasets; "
        "print(*(entry.name for entry in list_datasets()))"
    )
    assert names == (
        "digits-mini camelyon17 cifar10-c digits-dg digits-few-shot domainnet folder manifest office-home pacs pattern "
        "saved-dataset terra-incognita vlcs webdataset"
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [["data", "list"], ["data", "--help"]])
def test_datasets_are_listed_without_torch(words):
    found = _says(
        "import sys; from homefold.cli.app import main; "
        f"assert main({words}) == 0; print('torch' in sys.modules, 'homefold.data' in sys.modules)"
    )
    assert found.splitlines()[-1].startswith("False")
