"""How f is trained: recipes on held-out source domains, new seeds for those that led, and the length of training."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import mean

from writing import markdown

from tables.reading import (
    DIGITS,
    PACS,
    Accuracies,
    average,
    by_seed,
    differences,
    gain,
    gain_on,
    held_out,
    plain,
    read,
    signed,
    spread,
)
from tables.registry import table
from tables.rounds import F, preset_runs

_AUGMENTED = "features.mix_style_probability=0.5,features.augmentation.fourier_mix_probability=0.5"
_STEPS = {
    "metric loss alone": "",
    "cross entropy beside it": "features.cross_entropy_weight=1",
    "τ 0.1 → 0.2": "features.temperature=0.2",
    "rate 0.05 → 0.1": "features.learning_rate=0.1",
    "MixStyle 0.5": "features.mix_style_probability=0.5",
    "Fourier mixing 0.5": "features.augmentation.fourier_mix_probability=0.5",
    "grey 0.1 → 0.25": "features.augmentation.grey_probability=0.25",
    "weights averaged": "features.average_from=0.5,features.average_every=20",
}
AVERAGED = _STEPS["weights averaged"]
_FILTERS = "features.augmentation.texture_probability=0.5"
_NOISE = "features.mix_style_probability=0,features.style_noise_probability=0.5"


def f(*settings: str, method: str = F) -> str:
    """A method's name with settings."""
    given = ",".join(setting for setting in settings if setting)
    return f"{method}:{given}" if given else method


BASE = list(_STEPS.values())[1:-1]


def recipe_table(
    rows: Mapping[str, Accuracies], control: Accuracies, domains: Mapping[str, str], *, cases: bool = False
) -> str:
    """What each recipe changes: the mean difference ± its error, and by domain."""
    head = ["", *(["cases"] if cases else []), "difference", *domains.values()]
    lines = []
    for name, values in rows.items():
        count = [str(len(differences(values, control)))] if cases else []
        if values is control:
            lines.append([f"{name} ({mean(control.values()):.2f} %)", *count, "0", *[""] * len(domains)])
        else:
            lines.append([name, *count, gain(values, control), *gain_on(values, control, domains)])
    return markdown(head, lines)


@table("recipes-pacs")
def recipes_pacs() -> str:
    """The first round on PACS."""
    found = read("pacs-pairs", keep=lambda run: held_out(run) and "cross_entropy_weight" not in run.changes)
    control = found[f(*BASE, AVERAGED)]
    base = {
        "base, two blocks frozen": "features.frozen_blocks=2",
        "base": "",
        "base, 20 epochs": "features.epochs=20",
        "base, layer decay 0.7": "features.layer_decay=0.7",
        "base, learned τ and bias": "features.learn_temperature=true,features.pair_bias=-2",
        "base, random filters 0.5": _FILTERS,
        "base, same-label pairs across domains × 4": "features.cross_domain_weight=4",
        "base, backbone at 0.3 of the rate": "features.backbone_rate=0.3",
        "base, pull to the pretrained weights 0.001": "features.pretrained_pull=0.001",
        "base, batch of 256": "features.batch_size=256",
        "base, hard pairs (γ = 1)": "features.hard_pairs=1",
        "base, backbone at 0.1 of the rate": "features.backbone_rate=0.1",
        "base, averaged, constant rate": f"{AVERAGED},features.schedule=constant",
    }
    rows: dict[str, Accuracies] = {"**base, weights averaged**": control}
    rows |= {name: found[f(*BASE, setting)] for name, setting in base.items()}
    rows |= {
        "base without Fourier mixing, grey 0.1": found[f(*BASE[:-2])],
        "base with grey 0.1": found[f(*BASE[:-1])],
        "base without the metric loss (Deep All)": found[f(*BASE[2:], method="deep-all")],
        "metric loss alone (before the study)": found[F],
        "Deep All (before the study)": found["deep-all"],
    }
    return recipe_table(_sorted(rows, control), control, PACS, cases=True)


def _sorted(rows: Mapping[str, Accuracies], control: Accuracies) -> dict[str, Accuracies]:
    """The best difference first."""
    return dict(sorted(rows.items(), key=lambda row: -mean(differences(row[1], control).values())))


