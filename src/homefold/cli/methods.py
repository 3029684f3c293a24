"""`homefold methods`: what can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from homefold.cli.output import print_json, result_console, result_table
from homefold.cli.parsing import DebugFlag, JsonFlag, parse

__all__ = ["MethodsOptions", "run"]


@dataclass(frozen=True)
class MethodsOptions:
    """List the methods that homefold bench can run, and what each needs and touches.

    Example: homefold methods
    """

    json: JsonFlag = False
    debug: DebugFlag = False


def run(arguments: Sequence[str]) -> int:
    """Print the table."""
    options = parse(MethodsOptions, "methods", arguments)
    from homefold.methods import list_methods  # imports torch, which --help does not need

    methods = list_methods()
    if options.json:
        print_json({"methods": [asdict(method) for method in methods]})
        return 0
    table = result_table(
        "name", "year", "needs domain labels", "touches target", "stateless", "what it does", "reference"
    )
    for method in methods:
        flags = (method.needs_domain_labels, method.touches_target, method.stateless)
        words = ["yes" if flag else "no" for flag in flags]
        table.add_row(method.name, str(method.year), *words, method.summary, method.reference)
    result_console().print(table)
    return 0
