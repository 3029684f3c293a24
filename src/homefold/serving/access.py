"""Who may ask: the names the server goes by, the pages that may call it, and the token."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from starlette.types import Scope

from homefold.errors import ConfigError
from homefold.serving.refusal import Refusal

__all__ = ["TOKEN_VARIABLE", "Access", "given_token", "host_name", "is_loopback", "new_token"]

TOKEN_VARIABLE = "HOMEFOLD_TOKEN"
"""The environment variable that may hold the token."""

_SHORTEST_TOKEN = 16
_OPEN_TO_ALL = ("/", "/healthz", "/readyz")
_PAGE = "/page/"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Access:
    """The rules that a request must pass before anything else looks at it.

    Args:
        token: the secret that every request for more than the page must carry; None asks for none.
        hosts: other names and addresses that the server goes by than those of the loopback.
    """

    token: str | None
    hosts: tuple[str, ...] = ()

    def refusal(self, scope: Scope) -> Refusal | None:
        """Why this request gets no answer; None where it may."""
        return self._wrong_host(scope) or self._wrong_origin(scope) or self._wrong_token(scope)

    def _wrong_host(self, scope: Scope) -> Refusal | None:
        """A page elsewhere can have its own name resolve to this machine (DNS rebinding); the name gives it away."""
        given = _headers(scope, b"host")
        known = {*_LOOPBACK_NAMES, *map(host_name, self.hosts)}
        if len(given) == 1 and host_name(given[0]) in known:
            return None
        return Refusal(
            421, "this server does not go by the name in the Host header; start it with --allow-host to add that name."
        )

    def _wrong_origin(self, scope: Scope) -> Refusal | None:
        """A browser names the page that calls; only our own may."""
        origins = _headers(scope, b"origin")
        host = _headers(scope, b"host")[0]
        if all(origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}") for origin in origins):
            return None
        return Refusal(
            403, "pages of other servers may not call this one; open its own page, or call it from a program."
        )

    def _wrong_token(self, scope: Scope) -> Refusal | None:
        path = str(scope["path"])
        if self.token is None or path in _OPEN_TO_ALL or path.startswith(_PAGE):
            return None
        expected = f"Bearer {self.token}"
        given = _headers(scope, b"authorization")
        if len(given) == 1 and hmac.compare_digest(given[0].encode(), expected.encode()):
            return None
        return Refusal(
            401,
            "the token is missing or wrong; send the one the server printed as Authorization: Bearer TOKEN.",
            {"WWW-Authenticate": "Bearer"},
        )


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def host_name(host: str) -> str:
    """The name in a Host header, without its port; an address of version 6 may lack its brackets.

    >>> host_name("LocalHost:8765"), host_name("[::1]:80"), host_name("::1"), host_name("example.org.")
    ('localhost', '[::1]', '[::1]', 'example.org')
    """
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name.rstrip(".").lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; raises `ConfigError` for what is no address.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ConfigError(f"--host {host} is no address of this machine; give one, such as 127.0.0.1.") from None
    addresses = {str(address[0]).partition("%")[0] for *_, address in found}
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def given_token(file: Path | None) -> str | None:
    """The token in a file, or else in the environment; None where neither is there."""
    if file is not None:
        try:
            text, where = file.read_text(encoding="utf-8"), str(file)
        except UnicodeDecodeError:
            raise ConfigError(f"{file} is no text, so it holds no token.") from None
    elif TOKEN_VARIABLE in os.environ:
        text, where = os.environ[TOKEN_VARIABLE], f"the variable {TOKEN_VARIABLE}"
    else:
        return None
    token = text.strip()
    if len(token) < _SHORTEST_TOKEN or not all("!" <= letter <= "~" for letter in token):
        raise ConfigError(
            f"the token in {where} must be at least {_SHORTEST_TOKEN} letters, digits or signs without spaces; "
            f"python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one."
        )
    return token
