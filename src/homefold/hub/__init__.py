"""Model folders on the Hugging Face Hub: pushed with a card, pulled at a fixed revision, and never any code."""

from __future__ import annotations

from homefold.hub.pull import Pulled, pull_model
from homefold.hub.push import Pushed, push_model

__all__ = ["Pulled", "Pushed", "pull_model", "push_model"]
