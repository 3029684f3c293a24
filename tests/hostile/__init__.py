"""Inputs that nobody should give, each with the kind of answer it must get; `make hostile` runs all of them."""