@table("steps-pacs")
def steps_pacs() -> str:
    """From the default before the study to the recipe that won, one step after the other."""
    found = read("pacs-pairs", keep=lambda run: held_out(run) and "cross_entropy_weight" not in run.changes)
    names = list(_STEPS)
    stages = [found[f(*list(_STEPS.values())[1 : last + 1])] for last in range(len(names))]
    rows = [
        [name, str(len(differences(after, before))), gain(after, before), *gain_on(after, before, ("photo", "sketch"))]
        for name, (before, after) in zip(names[1:], pairwise(stages), strict=True)
    ]
    last, first = stages[-1], stages[0]
    total = [str(len(differences(last, first))), gain(last, first), *gain_on(last, first, ("photo", "sketch"))]
    return markdown(["step", "cases", "difference", "photo", "sketch"], [*rows, ["**all of them**", *total]])


@table("second-round")
def second_round() -> str:
    """Changes of the recipe that won, one or two seeds."""
    found = read("pacs-pairs-2")
    settings = {
        "three runs' weights averaged": "features.runs=3",
        "† layer decay 0.7, 20 epochs": "features.layer_decay=0.7,features.epochs=20",
        "† layer decay 0.7, three runs": "features.layer_decay=0.7,features.runs=3",
        "† layer decay 0.7": "features.layer_decay=0.7",
        "† layer decay 0.7, crops from 0.4": "features.layer_decay=0.7,features.augmentation.crop_min_area=0.4",
        "rate 0.05": "features.learning_rate=0.05",
        "constant rate 0.02, averaged": (
            "features.learning_rate=0.02,features.schedule=constant,features.average_from=0.3"
        ),
        "crops from 0.4 of the area": "features.augmentation.crop_min_area=0.4",
        "† layer decay 0.85": "features.layer_decay=0.85",
    }
    return _by_seed({name: found[f(setting)] for name, setting in settings.items()}, found[F])


@table("third-round")
def third_round() -> str:
    """Two additions of the literature, two seeds."""
    found = read("pacs-pairs-3") | {F: read("pacs-pairs-2")[F]}
    layers = '["stem","layer1","layer2","layer3"]'
    settings = {
        "† agreement 1, layer decay 0.7": "features.agreement_weight=1,features.layer_decay=0.7",
        "style noise 0.5 instead of MixStyle": _NOISE,
        "agreement 0.3": "features.agreement_weight=0.3",
        "agreement 1, style noise beside MixStyle": "features.agreement_weight=1,features.style_noise_probability=0.5",
        "agreement 3": "features.agreement_weight=3",
        "agreement 1": "features.agreement_weight=1",
        "MixStyle for every image": "features.mix_style_probability=1",
        "style noise beside MixStyle": "features.style_noise_probability=0.5",
        "style noise after four blocks": f"{_NOISE},features.style_noise_layers={layers}",
        "batch norm frozen, rate 0.01": "features.frozen_batch_norm=true,features.learning_rate=0.01",
        "MixStyle after three blocks": 'features.mix_style_layers=["layer1","layer2","layer3"]',
    }
    return _by_seed({name: found[f(setting)] for name, setting in settings.items()}, found[F])


def _by_seed(rows: Mapping[str, Accuracies], control: Accuracies) -> str:
    seeds = (0, 1)
    lines = []
    for name, values in rows.items():
        parts = [{case: value for case, value in values.items() if case.seed == seed} for seed in seeds]
        shown = [signed(mean(differences(part, control).values())) if part else "" for part in parts]
        lines.append([name, gain(values, control), *shown, *gain_on(values, control, PACS)])
    here = [plain(mean(value for case, value in control.items() if case.seed == seed)) for seed in seeds]
    lines.append([f"**the preset** ({mean(control.values()):.1f} %)", "0", *here, "", "", "", ""])
    return markdown(["", "difference", "seed 0", "seed 1", *PACS.values()], lines)


