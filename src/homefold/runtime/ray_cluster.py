"""Ray, where it is asked for: imported then and not before, and a cluster of this machine that nobody else reaches."""

from __future__ import annotations

import importlib
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any

from homefold.errors import ConfigError

__all__ = ["ADDRESS", "import_ray", "ray_cluster", "ready_ray"]

ADDRESS = "RAY_ADDRESS"
"""Ray's own variable: the cluster to connect to, as host:port of its head."""

_OLDEST = (2, 52)  # the first that can ask those who connect for a token
_INSTALL = "pip install 'homefold[ray]'"
_STORE_BYTES = 128 << 20
_LONGEST_REASON = 300
# Ray reads these when it is imported. The first keeps it on the loopback address, as it is anywhere but on Linux.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_CLOSED = {**_LOOPBACK, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": ""}
_REACHED_WITHIN_SECONDS = 5.0


def import_ray() -> Any:
    """The module `ray`; a sentence where it is missing or too old."""
    # Nothing is sent anywhere unasked.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Of a lost worker Ray prints a page among the answers; who asked for the work tells it in a sentence.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        ray: Any = importlib.import_module("ray")
        version: str = ray.__version__
    except (ImportError, AttributeError):
        raise ConfigError(f"--on ray needs the ray package: {_INSTALL}.") from None
    if _numbers(version) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ConfigError(f"--on ray needs Ray {oldest} or newer, and {version} is installed: {_INSTALL} -U.")
    return ray


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor.

    >>> _numbers("2.60.0rc1")
    (2, 60)
    """
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def ready_ray() -> Any:
    """The module `ray`, connected or about to be; a sentence where nothing can be done with it, before any work is."""
    imported = sys.modules.get("ray")
    if imported is not None and imported.is_initialized():
        return imported
    if address := os.environ.get(ADDRESS, ""):
        _require_reached(address)
    else:
        _close(already_imported=imported is not None)
    return import_ray()


@contextmanager
def ray_cluster(cpus: int | None = None) -> Iterator[Any]:
    """Inside the block `ray` is connected: to the cluster that RAY_ADDRESS names, or to a new one of this machine.

    The new one listens on the loopback address alone, asks whoever connects for a token that this process and its
    children know, has no dashboard, and ends with the block. A connection that the process had before is used and left.

    Args:
        cpus: how many the new one gives out; by default one a core.
    """
    address, ray = os.environ.get(ADDRESS, ""), ready_ray()
    if ray.is_initialized():
        yield ray
        return
    own = {"num_cpus": cpus, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    where = {"address": address} if address else {"address": "local", "_node_ip_address": "127.0.0.1", **own}
    try:
        ray.init(**where, log_to_driver=False, logging_level="CRITICAL")
    except Exception as error:  # whatever Ray raises: its kinds differ from version to version
        which = f"The Ray cluster at {address}" if address else "A Ray cluster on this machine"
        hint = " Perhaps it asks for another RAY_AUTH_TOKEN." if address and "Failed to connect" in str(error) else ""
        raise ConfigError(f"{which} cannot be used: {_reason(error)}.{hint}") from None
    try:
        yield ray
    finally:
        with suppress(Exception):  # the cluster may be gone
            ray.shutdown()


def _close(*, already_imported: bool) -> None:
    """Have Ray listen to nobody but this process and its children."""
    if already_imported and any(name not in os.environ for name in _CLOSED):
        raise ConfigError(
            f"This program imported ray before homefold could close it to other machines: call ray.init first, or set "
            f"{ADDRESS}."
        )
    for name, value in _CLOSED.items():
        os.environ.setdefault(name, value or secrets.token_hex(32))


def _require_reached(address: str) -> None:
    """Refuse an address that nobody answers at: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        raise ConfigError(f"{ADDRESS} must be host:port of a cluster's head; got {address!r}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED_WITHIN_SECONDS).close()
        if ip_address(socket.gethostbyname(host.strip("[]"))).is_loopback:
            os.environ.update(_LOOPBACK)  # else Ray looks for itself at another address of this machine
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"No Ray cluster answers at {address} ({reason}). Start one there, or unset {ADDRESS} to use this machine."
        ) from None


def _reason(error: Exception) -> str:
    """What Ray says, which may be many lines, as the rest of a sentence."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said[:_LONGEST_REASON].rstrip(".: ")
