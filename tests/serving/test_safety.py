"""Safe by default: a test for each rule on who may ask, how much, and what goes out."""

from __future__ import annotations

import builtins
import os
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from acting import TOKEN, Standing, parts, png_that_claims, spoken, wait_until
from starlette.testclient import TestClient

from homefold import Homefold
from homefold.errors import ConfigError
from homefold.serving.access import TOKEN_VARIABLE, given_token, is_loopback, new_token
from homefold.serving.guard import SAFE_HEADERS

WITH_TOKEN = ("/v1/model", "/metrics", "/openapi.json", "/nowhere")
WITHOUT_TOKEN = ("/", "/page/style.css", "/healthz", "/readyz")
ADDRESS = re.compile(r"""(?:https?:|wss?:)?//[a-z0-9.-]+""", re.IGNORECASE)


class TestTheToken:
    @pytest.mark.parametrize(
        "given", [None, "", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}"]
    )
    def test_without_it_nothing_but_the_page_is_shown(self, client: TestClient, files, given: str | None) -> None:
        client.headers.pop("Authorization")
        headers = {} if given is None else {"Authorization": given}
        answers = [client.get(path, headers=headers) for path in WITH_TOKEN]
        answers.append(client.post("/v1/predict", content=files[0], headers=headers))
        for answered in answers:
            assert answered.status_code == 401
            assert answered.headers["WWW-Authenticate"] == "Bearer"
            assert "token is missing or wrong" in answered.json()["error"]
        assert [client.get(path).status_code for path in WITHOUT_TOKEN] == [200] * 4

    def test_with_it_all_is(self, client: TestClient) -> None:
        assert [client.get(path).status_code for path in WITH_TOKEN] == [200, 200, 200, 404]

    def test_in_the_address_it_is_not_taken(self, client: TestClient) -> None:
        client.headers.pop("Authorization")
        assert client.get("/v1/model", params={"token": TOKEN}).status_code == 401

    def test_none_is_asked_for_where_that_was_chosen(self, serving) -> None:
        with serving(token=None) as client:
            assert client.get("/v1/model").status_code == 200

    def test_it_is_random_unless_given_by_file_or_environment(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
        assert given_token(None) is None
        assert new_token() != new_token()
        assert len(new_token()) >= 43
        monkeypatch.setenv(TOKEN_VARIABLE, "of-the-environment")
        assert given_token(None) == "of-the-environment"
        (tmp_path / "token").write_text("of-the-file-itself\n")
        assert given_token(tmp_path / "token") == "of-the-file-itself"

    @pytest.mark.parametrize("text", ["", "short", "has spaces in it, many", "ümläuts-are-no-header"])
    def test_one_that_is_easy_to_guess_or_cannot_be_sent_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "token").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="must be at least 16 letters"):
            given_token(tmp_path / "token")


class TestTheNamesOfTheServer:
    @pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765", "127.0.0.1"])
    def test_those_of_the_loopback_are_known(self, client: TestClient, host: str) -> None:
        assert client.get("/healthz", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "", "10.0.0.1"]
    )
    def test_any_other_is_refused_also_with_the_token(self, client: TestClient, host: str) -> None:
        for path in ("/", "/healthz", "/v1/model"):
            answered = client.get(path, headers={"Host": host})
            assert answered.status_code == 421
            assert "--allow-host" in answered.json()["error"]

    def test_more_can_be_allowed(self, serving) -> None:
        with serving(hosts=("models.example",)) as client:
            assert client.get("/v1/model", headers={"Host": "Models.example:8765"}).status_code == 200
            assert client.get("/v1/model", headers={"Host": "other.example"}).status_code == 421

    def test_a_loopback_address_is_told_from_one_that_others_reach(self) -> None:
        assert [is_loopback(host) for host in ("127.0.0.1", "localhost", "0.0.0.0")] == [True, True, False]
        with pytest.raises(ConfigError, match="no address of this machine"):
            is_loopback("not a host")


class TestOtherPages:
    def test_may_not_call(self, client: TestClient, files) -> None:
        for origin in ("https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost"):
            answered = client.post("/v1/predict", content=files[0], headers={"Origin": origin})
            assert answered.status_code == 403
            assert "pages of other servers" in answered.json()["error"]
        own = {"Origin": "http://127.0.0.1:8765"}
        assert client.post("/v1/predict", content=files[0], headers=own).status_code == 200

    def test_are_told_of_no_permission(self, client: TestClient) -> None:
        asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        for answered in (client.options("/v1/predict", headers=asked), client.get("/v1/model"), client.get("/")):
            assert not [name for name in answered.headers if name.startswith("access-control")]


