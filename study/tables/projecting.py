"""Projecting the last feature: every variant, what it adds to styles and views, and one source alone."""

from __future__ import annotations

from statistics import mean

from writing import markdown

from tables.reading import (
    PACS,
    average,
    by_seed,
    differences,
    extremes,
    gain,
    held_out,
    on_target,
    plain,
    read,
    signed,
    spread,
)
from tables.registry import table
from tables.rounds import STYLED, F, across, first_pacs

_LAYERS, _BLOCKS = "style.blocks=layer1/layer2", "style.blocks=block1/block2"


@table("projection-first")
def projection_first() -> str:
    """Everything that was tried on one trained f, held-out sources of both datasets."""
    pacs = first_pacs()
    for method, values in read("pacs-pairs-rehearsal").items():
        if "rehearse" in method:
            pacs[method].update(values)
    digits = read("digits-dg-pairs", keep=lambda run: bool(run.changes))
    names = {
        "VAE, the default search": "vae",
        "… with a latent prior": "vae:projection.prior=0.03",
        "… from eight random starts": "vae:projection.encoder_start=false,projection.random_starts=8",
        "… half of the answer from the feature as it is": "vae:projection.blend=0.5",
        "… trusted below an off-manifold score of 1": "vae:projection.trust_below=1",
        "… that learned to denoise": "vae:manifold.denoise=0.5",
        "… its encoder alone": "vae:manifold.denoise=0.5,projection.steps=0",
        "… that rehearsed each source as unseen": "vae:manifold.rehearse=0.5",
        "… its encoder alone after rehearsal": "vae:manifold.rehearse=0.5,projection.steps=0",
        "… one for each domain, the nearest": "vae:manifold.per=domain",
        "… one for each class (8 cases on PACS)": "vae:manifold.per=class",
        "… of each class, answers by residual (8 cases)": "vae:manifold.per=class,projection.answer=residuals",
        "… of the backbone's output": "vae:manifold.space=backbone",
        "nearest source feature (1-NN)": "nearest",
        "nearest class mean": "class-means+without-projection",
    }
    return markdown(
        ["instead of no projection", "PACS", "Digits-DG"],
        [[name, gain(pacs.get(m, {}), pacs[F]), gain(digits.get(m, {}), digits[F])] for name, m in names.items()],
    )


@table("projection-adds")
def projection_adds() -> str:
    """What the VAE of features adds to styles and views on the targets."""
    pacs, digits = read("pacs"), read("digits-dg")
    mean_style = "style.manifold=mean,style.weight=0.5"
    rows = {
        "the image as it is": ("", ""),
        "styles to their mean": (
            f"{_LAYERS},{mean_style}",
            f"{_BLOCKS},{mean_style}",
        ),
        "styles of each domain": (f"{_LAYERS},{STYLED}", f"{_BLOCKS},{STYLED}"),
        "8 views; 4 filters": ("projection.views=8", "projection.textures=4"),
        "both": (
            f"style.blocks=layer1/layer2,{STYLED},projection.views=8",
            f"style.blocks=block1/block2,{STYLED},projection.textures=4",
        ),
    }
    lines = []
    for name, (first, second) in rows.items():
        line = [name]
        for found, setting in ((pacs, first), (digits, second)):
            without, projected = (found[f"{m}:{setting}" if setting else m] for m in (F, "vae"))
            line += [plain(average(without)), plain(average(projected))]
        lines.append(line)
    return markdown(["mean of the targets", "PACS", "with VAE", "Digits-DG", "with VAE"], lines)


@table("residuals")
def residuals() -> str:
    """Manifolds of each class with shared weights, and answers by their residuals."""
    shared = "vae:manifold.per=class,manifold.shared=true,projection.prior=0.03"
    rows = {"of each class, shared weights": shared, "answers by residual": f"{shared},projection.answer=residuals"}
    return across("to no projection", {name: lambda _, method=method: (method, F) for name, method in rows.items()})


@table("rehearsal")
def rehearsal() -> str:
    """A manifold that rehearsed each source as unseen."""
    lines = []
    for label, file, keep in (
        ("Digits-DG, held-out", "digits-dg-round-6_2core", held_out),
        ("Digits-DG, targets", "digits-dg-round-6_2core", on_target),
        ("PACS, targets", "pacs-projections-7", on_target),
    ):
        found = read(file, keep=keep)
        rehearsed = [found[f"vae:manifold.rehearse=0.5{more}"] for more in ("", ",projection.steps=0")]
        lines.append([label, gain(found["vae"], found[F]), *(gain(values, found[F]) for values in rehearsed)])
    return markdown(["", "VAE", "VAE that rehearsed", "its encoder alone"], lines)


@table("one-source")
def one_source() -> str:
    """Trained on one domain of PACS, tested on each other one."""
    found = read("pacs-single-source")
    names = {
        "Deep All": "deep-all",
        "f, no projection": F,
        "Deep All, projected": "without-features",
        "full method": "vae",
    }
    lines = []
    for source, label in PACS.items():
        line = [label]
        for method in names.values():
            line.append(spread(by_seed({c: v for c, v in found[method].items() if c.sources == (source,)})))
        gains = {c: v for c, v in differences(found["vae"], found[F]).items() if c.sources == (source,)}
        lines.append([*line, signed(mean(gains.values()))])
    together = [
        spread([mean(v for c, v in found[m].items() if c.seed == seed) for seed in (0, 1, 2)]) for m in names.values()
    ]
    lines.append(["**all**", *together, gain(found["vae"], found[F])])
    return markdown(["trained on", *names, "projection's gain on f"], lines)


@table("one-source-controls")
def one_source_controls() -> str:
    """The same with each part by itself, and controls."""
    found = read("pacs-single-source-controls")
    names = {
        "style to the source's mean": "without-projection:style.blocks=early,style.manifold=mean,style.weight=0.5",
        "… and VAE (full method)": "vae",
        "T3A° (keeps target features)": "t3a+without-projection",
        "1-NN": "nearest:style.blocks=[]",
        "VAE": "vae:style.blocks=[]",
        "nearest class mean": "class-means+without-projection",
    }
    lines = [[name, gain(found[m], found[F]), *extremes(found[m], found[F])] for name, m in names.items()]
    return markdown(["to no projection", "all", "least", "most"], lines)


@table("one-source-rivals")
def one_source_rivals() -> str:
    """RSC, JiGen and T3A from one domain of PACS, one seed, beside the same seed of the full method."""
    found = read("pacs-single-source-rivals")
    names = {
        "Deep All": "deep-all",
        "RSC": "rsc",
        "JiGen": "jigen",
        "f, no projection": F,
        "T3A on f": "t3a+without-projection",
        "full method": "vae",
    }
    lines = []
    for source, label in PACS.items():
        own = ([v for case, v in found[method].items() if case.sources == (source,)] for method in names.values())
        lines.append([label, *(plain(mean(values)) for values in own)])
    lines.append(["**all**", *(plain(mean(found[method].values())) for method in names.values())])
    return markdown(["trained on", *names], lines)
