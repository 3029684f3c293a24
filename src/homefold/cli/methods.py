"""`homefold methods`: what can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from inspect import getdoc
from typing import Annotated

from homefold.cli.output import print_json, result_console, result_table
from homefold.cli.parsing import JsonFlag, PluginFlag, Positional, parse
from homefold.errors import ConfigError
from homefold.methods.registry import find_method, list_methods, wrapped_by_default

__all__ = ["MethodsOptions", "run"]


@dataclass(frozen=True)
class MethodsOptions:
    """List the methods that homefold bench can run, and what each needs and touches; or describe one of them.

    A test-time method wraps another, as WRAPPER+METHOD, and a method's own settings follow its name, as do changes of
    the common settings (those of --set) for it alone:
    homefold bench --methods t3a+vae jigen:weight=0.3,ordered=0.9 vae:search.steps=100

    Example: homefold methods jigen
    """

    name: Annotated[tuple[str, ...], Positional("[NAME]")] = ()
    """Describe this method: its equation, its settings with their defaults, and where to look for better ones."""
    plugin: PluginFlag = ()
    json: JsonFlag = False


def run(arguments: Sequence[str]) -> int:
    """Print the table, or what one method is."""
    options = parse(MethodsOptions, "methods", arguments)
    if len(options.name) > 1:
        raise ConfigError(f"homefold methods describes one method at a time; got {', '.join(options.name)}.")
    if options.name:
        return _describe(options.name[0], options.json)
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


def _describe(name: str, json: bool) -> int:
    from homefold.config import HomefoldConfig
    from homefold.methods.candidates import tunable_settings
    from homefold.methods.settings import method_settings, without_changes

    method = find_method(name)
    info, now = method.info, method.settings()
    plain = without_changes(method)
    settings, about = method_settings(plain), getdoc(type(plain))
    common = [setting for setting in tunable_settings(method, HomefoldConfig()) if setting.name in method.tunables]
    if json:
        found = [{**asdict(setting), "value": now[setting.name]} for setting in settings]
        ranges = [{"name": setting.name, "search": setting.range.words} for setting in common]
        print_json({**asdict(info), "name": name, "description": about, "settings": found, "common": ranges})
        return 0
    console = result_console()
    console.print(f"{name}: {info.title} ({info.reference})\n\n{about}\n")
    if not settings:
        console.print("It has no settings of its own; what it trains with is changed by --set.")
    table = result_table("setting", "value", "default", "where to look")
    for setting in settings:
        table.add_row(setting.name, str(now[setting.name]), str(setting.default), setting.search)
    for tunable in common:
        table.add_row(tunable.name, "", "the preset's", tunable.range.words)
    if table.row_count:
        console.print(table)
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
