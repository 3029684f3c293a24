"""The command `homefold`: one file a command."""

from homefold.cli.app import main

__all__ = ["main"]
