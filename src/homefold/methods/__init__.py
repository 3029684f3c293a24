"""Methods that the package compares with its own."""

from homefold.methods.deep_all import DeepAll, deep_all_config

__all__ = ["DeepAll", "deep_all_config"]
