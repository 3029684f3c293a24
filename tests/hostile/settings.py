"""Every setting there is, given values that make no sense, by every road on which settings come in.

The settings are read from the code. None of these cases trains a network on images: what is accepted ends in a plan,
in a configuration, or in a projection of six numbers.
"""

from __future__ import annotations

import json
import shutil
import types
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from homefold import ManifoldProjector, preset_config
from homefold.config import HomefoldConfig, config_from_dict, config_to_dict
from homefold.config.search import SearchConfig
from homefold.methods import find_method, list_methods, wrapped_by_default
from homefold.methods.settings import method_settings
from hostile.campaign import ANSWER, ANY, EITHER, NO, REFUSAL, USAGE, Call, Case, Command, Scene
from hostile.damage import ODD_VALUES, put, some

PLAN = ("bench", "digits-mini", "--out", "runs", "--plan", "--preset", "quick", "--seeds", "1", "--targets", "street")
_case = partial(Case, "settings")
_MAY_HAVE_A_MEANING = ("negative", "zero", "huge")


def cases() -> list[Case]:
    """The whole table."""
    return [*_common(), *_methods(), *_projection_flags(), *_projector(), *_words(), *_unknown()]


def setting_kinds(config: type[Any], before: str = "") -> dict[str, Any]:
    """The type of every setting by its dotted name."""
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(config).items():
        found |= setting_kinds(hint, f"{before}{name}.") if is_dataclass(hint) else {f"{before}{name}": hint}
    return found


def _is_number(hint: Any) -> bool:
    members = typing.get_args(hint) if typing.get_origin(hint) is types.UnionType else (hint,)
    return bool({int, float} & set(members))


def right_answer(hint: Any, odd: str) -> frozenset[str]:
    """What a value of `ODD_VALUES` must get; where it may have a meaning, that is the setting's to say."""
    if _is_number(hint):
        return ANY if odd in _MAY_HAVE_A_MEANING else NO
    if hint is bool or typing.get_origin(hint) is Literal:
        return ANY if (hint, odd) == (bool, "true") else NO
    if typing.get_origin(hint) is tuple:
        return NO if odd == "nan" and typing.get_args(hint)[0] is not str else ANY
    return ANY if odd in ("text", "empty-text") else NO


def _typed(value: Any) -> str:
    """A value as it would be typed."""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list | bool) else str(value)


def _flag(name: str, value: Any) -> Command:
    """What is accepted goes on to the folder, which is not there."""
    return Command(("fit", "nowhere", "--out", "model", f"--{name.replace('_', '-')}={_typed(value)}"))


def _preset(name: str, value: Any) -> Call:
    return Call(lambda: preset_config("small", {name: value}).require_consistent())


def _dictionary(name: str, value: Any) -> Call:
    values = config_to_dict(preset_config("small"))
    put(values, tuple(name.split(".")), value)
    return Call(lambda: config_from_dict(HomefoldConfig, values).require_consistent())


ROADS: dict[str, Callable[[str, Any], Command | Call]] = {
    "fit": _flag,
    "bench-set": lambda name, value: Command((*PLAN, "--methods", "vae", "--set", f"{name}={_typed(value)}")),
    "library": _preset,
    "bench-method": lambda name, value: Command((*PLAN, "--methods", f"vae:{name}={_typed(value)}")),
    "library-dict": _dictionary,
}


def _common() -> list[Case]:
    """Numbers can be wrong in more ways than words."""
    found = []
    for i, (name, hint) in enumerate(setting_kinds(HomefoldConfig).items()):
        always = {odd: ODD_VALUES[odd] for odd in ("nan", "inf")} if _is_number(hint) else {}
        others = {odd: value for odd, value in ODD_VALUES.items() if odd not in always}
        for j, (odd, value) in enumerate([*always.items(), *some(others, i, 3 if always else 2)]):
            road, expected = list(ROADS)[(i + j) % len(ROADS)], right_answer(hint, odd)
            act = partial(_named, ROADS[road], name, value, expected == NO and hint is not str)
            found.append(_case(f"{name}={odd}", road, act, NO if road == "fit" else expected))
    return found


