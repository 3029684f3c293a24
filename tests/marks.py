"""The marks that keep a test out of `make fast`; pyproject.toml says what each means."""

NOT_FAST = ("slow", "gpu", "browser", "real_data", "hostile")