@table("fourth-round")
def fourth_round() -> str:
    """What had led before, with six seeds that no choice had seen."""
    found, control = read("pacs-pairs-4"), read("pacs-pairs-4")[F]
    settings = {
        "agreement 0.3, style noise instead of MixStyle": f"features.agreement_weight=0.3,{_NOISE}",
        "three runs of half the epochs": "features.runs=3,features.epochs=5",
        "agreement 0.3": "features.agreement_weight=0.3",
        "style noise instead of MixStyle": _NOISE,
    }
    rows: dict[str, Accuracies] = {name: found[f(setting)] for name, setting in settings.items()}
    return recipe_table({**rows, "**the preset**": control}, control, PACS)


@table("recipes-digits")
def recipes_digits() -> str:
    """The first round on Digits-DG."""
    found = read("digits-dg-pairs", keep=lambda run: not run.changes)
    fourier = "features.augmentation.fourier_mix_probability=0.5"
    settings = {
        "filters 0.5, 60 epochs": f"{_FILTERS},features.epochs=60",
        "filters 0.5, Fourier mixing, MixStyle, rate 0.1": (
            f"{_FILTERS},{fourier},features.mix_style_probability=0.5,features.learning_rate=0.1"
        ),
        "filters 0.5, Fourier mixing": f"{_FILTERS},{fourier}",
        "**filters 0.5** (the preset now)": _FILTERS,
        "filters 0.8": "features.augmentation.texture_probability=0.8",
        "filters 0.5, weights averaged": f"{_FILTERS},{AVERAGED}",
        "filters 0.5, MixStyle": f"{_FILTERS},features.mix_style_probability=0.5",
        "filters 0.5, crops from half the area": f"{_FILTERS},features.augmentation.crop_min_area=0.5",
        "Fourier mixing 0.5": fourier,
        "MixStyle 0.5": "features.mix_style_probability=0.5",
        "rate 0.1": "features.learning_rate=0.1",
        "60 epochs": "features.epochs=60",
        "256-dimensional feature": "features.feature_dim=256",
        "τ = 0.2": "features.temperature=0.2",
    }
    rows: dict[str, Accuracies] = {name: found[f(setting)] for name, setting in settings.items()}
    rows |= {"Deep All, filters 0.5": found[f(_FILTERS, method="deep-all")], "Deep All": found["deep-all"]}
    rows["no filters (the preset before)"] = control = found[F]
    return recipe_table(_sorted(rows, control), control, DIGITS)


@table("loss-digits")
def loss_digits() -> str:
    """Changes of the metric loss on Digits-DG, with and without random filters."""
    with_filters, without = read("digits-dg-pairs-2"), read("digits-dg-pairs-rest")
    plain_control = read("digits-dg-pairs", keep=lambda run: not run.changes)[F]
    settings = {
        "same-label pairs across domains × 4": "features.cross_domain_weight=4",
        "agreement 1": "features.agreement_weight=1",
        "balanced pairs": "features.balanced_pairs=true",
        "hard pairs (γ = 1)": "features.hard_pairs=1",
        "style noise 0.5": "features.style_noise_probability=0.5",
        "learned τ and bias ◊": "features.learn_temperature=true,features.pair_bias=-2",
        "batch of 512": "features.batch_size=512",
        "weights averaged": AVERAGED,
        "blur 0.3": "features.augmentation.blur_probability=0.3",
        "noise 0.1": "features.augmentation.noise_sigma=0.1",
        "metric loss alone, balanced, learned τ and bias": (
            "features.cross_entropy_weight=0,features.learn_temperature=true,features.pair_bias=-2,"
            "features.balanced_pairs=true"
        ),
        "cross entropy that fades out": "features.cross_entropy_until=0.5",
        "crops from half the area": "features.augmentation.crop_min_area=0.5",
    }
    lines = []
    for name, setting in settings.items():
        first, second = with_filters.get(f(setting), {}), without.get(f(setting), {})
        lines.append([name, gain(first, with_filters[F]), gain(second, plain_control)])
    return markdown(["", "with filters, 24 cases", "without, 12 cases"], lines)


