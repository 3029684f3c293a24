"""What happens at test time: the projection, styles and views, the search, and for which images it helps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

from writing import markdown

from tables.reading import (
    PACS,
    Case,
    average,
    by_seed,
    computed,
    default_searches,
    differences,
    extremes,
    gain,
    held_out,
    on_target,
    plain,
    read,
    records,
    signed,
    spread,
)
from tables.registry import table
from tables.training import F

_DOMAINS = "style.manifold=domains,style.weight=0.5"
_LAYERS, _BLOCKS = "style.blocks=layer1/layer2", "style.blocks=block1/block2"
_WHERE = ("PACS, held-out", "PACS, targets", "Digits-DG, held-out", "Digits-DG, targets")


def first_pacs() -> dict[str, dict[Case, float]]:
    """The projections of the first round on PACS."""
    return read("pacs-pairs", keep=lambda run: held_out(run) and "cross_entropy_weight" in run.changes)


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
        "styles of each domain": (f"{_LAYERS},{_DOMAINS}", f"{_BLOCKS},{_DOMAINS}"),
        "8 views; 4 filters": ("projection.views=8", "projection.textures=4"),
        "both": (
            f"style.blocks=layer1/layer2,{_DOMAINS},projection.views=8",
            f"style.blocks=block1/block2,{_DOMAINS},projection.textures=4",
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


def _controls(view: str, styles: str) -> dict[str, str]:
    t3a, means = "t3a+without-projection", "class-means+without-projection"
    return {
        "styles of each domain, VAE, more views (full method)": f"vae:{styles},{view}",
        "… without the VAE": f"without-projection:{styles},{view}",
        "T3A°, more views (keeps target features)": f"{t3a}:{view}",
        "more views": f"without-projection:{view}",
        "nearest class mean, more views": f"{means}:{view}",
        "1-NN, more views": f"nearest:{view}",
        "styles of each domain, VAE": f"vae:{styles}",
        "styles of each domain": f"without-projection:{styles}",
        "T3A°": t3a,
        "VAE": "vae",
        "nearest class mean": means,
        "1-NN": "nearest",
    }


_ON_PACS = ("projection.views=8", "style.blocks=early,style.manifold=domains")
_ON_DIGITS = ("projection.textures=4", "style.blocks=early")
_SEVENTH = (
    ("pacs-pairs-7", _ON_PACS, held_out),
    ("pacs-projections-7", _ON_PACS, on_target),
    ("digits-dg-projections-7_2core", _ON_DIGITS, held_out),
    ("digits-dg-projections-7", _ON_DIGITS, on_target),
)


@table("controls")
def controls() -> str:
    """The full method beside every control with the same views."""
    lines = []
    for name in _controls(*_ON_PACS):
        line = [name]
        for file, words, keep in _SEVENTH:
            found = read(file, keep=keep)
            line.append(gain(found[_controls(*words)[name]], found[F]))
        lines.append(line)
    head = ["to no projection", *_WHERE]
    return markdown(head, lines)


@table("controls-beside")
def controls_beside() -> str:
    """How far the full method leads each control that has the same views."""
    lines = []
    full = "styles of each domain, VAE, more views (full method)"
    for name in (
        "more views",
        "T3A°, more views (keeps target features)",
        "nearest class mean, more views",
        "1-NN, more views",
    ):
        line = [name]
        for file, words, keep in _SEVENTH:
            found = read(file, keep=keep)
            line.append(gain(found[_controls(*words)[full]], found[_controls(*words)[name]]))
        lines.append(line)
    return markdown(
        ["full method against", *_WHERE],
        lines,
    )


@table("style-variants")
def style_variants() -> str:
    """Which styles, how far and in how many blocks, held-out sources of PACS and of Digits-DG."""
    pacs = first_pacs()
    digits = read("digits-dg-filters-pairs_2core")
    rows = {
        "each domain, half the way, two blocks": f"{{2}},{_DOMAINS}",
        "… with VAE": f"vae:{{2}},{_DOMAINS}",
        "each domain, all the way, two blocks": "{2},style.manifold=domains",
        "each domain, half the way, one block": f"{{1}},{_DOMAINS}",
        "each domain, half the way, three blocks": f"{{3}},{_DOMAINS}",
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
    view, styles = _ON_DIGITS
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


def _binned(by: str, edges: Sequence[str]) -> str:
    styled = "vae:style.blocks={0}1/{0}2," + _DOMAINS
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
            method = f"vae:style.blocks={word}1/{word}2,{_DOMAINS}"
            row, everything = rows[method, by, where], rows[method, "all", ""]
            line += [f"{100 * row['images'] / everything['images']:.0f} %", signed(row["gain"]).replace("+0.0", "0.0")]
        lines.append(line)
    head = ["PACS, held-out: images", "gain", "digits, held-out: images", "gain", "PACS, targets: images", "gain"]
    return markdown(["projected", *head], lines)


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
    lines = []
    for name, method in names.items():
        line = [name]
        for file, _, keep in _SEVENTH:
            found = read(file, keep=keep)
            line.append(gain(found[method], found[F]))
        lines.append(line)
    return markdown(["to no projection", *_WHERE], lines)


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


@table("tints")
def tints() -> str:
    """Views in other tints on top of the presets with more views."""
    lines = []
    for label, (file, (view, styles), keep) in zip(_WHERE, _SEVENTH, strict=True):
        found = read(file, keep=keep)
        full = f"vae:{styles},{view}"
        lines.append(
            [
                label,
                gain(found[f"{full},projection.tints=6"], found[full]),
                gain(found[f"{F}:projection.tints=6"], found[F]),
            ]
        )
    return markdown(["six tints", "on the full method with more views", "alone"], lines)


@table("residuals")
def residuals() -> str:
    """Manifolds of each class with shared weights, and answers by their residuals."""
    shared = "vae:manifold.per=class,manifold.shared=true,projection.prior=0.03"
    lines = []
    for label, (file, _, keep) in zip(_WHERE, _SEVENTH, strict=True):
        found = read(file, keep=keep)
        lines.append(
            [label, gain(found[shared], found[F]), gain(found[f"{shared},projection.answer=residuals"], found[F])]
        )
    return markdown(["", "of each class, shared weights", "answers by residual"], lines)


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
