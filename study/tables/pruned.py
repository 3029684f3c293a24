"""Settings that were taken out of the product, each with what it gave, and comparisons of searches."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from statistics import mean
from typing import Any

from writing import markdown

from tables.reading import STUDY, Accuracies, default_searches, gain, held_out, read, signed
from tables.registry import table
from tables.rounds import F, first_pacs
from tables.training import AVERAGED, BASE, f

_MEAN = "style.manifold=mean,style.weight=0.5"


@cache
def searched_targets() -> dict[str, dict[str, float]]:
    """Accuracy in percent by search and target, with the features of before the study."""
    path = STUDY.parent / "results" / "h200" / "engine_agreement.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["engine"] == "fused/high":
            found[row["search"]][row["target"]] = 100 * row["accuracy_on_all"]
    return found


def beside(search: str, control: str) -> list[float]:
    """The differences of one search to another by target, the least first."""
    found = searched_targets()
    return sorted(value - found[control][target] for target, value in found[search].items())


@table("search-targets")
def search_targets() -> str:
    """Searches compared on all images of eight targets, features of before the study."""
    lines = []
    for name, search, control in (
        ("one random start, elbow (authors) against the default", "authors", "default"),
        ("eight starts, a race after 20 of 100 steps, against eight starts", "8 starts, race", "8 starts"),
        ("plateau rule against the default", "plateau", "default"),
    ):
        found = beside(search, control)
        below = sum(value < 0 for value in found)
        lines.append(
            [
                name,
                *(f"{v:+.2f}".replace("-", "−") for v in (mean(found), found[0], found[-1])),
                f"{below} of {len(found)}",
            ]
        )
    return markdown(["", "mean", "least", "most", "targets that lose"], lines)


@table("pruned")
def pruned() -> str:
    """The settings that are gone: what each gave on held-out sources, and the commit that took it out."""
    first, third, fourth = read("pacs-pairs", keep=held_out), read("pacs-pairs-3"), read("pacs-pairs-4")
    second, digits, rest = read("pacs-pairs-2"), read("digits-dg-pairs-2"), read("digits-dg-pairs-rest")
    sixth = read("digits-dg-round-6_2core", keep=held_out)
    averaged = first[f(*BASE, AVERAGED)]
    noise = "features.mix_style_probability=0,features.style_noise_probability=0.5"
    learned = "features.learn_temperature=true,features.pair_bias=-2"

    def of_base(setting: str) -> str:
        return gain(first[f(*BASE, setting)], averaged)

    def of_digits(setting: str) -> str:
        return gain(digits[f(setting)], digits[F])

    training = [
        (
            "learn_temperature`, `pair_bias",
            "τ and a bias of the pairs learned",
            of_base(learned),
            gain(sixth[f(learned)], sixth[F]),
        ),
        ("balanced_pairs", "same-label and other pairs weigh alike", "", of_digits("features.balanced_pairs=true")),
        (
            "cross_domain_weight",
            "same-label pairs across domains × 4",
            of_base("features.cross_domain_weight=4"),
            of_digits("features.cross_domain_weight=4"),
        ),
        ("hard_pairs", "hard pairs weigh more", of_base("features.hard_pairs=1"), of_digits("features.hard_pairs=1")),
        (
            "cross_entropy_until",
            "cross entropy fades out by half of the training ◊",
            "",
            gain(
                rest[f("features.cross_entropy_until=0.5")],
                read("digits-dg-pairs", keep=lambda run: not run.changes)[F],
            ),
        ),
        (
            "agreement_weight`, `agreement_temperature",
            "answers to two views drawn together",
            gain(fourth[f("features.agreement_weight=0.3")], fourth[F]),
            of_digits("features.agreement_weight=1"),
        ),
        (
            "style_noise_probability`, `style_noise_layers",
            "styles moved at random, on PACS instead of MixStyle",
            gain(fourth[f(noise)], fourth[F]),
            of_digits("features.style_noise_probability=0.5"),
        ),
        ("backbone_rate", "backbone at 0.3 of the rate", of_base("features.backbone_rate=0.3"), ""),
        ("layer_decay", "rate falls by 0.7 a block", gain(second[f("features.layer_decay=0.7")], second[F]), ""),
        ("frozen_blocks", "first two blocks frozen", of_base("features.frozen_blocks=2"), ""),
        (
            "frozen_batch_norm",
            "batch-norm statistics frozen, rate 0.01",
            gain(third[f("features.frozen_batch_norm=true,features.learning_rate=0.01")], second[F]),
            "",
        ),
        ("pretrained_pull", "pull to the pretrained weights", of_base("features.pretrained_pull=0.001"), ""),
    ]
    lines = [[f"`features.{name}`", what, pacs, digit, "516fe5b"] for name, what, pacs, digit in training]
    return markdown(["setting", "what it did", "PACS", "Digits-DG", "removed in"], lines + _of_projection())


def _of_projection() -> list[list[str]]:
    pacs, digits = first_pacs(), read("digits-dg-pairs", keep=lambda run: bool(run.changes))
    seventh = {
        "PACS": (read("pacs-pairs-7"), "vae:style.blocks=early,style.manifold=domains,projection.views=8"),
        "Digits-DG": (
            read("digits-dg-projections-7_2core", keep=held_out),
            "vae:style.blocks=early,projection.textures=4",
        ),
    }
    round_six = read("digits-dg-round-6_2core", keep=held_out)
    searches = default_searches()
    plateau, usual = searches["vae, KL 1e-3", "encoder, plateau"], searches["vae, KL 1e-3", "encoder, Adam, 50 steps"]
    race = beside("8 starts, race", "8 starts")

    def of_vae(setting: str) -> tuple[str, str]:
        method = f"vae:{setting}"
        first: Accuracies = pacs.get(method, {})
        second: Accuracies = digits.get(method, {})
        return gain(first, pacs["vae"]), gain(second, digits["vae"])

    tints = [gain(found[f"{full},projection.tints=6"], found[full]) for found, full in seventh.values()]
    rehearsed = gain(round_six["vae:manifold.rehearse=0.5"], round_six["vae"])
    early = "style.blocks=layer1/layer2"
    moved = gain(pacs[f"{F}:{early}"], pacs[f"{F}:{early},{_MEAN}"])
    nearest = gain(
        pacs[f"{F}:style.blocks=layer1,style.manifold=nearest"], pacs[f"{F}:style.blocks=layer1,style.manifold=mean"]
    )
    faster = signed(mean(plateau[case] - usual[case] for case in plateau))
    rows = [
        ("`manifold.space`", "manifold of the backbone's output", *of_vae("manifold.space=backbone"), "c1a284c"),
        ("`manifold.per`", "a manifold for each class", *of_vae("manifold.per=class"), "5dda14f"),
        (
            "`manifold.shared`",
            "the same with shared weights, and a prior",
            *of_vae("manifold.per=class,manifold.shared=true,projection.prior=0.03"),
            "5dda14f",
        ),
        (
            "`projection.component`",
            "a manifold for each domain, answers averaged",
            *of_vae("manifold.per=domain,projection.component=average"),
            "5dda14f",
        ),
        (
            "`projection.answer`, `temperature`",
            "answers by the residuals of the classes' manifolds",
            *of_vae("manifold.per=class,projection.answer=residuals"),
            "5dda14f",
        ),
        ("`manifold.denoise`", "an encoder that learned to denoise", *of_vae("manifold.denoise=0.5"), "54161b6"),
        (
            "`manifold.rehearse`",
            "each source rehearsed as unseen",
            of_vae("manifold.rehearse=0.5")[0],
            rehearsed,
            "92b8bed",
        ),
        ("`classifier.train_on`", "C trained on reconstructions too", "not kept", "not kept", "86c65d5"),
        ("`projection.prior`", "a latent prior in the search", *of_vae("projection.prior=0.03"), "24681d5"),
        (
            "`projection.trust_below`",
            "projected below a score of 1 only",
            *of_vae("projection.trust_below=1"),
            "21f3807",
        ),
        ("`projection.blend`", "half of the answer without projection", *of_vae("projection.blend=0.5"), "21f3807"),
        ("`projection.tints`", "six tinted views on top of more views", *tints, "9da4118"),
        (
            "`projection.stop`=plateau, `patience`, `tolerance`",
            "stop where the loss no longer falls",
            faster,
            "",
            "b137f98",
        ),
        (
            "`projection.race`",
            "the best of eight starts goes on alone ‡",
            signed(mean(value for value in race)),
            "",
            "8bb5d36",
        ),
        ("`style.manifold`=vae, `latent_dim`, `prior`", "a VAE of styles instead of their mean", moved, "", "ac0a3ec"),
        ("`style.manifold`=nearest", "the most similar style instead of the mean", nearest, "", "ac0a3ec"),
    ]
    return [list(row) for row in rows]
