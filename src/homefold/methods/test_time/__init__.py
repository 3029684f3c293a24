"""Methods that act on a trained network when it answers."""