@table("filters-targets")
def filters_targets() -> str:
    """Without and with random filters on the targets of Digits-DG."""
    before, now = read("before-digits-dg"), read("digits-dg")
    lines = [
        [name, spread(by_seed(before[method])), spread(by_seed(now[method])), gain(now[method], before[method])]
        for name, method in (("f", F), ("Deep All", "deep-all"))
    ]
    return markdown(["", "before the study, no filters", "now, filters", "gain"], lines)


@table("short-digits")
def short_digits() -> str:
    """Trainings of ten epochs on Digits-DG."""
    found = read("digits-dg-pairs-9_2core")
    control = read("digits-dg-round-6_2core", keep=held_out)[F]
    constant = "features.schedule=constant,"
    averaged = "features.average_from=0.3,features.average_every=20"
    settings = {
        "batch of 256, 20 epochs": "features.batch_size=256,features.epochs=20",
        "averaged, constant rate 0.05": f"{constant}{averaged}",
        "averaged, constant rate 0.02": f"{constant}features.learning_rate=0.02,{averaged}",
        "batch of 1,024": "features.batch_size=1024",
    }
    rows: dict[str, Accuracies] = {name: found[f(setting)] for name, setting in settings.items()}
    return recipe_table({**rows, "the preset": control}, control, DIGITS)


@table("batches-pacs")
def batches_pacs() -> str:
    """Batches and lengths on held-out sources of PACS."""
    old, control = read("pacs-pairs-batches"), read("pacs-pairs-2")[F]
    new, later = read("pacs-pairs-5", "pacs-pairs-6", "pacs-pairs-7"), read("pacs-pairs-4")[F]
    lines = []
    for name, setting, found, against in (
        ("128, 40", "features.epochs=40", new, later),
        ("128, 120", "features.epochs=120", new, later),
        ("128, 30", "features.epochs=30", new, later),
        ("256, 20", "features.batch_size=256,features.epochs=20", new, later),
        ("512, 40", "features.batch_size=512,features.epochs=40", new, later),
        ("1,024, 80", "features.batch_size=1024,features.epochs=80", new, later),
        ("512, 40 (first seeds)", "features.batch_size=512,features.epochs=40", old, control),
        ("512, 10", "features.batch_size=512", old, control),
        ("1,024, 10", "features.batch_size=1024", old, control),
    ):
        values = found[f(setting)]
        seeds = " and ".join(str(seed) for seed in sorted({case.seed for case in values}))
        lines.append([name, seeds, gain(values, against), *gain_on(values, against, PACS)])
    return markdown(["batch, epochs", "seeds", "difference", *PACS.values()], lines)


_LENGTH_ROWS = {
    "full method, more views": "vae:style.manifold=domains,projection.views=8",
    "more views (no projection)": "without-projection:projection.views=8",
    "full method": "vae",
    "f, no projection": F,
}


@table("length-pacs")
def length_pacs() -> str:
    """Four times the epochs on the targets of PACS, with two batches."""
    preset, large, long = preset_runs(), read("pacs-batch-512"), read("pacs-long")
    lines = []
    for name, method in _LENGTH_ROWS.items():
        here = {case: value for case, value in preset[method].items() if case.seed < 3}
        line = [name, spread(by_seed(here))]
        for found in (large[method], long[method]):
            line += [spread(by_seed(found)), gain(found, here)]
        lines.append(line)
    return markdown(["", "preset, 30", "512, 120", "gain of 512", "128, 120", "gain of 128"], lines)


@table("length-pacs-domains")
def length_pacs_domains() -> str:
    """The same by domain, without projection and with the full method."""
    preset, lines = preset_runs(), []
    for label, file in (("512, 120", "pacs-batch-512"), ("128, 120", "pacs-long")):
        for name in ("full method, more views", "f, no projection"):
            values = read(file)[_LENGTH_ROWS[name]]
            lines.append([f"{label}: {name}", *gain_on(values, preset[_LENGTH_ROWS[name]], PACS)])
    deep, before = read("pacs-long")["deep-all"], read("pacs-deep-all")["deep-all"]
    lines.append(["128, 120: Deep All (one seed)", *gain_on(deep, before, PACS)])
    return markdown(["batch, epochs", *PACS.values()], lines)


