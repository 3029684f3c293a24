"""Styles and views at test time, beside controls that have the same views."""

from __future__ import annotations

from collections.abc import Callable

from writing import markdown

from tables.reading import (
    extremes,
    gain,
    read,
)
from tables.registry import table
from tables.rounds import STYLED, F, Place, across, first_pacs, seventh_round


def _controls(place: Place) -> dict[str, str]:
    t3a, means = "t3a+without-projection", "class-means+without-projection"
    return {
        "styles of each domain, VAE, more views (full method)": f"vae:{place.styles},{place.views}",
        "… without the VAE": f"without-projection:{place.styles},{place.views}",
        "T3A°, more views (keeps target features)": f"{t3a}:{place.views}",
        "more views": f"without-projection:{place.views}",
        "nearest class mean, more views": f"{means}:{place.views}",
        "1-NN, more views": f"nearest:{place.views}",
        "styles of each domain, VAE": f"vae:{place.styles}",
        "styles of each domain": f"without-projection:{place.styles}",
        "T3A°": t3a,
        "VAE": "vae",
        "nearest class mean": means,
        "1-NN": "nearest",
    }


@table("controls")
def controls() -> str:
    """The full method beside every control with the same views."""
    names = _controls(seventh_round()[0])
    return across("to no projection", {name: lambda place, name=name: (_controls(place)[name], F) for name in names})


@table("controls-beside")
def controls_beside() -> str:
    """How far the full method leads each control that has the same views."""
    full, *names = (name for name in _controls(seventh_round()[0]) if "more views" in name)

    def against(name: str) -> Callable[[Place], tuple[str, str]]:
        return lambda place: (_controls(place)[full], _controls(place)[name])

    shown = sorted(names, key=lambda name: name != "more views")
    return across("full method against", {name: against(name) for name in shown})


@table("style-variants")
def style_variants() -> str:
    """Which styles, how far and in how many blocks, held-out sources of PACS and of Digits-DG."""
    pacs = first_pacs()
    digits = read("digits-dg-filters-pairs_2core")
    rows = {
        "each domain, half the way, two blocks": f"{{2}},{STYLED}",
        "… with VAE": f"vae:{{2}},{STYLED}",
        "each domain, all the way, two blocks": "{2},style.manifold=domains",
        "each domain, half the way, one block": f"{{1}},{STYLED}",
        "each domain, half the way, three blocks": f"{{3}},{STYLED}",
        "their mean, half the way, two blocks": "{2},style.manifold=mean,style.weight=0.5",
        "their mean, a quarter of the way": "{2},style.manifold=mean,style.weight=0.25",
        "their mean, three quarters of the way": "{2},style.manifold=mean,style.weight=0.75",
        "their mean, three blocks": "{3},style.manifold=mean,style.weight=0.5",
        "a VAE of styles, all the way, two blocks": "{2}",
        "a VAE of styles, all the way, three blocks": "{3}",
        "the most similar style, one block": "{1},style.manifold=nearest",
        "8 views (PACS)": "projection.views=8",
        "4 fixed filters": "projection.textures=4",
    }
    lines = []
    for name, pattern in rows.items():
        line = [name]
        for found, word in ((pacs, "layer"), (digits, "block")):
            blocks = {str(n): "style.blocks=" + "/".join(f"{word}{i}" for i in range(1, n + 1)) for n in (1, 2, 3)}
            method = pattern
            for n, block in blocks.items():
                method = method.replace(f"{{{n}}}", block)
            method = method if method.startswith("vae:") else f"{F}:{method}"
            if word == "block" and name.startswith("each domain, all"):
                method += ",style.weight=1"
            values = found.get(method, {})
            line.append(gain(values, found[F]) if len(values) == 12 else "")
        lines.append(line)
    return markdown(["styles moved to", "PACS", "Digits-DG"], lines)


@table("t3a-on-styles")
def t3a_on_styles() -> str:
    """T3A on top of styles, held-out sources of Digits-DG, seeds that were new to it."""
    found = read("digits-dg-pairs-10_2core")
    view, styles = "projection.textures=4", "style.blocks=early"
    names = {
        "T3A° on styles, filters": f"t3a+without-projection:{styles},{view}",
        "T3A°, filters": f"t3a+without-projection:{view}",
        "full method, filters": f"vae:{styles},{view}",
        "filters": f"{F}:{view}",
        "T3A° on styles": f"t3a+without-projection:{styles}",
        "full method": f"vae:{styles}",
        "T3A°": "t3a+without-projection",
    }
    lines = [[name, gain(found[m], found[F]), *extremes(found[m], found[F])] for name, m in names.items()]
    return markdown(["", "to no projection", "least", "most"], lines)


@table("fourth-projection")
def fourth_projection() -> str:
    """The projection with new seeds, held-out sources of PACS, on two features."""
    found = read("pacs-pairs-4")
    both = "features.agreement_weight=0.3,features.mix_style_probability=0,features.style_noise_probability=0.5"
    names = {
        "styles of each domain, VAE, 8 views": "vae:style.blocks=early,style.manifold=domains,projection.views=8",
        "8 views": f"{F}:projection.views=8",
        "styles of each domain, VAE": "vae:style.blocks=early,style.manifold=domains",
        "styles to their mean, VAE (the default)": "vae:style.blocks=early",
        "VAE": "vae",
    }
    lines = []
    for name, method in names.items():
        other = f"{method},{both}" if ":" in method else f"{method}:{both}"
        lines.append([name, gain(found[method], found[F]), gain(found[other], found[f"{F}:{both}"])])
    return markdown(["", "the preset's f", "f of another recipe"], lines)


@table("tints")
def tints() -> str:
    """Views in other tints on top of the presets with more views, and alone."""

    def on_top(place: Place) -> tuple[str, str]:
        full = f"vae:{place.styles},{place.views}"
        return f"{full},projection.tints=6", full

    alone = (f"{F}:projection.tints=6", F)
    return across("six tints", {"on the full method with more views": on_top, "alone": lambda _: alone})
