"""Checking images without labels over HTTP: what the command tells, of those that can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from acting import file_of, parts, wait_until
from starlette.testclient import TestClient

from homefold import Homefold
from homefold.serving.explorer import Explorer, Gallery

pytestmark = pytest.mark.slow


def test_it_tells_what_check_tells_and_leaves_out_what_cannot_be_read(
    client: TestClient, files: list[bytes], fitted: Homefold
) -> None:
    given = [*files[:25], b"not an image", *files[25:40]]
    found = client.post("/v1/check", files=parts(given)).json()
    assert found["rows"] == [row for row in range(41) if row != 25]
    alone = fitted.check(files[:40]).as_dict()
    for name in ("images", "accuracy", "agreement", "classes", "two_sample_test", "next"):
        assert found[name] == alone[name]
    assert found["headline"].startswith("About ")
    assert found["facts"]["Images"] == "40"
    assert [row["image"] for row in found["unusual"]] == [row["image"] for row in alone["unusual"]]


def test_copies_of_training_images_are_found_where_these_are_shown(
    serving: Callable[..., Any], gallery: Gallery, files: list[bytes]
) -> None:
    kept = np.flatnonzero(gallery.is_source)[5]
    copy = file_of(gallery.dataset.images[kept])
    with serving(explorer=Explorer(gallery, "for copies")) as client:
        wait_until(lambda: client.get("/v1/explorer").json()["state"] == "ready")
        answer = client.post("/v1/check", files=parts([*files[:22], copy]))
    found = answer.json()
    (exact,) = [each for each in found["duplicates"] if each["exact"]]
    assert (exact["image"], exact["source"]["row"]) == (22, kept)
    assert found["facts"]["Copies of training images"] == str(len(found["duplicates"]))
    assert "/home/somebody" not in answer.text


def test_images_of_which_none_can_be_read_are_refused_in_a_sentence(client: TestClient) -> None:
    refused = client.post("/v1/check", files=parts([b"nothing", b"no image"]))
    assert (refused.status_code, refused.json()) == (422, {"error": "none of the images can be read."})


def test_one_image_as_the_body_is_refused(client: TestClient, files: list[bytes]) -> None:
    assert client.post("/v1/check", content=files[0]).status_code == 415


def test_more_than_may_wait_are_refused(client: TestClient, files: list[bytes]) -> None:
    client.service._waiting = 500  # type: ignore[attr-defined]
    refused = client.post("/v1/check", files=parts(files[:20]))
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1
    client.service._waiting = 0  # type: ignore[attr-defined]
    assert client.post("/v1/check", files=parts(files[:20])).status_code == 200
    assert client.service._waiting == 0  # type: ignore[attr-defined]
    assert np.isfinite(client.post("/v1/check", files=parts(files[:20])).json()["accuracy"]["estimate"])