def test_every_response_has_the_safe_headers(client: TestClient, files) -> None:
    answers = [client.get(path) for path in (*WITH_TOKEN, *WITHOUT_TOKEN)]
    answers += [client.post("/v1/predict", content=content) for content in (files[0], b"")]
    answers += [client.post("/v1/predict", files=parts(files[:2])), client.put("/v1/predict")]
    answers += [
        client.get("/", headers={"Host": "evil.example"}),
        client.get("/v1/model", headers={"Authorization": ""}),
    ]
    assert {answered.status_code for answered in answers} == {200, 401, 404, 405, 421, 422}
    for answered in answers:
        for name, value in SAFE_HEADERS.items():
            assert answered.headers[name] == value
        assert "server" not in answered.headers
    policy = SAFE_HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy


def test_nothing_that_is_served_names_another_server(client: TestClient) -> None:
    folder = Path(__file__).parents[2] / "src" / "homefold" / "serving" / "page"
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    assert {"index.html", "style.css", "app.js"} <= set(names)
    texts = [client.get(f"/page/{name}").text for name in names]
    texts += [client.get(path).text for path in ("/", "/v1/model", "/openapi.json", "/metrics", "/nowhere")]
    for text in texts:
        assert [found for found in ADDRESS.findall(text) if found != "http://www.w3.org"] == []
    assert all(client.get(path).status_code == 404 for path in ("/docs", "/redoc"))


@pytest.mark.parametrize(
    "path",
    ["/page/../endpoints/page.py", "/page/%2e%2e/server.py", "/page//etc/passwd", "/page/..%2fserver.py", "/page/"],
)
def test_no_path_leads_out_of_the_page(client: TestClient, path: str) -> None:
    answered = client.get(path)
    assert answered.status_code == 404
    assert "error" in answered.json()


