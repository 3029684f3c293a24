"""What `POST /v1/predict` answers: the model's own answers to the bit, whatever arrives together."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from acting import Standing, parts
from starlette.testclient import TestClient

import homefold.serving
from homefold import Homefold
from homefold.config import replace_settings
from homefold.data import decode_image
from homefold.errors import NotFiniteError
from homefold.runtime.json_lines import json_line
from homefold.serving.answers import Answer, AnswerLine, FailureLine
from homefold.serving.endpoints import ENDPOINTS


def expected_lines(model: Homefold, files: list[bytes], **settings: bool) -> list[str]:
    found = model.predict(files, **settings)
    return [json_line({"row": row, **found[row].as_dict(), "abstained": False}) for row in range(len(found))]


def test_one_image_gets_the_models_own_answer(client: TestClient, fitted: Homefold, files: list[bytes]) -> None:
    for content in files[:3]:
        answered = client.post("/v1/predict", content=content)
        (expected,) = fitted.predict([content])
        assert answered.status_code == 200
        assert answered.headers["content-type"] == "application/json"
        assert answered.text == json_line({**expected.as_dict(), "abstained": False}) + "\n"
        assert Answer.model_validate(answered.json()).label == expected.label


def test_many_images_get_a_line_each_in_order(client: TestClient, fitted: Homefold, files: list[bytes]) -> None:
    answered = client.post("/v1/predict", files=parts(files[:9]))
    assert answered.headers["content-type"] == "application/x-ndjson"
    assert answered.text.splitlines() == expected_lines(fitted, files[:9])
    assert [AnswerLine.model_validate_json(line).row for line in answered.text.splitlines()] == list(range(9))


@pytest.mark.slow
def test_answers_are_the_same_to_the_bit_whatever_arrives_together(
    client: TestClient, fitted: Homefold, files: list[bytes]
) -> None:
    expected = [json.loads(line) for line in expected_lines(fitted, files)]
    sizes = [64, 1, 1, 33, 2, 1, 17, 1, 5, 1, 3, 8, 1, 1]
    starts = [sum(sizes[:i]) % len(files) for i in range(len(sizes))]

    def ask(start: int, size: int) -> tuple[list[int], list[dict]]:
        rows = [(start + i) % len(files) for i in range(size)]
        if size == 1:
            return rows, [{"row": 0, **client.post("/v1/predict", content=files[rows[0]]).json()}]
        answered = client.post("/v1/predict", files=parts([files[row] for row in rows]))
        return rows, [json.loads(line) for line in answered.text.splitlines()]

    with ThreadPoolExecutor(len(sizes)) as together:
        answers = list(together.map(ask, starts, sizes))
    for rows, found in answers:
        assert found == [{**expected[row], "row": i} for i, row in enumerate(rows)]
    assert client.service.metrics.batch_images.count < sum(sizes)  # some were computed together


def test_what_may_be_asked_changes_the_answer_as_in_the_library(
    client: TestClient, fitted: Homefold, files: list[bytes]
) -> None:
    plain = client.post("/v1/predict?projected=false", content=files[0]).json()
    (expected,) = fitted.predict(files[:1], projected=False)
    assert plain == json.loads(json_line({**expected.as_dict(), "abstained": False}))
    assert (plain["projected"], plain["off_manifold"]) == (False, None)
    compared = client.post("/v1/predict?compare=true", files=parts(files[:4]))
    assert compared.text.splitlines() == expected_lines(fitted, files[:4], compare=True)


def test_answers_farther_out_than_asked_are_marked(client: TestClient, fitted: Homefold, files: list[bytes]) -> None:
    found = fitted.predict(files[:12])
    for threshold in (float(sorted(found.off_manifold)[6]), 0.1, 0.0, float("inf")):
        answered = client.post(f"/v1/predict?abstain_above={threshold!r}", files=parts(files[:12]))
        marked = [json.loads(line)["abstained"] for line in answered.text.splitlines()]
        assert marked == found.abstained(threshold).tolist()


def test_a_bad_image_has_a_line_of_its_own_and_spoils_no_other(
    client: TestClient, fitted: Homefold, files: list[bytes]
) -> None:
    given = [files[0], b"", files[1], b"no image", files[2][:60], files[2]]
    lines = [json.loads(line) for line in client.post("/v1/predict", files=parts(given)).text.splitlines()]
    good = [json.loads(line) for line in expected_lines(fitted, files[:3])]
    assert [lines[row] for row in (0, 2, 5)] == [{**good[i], "row": row} for i, row in enumerate((0, 2, 5))]
    assert lines[1] == {"row": 1, "error": "is empty (0 bytes)"}
    assert lines[3] == {"row": 3, "error": "is not an image, or is damaged from its first bytes on"}
    assert FailureLine.model_validate(lines[4]).error.startswith("is damaged")


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "the upload is empty (0 bytes)."), (b"no image", "the upload is not an image")]
)
def test_a_bad_image_alone_is_refused_in_a_sentence(client: TestClient, content: bytes, words: str) -> None:
    answered = client.post("/v1/predict", content=content)
    assert answered.status_code == 422
    assert answered.json()["error"].startswith(words)


def test_an_answer_that_is_not_finite_fails_alone(serving, fitted: Homefold, files: list[bytes]) -> None:
    side, resize = fitted.config.preprocessing.image_size, fitted.config.preprocessing.resize
    odd = decode_image(io.BytesIO(files[1]), size=(side, side), resize=resize)

    def predict(images, **settings):
        for row, image in enumerate(images):
            if (image == odd).all():
                raise NotFiniteError(row)
        return fitted.predict(images, **settings)

    with serving(model=Standing(fitted, predict=predict)) as client:
        lines = client.post("/v1/predict", files=parts(files[:4])).text.splitlines()
    expected = expected_lines(fitted, files[:4])
    assert [lines[row] for row in (0, 2, 3)] == [expected[row] for row in (0, 2, 3)]
    assert json.loads(lines[1])["error"] == "gets no finite answer: numbers in it are too large for the model"


def test_what_the_model_cannot_answer_is_a_sentence_and_no_traceback(serving, fitted: Homefold, files) -> None:
    def predict(images, **settings):
        raise RuntimeError("secret/path")

    with serving(model=Standing(fitted, predict=predict)) as client:
        answered = client.post("/v1/predict", content=files[0])
        assert answered.status_code == 500
        assert answered.json() == {"error": "the upload could not be answered; the server's own messages say why."}
        assert client.get("/healthz").status_code == 200


def test_the_facts_of_the_model_name_no_path(serving, fitted: Homefold, client: TestClient) -> None:
    facts = client.get("/v1/model").json()
    assert facts["classes"] == list(fitted.class_names)
    assert facts["source_domains"] == list(fitted.source_domains)
    assert facts["name"] == "digits"
    assert facts["limits"] == {"body_bytes": 64 << 20, "images": 256, "megapixels": 50.0}
    config = replace_settings(fitted.config, {"features.weights": "/home/ann/weights/net.safetensors"})
    reports = {**fitted.reports, "images": {"skipped": [["/home/ann/photos/a.jpg", "is empty"]]}}
    with serving(model=Standing(fitted, config=config, reports=reports)) as client:
        facts = client.get("/v1/model")
    assert facts.json()["measured"]["images"]["skipped"] == 1
    assert facts.json()["settings"]["features"]["weights"] == "net.safetensors"
    assert "ann" not in facts.text


def test_metrics_count_what_happened(client: TestClient, files: list[bytes]) -> None:
    client.post("/v1/predict", files=parts([*files[:3], b""]))
    client.get("/nowhere/at/all")
    text = client.get("/metrics").text
    assert 'homefold_images_total{outcome="answered"} 3' in text
    assert 'homefold_images_total{outcome="failed"} 1' in text
    assert 'homefold_requests_total{route="/v1/predict",method="POST",status="200"} 1' in text
    assert 'homefold_requests_total{route="other",method="GET",status="404"} 1' in text
    assert "nowhere" not in text
    assert "homefold_images_waiting 0" in text
    assert "homefold_upload_bytes 0" in text
    assert "homefold_batch_images_sum 3" in text
    assert all(line.startswith(("# ", "homefold_")) for line in text.splitlines())


def test_the_description_of_the_interface_is_whole(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    explorer = {"/v1/explorer", "/v1/explorer/points", "/v1/explorer/images/{row}"}
    reasons = {"/v1/explain", "/v1/explain/usual", "/v1/explorer/images/{row}/explain", "/v1/check"}
    paths = {"/v1/predict", "/v1/model", "/healthz", "/readyz", "/metrics"}
    assert set(described["paths"]) == paths | explorer | reasons
    responses = described["paths"]["/v1/predict"]["post"]["responses"]
    assert {"200", "401", "408", "413", "415", "422", "503", "504"} <= set(responses)
    assert set(responses["200"]["content"]) == {"application/json", "application/x-ndjson"}
    assert "multipart/form-data" in described["paths"]["/v1/predict"]["post"]["requestBody"]["content"]


def test_every_file_of_endpoints_is_served() -> None:
    files = {path.stem for path in (Path(homefold.serving.__file__).parent / "endpoints").glob("[!_]*.py")}
    assert {routes.__module__.rpartition(".")[2] for routes in ENDPOINTS} == files
