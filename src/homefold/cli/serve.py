"""`homefold serve`: a model behind HTTP, with a page to try it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from homefold.cli.output import note
from homefold.cli.parsing import Arg, DeviceFlag, Names, PluginFlag, Positional, parse, unique
from homefold.errors import ConfigError

if TYPE_CHECKING:
    from homefold.serving.access import Access

__all__ = ["ServeOptions", "run"]

_EXTRA = ("fastapi", "starlette", "uvicorn", "python_multipart")
_LAST_PORT = 65_535
_WILDCARDS = ("0.0.0.0", "::")


@dataclass(frozen=True)
class ServeOptions:
    """Serve a model to programs over HTTP, and to people on a page; needs pip install 'homefold[serve]'.

    By default only this machine can reach it, and only with the token that is printed at the start.

    Example: homefold serve model --port 8765
    """

    model: Annotated[Path, Positional("MODEL")]
    """The folder of a model."""
    data: Annotated[str | None, Arg("FOLDER")] = None
    """Labelled images to look at on the page, FOLDER/domain/class/image: what the model was fitted on, and others.
    Without them the page shows the thumbnails that fit --keep-thumbnails kept."""
    map: Annotated[Literal["pca", "umap"], Arg("LAYOUT")] = "pca"
    """How the map of --data is laid out: pca, or umap (needs pip install 'homefold[umap]')."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 is all of this machine's."""
    port: int = 8765
    """Port to listen at; 0 takes one that is free."""
    allow_host: Annotated[Names, Arg("NAME")] = ()
    """Other names that clients call this server by."""
    token_file: Annotated[Path | None, Arg("FILE")] = None
    """Take the token from FILE; else from the variable HOMEFOLD_TOKEN, else a random one is made and printed."""
    no_token: bool = False
    """Ask for no token; only where no other machine can reach the server."""
    max_body_mb: int = 64
    """Largest body of a request, in MiB."""
    max_images: int = 256
    """Most images in a request."""
    max_megapixels: float = 50.0
    """Largest image that is decoded."""
    max_waiting: int = 512
    """Most images without an answer, of all requests; further ones are told to come back."""
    answer_seconds: float = 120.0
    """Longest time for the answers to a request."""
    device: DeviceFlag = "auto"
    plugin: PluginFlag = ()


def run(arguments: Sequence[str]) -> int:
    """Load and serve, until a signal ends it."""
    options = parse(ServeOptions, "serve", arguments)
    try:
        from homefold.serving.server import Place, serve
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise ConfigError("homefold serve needs the extra 'serve': pip install 'homefold[serve]'.") from None
    # These import torch, which --help does not need.
    from homefold.cli.labelled import labelled_images
    from homefold.cli.unfinished import tidy_after_fit
    from homefold.model import Homefold
    from homefold.serving.limits import Limits
    from homefold.serving.service import Service

    limits = Limits(
        body_bytes=_at_least_one("max-body-mb", options.max_body_mb) << 20,
        images=_at_least_one("max-images", options.max_images),
        megapixels=_above_zero("max-megapixels", options.max_megapixels),
        waiting=_at_least_one("max-waiting", options.max_waiting),
        answer_seconds=_above_zero("answer-seconds", options.answer_seconds),
    )
    if not 0 <= options.port <= _LAST_PORT:
        raise ConfigError(f"--port must be from 0 to {_LAST_PORT}; got {options.port}.")
    access, is_ours = _access(options)
    model = Homefold.load(options.model, device=options.device)
    tidy_after_fit(options.model)
    explorer = labelled_images(
        options.model, model, options.data, layout=options.map, max_megapixels=options.max_megapixels
    )

    def tell(address: str) -> None:
        token = f"#token={access.token}" if access.token and is_ours else ""
        print(f"Serving {options.model} at {address}{token}", flush=True)
        note("Ctrl-C stops it, after what was accepted is answered.")

    service = Service(model, options.model.resolve().name, limits, explorer)
    serve(service, access, Place(options.host, options.port), tell)
    return 0


def _at_least_one(flag: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"--{flag} must be at least 1; got {value}.")
    return value


def _above_zero(flag: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ConfigError(f"--{flag} must be above 0 and finite; got {value:g}.")
    return value


def _access(options: ServeOptions) -> tuple[Access, bool]:
    """Who may ask, and whether the token was made here, so that it must be told."""
    from homefold.serving.access import Access, given_token, is_loopback, new_token

    hosts = unique(options.allow_host)
    is_private = is_loopback(options.host)
    if options.no_token and not is_private:
        raise ConfigError("--no-token would let every machine of the network in: leave it out, or listen at 127.0.0.1.")
    if options.no_token and options.token_file is not None:
        raise ConfigError("--no-token and --token-file contradict each other; give one of them.")
    if options.host in _WILDCARDS and not hosts:
        raise ConfigError(f"--host {options.host} needs --allow-host: the names that clients will call this server by.")
    if not is_private:
        note(
            "Other machines can reach this server, and what they send is not encrypted: put a proxy with TLS before it."
        )
    given = None if options.no_token else given_token(options.token_file)
    token = None if options.no_token else given or new_token()
    named = () if options.host in _WILDCARDS else (options.host,)
    return Access(token, (*hosts, *named)), given is None
