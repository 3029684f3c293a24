"""Ray is imported when asked for, and a sentence says where it does not fit; a cluster of its own is closed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from homefold.errors import ConfigError
from homefold.runtime.ray_cluster import import_ray, ray_cluster

_CLOSED = """
import os, subprocess, sys, psutil
from homefold.runtime.ray_cluster import ray_cluster

with ray_cluster(1) as ray:
    told = ray.get(ray.remote(lambda: os.getpid()).remote())
    kin = [psutil.Process(), *psutil.Process().children(recursive=True)]
    places = {c.laddr.ip for p in kin for c in p.net_connections("inet") if c.status == "LISTEN"}
    print(told != os.getpid(), sorted({place.removeprefix("::ffff:") for place in places}))
    environment = {**os.environ, "RAY_AUTH_TOKEN": "wrong", "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import ray; ray.init()"], env=environment, stderr=subprocess.PIPE, text=True
    )
    print(any("InvalidAuthToken" in line for line in stranger.stderr))
    stranger.kill()
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch):
    """Another Ray in the place of the real one."""

    def put(**parts: object) -> None:
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, **parts))
        for name in ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            monkeypatch.setenv(name, "x")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return put


def test_a_missing_ray_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'homefold\[ray\]'"):
        import_ray()


def test_a_ray_that_is_too_old_is_a_sentence(fake):
    fake(__version__="2.9.3")
    with pytest.raises(ConfigError, match=r"needs Ray 2\.52 or newer, and 2\.9\.3 is installed"):
        import_ray()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:6379"])
def test_an_address_that_nobody_answers_at_is_a_sentence(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match=f"No Ray cluster answers at {address}"), ray_cluster():
        pass


@pytest.mark.parametrize("address", ["auto", "ray://head:10001", "head"])
def test_an_address_of_another_kind_is_refused(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match="RAY_ADDRESS must be host:port"), ray_cluster():
        pass


def test_what_ray_refuses_with_is_told_in_one_line(fake):
    def init(**settings: object) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.55.0\n    Python: 3.12.1.")

    fake(__version__="2.60.0", init=init)
    said = r"cannot be used: Version mismatch: .* Ray: 2\.55\.0 Python: 3\.12\.1\.$"
    with pytest.raises(ConfigError, match=said), ray_cluster():
        pass


def test_a_connection_of_the_program_is_used_and_left(monkeypatch: pytest.MonkeyPatch):
    own = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "ray", own)
    with ray_cluster() as ray:
        assert ray is own  # which has no shutdown


def test_a_program_that_imported_ray_must_say_where(fake, monkeypatch: pytest.MonkeyPatch):
    fake(__version__="2.60.0")
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    with pytest.raises(ConfigError, match="imported ray before homefold"), ray_cluster():
        pass


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs pip install 'homefold[ray]'")
def test_its_own_cluster_is_reached_from_nowhere_else():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", _CLOSED], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["True ['127.0.0.1']", "True"], done.stderr


def test_the_package_never_imports_ray():
    code = "import sys, homefold, homefold.cli, homefold.runtime.ray_cluster; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
