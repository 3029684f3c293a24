"""Which images gain: by off-manifold score, by confidence, and if only some are projected."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from writing import markdown

from tables.reading import (
    computed,
    plain,
    signed,
)
from tables.registry import table
from tables.rounds import STYLED


def _binned(by: str, edges: Sequence[str]) -> str:
    styled = "vae:style.blocks={0}1/{0}2," + STYLED
    tables = [
        ({(row["method"], row["by"], row["where"]): row for row in computed(file)["rows"]}, styled.format(word))
        for file, word in (("where-pacs-pairs", "layer"), ("where-digits-dg-pairs_2core", "block"))
    ]
    lines = []
    for low, high in pairwise(edges):
        where = f"{low} to {high}"
        line = [f"{low} and more" if high == "inf" else where]
        for rows, method in tables:
            row = rows["vae", by, where]
            styles = rows[method, by, where]
            line += [f"{row['images']:,}", plain(row["accuracy_before"]), signed(row["gain"]), signed(styles["gain"])]
        lines.append(line)
    head = ["images", "before", "VAE", "styles, VAE"]
    return markdown([by, *(f"PACS: {head[0]}", *head[1:]), *(f"digits: {head[0]}", *head[1:])], lines)


@table("where-score")
def where_score() -> str:
    """Gain by off-manifold score, held-out sources."""
    return _binned("off-manifold", ("0", "0.5", "0.75", "1", "1.25", "1.5", "2", "inf"))


@table("where-confidence")
def where_confidence() -> str:
    """Gain by confidence before projecting, held-out sources."""
    return _binned("confidence", ("0", "0.5", "0.7", "0.9", "0.99", "1"))


@table("where-trusted")
def where_trusted() -> str:
    """What is kept of the gain when only some images are projected, all images alike."""
    lines = []
    for by, where, label in (
        ("all", "", "all images"),
        ("trusted below off-manifold", "1", "off-manifold score below 1"),
        ("trusted below confidence", "0.9", "confidence below 0.9"),
    ):
        line = [label]
        for file, word in (
            ("where-pacs-pairs", "layer"),
            ("where-digits-dg-pairs_2core", "block"),
            ("where-pacs", "layer"),
        ):
            rows = {(row["method"], row["by"], row["where"]): row for row in computed(file)["rows"]}
            method = f"vae:style.blocks={word}1/{word}2,{STYLED}"
            row, everything = rows[method, by, where], rows[method, "all", ""]
            line += [f"{100 * row['images'] / everything['images']:.0f} %", signed(row["gain"]).replace("+0.0", "0.0")]
        lines.append(line)
    head = ["PACS, held-out: images", "gain", "digits, held-out: images", "gain", "PACS, targets: images", "gain"]
    return markdown(["projected", *head], lines)
