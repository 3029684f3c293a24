"""Other methods, what adapts to the target, several networks, and how well held-out sources choose."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from selection_study import by_target, common, held_out_accuracy, left_out_scores, read_of, study, summary
from writing import markdown

from homefold.evaluation.records import RunRecord
from tables.reading import (
    DIGITS,
    PACS,
    STUDY,
    Accuracies,
    average,
    by_seed,
    computed,
    gain,
    gain_on,
    plain,
    read,
    records,
    signed,
    spread,
)
from tables.registry import table
from tables.rounds import F, preset_runs


@table("adapting")
def adapting() -> str:
    """Methods that adapt to the target, on the networks of the preset's runs."""
    found, deep, preset = read("pacs-adapting"), read("pacs-deep-all"), preset_runs()
    full = preset["vae:style.manifold=domains,projection.views=8"]
    late = {case: value for case, value in full.items() if case.seed in (4, 5)}
    rows = [
        ("Tent on Deep All", found["tent"], deep["deep-all"]),
        ("SHOT-IM on Deep All", found["shot-im"], deep["deep-all"]),
        ("MEMO on Deep All", found["memo"], deep["deep-all"]),
        ("8 views on Deep All", deep["deep-all:projection.views=8"], deep["deep-all"]),
        ("Tent on f", found["tent+without-projection"], preset[F]),
        ("SHOT-IM on f", found["shot-im+without-projection"], preset[F]),
        ("MEMO on f", found["memo+without-projection"], preset[F]),
        ("full method, more views, on f", late, preset[F]),
    ]
    lines = []
    for name, values, control in rows:
        seeds = ", ".join(str(seed) for seed in sorted({case.seed for case in values}))
        lines.append([name, seeds, plain(average(values)), gain(values, control), *gain_on(values, control, PACS)])
    return markdown(["", "seeds", "mean", "gain", *PACS.values()], lines)


_OTHERS = {
    "without-projection": "f, no projection",
    "vae": "full method (before the study)",
    "ccsa": "CCSA",
    "mmd-aae": "MMD-AAE",
    "crossgrad": "CrossGrad",
    "ddaig": "DDAIG",
    "jigen": "JiGen",
    "rsc": "RSC",
    "d-sam": "D-SAM",
    "mmld": "MMLD",
    "rotation": "Rotation",
    "1-nn": "1-NN",
    "t3a": "T3A°",
    "tent": "Tent",
    "shot-im": "SHOT-IM",
    "memo": "MEMO",
    "ttt": "TTT (on Rotation)",
}


@table("others")
def others() -> str:
    """Methods of other papers with the settings of before the study."""
    pacs, digits, cost = read("before-pacs-10-epochs"), read("before-digits-dg"), records("before-cost")
    times = {run.method: run.seconds for run in cost}
    lines = [
        [
            "Deep All",
            plain(average(pacs["deep-all"])),
            "",
            spread(by_seed(digits["deep-all"])),
            "",
            _ms(times, "deep-all"),
        ]
    ]
    for method, name in _OTHERS.items():
        lines.append(
            [
                name,
                plain(average(pacs[method])),
                signed(average(pacs[method]) - average(pacs["deep-all"])),
                spread(by_seed(digits[method])),
                gain(digits[method], digits["deep-all"]),
                _ms(times, method),
            ]
        )
    return markdown(["%", "PACS", "to Deep All", "Digits-DG", "to Deep All", "ms an image"], lines)


_REACH = {
    "jigen": (96.5, 61.4, 63.7, 74.0),
    "ccsa": (95.2, 58.2, 65.5, 79.1),
    "mmd-aae": (96.5, 58.4, 65.0, 78.4),
    "crossgrad": (96.7, 61.1, 65.3, 80.2),
}
"""What the paper prints for the domains of Digits-DG."""


@table("rivals-digits")
def rivals_digits() -> str:
    """Methods by their authors' recipes on Digits-DG, beside what the paper prints for them."""
    found, ours = read("digits-dg-rivals"), read("digits-dg-small", keep=_whole)
    lines = [
        [name, *_by_domain(ours[method], seed=0)]
        for method, name in (("deep-all", "Deep All, our recipe"), ("vae", "full method"))
    ]
    older = ("crossgrad", "ddaig")  # of before they moved images in the units in which the network sees them
    lines += [
        [_OTHERS[method] + "°" * (method in older), *_by_domain(values, seed=0)]
        for method, values in sorted(found.items())
    ]
    lines += [
        [f"{_OTHERS[method]}, the paper's figures", *map(plain, values), plain(mean(values))]
        for method, values in sorted(_REACH.items())
    ]
    return markdown(["%", *DIGITS.values(), "mean"], lines)


def _whole(run: RunRecord) -> bool:
    return not run.facts.get("source_images_per_class")


