"""The flag that finds domains in the paths of images."""

from __future__ import annotations

from typing import Annotated

from homefold.cli.parsing import Arg

__all__ = ["DomainFromFlag"]

DomainFromFlag = Annotated[
    str,
    Arg(
        "PATTERN",
        "",
        help="Find domains in paths of images, as '{domain}/{label}/*' does.",
    ),
]
