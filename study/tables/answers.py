"""The questions of the study, each with its answer in a line: the figures are cells of the tables."""

from __future__ import annotations

import re

from writing import markdown

from tables.registry import TABLES, table

_CELL = re.compile(r"\{([\w-]+)\|([^|{}]+)\|([^|{}]+)\}")
ANSWERS = {
    "accuracy-pacs": (
        "What does it reach on PACS?",
        "{pacs-final|**styles of each domain, VAE, 8 views**|mean} % with more views; the same network without "
        "projection {pacs-final|f, no projection|mean}; the paper 86.65",
    ),
    "accuracy-digits": (
        "What does it reach on Digits-DG?",
        "{digits-final|**styles of each domain, VAE, 4 filters**|mean} % with more views; without projection "
        "{digits-final|f, no projection|mean}; the paper 80.3, on other images",
    ),
    "gap-to-paper": (
        "What separates it from the paper?",
        "{gap-targets|the preset, 6 seeds|mean} points on PACS; its gain over its own Deep All is not reproduced",
    ),
    "training-pacs": (
        "Which training settings help on PACS?",
        "MixStyle ({steps-pacs|MixStyle 0.5|difference}) and cross entropy "
        "({steps-pacs|cross entropy beside it|difference}), in few cases of one seed",
    ),
    "training-digits": (
        "Which help on Digits-DG?",
        "Random filters, {recipes-digits|**filters 0.5** (the preset now)|difference} points, with any loss",
    ),
    "retests": (
        "Do small leads last with new seeds?",
        "No: {third-round|style noise 0.5 instead of MixStyle|difference} became "
        "{fourth-round|style noise instead of MixStyle|difference}",
    ),
    "looking": (
        "Does looking at the targets help?",
        "No: {variants-pacs|full method, more views|† layer decay} and "
        "{variants-pacs|full method, more views|† agreement, layer decay}; the preset "
        "{variants-pacs|full method, more views|preset}",
    ),
    "training-length": (
        "Does longer training help?",
        "With a batch of 512, {length-pacs|full method, more views|gain of 512}; with 128, "
        "{length-pacs|full method, more views|gain of 128}",
    ),
    "metric-loss": (
        "What does the metric loss add to cross entropy?",
        "{metric-loss|PACS, targets, seeds 0 to 2|difference} on PACS, "
        "{metric-loss|Digits-DG, targets, seeds 0 to 4|difference} on Digits-DG, "
        "{metric-loss|PACS, trained on one source, seeds 0 to 2|difference} from one source",
    ),
    "projection": (
        "Does projecting the last feature help?",
        "Not on PACS ({controls|VAE|PACS, targets}); {controls|VAE|Digits-DG, targets} on Digits-DG",
    ),
    "styles-and-views": (
        "What helps at test time?",
        "Styles and views together: {pacs-final|**styles of each domain, VAE, 8 views**|to no projection}; "
        "{pacs-final|**styles of each domain, VAE, 8 views**|same views} of it are not the views'",
    ),
    "styles": (
        "Which styles, and how far?",
        "Half the way after two blocks: {style-variants|each domain, half the way, two blocks|PACS} on PACS, "
        "held-out sources",
    ),
    "where-it-helps": (
        "Which images gain?",
        "Unsure ones: {where-confidence|0 to 0.5|styles, VAE} below a confidence of 0.5, "
        "{where-confidence|0.99 to 1|styles, VAE} above 0.99",
    ),
    "selection": (
        "Do held-out sources choose well?",
        "Where recipes differ much: {selection-digits|chosen for each target, held-out sources|mean} % against "
        "{selection-digits|chosen for each target, source validation|mean} by source validation",
    ),
    "one-source": (
        "Does it help with one source domain?",
        "More than with several: projection gains {one-source|**all**|projection's gain on f}",
    ),
    "search": (
        "How should the search start and stop?",
        "From the encoder, a fixed number of steps; one random start to the elbow gives "
        "{search-stops-again|one random start, until the elbow, at most 300|PACS, held-out}",
    ),
    "search-steps": (
        "How much do step size and stopping matter?",
        "Hardly past the elbow: {search-stops|ε = 0|mean accuracy} %; before it {search-stops|ε = −10|mean accuracy}",
    ),
    "adapting": (
        "Do methods that adapt to the target gain more?",
        "Two of three lose on f: Tent {adapting|Tent on f|gain}, SHOT-IM {adapting|SHOT-IM on f|gain}, "
        "MEMO {adapting|MEMO on f|gain}",
    ),
    "other-methods": (
        "How do other methods compare?",
        "Tent leads on PACS ({others|Tent|to Deep All}; one seed, ten epochs), SHOT-IM on Digits-DG "
        "({others|SHOT-IM|to Deep All.1})",
    ),
    "several-networks": (
        "What do several networks give?",
        "{ensembles|the preset (seeds 3 to 5)|gain} for three times the cost",
    ),
    "t3a": (
        "Does T3A with unit-length prototypes change a conclusion?",
        "No; with the same views it has {t3a-digits|T3A, more views|mean of the targets} % on Digits-DG, the full "
        "method {t3a-digits|full method, more views|mean of the targets}",
    ),
    "keep-pretrained": (
        "How much of the pretrained weights to keep?",
        "A fifth: {share|0.2|gain} for f on held-out sources; {share-targets|f, a fifth kept|mean} on the targets, "
        "{share-targets|f, no projection|mean} without",
    ),
    "share-per-image": (
        "Does each image want its own share of them?",
        "A little: {share-per-image-targets|0.2, near images the mean of both with 0.8 (layer 9, 0.5)|mean} on the "
        "targets; one share {share-per-image-targets|share 0.2|mean}",
    ),
    "small-data": (
        "Which recipe for few images?",
        "More epochs, a lower rate: {small-targets|10, **`auto`**|mean} % where the preset has "
        "{small-targets|10, full method|mean} (ten images)",
    ),
    "small-data-recipes": (
        "Which recipes were tried for few images?",
        "All candidates, at five sizes, on held-out sources",
    ),
    "familiar-images": (
        "Which images should be projected?",
        "Those with an unfamiliar style: unseen domains keep {familiar|style distance above 75 %|unseen}, familiar "
        "ones {familiar|style distance above 75 %|familiar}",
    ),
    "temperature": (
        "Is a temperature needed?",
        "With a pretrained network: off by {temperature-pacs|mean|none} points without, "
        "{temperature-pacs|mean|held-out domains} with; not from scratch ({temperature|mean|none})",
    ),
    "check": (
        "How wrong is `homefold check`?",
        "On PACS by {check-error|pacs, 100|together}, on Digits-DG by {check-error|digits-dg, 20|together} points",
    ),
    "few-shot": (
        "Why was few-shot adaptation behind the paper?",
        "Too few steps, on samples alone: {few-shot-ways|samples alone, 20 at 0.1, constant|C of samples} %, now "
        "{few-shot-ways|source and samples, 400 at 1|mean}",
    ),
    "what-did-not-help": (
        "What did not help?",
        "33 settings, each with its figure and commit",
    ),
}


def cell(name: str, row: str, column: str) -> str:
    """One figure of a table, by its heading and the first cell of its row, or the first two with a comma between.

    A heading that stands twice is called `heading.1` the second time.
    """
    head, _, *lines = [line.strip("|").split("|") for line in TABLES[name]().splitlines()]
    found = next(line for line in lines if row in (line[0], ", ".join(line[:2])))
    name_of_column, _, nth = column.partition(".")
    places = [i for i, heading in enumerate(head) if heading == name_of_column]
    return found[places[int(nth or 0)]]


@table("answers")
def answers() -> str:
    """Every question with its answer."""
    rows = [
        [f"[{question}]({page}.md)", _CELL.sub(lambda figure: cell(*figure.groups()), answer)]
        for page, (question, answer) in ANSWERS.items()
    ]
    return markdown(["question", "answer"], rows)
