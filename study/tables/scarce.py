"""Few images, kept weights, and the later questions: T3A with unit-length prototypes, familiar images."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

from writing import markdown

from tables.reading import (
    PACS,
    Accuracies,
    accuracies,
    average,
    by_seed,
    case_of,
    computed,
    each,
    gain,
    plain,
    read,
    records,
    signed,
    spread,
)
from tables.registry import table
from tables.rounds import F


def _on_targets(values: Accuracies) -> list[str]:
    return [plain(each(values, target)) for target in PACS]


@table("share")
def share() -> str:
    """How much of the starting weights to keep, all images, held-out source domains."""
    found, rows = read("pacs-pairs-keep"), []
    for kept in ("", "0.1", "0.2", "0.3", "0.5"):
        changed = f":features.keep_pretrained={kept}" if kept else ""
        row = [kept or "0"]
        for method in (F, "vae"):
            values = found[method + changed]
            row += [plain(average(values)), _by_pair(values, found[method]) if kept else ""]
        rows.append([*row, *_on_targets(found["vae" + changed])])
    return markdown(["share kept", "f, no projection", "gain", "full method", "gain", *PACS.values()], rows)


def _by_pair(values: Accuracies, control: Accuracies) -> str:
    """The gain, whose error is over pairs of sources and domain: seeds of one are counted once."""
    return gain(_without_seeds(values), _without_seeds(control))


def _without_seeds(values: Accuracies) -> Accuracies:
    seedless = {case._replace(seed=0) for case in values}
    # One training a case: the error is over cases, as the page says.
    return {
        case._replace(sources=(*case.sources, case.target)): mean(
            value for own, value in values.items() if own[:2] == case[:2]
        )
        for case in seedless
    }


@table("frozen")
def frozen() -> str:
    """A frozen backbone on the targets."""
    rows = [
        [
            "full method" if method.startswith("vae") else "f, no projection",
            *_on_targets(values),
            spread(by_seed(values)),
        ]
        for method, values in read("pacs-freeze").items()
    ]
    return markdown(["frozen backbone", *PACS.values(), "mean"], rows)


def _recipe(method: str) -> tuple[str, dict[str, str]]:
    kind, _, settings = method.partition(":")
    words = (word.partition("=") for word in settings.split(",") if word)
    return kind, {name.removeprefix("features."): value for name, _, value in words}


def _small(name: str) -> str:
    runs = records(name)
    cases = len({case_of(run) for run in runs if run.accuracy is not None})
    found, rows = accuracies(runs), []
    for method, values in found.items():
        kind, settings = _recipe(method)
        label = {"vae": "full method", F: "f", "deep-all": "Deep All"}[kind]
        kept = "frozen" if settings.get("freeze") else settings.get("keep_pretrained", "0")
        row = [label, settings.get("epochs", "30"), settings.get("learning_rate", "0.1"), kept]
        rows.append([*row, plain(mean(values.values())), str(cases - len(values))])
    rows.sort(key=lambda row: (int(row[-1]) > 0, -float(row[-2])))
    return markdown(["", "epochs", "rate", "share kept", "accuracy", f"failed of {cases}"], rows)


@table("small-10")
def small_10() -> str:
    """Recipes for ten images a class and domain."""
    return _small("pacs-pairs-small-10")


@table("small-40")
def small_40() -> str:
    """Recipes for forty images a class and domain."""
    return _small("pacs-pairs-small-40")


@table("small-pairs")
def small_pairs() -> str:
    """Recipes for 5, 20 and 100 images a class and domain, held-out source domains."""
    runs, rows = records("pacs-pairs-small"), []
    for size in (5, 20, 100):
        found = accuracies(run for run in runs if run.facts["source_images_per_class"] == size)
        for method, values in sorted(found.items(), key=lambda item: (len(item[1]) < 12, -mean(item[1].values()))):
            kind, settings = _recipe(method)
            if kind != "vae":
                continue
            row = [str(size), settings.get("epochs", "30"), settings.get("learning_rate", "0.1")]
            without = found.get(method.replace("vae", F), {})
            alone = plain(mean(without.values())) if len(without) == 12 else ""
            complete = plain(mean(values.values())) if len(values) == 12 else f"{len(values)} of 12 ran"
            rows.append([*row, settings.get("keep_pretrained", "0"), complete, alone])
    return markdown(["images", "epochs", "rate", "share kept", "full method", "f"], rows)


_CONTROLS = {"linear-probe": "linear probe", "deep-all": "Deep All", F: "f", "vae": "full method"}
_SIZES = (5, 10, 20, 40, 100)
"""Images a class and domain."""
_TODAY = "vae:style.blocks=layer1/layer2,style.manifold=mean,style.weight=0.5"
_KEPT = "features.keep_pretrained=0.2"


def _seeds_on(values: Accuracies, asked: int) -> list[str]:
    """A mean over seeds for each target, which says where some of them collapsed, and the mean of all."""
    cells = []
    for target in PACS:
        found = [value for case, value in values.items() if case.target == target]
        cells.append(plain(mean(found)) + ("" if len(found) == asked else f" ({len(found)} of {asked})"))
    return [*cells, spread(by_seed(values)) if len(values) == 4 * asked else ""]


@table("small-targets")
def small_targets() -> str:
    """The chosen recipe of each size beside the controls, on the targets."""
    runs, rows = records("pacs-small-targets"), []
    for size in _SIZES:
        own = [run for run in runs if run.facts["source_images_per_class"] == size]
        for method, values in accuracies(own).items():
            if "look.leave_familiar" in method:
                continue
            seeds = len({run.seed for run in own if run.method == method})
            rows.append([str(size), _label(method), *_seeds_on(values, seeds)])
    every = read("pacs-auto")
    whole = {
        "linear probe": every["linear-probe"],
        "Deep All": read("pacs-deep-all")["deep-all"],
        "f": every[F],
        "full method": read("pacs")[_TODAY],
        "f, recipe of `auto`": every[f"{F}:{_KEPT}"],
        "**`auto`**": every[f"vae:{_KEPT}"],
    }
    rows += [["all", name, *_seeds_on(values, 3)] for name, values in whole.items()]
    return markdown(["images", "", *PACS.values(), "mean"], rows)


def _label(method: str) -> str:
    """Of a control, or of what the recipe of `auto` trains."""
    kind, settings = _recipe(method)
    return {F: "f, recipe of `auto`", "vae": "**`auto`**"}[kind] if settings else _CONTROLS[kind]


def _is_auto(method: str, *, leaves: bool) -> bool:
    """Whether the method is one to show: a control, f, or `auto`, which leaves familiar images as they are or not."""
    return not method.startswith("vae:") or ("look.leave_familiar" in method) == leaves


@table("small-resnet50")
def small_resnet50() -> str:
    """The recipes of ResNet-18, with ResNet-50."""
    runs, rows = records("pacs-small-resnet50"), []
    for size in (10, 40):
        found = accuracies(run for run in runs if run.facts["source_images_per_class"] == size)
        rows += [
            [str(size), _label(method), *_seeds_on(values, 3)]
            for method, values in found.items()
            if _is_auto(method, leaves=True)
        ]
    return markdown(["images", "", *PACS.values(), "mean"], rows)


@table("small-digits")
def small_digits() -> str:
    """From scratch on Digits-DG: means over targets, by size."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for size in (*_SIZES, 0):
        own = [run for run in records("digits-dg-small") if run.facts.get("source_images_per_class", 0) == size]
        for method, values in accuracies(own).items():
            if _is_auto(method, leaves=False):
                found[_label(method)][size] = spread(by_seed(values))
    rows = [[label, *(cells[size] for size in (*_SIZES, 0))] for label, cells in found.items()]
    return markdown(["", *map(str, _SIZES), "all"], rows)