def _by_domain(values: Accuracies, seed: int) -> list[str]:
    """One seed's figures, with gaps where a domain has not been run; the mean only where none is missing."""
    own = {case.target: value for case, value in values.items() if case.seed == seed}
    cells = [plain(own[target]) if target in own else "" for target in DIGITS]
    return [*cells, plain(mean(own.values())) if len(own) == len(DIGITS) else ""]


def _ms(times: Mapping[str, Mapping[str, float]], method: str) -> str:
    return f"{1000 * times[method]['inference_per_image']:.2f}" if method in times else ""


@table("ensembles")
def ensembles() -> str:
    """Probabilities of several networks averaged."""
    lines = []
    for name, file in (
        ("the preset (seeds 3 to 5)", "pacs-preset-ensembles"),
        ("batch of 512, 120 epochs", "pacs-batch-512-ensembles"),
        ("batch of 128, 120 epochs", "pacs-long-ensembles"),
        ("† layer decay", "pacs-layer-decay-ensembles"),
        ("† layer decay and style noise", "pacs-ensembles"),
        ("† agreement, layer decay", "pacs-agreement-layer-decay-ensembles"),
    ):
        rows = {row["method"]: row for row in computed(file)["rows"]}
        row = rows["vae:style.manifold=domains,projection.views=8"]
        one, together = row["mean"], row["mean_together"]
        lines.append([name, row["networks"], plain(one), plain(together), signed(together - one)])
    return markdown(["full method, more views, %", "networks", "one", "together", "gain"], lines)


@table("three-runs")
def three_runs() -> str:
    """Weights of three runs averaged, on the targets."""
    found, preset = read("pacs-runs"), preset_runs()
    names = {
        "full method, more views": "vae:style.manifold=domains,projection.views=8",
        "more views (no projection)": f"{F}:projection.views=8",
        "full method": "vae",
        "f, no projection": F,
    }
    lines = []
    for name, method in names.items():
        values = found[method]
        lines.append(
            [name, plain(average(values)), gain(values, preset[method]), *gain_on(values, preset[method], PACS)]
        )
    return markdown(["", "mean", "to single runs", *PACS.values()], lines)


def _chosen(pairs: str, targets: str, domains: Mapping[str, str], *, alike: tuple[str, str] | None = None) -> str:
    """What each rule chooses, for each target and one recipe for all."""
    files = [STUDY / "records" / f"{name}.jsonl.xz" for name in (pairs, targets)]
    left_two = read_of(files[0], "leave-two-domains-out", alike)
    left_one = read_of(files[1], "leave-one-domain-out", alike)
    truth = by_target(left_one, lambda run: run.accuracy)
    scores = {
        "held-out sources": left_out_scores(left_two),
        "source validation": by_target(left_one, held_out_accuracy),
    }
    truth = common(truth, scores.values())
    setting = max(truth, key=lambda name: sum(map(len, truth[name].values())))
    lines: dict[str, list[str]] = {}
    for rule, found in scores.items():
        by_domain = {target: study(target, truth[setting][target], found[setting][target], rule) for target in domains}
        together = summary(truth[setting], found[setting], rule)
        lines[f"rank correlation, {rule}"] = [
            *(_signed2(by_domain[target]["rank_correlation"]) for target in domains),
            _signed2(together[0]["rank_correlation"]),
        ]
        lines[f"chosen for each target, {rule}"] = [
            *(plain(100 * by_domain[target]["accuracy_of_chosen"]) for target in domains),
            plain(100 * together[0]["accuracy_of_chosen"]),
        ]
        lines[f"one recipe for all, {rule}"] = [""] * len(domains) + [plain(100 * together[1]["accuracy_of_chosen"])]
        lines["mean of all recipes"] = [
            *(plain(100 * by_domain[target]["mean_accuracy"]) for target in domains),
            plain(100 * together[0]["mean_accuracy"]),
        ]
        lines["the best for each target, by looking"] = [
            *(plain(100 * by_domain[target]["accuracy_of_best"]) for target in domains),
            plain(100 * together[0]["accuracy_of_best"]),
        ]
    order = [name for name in lines if "mean of" not in name and "the best" not in name]
    shown = [*order, "mean of all recipes", "the best for each target, by looking"]
    count = len(next(iter(truth[setting].values())))
    return markdown([f"{count} recipes", *domains.values(), "mean"], [[name, *lines[name]] for name in shown])


def _signed2(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


@table("selection-pacs")
def selection_pacs() -> str:
    """Choosing among recipes of PACS."""
    return _chosen("pacs-pairs", "pacs-targets", PACS)


@table("selection-digits")
def selection_digits() -> str:
    """Choosing among recipes of Digits-DG."""
    plain_changes = "features.augmentation.texture_probability=0 style.blocks=[]"
    return _chosen("digits-dg-pairs", "digits-dg-targets", DIGITS, alike=("", plain_changes))
