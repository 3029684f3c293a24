"""The explorer as a folder of its own: a page that opens without a server, and its points as a table."""

from homefold.serving.standalone.folder import Written, write_standalone

__all__ = ["Written", "write_standalone"]
