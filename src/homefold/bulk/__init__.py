"""Answers for millions of images: cut into shards, answered by many workers, each shard written once and whole."""

from homefold.bulk.job import BulkOptions, run_bulk
from homefold.bulk.question import Question

__all__ = ["BulkOptions", "Question", "run_bulk"]