@table("length-digits")
def length_digits() -> str:
    """Four times the epochs on Digits-DG, held-out sources and targets."""
    pairs = read("digits-dg-pairs-7")
    long, short = read("digits-dg-long"), read("digits-dg-projections-7")
    rows = [
        ["held-out sources: f, 120 epochs", gain(pairs[f("features.epochs=120")], pairs[F])],
        [
            "held-out sources: f, batch of 512, 120 epochs",
            gain(pairs[f("features.batch_size=512,features.epochs=120")], pairs[F]),
        ],
    ]
    names = {
        "full method, more views": "vae:style.blocks=early,projection.textures=4",
        "more views (no projection)": "without-projection:projection.textures=4",
        "full method": "vae:style.blocks=early",
        "f, no projection": F,
        "T3A°, more views": "t3a+without-projection:projection.textures=4",
    }
    for label, method in names.items():
        reached = spread(by_seed(long[method]))
        rows.append([f"targets: {label}, 120 epochs: {reached} %", gain(long[method], short[method])])
    return markdown(["", "to 30 epochs"], rows)


@table("variants-pacs")
def variants_pacs() -> str:
    """What led on held-out sources, on the targets."""
    preset, lines = preset_runs(), []
    files = ("pacs-style-noise", "pacs-runs", "pacs-layer-decay", "pacs-agreement-layer-decay")
    for name, method in _LENGTH_ROWS.items():
        here = {case: value for case, value in preset[method].items() if case.seed < 3}
        line = [name, spread(by_seed(here))]
        for file in files:
            values = read(file)[method]
            line.append(f"{average(values):.1f}")
        lines.append(line)
    head = ["", "preset", "style noise", "three runs", "† layer decay", "† agreement, layer decay"]
    return markdown(head, lines)


@table("variants-pacs-domains")
def variants_pacs_domains() -> str:
    """The same by domain, without projection."""
    control, lines = preset_runs()[F], []
    for name, file in (
        ("style noise", "pacs-style-noise"),
        ("three runs", "pacs-runs"),
        ("† layer decay", "pacs-layer-decay"),
        ("† agreement, layer decay", "pacs-agreement-layer-decay"),
    ):
        lines.append([name, *gain_on(read(file)[F], control, PACS)])
    return markdown(["f, no projection", *PACS.values()], lines)


@table("metric-loss")
def metric_loss() -> str:
    """f beside Deep All with the same settings."""
    preset, four = preset_runs(), read("pacs-pairs-4")
    six = read("pacs-pairs-6")["deep-all"]
    projections = read("pacs-pairs", keep=lambda run: held_out(run) and "cross_entropy_weight" in run.changes)
    digits = read("digits-dg")
    digits_pairs = read("digits-dg-pairs", keep=lambda run: not run.changes)
    one = read("pacs-single-source")
    rows = [
        ("PACS, held-out sources, seed 0, 10 epochs", projections[F], projections["deep-all"], PACS),
        ("PACS, held-out sources, seeds 2 and 3, 10 epochs", four[F], six, PACS),
        ("PACS, targets, seeds 0 to 2", preset[F], read("pacs-deep-all")["deep-all"], PACS),
        ("PACS, trained on one source, seeds 0 to 2", one[F], one["deep-all"], PACS),
    ]
    lines = [[name, str(len(differences(a, b))), gain(a, b), *gain_on(a, b, shown)] for name, a, b, shown in rows]
    filters = f(_FILTERS, method="deep-all")
    digit_rows = [
        ("Digits-DG, held-out sources, filters", digits_pairs[f(_FILTERS)], digits_pairs[filters]),
        ("Digits-DG, held-out sources, no filters", digits_pairs[F], digits_pairs["deep-all"]),
        ("Digits-DG, targets, seeds 0 to 4", digits[F], digits["deep-all"]),
    ]
    lines += [[name, str(len(differences(a, b))), gain(a, b), "", "", "", ""] for name, a, b in digit_rows]
    return markdown(["f against Deep All", "cases", "difference", *PACS.values()], lines)
