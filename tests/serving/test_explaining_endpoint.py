"""Why an image gets its answer: the same answer as everywhere, both ways, and what led to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from acting import Standing, file_of, wait_until
from starlette.testclient import TestClient

from homefold import Homefold
from homefold.serving.explorer import Explorer, Gallery
from homefold.stages.trained_model import Answer

Serving = Callable[..., Any]


@pytest.fixture
def explored(serving: Serving, gallery: Gallery) -> Any:
    with serving(explorer=Explorer(gallery, "for explaining")) as client:
        wait_until(lambda: client.get("/v1/explorer").json()["state"] == "ready")
        yield client


@pytest.mark.slow
def test_its_answer_is_that_of_predict_to_the_bit(client: TestClient, files: list[bytes]) -> None:
    for content in files[:6]:
        why = client.post("/v1/explain", content=content).json()
        answer = client.post("/v1/predict", content=content).json()
        plain = client.post("/v1/predict?projected=false", content=content).json()
        told = {name: value for name, value in why["answer"].items() if name != "label_without_projection"}
        assert told == {name: value for name, value in answer.items() if name != "label_without_projection"}
        assert why["without_projection"] == {name: plain[name] for name in ("label", "confidence", "probabilities")}
        assert why["with_projection"] == {name: answer[name] for name in ("label", "confidence", "probabilities")}


def test_the_curve_runs_from_where_the_search_began_past_where_it_was_stopped(
    client: TestClient, files: list[bytes], fitted: Homefold
) -> None:
    why = client.post("/v1/explain", content=files[0]).json()
    curve, answer = why["curve"], why["answer"]
    assert curve["steps"] == list(range(fitted.config.search.steps + 1))
    assert curve["stop"] == answer["iterations"]
    assert curve["losses"][0] == pytest.approx(1 - answer["similarity_before"], abs=1e-4)
    assert curve["losses"][curve["stop"]] == pytest.approx(1 - answer["similarity_after"], abs=1e-4)


def test_without_labelled_images_it_tells_the_rest(client: TestClient, files: list[bytes]) -> None:
    why = client.post("/v1/explain", content=files[0]).json()
    assert [why[name] for name in ("place_before", "place_after", "nearest_before", "nearest_after")] == [None] * 4


def test_a_source_image_is_most_like_itself_and_lies_where_its_point_is(explored: TestClient, gallery: Gallery) -> None:
    row = int(np.flatnonzero(gallery.is_source)[5])
    why = explored.get(f"/v1/explorer/images/{row}/explain").json()
    facts = explored.get("/v1/explorer").json()
    points = np.frombuffer(explored.get("/v1/explorer/points").content, "<f4").reshape(len(facts["columns"]), -1)
    assert why["nearest_before"][0]["row"] == row
    assert why["nearest_before"][0]["similarity"] == pytest.approx(1, abs=1e-4)
    assert why["place_before"] == pytest.approx(points[:2, row].tolist(), abs=1e-3)


def test_what_it_is_like_are_source_images_the_nearest_first(
    explored: TestClient, gallery: Gallery, files: Any
) -> None:
    why = explored.post("/v1/explain", content=files[0]).json()
    for near in (why["nearest_before"], why["nearest_after"]):
        assert len(near) == 6
        assert all(gallery.is_source[found["row"]] for found in near)
        similarities = [found["similarity"] for found in near]
        assert similarities == sorted(similarities, reverse=True)
    # A projection lies on the manifold of the sources, so it is more like them.
    assert why["nearest_after"][0]["similarity"] > why["nearest_before"][0]["similarity"]


def test_a_row_and_its_file_have_the_same_reasons(explored: TestClient, gallery: Gallery) -> None:
    row = int(np.flatnonzero(~gallery.is_source)[0])
    uploaded = explored.post("/v1/explain", content=file_of(gallery.dataset.images[row]))
    assert uploaded.text == explored.get(f"/v1/explorer/images/{row}/explain").text
    assert "somebody" not in uploaded.text


def test_an_image_that_was_left_as_it_is_says_so(serving: Serving, fitted: Homefold, files: list[bytes]) -> None:
    def answer(*given: Any, **asked: Any) -> Answer:
        found = fitted.trained.answer(*given, **asked)
        left = found.predictions.left(found.plain.predictions, np.ones(len(found.predictions), bool))
        return replace(found, predictions=left)

    with serving(model=Standing(fitted, trained=Standing(fitted.trained, answer=answer))) as client:
        why = client.post("/v1/explain", content=files[0]).json()
    assert why["answer"]["projected"] is False
    assert why["answer"]["probabilities"] == why["without_projection"]["probabilities"]
    assert why["answer"]["probabilities"] != why["with_projection"]["probabilities"]


def test_usual_scores_are_those_of_held_out_source_features(client: TestClient, fitted: Homefold) -> None:
    scores = client.get("/v1/explain/usual").json()["scores"]
    assert len(scores) == len(fitted.feature_model.calibration)
    assert scores == sorted(scores)
    assert np.quantile(scores, 0.95) == pytest.approx(1, abs=1e-3)


def test_what_cannot_be_explained_is_refused_in_words(serving: Serving, explored: TestClient, files: Any) -> None:
    broken = explored.post("/v1/explain", content=b"nothing")
    assert (broken.status_code, broken.json()["error"][:10]) == (422, "the upload")
    beyond = explored.get("/v1/explorer/images/288/explain")
    assert (beyond.status_code, "the last one is 287" in beyond.json()["error"]) == (404, True)
    assert explored.post("/v1/explain", json={}).status_code == 415
    with serving(waiting=1) as busy:
        busy.service._waiting = 1
        assert busy.post("/v1/explain", content=files[0]).headers["Retry-After"] == "1"
        busy.service._waiting = 0
    with serving(body_bytes=100) as small:
        assert small.post("/v1/explain", content=files[0] * 9).status_code == 413
    explored.headers.pop("Authorization")
    assert explored.post("/v1/explain", content=files[0]).status_code == 401


def test_the_description_names_all_of_it(client: TestClient) -> None:
    described = json.loads(client.get("/openapi.json").text)["paths"]
    assert {"/v1/explain", "/v1/explorer", "/v1/explorer/images/{row}/explain"} <= set(described)
