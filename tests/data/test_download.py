"""What torchvision can download is downloaded when asked for; the downloader here is a recorder."""

from __future__ import annotations

import pytest
from torchvision.datasets import utils

from homefold.data import download_dataset, list_downloads
from homefold.errors import DataError


@pytest.fixture
def fetched(monkeypatch):
    """What would have been downloaded: `(file name, folder)` with the sum that is checked."""
    calls: dict[tuple[str, str], str] = {}

    def fetch(url, root, filename=None, md5=None, **_):
        calls[filename, str(root)] = md5

    monkeypatch.setattr(utils, "download_url", fetch)
    monkeypatch.setattr(utils, "download_and_extract_archive", lambda url, root, **rest: fetch(url, root, **rest))
    return calls


def test_the_digits_are_three_downloads_each_with_its_sum(fetched, tmp_path):
    then = download_dataset("digits-few-shot", tmp_path / "new")
    target, raw = str(tmp_path / "new"), str(tmp_path / "new" / "MNIST" / "raw")
    assert set(fetched) == {
        *((f"{kind}-ubyte.gz", raw) for kind in ("train-images-idx3", "train-labels-idx1")),
        *((f"{kind}-ubyte.gz", raw) for kind in ("t10k-images-idx3", "t10k-labels-idx1")),
        *((name, target) for name in ("usps.bz2", "usps.t.bz2", "train_32x32.mat", "test_32x32.mat")),
    }
    assert all(len(checksum) == 32 for checksum in fetched.values())
    assert then == f"Next: homefold data verify digits-few-shot {target}"


def test_of_cifar_the_clean_part_is_fetched_and_the_rest_explained(fetched, tmp_path):
    then = download_dataset("cifar10-c", tmp_path)
    assert list(fetched) == [("cifar-10-python.tar.gz", str(tmp_path))]
    assert "Zenodo record 2535967" in then


def test_another_mirror_is_tried_and_the_last_failure_told(monkeypatch, tmp_path):
    tried = []

    def fail(url, root, **_):
        tried.append(url)
        raise OSError("no network")

    monkeypatch.setattr(utils, "download_and_extract_archive", fail)
    with pytest.raises(DataError, match=r"mnist could not be downloaded to .* \(no network\)"):
        download_dataset("mnist", tmp_path)
    assert len(set(tried)) > 1
    assert all("train-images" in url for url in tried)


def test_other_datasets_get_a_sentence_with_where_to_get_them(fetched, tmp_path):
    with pytest.raises(DataError, match=r"pacs cannot be downloaded from here\. Get it from .*licence.*lay it out as"):
        download_dataset("pacs", tmp_path)
    with pytest.raises(DataError, match="digits-mini is embedded"):
        download_dataset("digits-mini", tmp_path)
    with pytest.raises(DataError, match="no dataset 'imagenet'"):
        download_dataset("imagenet", tmp_path)
    assert fetched == {}
    assert "usps" in list_downloads()