@table("epochs-few")
def epochs_few() -> str:
    """f from ten images a class and domain by epochs and rate, on the targets."""
    cells: dict[str, dict[int, Accuracies]] = defaultdict(dict)
    for method, values in read("pacs-epochs-few").items():
        _, settings = _recipe(method)
        cells[settings["learning_rate"]][int(settings["epochs"])] = values
    epochs = sorted(next(iter(cells.values())))
    rows = [[rate, *(spread(by_seed(found[count])) for count in epochs)] for rate, found in cells.items()]
    return markdown(["rate", *(f"{count} epochs" for count in epochs)], rows)


@table("left-familiar")
def left_familiar() -> str:
    """The full method by the recipe of each size, projecting every image and only the unfamiliar ones."""
    rows = []
    for size in _SIZES:
        found = accuracies(run for run in records("pacs-small-targets") if run.facts["source_images_per_class"] == size)
        name = next(method for method in found if "leave_familiar" in method)
        rows.append([str(size), *_left_alone(found[name.rpartition(",")[0]], found[name])])
    every = read("pacs-auto")
    rows.append(["all", *_left_alone(every[f"vae:{_KEPT}"], every[f"vae:{_KEPT},look.leave_familiar=true"])])
    return markdown(["images", "seeds", "all projected", "familiar left alone", "difference"], rows)