def _named(road: Callable[[str, Any], Command | Call], name: str, value: Any, refused: bool, scene: Scene) -> Any:
    """A refusal of `fit` must be that of the value, not of the folder which is not there."""
    act = road(name, value)
    return Command(act.words, mentions=name.rpartition(".")[2]) if refused and act.__class__ is Command else act


def _methods() -> list[Case]:
    """A method's own settings, as they follow its name."""
    own = [(info.name, setting.name) for info in list_methods() for setting in method_settings(find_method(info.name))]
    others = {odd: value for odd, value in ODD_VALUES.items() if odd not in ("nan", "true")}
    odd_settings = [
        (f"{name}:{setting}={_typed(value)}", ANY if odd in _MAY_HAVE_A_MEANING else NO)
        for i, (name, setting) in enumerate(own)
        for odd, value in [("nan", ODD_VALUES["nan"]), *some(others, i, 3)]
    ]
    forms = ("{0}+{0}", "{0}+nobody", "{0}:nothing=1", "{0}::")
    odd_settings += [(form.format(name), REFUSAL) for name in wrapped_by_default() for form in forms]
    return [
        _case(text, "bench-method", lambda s, t=text: Command((*PLAN, "--methods", t)), right)
        for text, right in odd_settings
    ]


def _projection_flags() -> list[Case]:
    """The search of a finished model, changed on the command line; what is accepted answers."""
    found = []
    for i, (name, hint) in enumerate(setting_kinds(SearchConfig).items()):
        road, data = (("predict", "image"), ("evaluate", "photos"))[i % 2]
        for odd in ("nan", "negative") if _is_number(hint) else ("text",):
            flag = f"--search.{name.replace('_', '-')}={_typed(ODD_VALUES[odd])}"

            def arrange(scene: Scene, road: str = road, data: str = data, flag: str = flag) -> Command:
                return Command((road, scene.model, getattr(scene, data), "--device", "cpu", flag))

            found.append(_case(f"search.{name}={odd}", road, arrange, right_answer(hint, odd)))
    return found


def _projector() -> list[Case]:
    """The parameters of the estimator; those of a quick fit otherwise."""

    def fit(name: str, value: Any, scene: Scene) -> Call:
        y = np.repeat(["a", "b"], 20)
        x = np.random.default_rng(0).normal(size=(40, 6)) + 3 * (y == "a")[:, None]
        quick = {"manifold": "nearest", "latent_dim": 2, "classifier_epochs": 2, "steps": 2, "device": "cpu"}
        return Call(lambda: ManifoldProjector(**{**quick, name: value}).fit(x, y).predict(x))

    return [
        _case(f"projector-{name}={odd}", "library", partial(fit, name, ODD_VALUES[odd]), expected)
        for name, default in ManifoldProjector().get_params().items()
        for odd in ("nan", "inf", "text", "negative", "list")
        for expected in [NO if odd in ("nan", "inf", "text") or isinstance(default, str) else EITHER]
    ]


def _words() -> list[Case]:
    return [
        _case(f"words-{name}", name.partition("-")[0], partial(_worded, words), expected)
        for name, (words, expected) in WORDS.items()
    ]


def _worded(words: tuple[str, ...], scene: Scene) -> Command:
    """The words, with copies of the scene's own where they stand in capitals."""
    shared = {"MODEL": scene.model, "PHOTOS": scene.photos, "RUNS": scene.runs}
    places = {name: str(scene.copy(path)) for name, path in shared.items() if name in words}
    places["IMAGE"] = shutil.copy(scene.image, scene.place)
    split = [word.partition("/") for word in words]
    return Command(tuple(places.get(first, first) + slash + rest for first, slash, rest in split))


