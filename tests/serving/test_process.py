"""`homefold serve` as people run it: a process behind a real socket, signals, clients that do not behave."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from acting import TOKEN, Standing, file_of, parts, wait_until

from homefold import Homefold
from homefold.cli import main
from homefold.cli.app import COMMANDS
from homefold.data import DomainDataset
from homefold.runtime.json_lines import json_line


@pytest.fixture(scope="module")
def folder(fitted: Homefold, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, saved."""
    path = tmp_path_factory.mktemp("served") / "model"
    fitted.save(path)
    return path


@contextmanager
def started(folder: Path, *flags: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and its first line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "homefold", "serve", str(folder), "--port", "0", "--device", "cpu", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may have it ignored
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_command_answers_as_predict_does_and_stops_after_what_was_accepted(
    folder: Path, files: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for i, content in enumerate(files[:6]):
        paths.append(tmp_path / f"{i}.png")
        paths[-1].write_bytes(content)
    assert main(["predict", str(folder), *map(str, paths), "--json", "--device", "cpu", "--abstain-above", "0.5"]) == 0
    predicted = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with started(folder) as (process, line):
        found = re.fullmatch(rf"Serving {folder} at (http://127\.0\.0\.1:\d+/)#token=(\S{{43}})", line)
        assert found, line
        with httpx.Client(base_url=found[1], headers={"Authorization": f"Bearer {found[2]}"}, timeout=60) as client:
            assert client.get("/").headers["content-type"].startswith("text/html")
            answered = client.post("/v1/predict?abstain_above=0.5", files=parts(files[:6]))
            lines = [json.loads(text) for text in answered.text.splitlines()]
            named = [{"path": str(paths[line["row"]]), **line} for line in lines]
            assert [{key: line[key] for key in line if key != "row"} for line in named] == predicted
            many = parts(files * 3)
            with ThreadPoolExecutor(1) as beside:
                under_way = beside.submit(client.post, "/v1/predict", files=many)
                deadline = time.monotonic() + 30
                while not accepted(found[1], found[2]) and time.monotonic() < deadline:
                    time.sleep(0.005)
                process.send_signal(signal.SIGTERM)
                lines = under_way.result().text.splitlines()
        assert len(lines) == len(many)
        assert all("label" in json.loads(line) for line in lines)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 143
    assert out == ""
    assert "Traceback" not in err
    assert err.endswith("Stopped.\n")


def accepted(address: str, token: str) -> bool:
    """Whether images are being answered now."""
    metrics = httpx.get(f"{address}metrics", headers={"Authorization": f"Bearer {token}"}).text
    return "homefold_images_waiting 0\n" not in metrics


def written(data: DomainDataset, root: Path) -> Path:
    """Every sixth image as a file in `root/domain/class/`."""
    for i in range(0, len(data), 6):
        place = root / data.domain_names[data.domains[i]] / data.class_names[data.labels[i]]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i}.png").write_bytes(file_of(data.images[i]))
    return root


@pytest.mark.slow
def test_labelled_images_are_looked_at_and_the_model_folder_stays_as_it_was(
    folder: Path, few_digits: DomainDataset, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    photos = written(few_digits, tmp_path / "photos")
    (photos / "scan" / "0" / "broken.png").write_bytes(b"nothing")
    with started(folder, "--data", str(photos), HOMEFOLD_TOKEN=TOKEN) as (process, line):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=line.split(" at ")[1], headers=headers, timeout=60) as client:
            wait_until(lambda: client.get("/v1/explorer").json()["state"] == "ready")
            told = client.get("/v1/explorer").text + client.get("/v1/explorer/images/0/explain").text
            assert json.loads(client.get("/v1/explorer").text)["images"] == 48
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert str(tmp_path) not in told
    assert "1 of its images cannot be read" in err
    assert "Traceback" not in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--data", "no-such-folder"], "no-such-folder"),
        (["--data", "digits-mini", "--map", "umap"], "--map umap needs the extra 'umap'"),
    ],
)
def test_labelled_images_that_cannot_be_shown_are_refused_in_words(
    folder: Path,
    flags: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    assert main(["serve", str(folder), "--device", "cpu", *flags]) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_a_token_of_ones_own_is_not_printed(folder: Path) -> None:
    with started(folder, HOMEFOLD_TOKEN=TOKEN) as (process, line):
        assert TOKEN not in line
        address = line.split(" at ")[1]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{address}v1/model", headers=headers).json()["name"] == "model"
        assert httpx.get(f"{address}v1/model").status_code == 401
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert TOKEN not in err


def test_the_end_of_an_answer_does_not_wait_for_its_beginning_to_be_acknowledged(listening) -> None:
    with listening() as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        seconds = []
        for _ in range(20):
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            seconds.append(time.perf_counter() - began)
        connection.close()
    assert sorted(seconds)[10] < 0.035  # else most take 40 ms


def test_a_client_that_sends_too_much_sees_why(listening) -> None:
    with listening(body_bytes=1 << 20) as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/v1/predict", bytes(2 << 20), {"Authorization": f"Bearer {TOKEN}"})
        answered = connection.getresponse()
        assert (answered.status, answered.headers["Connection"]) == (413, "close")
        assert "more than 1 MiB" in json.loads(answered.read())["error"]
        connection.request("POST", "/v1/predict", bytes(1 << 19))  # a new connection, without the token
        assert connection.getresponse().status == 401
        connection.close()


def test_a_client_that_waits_to_be_told_is_refused_before_it_sends(listening) -> None:
    with listening(body_bytes=1000) as (port, _), socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        client.sendall(f"{head}Content-Length: 5000\r\nExpect: 100-continue\r\n\r\n".encode())
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413 ")


def test_clients_that_hang_up_leave_nothing_behind(
    listening, fitted: Homefold, files: list[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    may_go_on = threading.Event()
    asked: list[int] = []

    def predict(images, **settings):
        may_go_on.wait(10)
        asked.append(len(images))
        return fitted.predict(images, **settings)

    with listening(model=Standing(fitted, predict=predict)) as (port, service):
        head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        body = httpx.Request("POST", "http://localhost", files=parts(files[:8]))
        whole = f"{head}Content-Type: {body.headers['content-type']}\r\nContent-Length: {len(body.read())}\r\n\r\n"
        single = f"{head}Content-Length: {len(files[0])}\r\n\r\n".encode() + files[0]
        requests = [single, single, single[:-10], whole.encode() + body.read(), whole.encode() + body.read()[:-40]]
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in requests]
        for client, request in zip(clients, requests, strict=True):
            client.sendall(request)
        wait_until(lambda: service._waiting == 10 and service._held.held > 0)
        for client in clients:
            client.close()
        wait_until(lambda: service._waiting == 0 and service._held.held == 0)
        may_go_on.set()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", "/v1/predict", files[1], {"Authorization": f"Bearer {TOKEN}"})
        answered = connection.getresponse().read().decode()
        connection.close()
    (expected,) = fitted.predict([files[1]])
    assert answered == json_line({**expected.as_dict(), "abstained": False}) + "\n"
    # What was computed when they left went on; what still waited was not computed, or there would be a third batch.
    assert len(asked) <= 2
    assert asked[-1] == 1
    assert service.metrics.images["abandoned"] == 10
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answer_is_let_go(listening, files: list[bytes]) -> None:
    with listening(write_seconds=0.3) as (port, service):
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = f"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        client.sendall(request * 2000)
        wait_until(lambda: service.metrics.requests["/openapi.json", "GET", 200] > 0)
        client.settimeout(0.5)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                client.sendall(b"x")  # what was reset says so in the end
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                break
            time.sleep(0.1)
        assert time.monotonic() < deadline
        client.close()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--host", "0.0.0.0", "--no-token"], "--no-token would let every machine of the network in"),
        (["--host", "0.0.0.0"], "needs --allow-host"),
        (["--no-token", "--token-file", "x"], "contradict each other"),
        (["--token-file", "missing"], "missing: No such file"),
        (["--host", "no such host"], "no address of this machine"),
        (["--max-images", "0"], "--max-images must be at least 1"),
        (["--max-megapixels", "nan"], "--max-megapixels must be above 0"),
        (["--answer-seconds", "-1"], "--answer-seconds must be above 0"),
        (["--port", "99999"], "--port must be"),
    ],
)
def test_what_is_unsafe_or_makes_no_sense_is_refused(
    folder: Path, flags: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", str(folder), "--device", "cpu", *flags]) == 1
    assert words in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(folder), "--device", "cpu", "--port", str(port)]) == 1
    assert f"port {port}: the port is taken; choose another with --port" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(folder: Path, capsys, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith("homefold.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve", str(folder)]) == 1
    assert "pip install 'homefold[serve]'" in capsys.readouterr().err


def test_help_needs_neither_torch_nor_the_extra() -> None:
    assert COMMANDS["serve"].module == "homefold.cli.serve"
    script = (
        "import sys; sys.modules['fastapi'] = sys.modules['uvicorn'] = None\n"
        "from homefold.cli import main\n"
        "assert main(['serve', '--help']) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
