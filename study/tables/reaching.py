"""Final figures on the targets, beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping

from writing import markdown

from tables.reading import (
    DIGITS,
    PACS,
    Accuracies,
    average,
    by_seed,
    differences,
    each,
    gain,
    on_target,
    plain,
    read,
    signed,
    spread,
)
from tables.registry import table
from tables.rounds import F, preset_runs

_PAPER_PACS = {"photo": 97.15, "art_painting": 86.39, "cartoon": 81.26, "sketch": 81.79}
_PAPER_DIGITS = {"mnist": 97.99, "mnist_m": 66.52, "svhn": 71.31, "syn": 85.4}


def reached(
    rows: Mapping[str, tuple[Accuracies, Accuracies | None]], control: Accuracies, targets: Mapping[str, str]
) -> list[list[str]]:
    """One line a method: each target and the mean, its seeds, the gain over no projection and over its control."""
    lines = []
    for name, (values, same_views) in rows.items():
        cells = [spread([value for case, value in values.items() if case.target == target]) for target in targets]
        seeds = len({case.seed for case in values})
        beside = "" if same_views is None else gain(values, same_views)
        lines.append([name, str(seeds), *cells, spread(by_seed(values)), gain(values, control), beside])
    return lines


def pacs_rows() -> dict[str, tuple[Accuracies, Accuracies | None]]:
    """The final runs of the preset on PACS: each method with its control of the same views."""
    found, deep, seventh = preset_runs(), read("pacs-deep-all"), read("pacs-projections-7")
    f, views = found[F], found[f"{F}:projection.views=8"]
    styles = f"{F}:style.blocks=early,style.manifold=domains,style.weight=0.5"
    return {
        "**styles of each domain, VAE, 8 views**": (found["vae:style.manifold=domains,projection.views=8"], views),
        "8 views (no projection)": (views, None),
        "styles of each domain, VAE": (found["vae:style.manifold=domains"], f),
        "styles of each domain": (found[styles], f),
        "styles to their mean, VAE (the default)": (found["vae"], f),
        "VAE": (found["vae:style.blocks=[]"], f),
        "f, no projection": (f, None),
        "1-NN": (found["nearest:style.blocks=[]"], f),
        "nearest class mean": (found["class-means+without-projection"], f),
        "T3A°": (found["t3a+without-projection"], f),
        "T3A°, 8 views": (seventh["t3a+without-projection:projection.views=8"], views),
        "nearest class mean, 8 views": (seventh["class-means+without-projection:projection.views=8"], views),
        "f before the study": (read("before-pacs")[F], None),
        "Deep All": (deep["deep-all"], None),
        "Deep All, 8 views": (deep["deep-all:projection.views=8"], views),
    }


@table("pacs-final")
def pacs_final() -> str:
    """The preset on PACS."""
    control = preset_runs()[F]
    lines = reached(pacs_rows(), control, PACS)
    paper = [plain(_PAPER_PACS[target]) for target in PACS]
    lines.append(["the paper's full method", "", *paper, "86.65", "", ""])
    return markdown(["%", "seeds", *PACS.values(), "mean", "to no projection", "same views"], lines)


@table("digits-final")
def digits_final() -> str:
    """The preset on Digits-DG."""
    found, seventh = read("digits-dg"), read("digits-dg-projections-7")
    styles = "style.blocks=block1/block2,style.manifold=domains,style.weight=0.5"
    f, views = found[F], found[f"{F}:projection.textures=4"]
    rows: dict[str, tuple[Accuracies, Accuracies | None]] = {
        "**styles of each domain, VAE, 4 filters**": (found[f"vae:{styles},projection.textures=4"], views),
        "4 filters (no projection)": (views, None),
        "styles of each domain, VAE (the default)": (found[f"vae:{styles}"], f),
        "styles of each domain": (found[f"{F}:{styles}"], f),
        "styles to their mean, VAE": (found["vae:style.blocks=block1/block2,style.manifold=mean,style.weight=0.5"], f),
        "VAE": (found["vae"], f),
        "f, no projection": (f, None),
        "1-NN": (found["nearest"], f),
        "nearest class mean": (found["class-means+without-projection"], f),
        "T3A°": (found["t3a+without-projection"], f),
        "T3A°, 4 filters": (seventh["t3a+without-projection:projection.textures=4"], views),
        "Deep All": (found["deep-all"], None),
        "Deep All, styles of each domain, 4 filters": (found[f"deep-all:{styles},projection.textures=4"], None),
    }
    lines = reached(rows, f, DIGITS)
    lines.append(["the paper's full method", "", *(plain(_PAPER_DIGITS[target]) for target in DIGITS), "80.3", "", ""])
    return markdown(["%", "seeds", *DIGITS.values(), "mean", "to no projection", "same views"], lines)


@table("seeds-pacs")
def seeds_pacs() -> str:
    """What projection gains over no projection with the same views, by seed."""
    found = preset_runs()
    pairs = {
        "full method, more views": ("vae:style.manifold=domains,projection.views=8", f"{F}:projection.views=8"),
        "full method": ("vae", F),
    }
    lines = []
    for name, (method, control) in pairs.items():
        values = differences(found[method], found[control])
        each_seed = [{c: v for c, v in values.items() if c.seed == seed} for seed in range(6)]
        lines.append([name, *(signed(average(part)) for part in each_seed)])
    return markdown(["over the same views", *(f"seed {seed}" for seed in range(6))], lines)


@table("gap")
def gap() -> str:
    """Deep All and the full method, ours and the paper's."""
    ours, deep = preset_runs()["vae:style.manifold=domains,projection.views=8"], read("pacs-deep-all")["deep-all"]
    before = read("before-pacs")["deep-all"]
    digits, deep_digits = read("digits-dg"), read("digits-dg")["deep-all"]
    full = digits["vae:style.blocks=block1/block2,style.manifold=domains,style.weight=0.5,projection.textures=4"]
    same = {case: value for case, value in ours.items() if case.seed < 3}
    lines = [
        ["PACS, Deep All before the study", plain(average(before)), "79.30", plain(each(before, "photo"))],
        ["PACS, Deep All now, seeds 0 to 2", plain(average(deep)), "79.30", plain(each(deep, "photo"))],
        ["PACS, full method, more views, seeds 0 to 2", plain(average(same)), "86.65", plain(each(same, "photo"))],
        ["Digits-DG, Deep All now", plain(average(deep_digits)), "73.7", ""],
        ["Digits-DG, full method, more views", plain(average(full)), "80.3", ""],
    ]
    return markdown(["mean of the targets, %", "here", "the paper", "photo, here"], lines)


