"""Tables of the protocols: leave-one-domain-out, few-shot, single source, scarce data, corruption."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import replace

from homefold.report.grid import lay_out
from homefold.report.names import shown_name
from homefold.report.runs import Run
from homefold.report.selecting import setting_of
from homefold.report.tables.captions import make_table, title_of
from homefold.report.tables.group import TableGroup, numeric, order_rows, order_targets, target_grid
from homefold.report.tables.published import plain_target
from homefold.report.tables.rows import make_rows
from homefold.report.tables.table import Table

__all__ = ["few_shot_tables", "scarce_tables", "severity_tables", "single_source_tables", "target_tables"]


def target_tables(group: TableGroup) -> list[Table]:
    """Methods against targets: the main tables, the samplers and the ablation."""
    published = group.published()
    rows = make_rows(target_grid(group.runs, published), published, label=lambda row: shown_name(row[0]))
    return [make_table(group, title_of(group), "Method", rows, published)]


def few_shot_tables(group: TableGroup) -> list[Table]:
    """Methods and labelled target samples a class against routes source->target."""
    published = group.published()
    grid = lay_out(
        group.runs,
        row=lambda run: (run.method, setting_of(run, "shots", "0")),
        column=_route,
        order_rows=order_rows,
        order_columns=lambda columns: order_targets(columns, published),
    )
    if published and not set(map(plain_target, grid.columns)) & set(published.targets):
        published = None
    rows = make_rows(grid, published, label=lambda row: f"{shown_name(row[0])}, {row[1]} per class")
    return [
        make_table(group, title_of(group, "few-shot adaptation"), "Method, labelled target samples", rows, published)
    ]


def _route(run: Run) -> str:
    arrow = re.search("->|→", run.target)
    return run.target if arrow or "source" not in run.facts else f"{run.facts['source']}->{run.target}"


def single_source_tables(group: TableGroup) -> list[Table]:
    """One table a source: methods against the other domains."""
    tables = []
    for source in dict.fromkeys(setting_of(run, "source", "unknown") for run in group.runs):
        part = replace(group, runs=tuple(run for run in group.runs if setting_of(run, "source", "unknown") == source))
        published = part.published(source=plain_target(source))
        rows = make_rows(target_grid(part.runs, published), published, label=lambda row: shown_name(row[0]))
        title = title_of(part, f"trained on {source} alone")
        tables.append(make_table(part, title, "Method", rows, published, name=source))
    return tables


def scarce_tables(group: TableGroup) -> list[Table]:
    """Methods and shares of the sources against targets."""
    grid = lay_out(
        group.runs,
        row=lambda run: (run.method, setting_of(run, "fraction", "1")),
        column=lambda run: run.target,
        order_rows=order_rows,
        order_columns=lambda columns: order_targets(columns, None),
    )
    rows = make_rows(grid, None, label=lambda row: f"{shown_name(row[0])}, {_share(row[1])} of each source")
    return [make_table(group, title_of(group, "scarce data"), "Method", rows, None)]


def _share(text: str) -> str:
    fraction = numeric(text)[0]
    return f"{100 * fraction if fraction <= 1 else fraction:g} %"


def severity_tables(group: TableGroup) -> list[Table]:
    """Methods against severities of corruption, each a mean over its types."""
    published = group.published()
    grid = lay_out(
        group.runs,
        row=lambda run: (run.method,),
        column=lambda run: setting_of(run, "severity", "unknown"),
        unit=_corruption,
        order_rows=order_rows,
        order_columns=lambda columns: sorted(columns, key=numeric),
    )
    rows = make_rows(grid, published, label=lambda row: shown_name(row[0]), average=False)
    kinds = len({_corruption(run) for run in group.runs if setting_of(run, "severity", "") != "0"})
    title = title_of(group, "by severity of corruption")
    columns = tuple({"0": "Clean", "unknown": "No level"}.get(c, f"Level {c}") for c in rows.columns)
    caption = f"Each figure is a mean over {kinds} types of corruption."
    return [make_table(group, title, "Method", replace(rows, columns=columns), published, caption=caption)]


def _corruption(run: Run) -> Hashable:
    return setting_of(run, "corruption", run.target)
