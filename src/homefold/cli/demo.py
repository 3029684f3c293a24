"""`homefold demo`: the whole method on the embedded dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from homefold.cli.output import print_json, result_console, result_table, show_share
from homefold.cli.parsing import Arg, DeviceFlag, JsonFlag, parse
from homefold.runtime.progress import RichReporter

__all__ = ["DemoOptions", "run"]


@dataclass(frozen=True)
class DemoOptions:
    """Train on three domains of the embedded dataset digits-mini, then answer for the fourth, which stays unseen.

    Example: homefold demo --target photo
    """

    out: Annotated[Path, Arg("FOLDER")] = Path("demo-output")
    """The folder for the model, the records and the picture."""
    target: Annotated[str, Arg("DOMAIN")] = "street"
    """The domain that stays unseen: scan, photo, print or street."""
    seed: int = 0
    """All randomness follows from it."""
    device: DeviceFlag = "auto"
    json: JsonFlag = False


def run(arguments: Sequence[str]) -> int:
    """Run the demonstration and print its table."""
    options = parse(DemoOptions, "demo", arguments)
    from homefold.evaluation.demo import run_demo  # imports torch, which --help does not need

    summary = run_demo(
        options.out, target=options.target, seed=options.seed, device=options.device, reporter=RichReporter()
    )
    if options.json:
        print_json(summary)
    else:
        _print_summary(options, summary)
    return 0


def _print_summary(options: DemoOptions, summary: dict[str, Any]) -> None:
    console = result_console()
    table = result_table("method", "accuracy", title=f"On {options.target}, which was never seen", numbers=1)
    for row in summary["table"]:
        table.add_row(row["method"], show_share(row["accuracy"]))
    console.print(table)
    console.print(f"The model, the records and the picture are in {summary['out']}.", soft_wrap=True)
    console.print("\nNext, with images of your own:")
    for line in summary["next"]:
        console.print(f"  {line}", soft_wrap=True)
