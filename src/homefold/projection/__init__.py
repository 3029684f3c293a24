"""The inference-time projection: objective, step rules, stopping rules, starts and the engines that run them."""

from homefold.config.search import SearchConfig, search_preset
from homefold.projection.projector import Projection, chosen_engine, project
from homefold.projection.rules.objective import cosine_distance
from homefold.projection.rules.stopping import elbow_index

__all__ = [
    "Projection",
    "SearchConfig",
    "chosen_engine",
    "cosine_distance",
    "elbow_index",
    "project",
    "search_preset",
]