class TestLimits:
    def test_of_the_body(self, serving, files) -> None:
        with serving(body_bytes=2048) as client:
            large = bytes(2049)

            def in_chunks():
                for _ in range(30):
                    yield bytes(100)

            answers = [client.post("/v1/predict", content=content) for content in (large, in_chunks())]
            answers.append(client.post("/v1/predict", files=parts([large])))
            for answered in answers:
                assert answered.status_code == 413
                assert "the body has more than" in answered.json()["error"]
            assert client.service.metrics.images == {}
            assert client.post("/v1/predict", content=files[0]).status_code == 200

    def test_of_the_images_in_a_request(self, serving, files) -> None:
        with serving(images=3) as client:
            assert client.post("/v1/predict", files=parts(files[:3])).status_code == 200
            answered = client.post("/v1/predict", files=parts(files[:4]))
            assert answered.status_code == 413
            assert "one request may hold 3 images" in answered.json()["error"]

    @pytest.mark.slow
    def test_of_pixels_before_anything_is_decoded(self, client: TestClient) -> None:
        answered = client.post("/v1/predict", content=png_that_claims(10_000, 6_000))
        assert answered.status_code == 422
        assert answered.json()["error"] == ("the upload has 60 megapixels (10000 × 6000), more than the limit of 50.")
        below = client.post("/v1/predict", content=png_that_claims(100, 60))
        assert "damaged" in below.json()["error"]

    @pytest.mark.slow
    def test_of_the_time_for_a_body(self, listening) -> None:
        with listening(body_seconds=0.2) as (port, _):
            head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            answered = spoken(port, f"{head}Content-Length: 1000\r\n\r\nfirst bytes".encode())
        assert answered.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive within 0.2 s" in answered

    @pytest.mark.slow
    def test_of_the_time_for_headers(self, listening) -> None:
        with listening(head_seconds=0.2) as (port, _):
            for sent in (b"", b"GET /healthz HTTP/1.1\r\nHost: local"):
                began = time.perf_counter()
                assert spoken(port, sent) == b""
                assert time.perf_counter() - began < 5

    @pytest.mark.slow
    def test_of_the_time_for_an_answer(self, serving, fitted: Homefold, files) -> None:
        def predict(images, **settings):
            time.sleep(0.5)
            return fitted.predict(images, **settings)

        with serving(model=Standing(fitted, predict=predict), answer_seconds=0.1) as client:
            answered = client.post("/v1/predict", content=files[0])
            assert answered.status_code == 504
            assert answered.json()["error"].startswith("the upload was not answered within 0.1 s")
            lines = client.post("/v1/predict", files=parts(files[:2]))
            assert lines.text.count("was not answered within 0.1 s") == 2
            assert client.service._waiting == 0

    def test_of_what_waits(self, serving, fitted: Homefold, files) -> None:
        may_go_on, has_begun = threading.Event(), threading.Event()

        def predict(images, **settings):
            has_begun.set()
            may_go_on.wait(10)
            return fitted.predict(images, **settings)

        with serving(model=Standing(fitted, predict=predict), waiting=3) as client, ThreadPoolExecutor(1) as beside:
            first = beside.submit(client.post, "/v1/predict", files=parts(files[:2]))
            has_begun.wait(10)
            answered = client.post("/v1/predict", files=parts(files[:2]))
            assert answered.status_code == 503
            assert int(answered.headers["Retry-After"]) >= 1
            assert "as many images to answer as it takes" in answered.json()["error"]
            assert client.get("/readyz").status_code == 200  # there is room for one
            second = ThreadPoolExecutor(1).submit(client.post, "/v1/predict", content=files[0])
            wait_until(lambda: client.get("/readyz").status_code == 503)
            assert client.post("/v1/predict", content=files[0]).status_code == 503
            may_go_on.set()
            assert first.result().status_code == second.result().status_code == 200
            assert client.get("/readyz").status_code == 200

    def test_of_memory_for_uploads(self, serving, files) -> None:
        with serving(held_bytes=1000) as client:
            answered = client.post("/v1/predict", content=bytes(1001))
            assert (answered.status_code, answered.headers["Retry-After"]) == (503, "1")
            assert client.service._held.held == 0

    @pytest.mark.slow
    def test_of_connections(self, listening) -> None:
        with listening(connections=2) as (port, _):
            kept = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
            time.sleep(0.1)
            assert spoken(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
            for connection in kept:
                connection.close()
            time.sleep(0.1)
            assert b"200 OK" in spoken(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("headers", "content", "status", "words"),
    [
        ({"Content-Type": "application/json"}, b"{}", 415, "is no image"),
        ({"Content-Encoding": "gzip"}, b"x", 415, "without Content-Encoding"),
        ({"Content-Type": "multipart/form-data"}, b"x", 415, "with a boundary"),
        ({"Content-Type": "multipart/mixed; boundary=b"}, b"x", 415, "multipart/form-data"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"nonsense", 400, "is damaged"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\n\r\nabc", 400, "is cut off"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b--\r\n", 422, "no image was given"),
        ({"Content-Type": "multipart/form-data; boundary=" + "b" * 999}, b"x", 400, "is damaged"),
    ],
)
def test_bodies_that_make_no_sense(client: TestClient, headers, content: bytes, status: int, words: str) -> None:
    answered = client.post("/v1/predict", content=content, headers=headers)
    assert answered.status_code == status, answered.text
    assert words in answered.json()["error"]


@pytest.mark.parametrize("asked", ["abstain_above=-1", "abstain_above=nan", "abstain_above=x", "projected=perhaps"])
def test_parameters_that_make_no_sense(client: TestClient, files, asked: str) -> None:
    answered = client.post(f"/v1/predict?{asked}", content=files[0])
    assert answered.status_code == 422
    assert asked.split("=")[0] in answered.json()["error"]


def test_there_is_no_score_to_abstain_by_without_projection(client: TestClient, files) -> None:
    answered = client.post("/v1/predict?abstain_above=1&projected=false", content=files[0])
    assert (answered.status_code, "off-manifold score" in answered.json()["error"]) == (422, True)


def test_nothing_that_is_uploaded_is_written_to_disk(client: TestClient, files, monkeypatch, tmp_path: Path) -> None:
    written: list[object] = []
    real_open, real_os_open = builtins.open, os.open

    def watched(file, mode="r", *arguments, **more):
        if set(mode) & set("wax+"):
            written.append(file)
        return real_open(file, mode, *arguments, **more)

    def os_watched(path, flags, *arguments, **more):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            written.append(path)
        return real_os_open(path, flags, *arguments, **more)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(builtins, "open", watched)
    monkeypatch.setattr(os, "open", os_watched)
    large = files[0] + bytes(3 << 20)  # beyond what other frameworks keep in memory
    answered = client.post("/v1/predict", files=parts([large, *files[:3]]))
    assert answered.text.count("label") == 4
    assert client.post("/v1/predict", content=large).status_code == 200
    assert written == []
    assert list(tmp_path.iterdir()) == []