def _left_alone(always: Accuracies, left: Accuracies) -> list[str]:
    shared = {case: value for case, value in always.items() if case in left}
    seeds = str(len({case.seed for case in left}))
    return [seeds, plain(average(shared)), plain(average(left)), gain(left, shared)]


@table("share-targets")
def share_targets() -> str:
    """A fifth of the pretrained weights kept, on the targets."""
    found = read("pacs-auto")
    views = "look.views=8"
    names = {
        "f, no projection": F,
        "f, a fifth kept": f"{F}:{_KEPT}",
        "full method, a fifth kept (`auto`)": f"vae:{_KEPT}",
        "more views, a fifth kept, no projection": f"{F}:{_KEPT},{views}",
        "full method, more views, a fifth kept (`thorough`)": f"vae:{_KEPT},style.manifold=domains,{views}",
        "T3A on f": f"t3a+{F}",
        "T3A on f, a fifth kept": f"t3a+{F}:{_KEPT}",
    }
    rows = [[label, *_seeds_on(found[name], 3)] for label, name in names.items()]
    return markdown(["", *PACS.values(), "mean"], rows)


@table("share-per-image")
def share_per_image() -> str:
    """Rules that give near images another share, on held-out source domains."""
    found = computed("share-per-image")
    rows = [
        [row["rule"], plain(row["mean"]), "0" if row["rule"] == "share 0.2" else _with_error(row)]
        for row in found["held_out"]
    ]
    rows.append(["the best by the other domains", plain(found["foreseen"]["mean"]), _with_error(found["foreseen"])])
    return markdown(["", "held-out sources", "to share 0.2"], rows)


def _with_error(row: dict[str, float]) -> str:
    return f"{signed(row['gain'])} ± {row['error']:.1f}"


@table("share-per-image-targets")
def share_per_image_targets() -> str:
    """The best of those rules on the targets."""
    found = computed("share-per-image")
    rows = [
        [row["rule"], *(plain(row[target]) for target in PACS), f"{plain(row['mean'])} ± {row['deviation']:.1f}"]
        for row in found["targets"]
    ]
    rows.append(["near images, %", *(f"{found['near'][target]:.0f}" for target in PACS), ""])
    return markdown(["", *PACS.values(), "mean"], rows)


@table("few-images")
def few_images() -> str:
    """Sixteen images a class and domain at 96 px on a CPU, one seed."""
    found = read("pacs-few-images_2core")
    before = next(name for name in found if "features.temperature=0.1" in name)
    names = {"f before the study": before, "f, the preset": F, "full method": "vae"}
    rows = [[label, *_on_targets(found[name]), plain(average(found[name]))] for label, name in names.items()]
    return markdown(["", *PACS.values(), "mean"], rows)


def _old_and_new(new: str, old: str, views: str, styles: str) -> str:
    t3a = "t3a+without-projection"
    names = {
        F: "f, no projection",
        t3a: "T3A",
        f"vae:{styles}": "full method",
        f"{t3a}:{styles}": "T3A on styles",
        f"{F}:{views}": "f, more views",
        f"{t3a}:{views}": "T3A, more views",
        f"vae:{styles},{views}": "full method, more views",
        f"{t3a}:{styles},{views}": "T3A on styles, more views",
    }
    now, before, rows = read(new), read(old), []
    for method, label in names.items():
        values, older = now[method], before.get(method, {})
        was = plain(average({case: older[case] for case in values})) if values.keys() <= older.keys() else ""
        rows.append([label, plain(average(values)), gain(values, now[F]) if method != F else "0", was])
    return markdown(["", "mean of the targets", "to no projection", "older T3A"], rows)


