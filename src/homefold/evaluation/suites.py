"""Suites: what each table and figure needs, said once; any suite runs on any dataset that fits its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from homefold.evaluation.protocols import (
    Corruption,
    EvaluationProtocol,
    FewShot,
    LeaveOneDomainOut,
    LeaveTwoDomainsOut,
    Scarce,
    SingleSource,
)
from homefold.runtime.registry import Registry

__all__ = ["SUITES", "Suite", "Variation"]

_ALL = ("deep-all", "without-projection", "nearest", "vae", "gan")


@dataclass(frozen=True)
class Variation:
    """One way in which a suite varies a method.

    Args:
        settings: of the configuration, by dotted name.
        method: of the method's own hyper-parameters.
        facts: stand in the record.
    """

    name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    method: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A set of runs that together make a table or a figure: where not said otherwise all methods, on PACS.

    Args:
        dataset: the dataset that it is meant for.
        backbones: the paper's.
        elbow_search: search as Algorithm 1 does, from one random start to the elbow, in every preset.
        paper_settings: what the paper changes for this dataset, by dotted name.
    """

    name: str
    description: str
    dataset: str = "pacs"
    backbones: tuple[str, ...] = ("resnet18",)
    protocol: EvaluationProtocol = LeaveOneDomainOut()  # noqa: RUF009 - nothing in it changes
    methods: tuple[str, ...] = _ALL
    variations: tuple[Variation, ...] = (Variation(),)
    elbow_search: bool = False
    paper_settings: Mapping[str, Any] = field(default_factory=dict)

    def backbones_for(self, preset: str) -> tuple[str, ...]:
        """The paper's; a small one from scratch for a quick look; batch norm in the digits net unless to the letter."""
        if preset == "quick":
            return ("digits-bn",)
        return tuple("digits-bn" if name == "digits" and preset != "paper" else name for name in self.backbones)


_ABLATION = ("deep-all", "without-projection", "without-features", "vae")
_PROJECTED = ("deep-all", "without-projection", "vae")
_RIVALS = ("jigen", "rsc")  # those of the paper's figures where data are few
_RATES = (0.05, 0.01, 0.005, 0.001)
_OFFSETS = (-200, -100, -50, -20, -10, 0, 10, 20, 50, 100, 200)

_SUITES = (
    Suite(
        "pacs",
        "Every method on PACS with each of the paper's three backbones.",
        backbones=("alexnet", "resnet18", "resnet50"),
    ),
    Suite(
        "vlcs",
        "Every method on VLCS, trained on 70 % of each source.",
        "vlcs",
        ("alexnet",),
        paper_settings={"preprocessing.image_size": 256},
    ),
    Suite(
        "office-home", "Every method on Office-Home.", "office-home", paper_settings={"features.head": "office-home"}
    ),
    Suite("digits-dg", "Every method on Digits-DG.", "digits-dg", ("digits",)),
    Suite(
        "digits-mini",
        "Every method on the embedded digits: the whole evaluation without any files.",
        "digits-mini",
        ("digits-bn",),
    ),
    Suite(
        "samplers",
        "Where the projected feature comes from: VAE, GAN or the nearest source feature, beside Deep All.",
        "vlcs",
        ("alexnet",),
        methods=("deep-all", "nearest", "gan", "vae"),
        paper_settings={"preprocessing.image_size": 256},
    ),
    Suite("ablation", "What each part is worth: Deep All, without G, without f, all of it.", methods=_ABLATION),
    Suite(
        "single-source",
        "The ablation and two rivals when there is one source domain only.",
        protocol=SingleSource(),
        methods=("deep-all", *_RIVALS, *_ABLATION[1:]),
    ),
    Suite(
        "leave-two-out",
        "What leave-one-source-out selection would look at: every pair of domains left out.",
        protocol=LeaveTwoDomainsOut(),
        methods=_PROJECTED,
    ),
    Suite(
        "scarce",
        "Accuracy against the share of source images, beside two rivals.",
        protocol=Scarce(),
        methods=("deep-all", *_RIVALS, *_PROJECTED[1:]),
    ),
    Suite(
        "few-shot",
        "Adaptation to a handful of labelled target samples.",
        "digits-few-shot",
        ("digits",),
        FewShot(),
        ("deep-all", "ccsa", "fada", "m-ada", *_PROJECTED[1:]),
    ),
    Suite(
        "cifar10-c",
        "Robustness to 19 corruptions at 5 severities, and its ablation.",
        "cifar10-c",
        ("wrn-16-4",),
        Corruption(),
        ("deep-all", "m-ada", *_ABLATION[1:]),
    ),
    Suite(
        "beta",
        "Accuracy and mean n* against the iteration rate β.",
        methods=("vae",),
        variations=tuple(Variation(f"beta {rate}", {"search.rate": rate}, facts={"beta": rate}) for rate in _RATES),
        elbow_search=True,
    ),
    Suite(
        "stopping",
        "Accuracy when the search stops ε iterations after n*.",
        methods=("vae",),
        variations=tuple(
            Variation(f"epsilon {offset}", method={"stop_offset": offset}, facts={"epsilon": offset})
            for offset in _OFFSETS
        ),
        elbow_search=True,
    ),
)

SUITES: Registry[Suite] = Registry("suite", order=lambda suite: 0)
"""Every suite by name, in the order in which they were added."""

for _suite in _SUITES:
    SUITES.add(_suite.name, _suite)