USE = frozenset({USAGE})
_PREDICT = ("predict", "MODEL", "IMAGE", "--device", "cpu")
_FIT = ("fit", "PHOTOS", "--out", "model", "--preset", "small", "--device", "cpu")
_BENCH = (*PLAN, "--methods", "vae")
WORDS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "nothing": ((), USE),
    "empty": (("",), USE),
    "unknown-command": (("prdict",), USE),
    "unknown-option": (("--nothing",), USE),
    "debug-alone": (("--debug",), USE),
    "fit-nothing": (("fit",), USE),
    "fit-no-out": (("fit", "PHOTOS"), USE),
    "fit-empty-data": (("fit", "", "--out", "model"), NO),
    "fit-empty-out": (("fit", "PHOTOS", "--out", "", "--preset", "small"), NO),
    "fit-out-here": (("fit", "PHOTOS", "--out", ".", "--preset", "small"), REFUSAL),
    "fit-out-is-the-data": (("fit", "PHOTOS", "--out", "PHOTOS", "--preset", "small", "--overwrite"), REFUSAL),
    "fit-out-below-a-file": (("fit", "PHOTOS", "--out", "IMAGE/m", "--preset", "small"), REFUSAL),
    "fit-out-too-long": (("fit", "PHOTOS", "--out", "m" * 300, "--preset", "small"), REFUSAL),
    "fit-holdout-unknown": ((*_FIT, "--holdout", "nowhere"), REFUSAL),
    "fit-holdout-empty": ((*_FIT, "--holdout", ""), NO),
    "fit-holdout-all": ((*_FIT, "--holdout", "day", "dusk", "night"), REFUSAL),
    "fit-preset-unknown": (("fit", "PHOTOS", "--out", "model", "--preset", "tiny"), USE),
    "fit-preset-no-value": (("fit", "PHOTOS", "--out", "model", "--preset"), USE),
    "fit-flag-twice": ((*_FIT, "--epochs", "1", "--features.epochs", "none"), NO),
    "fit-device-meta": ((*_FIT[:-1], "meta"), REFUSAL),
    "fit-device-unknown": ((*_FIT[:-1], "toaster"), REFUSAL),
    "fit-device-far": ((*_FIT[:-1], "cuda:99"), REFUSAL),
    "fit-device-negative": ((*_FIT[:-1], "cuda:-1"), REFUSAL),
    "fit-device-empty": ((*_FIT[:-1], ""), NO),
    "fit-backbone-unknown": ((*_FIT, "--backbone", "resnet17"), REFUSAL),
    "fit-backbone-custom": ((*_FIT, "--backbone", "custom"), REFUSAL),
    "fit-weights-folder": ((*_FIT, "--backbone", "resnet18", "--weights", "PHOTOS"), REFUSAL),
    "fit-weights-image": ((*_FIT, "--backbone", "resnet18", "--weights", "IMAGE"), REFUSAL),
    "fit-weights-endless": ((*_FIT, "--backbone", "resnet18", "--weights", "/dev/zero"), REFUSAL),
    "fit-style-block-unknown": ((*_FIT, "--style.blocks", "nowhere"), REFUSAL),
    "fit-no-starts": ((*_FIT, "--search.no-encoder-start"), NO),
    "fit-tensorboard-file": ((*_FIT, "--tensorboard", "IMAGE"), REFUSAL),
    "predict-nothing": (("predict",), USE),
    "predict-no-images": (("predict", "MODEL"), NO),
    "predict-empty-image": (("predict", "MODEL", ""), NO),
    "predict-two-formats": ((*_PREDICT, "--json", "--csv"), USE),
    "predict-abstain-nan": ((*_PREDICT, "--abstain-above", "nan"), NO),
    "predict-abstain-text": ((*_PREDICT, "--abstain-above", "much"), USE),
    "predict-abstain-none": ((*_PREDICT, "--abstain-above", "None"), USE),
    "predict-abstain-negative": ((*_PREDICT, "--abstain-above", "-1"), ANY),
    "predict-abstain-unprojected": ((*_PREDICT, "--abstain-above", "1", "--no-projection"), REFUSAL),
    "predict-preset-unknown": ((*_PREDICT, "--projection-preset", "best"), USE),
    "predict-device-meta": ((*_PREDICT[:-1], "meta"), REFUSAL),
    "predict-out-folder": ((*_PREDICT, "--out", "PHOTOS"), REFUSAL),
    "predict-out-here": ((*_PREDICT, "--out", "."), REFUSAL),
    "predict-out-empty": ((*_PREDICT, "--out", ""), NO),
    "predict-out-the-image": ((*_PREDICT, "--out", "IMAGE"), REFUSAL),
    "predict-out-the-model": ((*_PREDICT, "--out", "MODEL"), REFUSAL),
    "predict-out-below-a-file": ((*_PREDICT, "--out", "IMAGE/answers"), REFUSAL),
    "evaluate-domain-unknown": (("evaluate", "MODEL", "PHOTOS", "--domain", "noon"), REFUSAL),
    "evaluate-no-data": (("evaluate", "MODEL"), USE),
    "evaluate-empty-data": (("evaluate", "MODEL", ""), NO),
    "evaluate-model-as-data": (("evaluate", "MODEL", "MODEL"), REFUSAL),
    "evaluate-other-classes": (("evaluate", "MODEL", "digits-mini", "--domain", "street"), REFUSAL),
    "info-two-models": (("info", "MODEL", "MODEL"), USE),
    "info-nothing": (("info",), USE),
    "demo-target-unknown": (("demo", "--target", "nowhere", "--out", "demo"), REFUSAL),
    "demo-seed-text": (("demo", "--seed", "one"), USE),
    "demo-device-meta": (("demo", "--device", "meta", "--out", "demo"), REFUSAL),
    "methods-unknown": (("methods", "nobody"), REFUSAL),
    "methods-two": (("methods", "vae", "gan"), REFUSAL),
    "methods-empty": (("methods", ""), NO),
    "methods-plugin-gone": (("methods", "--plugin", "gone.py"), REFUSAL),
    "methods-plugin-image": (("methods", "--plugin", "IMAGE"), REFUSAL),
    "methods-plugin-folder": (("methods", "--plugin", "PHOTOS"), REFUSAL),
    "bench-suite-unknown": (("bench", "nothing", "--out", "runs"), USE),
    "bench-fit-flag": ((*PLAN, "--features.epochs", "3"), ANSWER),
    "bench-seeds-zero": ((*PLAN[:8], "0"), REFUSAL),
    "bench-seeds-text": ((*PLAN[:8], "few"), USE),
    "bench-seeds-huge": ((*PLAN[:8], "1" * 30), ANY),
    "bench-first-seed-negative": ((*_BENCH, "--first-seed=-1"), REFUSAL),
    "bench-first-seed-huge": ((*_BENCH, "--first-seed", "1" * 30), ANY),
    "bench-jobs-zero": ((*_BENCH, "--jobs", "0"), REFUSAL),
    "bench-images-negative": ((*_BENCH, "--images-per-class=-1"), REFUSAL),
    "bench-method-unknown": ((*PLAN, "--methods", "nobody"), REFUSAL),
    "bench-method-empty": ((*PLAN, "--methods", ""), NO),
    "bench-method-plus": ((*PLAN, "--methods", "+"), REFUSAL),
    "bench-method-colon": ((*PLAN, "--methods", ":"), REFUSAL),
    "bench-method-no-own": ((*PLAN, "--methods", "vae:"), NO),
    "bench-target-unknown": ((*PLAN[:-1], "nowhere"), REFUSAL),
    "bench-target-empty": ((*PLAN[:-1], ""), NO),
    "bench-source-unknown": ((*_BENCH, "--sources", "nowhere"), REFUSAL),
    "bench-source-is-target": ((*_BENCH, "--sources", "street"), REFUSAL),
    "bench-backbone-unknown": ((*_BENCH, "--backbone", "nothing"), REFUSAL),
    "bench-weights-gone": ((*_BENCH, "--backbone", "resnet18", "--weights", "gone.pth"), REFUSAL),
    "bench-data-gone": ((*_BENCH, "--data", "nowhere"), REFUSAL),
    "bench-data-file": ((*_BENCH, "--data", "IMAGE"), REFUSAL),
    "bench-data-name-and-gone": ((*_BENCH, "--data", "pacs:nowhere"), REFUSAL),
    "bench-candidates-of-last": ((*_BENCH, "--selection", "last", "--candidates", "features.epochs=3"), REFUSAL),
    "bench-candidates-of-wrapped": ((*_BENCH, "--candidates", "coral:weight=3"), REFUSAL),
    "bench-search-negative": ((*_BENCH, "--search", "-3"), REFUSAL),
    "bench-search-huge": ((*_BENCH, "--search", "10001"), REFUSAL),
    "bench-search-odd": ((*_BENCH, "--search", "many"), USAGE),
    "bench-candidates-odd": ((*_BENCH, "--selection", "oracle", "--candidates", "features.epochs=few"), REFUSAL),
    "bench-candidates-nan": ((*_BENCH, "--selection", "oracle", "--candidates", "features.learning_rate=nan"), REFUSAL),
    "bench-candidates-unknown": ((*_BENCH, "--selection", "oracle", "--candidates", "nothing=1"), REFUSAL),
    "bench-set-no-equals": ((*_BENCH, "--set", "features.epochs"), REFUSAL),
    "bench-set-no-name": ((*_BENCH, "--set", "=3"), REFUSAL),
    "bench-set-no-value": ((*_BENCH, "--set", "features.epochs="), REFUSAL),
    "bench-set-deep": ((*_BENCH, "--set", f"features.epochs={'[' * 100_000}"), REFUSAL),
    "bench-set-5000-digits": ((*_BENCH, "--set", f"features.epochs={'9' * 5000}"), ANY),
    "bench-set-a-part": ((*_BENCH, "--set", "features=1"), REFUSAL),
    "bench-set-below-a-leaf": ((*_BENCH, "--set", "features.epochs.more=1"), REFUSAL),
    "bench-set-dots": ((*_BENCH, "--set", "..=1"), REFUSAL),
    "bench-set-twice": ((*_BENCH, "--set", "features.epochs=3", "features.epochs=4"), ANY),
    "bench-out-file": (("bench", "digits-mini", "--out", "IMAGE", *PLAN[4:], "--methods", "vae"), REFUSAL),
    "bench-out-below-a-file": (("bench", "digits-mini", "--out", "IMAGE/r", *PLAN[4:], "--methods", "vae"), EITHER),
    "bench-device-meta": ((*_BENCH, "--device", "meta"), EITHER),
    "report-nothing": (("report",), NO),
    "report-empty": (("report", ""), NO),
    "report-two-no-out": (("report", "RUNS", "RUNS"), REFUSAL),
    "report-format-unknown": (("report", "RUNS", "--format", "pdf", "--out", "r"), USE),
    "report-out-file": (("report", "RUNS", "--format", "csv", "--out", "IMAGE"), REFUSAL),
    "report-out-below-a-file": (("report", "RUNS", "--format", "csv", "--out", "IMAGE/r"), REFUSAL),
    "data-nothing": (("data",), USE),
    "data-unknown": (("data", "lst"), USE),
    "data-describe-empty": (("data", "describe", ""), NO),
    "data-describe-unknown": (("data", "describe", "pacss"), REFUSAL),
    "data-verify-nothing": (("data", "verify"), NO),
    "data-verify-three": (("data", "verify", "pacs", "PHOTOS", "PHOTOS"), NO),
    "data-verify-unknown-name": (("data", "verify", "pacss", "PHOTOS"), REFUSAL),
    "data-verify-counts-of-a-folder": (("data", "verify", "PHOTOS", "--counts-only"), REFUSAL),
    "data-verify-wrong-folder": (("data", "verify", "pacs", "PHOTOS"), REFUSAL),
    "data-verify-domain-unknown": (("data", "verify", "PHOTOS", "--domain", "noon"), REFUSAL),
    "data-get-unknown": (("data", "get", "nothing", "--to", "d"), REFUSAL),
    "data-get-not-free": (("data", "get", "pacs", "--to", "d"), REFUSAL),
    "data-cache-two": (("data", "cache", "a", "b"), REFUSAL),
    "data-cache-limit-text": (("data", "cache", "--limit", "much"), REFUSAL),
    "data-cache-limit-negative": (("data", "cache", "--limit=-1GB"), REFUSAL),
    "data-cache-limit-nan": (("data", "cache", "--limit", "nanGB"), REFUSAL),
    "data-cache-limit-inf": (("data", "cache", "--limit", "infGB"), REFUSAL),
    "data-cache-limit-empty": (("data", "cache", "--limit", ""), NO),
    "data-cache-limit-only-unit": (("data", "cache", "--limit", "GB"), REFUSAL),
    "data-cache-unknown-name": (("data", "cache", "nothing"), ANSWER),
}


def _unknown() -> list[Case]:
    """Settings that there are none of, near misses among them, on every road."""
    names = ("nothing", "features.epoch", "Features.epochs", "features", "", ".", "__class__", "a" * 5000)
    return [
        _case(f"unknown-{name[:20]}", road, lambda s, n=name, a=act: a(n, 3), NO)
        for name in names
        for road, act in ROADS.items()
        if not (road == "library-dict" and "." in name)
    ]
