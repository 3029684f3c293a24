"""The labelled images of --data: by row, never by path; surveyed once; every failure in words."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from acting import Standing, wait_until
from PIL import Image
from sklearn.decomposition import PCA
from starlette.testclient import TestClient

import homefold.serving.explorer.explorer
from homefold import Homefold
from homefold.data import DomainDataset, cache_directory
from homefold.errors import DataError, ManifoldCollapsedError
from homefold.serving.explorer import Explorer, Gallery
from homefold.serving.explorer.layout import PrincipalComponents, Umap

Serving = Callable[..., Any]


def ready(client: TestClient) -> dict[str, Any]:
    """What the explorer says once it has looked at every image."""
    wait_until(lambda: client.get("/v1/explorer").json()["state"] != "working")
    return client.get("/v1/explorer").json()


def columns(client: TestClient) -> dict[str, np.ndarray]:
    facts = ready(client)
    found = np.frombuffer(client.get("/v1/explorer/points").content, "<f4").reshape(len(facts["columns"]), -1)
    return dict(zip(facts["columns"], found, strict=True))


def test_without_labelled_images_there_is_nothing_to_explore(client: TestClient) -> None:
    assert client.get("/v1/explorer").json()["state"] == "none"
    for address in ("points", "images/0"):
        answer = client.get(f"/v1/explorer/{address}")
        assert (answer.status_code, "--data" in answer.json()["error"]) == (404, True)


@pytest.mark.slow
def test_every_image_has_the_answers_that_predict_gives(serving: Serving, gallery: Gallery, fitted: Homefold) -> None:
    with serving(explorer=Explorer(gallery)) as client:
        facts, found = ready(client), columns(client)
    expected = fitted.predict(gallery.dataset, compare=True)
    assert facts["state"] == "ready"
    assert found["label"].tolist() == expected.indices.tolist()
    assert found["plain_label"].tolist() == expected.unprojected.tolist()
    assert np.array_equal(found["confidence"], expected.confidences)
    assert np.array_equal(found["off_manifold"], expected.off_manifold)
    assert found["truth"].tolist() == gallery.dataset.labels.tolist()
    assert found["domain"].tolist() == gallery.dataset.domains.tolist()


@pytest.mark.slow
def test_the_map_is_the_main_plane_of_source_features(serving: Serving, gallery: Gallery, fitted: Homefold) -> None:
    with serving(explorer=Explorer(gallery)) as client:
        found = columns(client)
    features = fitted.feature_model.prepare(torch.from_numpy(fitted.features(gallery.dataset))).numpy()
    expected = PCA(2).fit(features[gallery.is_source]).transform(features)
    assert np.allclose(np.abs(found["x"]), np.abs(expected[:, 0]), atol=1e-3)
    assert np.allclose(np.abs(found["y"]), np.abs(expected[:, 1]), atol=1e-3)


@pytest.mark.slow
def test_it_says_what_there_is_before_it_has_looked(serving: Serving, gallery: Gallery) -> None:
    with serving(explorer=Explorer(gallery)) as client:
        facts = client.get("/v1/explorer").json()
        ready(client)
    assert facts["images"] == 288
    assert facts["class_images"] == [96, 96, 96]
    assert [domain["name"] for domain in facts["domains"] if not domain["is_source"]] == ["street"]


def test_an_image_comes_by_its_row(serving: Serving, gallery: Gallery) -> None:
    with serving(explorer=Explorer(gallery)) as client:
        answer = client.get("/v1/explorer/images/17")
        beyond = client.get("/v1/explorer/images/288")
        odd = [client.get(f"/v1/explorer/images/{row}").status_code for row in ("-1", "x", "..%2f..%2fetc")]
    assert answer.headers["content-type"] == "image/png"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(answer.content))), gallery.dataset.images[17])
    assert (beyond.status_code, beyond.json()["error"]) == (404, "there is no row 288: the last one is 287.")
    assert set(odd) <= {404, 422}


def test_a_larger_image_is_sent_as_jpeg(gallery: Gallery) -> None:
    large = np.zeros((1, 224, 224, 3), np.uint8)
    content, kind = Gallery(replace(gallery.dataset.subset([0]), images=large), (), np.zeros(1), np.ones(1)).picture(0)
    assert (kind, Image.open(io.BytesIO(content)).size) == ("image/jpeg", (224, 224))


@pytest.mark.parametrize("address", ["", "/points", "/images/0"])
def test_nothing_of_it_is_told_without_the_token(serving: Serving, gallery: Gallery, address: str) -> None:
    with serving(explorer=Explorer(gallery)) as client:
        client.headers.pop("Authorization")
        assert client.get(f"/v1/explorer{address}").status_code == 401


@pytest.mark.slow
def test_no_path_leaves_the_server(serving: Serving, gallery: Gallery) -> None:
    with serving(explorer=Explorer(gallery)) as client:
        ready(client)
        told = b"".join(
            client.get(f"/v1/{name}").content
            for name in ("model", "explorer", "explorer/points", "explorer/images/3", "explorer/images/9999")
        )
    assert b"somebody" not in told
    assert len(told) > 1000


@pytest.mark.slow
def test_images_are_answered_while_it_looks(serving: Serving, gallery: Gallery, files: list[bytes]) -> None:
    with serving(explorer=Explorer(gallery)) as client:
        assert client.post("/v1/predict", content=files[0]).status_code == 200
        assert ready(client)["state"] == "ready"


@pytest.mark.slow
def test_a_model_is_asked_about_the_same_images_once(
    serving: Serving, gallery: Gallery, fitted: Homefold, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    survey_of = homefold.serving.explorer.explorer.survey_of

    def counted(model: Any, pixels: np.ndarray) -> Any:
        asked.append(len(pixels))
        return survey_of(model, pixels)

    monkeypatch.setattr(homefold.serving.explorer.explorer, "survey_of", counted)

    def points(checksum: str, images: Gallery = gallery) -> bytes:
        asked.clear()
        with serving(explorer=Explorer(images, checksum)) as client:
            ready(client)
            return client.get("/v1/explorer/points").content

    first = points("this model")
    assert sum(asked) == 288
    assert points("this model") == first
    assert asked == []
    points("another model")
    assert sum(asked) == 288
    part = Gallery.of(gallery.dataset.subset(np.arange(0, 288, 2)), fitted.class_names, fitted.source_domains)
    points("this model", part)
    assert sum(asked) == 144
    for file in (cache_directory() / "explorer").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert points("this model") == first
    assert sum(asked) == 288


def test_a_survey_that_fails_is_told_in_words(serving: Serving, gallery: Gallery, fitted: Homefold) -> None:
    def answer(*_: Any, **__: Any) -> None:
        raise ManifoldCollapsedError("the manifold collapsed.")

    model = Standing(fitted, trained=Standing(fitted.trained, answer=answer))
    with serving(explorer=Explorer(gallery), model=model) as client:
        facts = ready(client)
        points = client.get("/v1/explorer/points")
    assert (facts["state"], facts["error"]) == ("failed", "the manifold collapsed.")
    assert (points.status_code, points.json()["error"]) == (409, "the map is not there: the manifold collapsed.")


def test_an_unforeseen_failure_keeps_what_it_is_about_to_the_server(
    serving: Serving, gallery: Gallery, fitted: Homefold
) -> None:
    def answer(*_: Any, **__: Any) -> None:
        raise RuntimeError("/home/somebody/secret")

    with serving(
        explorer=Explorer(gallery), model=Standing(fitted, trained=Standing(fitted.trained, answer=answer))
    ) as c:
        assert ready(c)["error"] == "the map could not be made; the server's own messages say why."


def test_images_that_do_not_fit_the_model_are_refused(few_digits: DomainDataset) -> None:
    with pytest.raises(DataError, match="none of the model's classes: they have 0, 1, 2, the model knows cat, dog"):
        Gallery.of(few_digits, ("cat", "dog"), ("scan",))
    with pytest.raises(DataError, match="the model learned from hospital: give the folder that it was fitted on"):
        Gallery.of(few_digits, few_digits.class_names, ("hospital",))


def test_classes_that_only_the_images_have_come_after_the_models(few_digits: DomainDataset) -> None:
    gallery = Gallery.of(few_digits, ("2", "9", "0"), ("scan",))
    assert gallery.classes == ("2", "9", "0", "1")
    assert [gallery.classes[i] for i in gallery.truth] == [few_digits.class_names[i] for i in few_digits.labels]


def test_components_do_not_depend_on_chance_or_on_what_else_is_placed() -> None:
    features = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    first, again = PrincipalComponents(features), PrincipalComponents(features.clone())
    assert torch.equal(first.place(features), again.place(features))
    assert torch.allclose(first.place(features)[7:8], first.place(features[7:8]))
    one_dimension = PrincipalComponents(features[:, :1]).place(features[:, :1])
    assert one_dimension.shape == (50, 2)
    assert bool((one_dimension[:, 1] == 0).all())


def test_with_umap_a_feature_lies_amid_its_nearest_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    features = torch.eye(10)

    class Reducer:
        def __init__(self, **settings: Any) -> None:
            assert settings["n_neighbors"] == 9

        def fit_transform(self, rows: np.ndarray) -> np.ndarray:
            return np.stack([rows.argmax(1), rows.argmax(1) ** 2], axis=1)

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Reducer))
    layout = Umap(features)
    assert torch.allclose(layout.place(features[3:4]), torch.tensor([[3.0, 9.0]]), atol=1e-3)
    between = layout.place((features[3] + features[5])[None])
    assert 3 < float(between[0, 0]) < 5


@pytest.mark.slow
def test_umap_that_is_not_installed_is_asked_for(
    serving: Serving, gallery: Gallery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with serving(explorer=Explorer(gallery, layout="umap")) as client:
        assert ready(client)["error"] == "--map umap needs the extra 'umap': pip install 'homefold[umap]'."


def test_the_page_names_no_other_server() -> None:
    page = Path(homefold.serving.__file__).parent / "page"
    for path in page.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert "://" not in text
            assert "//cdn" not in text
