"""The command `homefold`: one file a command, each made from a frozen dataclass with tyro."""

from homefold.cli.app import main

__all__ = ["main"]