@table("t3a-pacs")
def t3a_pacs() -> str:
    """T3A with unit-length prototypes on PACS."""
    styles = "style.blocks=early,style.manifold=domains"
    return _old_and_new("pacs-t3a", "pacs-projections-7", "projection.views=8", styles)


@table("t3a-digits")
def t3a_digits() -> str:
    """T3A with unit-length prototypes on Digits-DG."""
    return _old_and_new("digits-dg-t3a", "digits-dg-projections-7", "projection.textures=4", "style.blocks=early")


@table("t3a-memory")
def t3a_memory() -> str:
    """The product's memory, on held-out sources of the embedded digits."""
    rows = [
        [
            row["way"],
            plain(row["accuracy"]),
            f"{signed(row['gain'])} ± {row['error']:.1f}" if row["gain"] else "0",
            *(signed(row[name]) for name in ("least", "most")),
            plain(row["calibration"]),
        ]
        for row in computed("memory-digits-mini")["rows"]
    ]
    return markdown(["", "mean", "to no projection", "least", "most", "calibration error"], rows)


@table("t3a-pairs")
def t3a_pairs() -> str:
    """T3A with unit-length prototypes on held-out sources of Digits-DG."""
    found = read("digits-dg-pairs-t3a")
    names = {
        "T3A on styles, filters": "t3a+without-projection:style.blocks=early,projection.textures=4",
        "T3A, filters": "t3a+without-projection:projection.textures=4",
        "full method, filters": "vae:style.blocks=early,projection.textures=4",
        "f, no projection": F,
    }
    rows = [[name, plain(average(found[m])), gain(found[m], found[F]) if m != F else "0"] for name, m in names.items()]
    return markdown(["held-out sources", "mean", "to no projection"], rows)


@table("frozen-heads")
def frozen_heads() -> str:
    """Heads on a frozen backbone, by accuracy."""
    found = sorted(computed("frozen-heads"), key=lambda row: (row["images"], -row["mean"]))
    rows = [
        [
            str(row["images"]),
            row["head"],
            *("" if row[name] is None else f"{row[name]:g}" for name in ("learning_rate", "epochs")),
            *(f"{row[name]:.1f}" for name in ("mean", "photo", "art_painting", "cartoon", "sketch")),
        ]
        for row in found
    ]
    return markdown(["images", "head", "rate", "epochs", "mean", "photo", "art", "cartoon", "sketch"], rows)


@table("temperature")
def temperature() -> str:
    """Calibration error on each unseen domain of digits-mini, by how the temperature was fitted."""
    return _temperatures("temperature-digits-mini")


@table("temperature-pacs")
def temperature_pacs() -> str:
    """The same on PACS."""
    return _temperatures("temperature-pacs")


def _temperatures(name: str) -> str:
    found = computed(name)
    names = list(found[0]["calibration_error"])
    rows = [
        [row["target"], *(f"{row['calibration_error'][name]:.1f} ({row['temperatures'][name]:g})" for name in names)]
        for row in found
    ]
    rows.append(["mean", *(f"{mean(row['calibration_error'][name] for row in found):.1f}" for name in names)])
    return markdown(["unseen domain", *names], rows)


@table("familiar")
def familiar() -> str:
    """Rules that say which images are projected."""
    return _familiar("familiar-images", "vae")


@table("familiar-scratch")
def familiar_scratch() -> str:
    """The same for networks from scratch."""
    return _familiar("familiar-images-scratch", "vae:features.epochs=250")


def _familiar(name: str, method: str) -> str:
    rows = [
        [
            row["rule"],
            *(signed(row[name]) for name in ("familiar", "worst_familiar", "unseen")),
            *(f"{row[name]:.0f} %" for name in ("familiar_moved", "unseen_moved")),
        ]
        for row in computed(name)
        if row["method"] == method
    ]
    head = ["projected", "familiar", "worst of 12", "unseen", "familiar moved", "unseen moved"]
    return markdown(head, rows)
