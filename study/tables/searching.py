"""How the search starts, steps and stops."""

from __future__ import annotations

from statistics import mean

from writing import markdown

from tables.reading import (
    default_searches,
    plain,
    records,
    signed,
)
from tables.registry import table
from tables.rounds import F, across


@table("search-defaults")
def search_defaults() -> str:
    """Searches and manifolds compared with the features of before the study, held-out sources of PACS."""
    found = default_searches()
    names = {
        "VAE, eight random starts, Adam, 200 steps": ("vae, KL 1e-3", "8 random, Adam, 200 steps"),
        "**VAE, encoder start, Adam, 50 steps** (the default)": ("vae, KL 1e-3", "encoder, Adam, 50 steps"),
        "VAE, encoder start, normalised steps, elbow": ("vae, KL 1e-3", "encoder, normalised, elbow"),
        "VAE, encoder alone (no steps)": ("vae, KL 1e-3", "encoder, Adam, 0 steps"),
        "convolutional VAE": ("conv-vae", "default"),
        "GAN": ("gan", "default"),
        "nearest source feature": ("nearest", "default"),
        "no projection": ("vae, KL 1e-3", "none"),
        "VAE, one random start, normalised steps, elbow (as the authors' scripts)": (
            "vae, KL 1e-3",
            "1 random, normalised, elbow (authors)",
        ),
        "VAE, one random start, Adam, 200 steps": ("vae, KL 1e-3", "1 random, Adam, 200 steps"),
        "VAE, one random start, plain gradient, elbow, 2,000 steps (Algorithm 1 as printed ◊)": (
            "vae, KL 1e-3",
            "1 random, gradient, elbow (paper, M = 2000)",
        ),
    }
    control = found["vae, KL 1e-3", "none"]
    lines = []
    for name, key in names.items():
        changes = [value - control[case] for case, value in found[key].items()]
        lines.append(
            [
                name,
                f"{mean(found[key].values()):.1f}",
                *(signed(v) for v in (mean(changes), min(changes), max(changes))),
            ]
        )
    return markdown(["", "mean of 12 cases", "to no projection", "least", "most"], lines)


@table("search-stops-again")
def search_stops_again() -> str:
    """Prior, fixed steps and elbow, from the encoder and from one random start."""
    random = "projection.encoder_start=false,projection.random_starts=1,projection.step=normalised"
    random += ",projection.rate=0.01,projection.steps=300"
    names = {
        "encoder, 50 steps (the default)": "vae",
        "encoder, until the elbow, at most 300": "vae:projection.stop=elbow,projection.steps=300",
        "encoder, 300 steps": "vae:projection.steps=300",
        "encoder, 300 steps, latent prior": "vae:projection.prior=0.03,projection.steps=300",
        "one random start, 300 steps": f"vae:{random}",
        "one random start, 300 steps, latent prior": f"vae:{random},projection.prior=0.03",
        "one random start, until the elbow, at most 300": f"vae:{random},projection.stop=elbow",
    }
    return across("to no projection", {name: lambda _, method=method: (method, F) for name, method in names.items()})


@table("search-rates")
def search_rates() -> str:
    """Step sizes of the authors' search on the targets."""
    lines = []
    runs = [run for run in records("pacs-search") if run.suite == "beta"]
    for beta in ("0.05", "0.01", "0.005", "0.001"):
        here = [run for run in runs if run.facts["variation"] == f"beta {beta}"]
        shares = [100 * run.accuracy for run in here if run.accuracy is not None]
        sketch = next(100 * run.accuracy for run in here if run.target == "sketch" and run.accuracy is not None)
        lines.append(
            [
                f"β = {beta}",
                plain(mean(shares)),
                f"{mean(run.facts['mean_iterations'] for run in here):.0f}",
                plain(sketch),
            ]
        )
    return markdown(["", "mean accuracy", "mean steps n*", "sketch"], lines)


@table("search-stops")
def search_stops() -> str:
    """Stopping before and after the elbow."""
    runs = [run for run in records("pacs-search") if run.suite == "stopping"]
    lines = []
    for offset in (-20, -10, 0, 10, 20, 50, 100, 200):
        here = [run for run in runs if run.facts["variation"] == f"epsilon {offset}"]
        shares = [100 * run.accuracy for run in here if run.accuracy is not None]
        lines.append(
            [
                f"ε = {offset}".replace("-", "−"),
                plain(mean(shares)),
                f"{mean(run.facts['mean_iterations'] for run in here):.0f}",
            ]
        )
    return markdown(["", "mean accuracy", "mean steps"], lines)