@table("gap-targets")
def gap_targets() -> str:
    """The full method with more views minus the paper's figure, by target."""
    ours = preset_runs()["vae:style.manifold=domains,projection.views=8"]
    large = read("pacs-batch-512")["vae:style.manifold=domains,projection.views=8"]
    lines = []
    for name, values in (("the preset, 6 seeds", ours), ("batch of 512, 120 epochs, 3 seeds", large)):
        by_target = [signed(each(values, target) - _PAPER_PACS[target]) for target in PACS]
        lines.append([name, *by_target, signed(average(values) - 86.65)])
    return markdown(["to the paper's full method", *PACS.values(), "mean"], lines)


@table("plain-network")
def plain_network() -> str:
    """The paper's digits network without batch norm, ten epochs."""
    bare = read("digits-dg-plain-network_2core", keep=lambda run: "style.blocks" in run.changes)
    normed = read("digits-dg-round-6_2core", keep=on_target)
    lines = [["`--preset paper` (metric loss alone)", *(["collapsed"] * len(DIGITS)), ""]]
    names = ["the preset's recipe, no batch norm", "… with VAE", "… Deep All", "the preset (batch norm)", "… with VAE"]
    for name, values in zip(names, (bare[F], bare["vae"], bare["deep-all"], normed[F], normed["vae"]), strict=True):
        lines.append([name, *(plain(each(values, target)) for target in DIGITS), plain(average(values))])
    return markdown(["%", *DIGITS.values(), "mean"], lines)
