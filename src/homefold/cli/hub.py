"""`homefold push` and `homefold pull`: model folders on the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from homefold.cli.output import fact_table, note, print_json, result_console
from homefold.cli.parsing import Arg, JsonFlag, Positional, parse
from homefold.errors import ConfigError
from homefold.store.model_card import thumbnails_line

__all__ = ["PullOptions", "PushOptions", "run_pull", "run_push"]


@dataclass(frozen=True)
class PushOptions:
    """Put a model on the Hugging Face Hub, with a card that its search and its pages read.

    Thumbnails that fit --keep-thumbnails kept go along; push says so.

    Needs pip install 'homefold[hub]', and an account that is logged in (hf auth login, or HF_TOKEN).

    Example: homefold push model me/hospitals --license mit --evaluation night.json
    """

    model: Annotated[Path, Positional("MODEL")]
    """The folder of a model."""
    repository: Annotated[str, Positional("OWNER/NAME")]
    """The repository; one that is not there yet is made, private unless --public."""
    license: Annotated[str, Arg("NAME", "")] = ""
    """The licence of the weights as the Hub writes it, such as mit or cc-by-nc-4.0."""
    base_model: Annotated[str, Arg("OWNER/NAME", "(default: timm's, for its networks)")] = ""
    """The repository of the network that the training began with."""
    evaluation: Annotated[Path | None, Arg("FILE.json")] = None
    """What homefold evaluate --json printed: the card gets the accuracy on domains not seen in training."""
    branch: Annotated[str, Arg("NAME")] = "main"
    """Where the commit goes."""
    public: bool = False
    """Let everybody see a repository that is made."""
    json: JsonFlag = False


@dataclass(frozen=True)
class PullOptions:
    """Bring a model from the Hugging Face Hub. Files other than JSON, safetensors and Markdown are refused.

    Needs pip install 'homefold[hub]'.

    Example: homefold pull me/hospitals --out model --revision 5f0c1d7
    """

    repository: Annotated[str, Positional("OWNER/NAME")]
    """The repository."""
    out: Annotated[Path, Arg("MODEL")]
    """The folder to write the model to."""
    revision: Annotated[str, Arg("REVISION")] = "main"
    """A commit, which is the same model for ever, or a branch or tag as it is now."""
    overwrite: bool = False
    """Replace the model that is at MODEL, once the new one is complete."""
    json: JsonFlag = False


def run_push(arguments: Sequence[str]) -> int:
    """Push and say where it went."""
    options = parse(PushOptions, "push", arguments)
    # These import torch, which --help does not need.
    from homefold.hub.card import measured_in
    from homefold.hub.push import push_model
    from homefold.store.model_folder import read_model_folder

    _, description = read_model_folder(options.model)
    if kept := thumbnails_line(description["measured"]):
        note(f"{kept}. They go to {options.repository} too.")
    pushed = push_model(
        options.model,
        options.repository,
        branch=options.branch,
        public=options.public,
        licence=options.license,
        base_model=options.base_model,
        measured=() if options.evaluation is None else measured_in(options.evaluation),
    )
    if options.json:
        print_json(asdict(pushed))
        return 0
    facts = {"Pushed": pushed.url, "Revision": pushed.revision, "Files": ", ".join(pushed.files)}
    if kept:
        facts["Thumbnails"] = "went along: whoever sees the repository sees these training images"
    facts["Again"] = f"homefold pull {pushed.repository} --revision {pushed.revision} --out MODEL"
    result_console().print(fact_table(facts))
    return 0


def run_pull(arguments: Sequence[str]) -> int:
    """Pull and say what came."""
    options = parse(PullOptions, "pull", arguments)
    from homefold.hub.pull import pull_model
    from homefold.store.model_folder import holds_model

    if holds_model(options.out) and not options.overwrite:
        raise ConfigError(
            f"{options.out} holds a model already; choose another --out, or add --overwrite to replace it."
        )
    pulled = pull_model(options.repository, options.out, revision=options.revision)
    if options.json:
        print_json({**asdict(pulled), "folder": str(pulled.folder)})
        return 0
    facts = {"Model": str(pulled.folder), "From": pulled.repository, "Revision": pulled.revision}
    result_console().print(fact_table(facts))
    return 0
