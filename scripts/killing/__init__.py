"""The campaign behind `scripts/kills`: what is killed, when, and how its result is judged."""
