"""Methods that train a network of their own."""
