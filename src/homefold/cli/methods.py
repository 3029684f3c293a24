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

    A test-time method wraps another, as WRAPPER+METHOD: homefold bench --methods t3a+vae.

    Example: homefold methods
    """

    json: JsonFlag = False
    debug: DebugFlag = False


def run(arguments: Sequence[str]) -> int:
    """Print the table."""
    options = parse(MethodsOptions, "methods", arguments)
    from homefold.methods import list_methods, wrapped_by_default  # imports torch, which --help does not need

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
    console = result_console()
    console.print(table)
    console.print(_about_wrapping(wrapped_by_default()))
    return 0


def _about_wrapping(defaults: dict[str, str]) -> str:
    """How to put a test-time method on top of another."""
    by_base: dict[str, list[str]] = {}
    for name, base in defaults.items():
        by_base.setdefault(base, []).append(name)
    alone = "; ".join(f"{', '.join(names)}: on {base}" for base, names in by_base.items())
    return (
        f"Test-time methods answer with the network of another method, which is trained first. Alone they take a "
        f"default ({alone}); any other is named after a plus, as in t3a+vae."
    )
