"""A small model behind the whole application, in this process or behind a real socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest
from acting import TOKEN, file_of
from starlette.testclient import TestClient

from homefold import Homefold
from homefold.data import DomainDataset
from homefold.serving.access import Access
from homefold.serving.application import application
from homefold.serving.explorer import Explorer, Gallery
from homefold.serving.limits import Limits
from homefold.serving.server import Place, server_of
from homefold.serving.service import Service

Serving = Callable[..., AbstractContextManager[TestClient]]


@pytest.fixture(scope="session")
def files(few_digits: DomainDataset) -> list[bytes]:
    """64 image files of several formats and sizes, of the domain that the model never saw."""
    street = few_digits.only("street").images
    return [file_of(street[i], ("PNG", "JPEG", "WEBP")[i % 3], 16 + 5 * (i % 7)) for i in range(64)]


@pytest.fixture(scope="session")
def gallery(few_digits: DomainDataset, fitted: Homefold) -> Gallery:
    """Labelled images of all domains, as if they had been read from files."""
    paths = tuple(f"/home/somebody/{i}.png" for i in range(len(few_digits)))
    return Gallery.of(replace(few_digits, paths=paths), fitted.class_names, fitted.source_domains)


@pytest.fixture
def serving(fitted: Homefold) -> Serving:
    """Serves the model in this process; settings of `Limits`, and of `Access`, may be given."""

    @contextmanager
    def serve(
        *,
        token: str | None = TOKEN,
        hosts: tuple[str, ...] = (),
        model: object = fitted,
        explorer: Explorer | None = None,
        **limits: float,
    ) -> Iterator[TestClient]:
        service = Service(model, "digits", Limits(**limits), explorer)  # type: ignore[arg-type]
        app = application(service, Access(token, hosts))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with TestClient(
            app, base_url="http://127.0.0.1:8765", headers=headers, raise_server_exceptions=False
        ) as client:
            client.service = service  # type: ignore[attr-defined]
            yield client

    return serve


@pytest.fixture
def client(serving: Serving) -> Iterator[TestClient]:
    """The same as it is by default."""
    with serving() as found:
        yield found


@pytest.fixture
def listening(fitted: Homefold) -> Callable[..., AbstractContextManager[tuple[int, Service]]]:
    """Serves the model at a real port of the loopback: the port, and the service."""

    @contextmanager
    def listen(
        *, model: object = fitted, explorer: Explorer | None = None, **limits: float
    ) -> Iterator[tuple[int, Service]]:
        service = Service(model, "digits", Limits(**limits), explorer)  # type: ignore[arg-type]
        server = server_of(service, Access(TOKEN))
        with Place(port=0).listen() as socket:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
            thread.start()
            try:
                while not server.started:
                    time.sleep(0.01)
                yield socket.getsockname()[1], service
            finally:
                server.should_exit = True
                thread.join(30)

    return listen
