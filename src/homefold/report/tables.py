"""Every table of the paper in its shape, made from runs; any other suite gets methods against targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from homefold.report.grid import Grid, RowKey, lay_out
from homefold.report.names import control_of, in_order, short_name, shown_name
from homefold.report.published import (
    PublishedFigure,
    PublishedTable,
    plain_target,
    published_mean_stops,
    published_table,
)
from homefold.report.runs import Run, RunFolder, Setup, setups
from homefold.report.statistics import compare, summarise
from homefold.report.table import MINUS, Cell, Row, Table

__all__ = ["build_tables", "kind_of", "target_grid"]

AVERAGE = "Avg."

SUITES = {
    "pacs": "targets",
    "vlcs": "targets",
    "office-home": "targets",
    "digits-dg": "targets",
    "digits-mini": "targets",
    "samplers": "samplers",
    "ablation": "targets",
    "few-shot": "few-shot",
    "single-source": "single-source",
    "scarce": "scarce",
    "cifar10-c": "severity",
    "beta": "beta",
    "stopping": "stopping",
}
"""Suites in the order of their tables, and the shape of each."""

_KIND_BY_SETTING = {
    "severity": "severity",
    "shots": "few-shot",
    "fraction": "scarce",
    "beta": "beta",
    "epsilon": "stopping",
    "source": "single-source",
}
_LEAVE_ONE_OUT = ("", "leaveonedomainout", "leaveoneout", "lodo")


def build_tables(folder: RunFolder) -> list[Table]:
    """All tables that the runs give, in the paper's order, each with a name of its own.

    Args:
        folder: the runs.
    """
    places = list(SUITES)
    suites = sorted({run.suite for run in folder.runs}, key=lambda suite: (_place(places, suite), suite))
    tables: list[Table] = []
    for suite in suites:
        runs = [run for run in folder.runs if run.suite == suite]
        for kind, protocol_runs in _by_kind(suite, runs):
            for setup, group in setups(protocol_runs).items():
                tables += _BUILDERS[kind](_Group(suite, kind, setup, tuple(group)))
    return _named(tables)


def kind_of(suite: str, runs: Sequence[Run]) -> str:
    """The shape of a suite's table; an unknown suite's is told by which setting varies."""
    if suite in SUITES:
        return SUITES[suite]
    for setting, kind in _KIND_BY_SETTING.items():
        if len({str(run.facts.get(setting)) for run in runs}) > 1:
            return kind
    return "targets"


def _by_kind(suite: str, runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """A suite is one protocol; runs outside of any suite are kept apart by theirs."""
    protocols = [""] if suite in SUITES else list(dict.fromkeys(run.protocol for run in runs))
    groups = [[run for run in runs if suite in SUITES or run.protocol == protocol] for protocol in protocols]
    return [(kind_of(suite, group), group) for group in groups]


def _place(places: list[str], suite: str) -> int:
    return places.index(suite) if suite in places else len(places)


@dataclass(frozen=True)
class _Group:
    """The runs of one table."""

    suite: str
    kind: str
    setup: Setup
    runs: tuple[Run, ...]

    @property
    def methods(self) -> list[str]:
        return in_order(run.method for run in self.runs)

    @property
    def oracle(self) -> bool:
        return any(run.oracle for run in self.runs)

    def published(self, **which: Any) -> PublishedTable | None:
        """The paper's table for these data, if it is about the same protocol."""
        kind = self.kind
        if kind in ("targets", "samplers") and not all(_leaves_one_out(run) for run in self.runs):
            return None
        return published_table(kind, self.setup.dataset, self.setup.backbone, **which)


def _leaves_one_out(run: Run) -> bool:
    return re.sub("[^a-z]", "", run.protocol.lower()) in _LEAVE_ONE_OUT


def target_grid(runs: Iterable[Run], published: PublishedTable | None = None) -> Grid:
    """Methods against targets, in the paper's order where it has them."""
    return lay_out(
        runs,
        row=lambda run: (run.method,),
        column=lambda run: run.target,
        order_rows=_order_rows,
        order_columns=lambda columns: _order_targets(columns, published),
    )


def _order_rows(rows: Sequence[RowKey]) -> list[RowKey]:
    methods = in_order(row[0] for row in rows)
    return sorted(rows, key=lambda row: (methods.index(row[0]), *map(_numeric, row[1:])))


def _numeric(text: str) -> tuple[float, str]:
    try:
        return float(text), ""
    except ValueError:
        return float("inf"), text


def _order_targets(columns: Sequence[str], published: PublishedTable | None) -> list[str]:
    printed = published.targets if published else []
    place = {target: i for i, target in enumerate(printed)}
    return sorted(columns, key=lambda column: (place.get(plain_target(column), len(printed)), _numeric(column)))


def _targets(group: _Group) -> list[Table]:
    published = group.published()
    rows = _rows(target_grid(group.runs, published), published, label=lambda row: shown_name(row[0]))
    return [_table(group, _titled(group), "Method", rows, published)]


def _few_shot(group: _Group) -> list[Table]:
    published = group.published()
    grid = lay_out(
        group.runs,
        row=lambda run: (run.method, _setting(run, "shots", "0")),
        column=_route,
        order_rows=_order_rows,
        order_columns=lambda columns: _order_targets(columns, published),
    )
    if published and not set(map(plain_target, grid.columns)) & set(published.targets):
        published = None
    rows = _rows(grid, published, label=lambda row: f"{shown_name(row[0])}, {row[1]} per class")
    return [_table(group, _titled(group, "few-shot adaptation"), "Method, labelled target samples", rows, published)]


def _route(run: Run) -> str:
    arrow = re.search("->|→", run.target)
    return run.target if arrow or "source" not in run.facts else f"{run.facts['source']}->{run.target}"


def _single_source(group: _Group) -> list[Table]:
    tables = []
    for source in dict.fromkeys(_setting(run, "source", "unknown") for run in group.runs):
        part = replace(group, runs=tuple(run for run in group.runs if _setting(run, "source", "unknown") == source))
        published = part.published(source=plain_target(source))
        rows = _rows(target_grid(part.runs, published), published, label=lambda row: shown_name(row[0]))
        title = _titled(part, f"trained on {source} alone")
        tables.append(_table(part, title, "Method", rows, published, name=source))
    return tables


def _scarce(group: _Group) -> list[Table]:
    grid = lay_out(
        group.runs,
        row=lambda run: (run.method, _setting(run, "fraction", "1")),
        column=lambda run: run.target,
        order_rows=_order_rows,
        order_columns=lambda columns: _order_targets(columns, None),
    )
    rows = _rows(grid, None, label=lambda row: f"{shown_name(row[0])}, {_share(row[1])} of each source")
    return [_table(group, _titled(group, "scarce data"), "Method", rows, None)]


def _share(text: str) -> str:
    fraction = _numeric(text)[0]
    return f"{100 * fraction if fraction <= 1 else fraction:g} %"


def _severity(group: _Group) -> list[Table]:
    published = group.published()
    grid = lay_out(
        group.runs,
        row=lambda run: (run.method,),
        column=lambda run: _setting(run, "severity", "unknown"),
        unit=_corruption,
        order_rows=_order_rows,
        order_columns=lambda columns: sorted(columns, key=_numeric),
    )
    rows = _rows(grid, published, label=lambda row: shown_name(row[0]), average=False)
    kinds = len({_corruption(run) for run in group.runs if _setting(run, "severity", "") != "0"})
    title = _titled(group, "by severity of corruption")
    columns = tuple({"0": "Clean", "unknown": "No level"}.get(c, f"Level {c}") for c in rows.columns)
    caption = f"Each figure is a mean over {kinds} types of corruption."
    return [_table(group, title, "Method", replace(rows, columns=columns), published, caption=caption)]


def _corruption(run: Run) -> Hashable:
    return _setting(run, "corruption", run.target)


def _stopping(group: _Group) -> list[Table]:
    grid = lay_out(
        group.runs,
        row=lambda run: (run.method,),
        column=lambda run: _setting(run, "epsilon", "0"),
        unit=lambda run: run.target,
        order_rows=_order_rows,
        order_columns=lambda columns: sorted(columns, key=_numeric),
    )
    rows = _rows(grid, None, label=lambda row: shown_name(row[0]), average=False)
    rows = replace(rows, columns=tuple(f"ε = {column.replace('-', MINUS)}" for column in rows.columns))
    caption = f"Columns: deviation ε from n*. Each figure is a mean over {_count(group, 'target')}."
    return [_table(group, _titled(group, "stopping off the elbow"), "Method", rows, None, caption=caption)]


def _beta(group: _Group) -> list[Table]:
    published = group.published()
    several = len(group.methods) > 1

    def key(run: Run) -> RowKey:
        return run.method, _setting(run, "beta", "unknown")

    grid = lay_out(
        group.runs,
        row=key,
        column=lambda run: run.target,
        order_rows=lambda rows: sorted(rows, key=lambda row: (row[0], -_numeric(row[1])[0])),
        order_columns=lambda columns: _order_targets(columns, published),
    )
    stops = lay_out(group.runs, row=key, column=lambda run: "", unit=lambda run: run.target, value=_mean_stop)
    rows = _rows(
        grid,
        published,
        label=lambda row: f"{row[1]}, {short_name(row[0])}" if several else row[1],
        setting=lambda row: row[1],
        best_within=lambda row: "",
        average=len(grid.columns) > 1,
        others=False,
    )
    printed = published_mean_stops() if published else {}
    extra = [
        (_stop_cell(stops, row, printed.get(row[1])), Cell(text=_total_steps(group.runs, row))) for row in grid.rows
    ]
    widened = tuple(replace(row, cells=(*cells, *row.cells)) for row, cells in zip(rows.rows, extra, strict=True))
    rows = _Rows(("Mean n*", "M", *rows.columns), widened, rows.done, rows.expected)
    caption = "Rows: iteration rate β. Mean n*: steps until the stop, over target images; M: steps at most."
    return [_table(group, _titled(group, "iteration rate β"), "β", rows, published, caption=caption)]


def _mean_stop(run: Run) -> float | None:
    value = run.facts.get("mean_stop", run.facts.get("mean_iterations"))
    return float(value) if run.ok and isinstance(value, int | float) else None


def _stop_cell(stops: Grid, row: RowKey, printed: float | None) -> Cell:
    values = stops.at(row, "")
    published = None if printed is None else PublishedFigure(printed)
    failed = len(stops.failed_at(row, ""))
    if not values and not failed:
        return Cell(text="not recorded")
    return Cell(summarise(list(values.values())), len(stops.seeds), failed, published, decimals=0)


def _total_steps(runs: Sequence[Run], row: RowKey) -> str:
    chosen = [run for run in runs if (run.method, _setting(run, "beta", "unknown")) == row]
    places = [run.facts for run in chosen] + [run.config.get("projection") or {} for run in chosen]
    found = {str(place["steps"]) for place in places if isinstance(place, dict) and "steps" in place}
    return ", ".join(sorted(found)) or "not recorded"


_BUILDERS: dict[str, Callable[[_Group], list[Table]]] = {
    "targets": _targets,
    "samplers": _targets,
    "few-shot": _few_shot,
    "single-source": _single_source,
    "scarce": _scarce,
    "severity": _severity,
    "beta": _beta,
    "stopping": _stopping,
}


@dataclass(frozen=True)
class _Rows:
    """Columns, rows, and how many of the runs they need are there."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    done: int
    expected: int


def _rows(
    grid: Grid,
    published: PublishedTable | None,
    *,
    label: Callable[[RowKey], str],
    setting: Callable[[RowKey], str] = lambda row: row[1] if len(row) > 1 else "",
    best_within: Callable[[RowKey], str] | None = None,
    average: bool = True,
    others: bool = True,
) -> _Rows:
    """The rows that were run, then those that only the paper has."""
    best_within = best_within or setting
    keys = list(grid.columns)
    average = average and len(keys) > 1
    cells = {row: [_cell(grid, row, column, published, setting) for column in keys] for row in grid.rows}
    if average:
        for row, place in cells.items():
            place.append(_average_cell(grid, row, _published_average(published, row, setting(row), keys)))
    rows = [
        Row(label(row), tuple(place), control=_control_name(grid, row))
        for row, place in _with_best(cells, best_within).items()
    ]
    if published and others:
        rows += _published_rows(grid, published, setting, average=average)
    done = sum(len(values) for values in grid.values.values())
    expected = len(grid.rows) * len(keys) * len(grid.seeds)
    return _Rows((*keys, AVERAGE) if average else tuple(keys), tuple(rows), done, expected)


def _cell(
    grid: Grid,
    row: RowKey,
    column: str,
    published: PublishedTable | None,
    setting: Callable[[RowKey], str],
) -> Cell:
    values = grid.at(row, column)
    control = _control(grid, row)
    return Cell(
        summary=summarise(list(values.values())),
        expected=len(grid.seeds),
        failed=len(grid.failed_at(row, column)),
        published=published.find(row[0], setting(row), column) if published else None,
        comparison=compare(values, grid.at(control, column)) if control else None,
    )


def _control(grid: Grid, row: RowKey) -> RowKey | None:
    """The row of the control under the same settings."""
    present = [other[0] for other in grid.rows if other[1:] == row[1:]]
    method = control_of(row[0], present)
    return None if method is None else (method, *row[1:])


def _control_name(grid: Grid, row: RowKey) -> str:
    control = _control(grid, row)
    return short_name(control[0]) if control else ""


def _average_cell(grid: Grid, row: RowKey, published: PublishedFigure | None) -> Cell:
    values = grid.averages(row)
    control = _control(grid, row)
    return Cell(
        summary=summarise(list(values.values())),
        expected=len(grid.seeds),
        failed=len(grid.failed_anywhere(row) - set(values)),
        published=published,
        comparison=compare(values, grid.averages(control)) if control else None,
    )


def _published_average(
    published: PublishedTable | None, row: RowKey, setting: str, columns: Sequence[str]
) -> PublishedFigure | None:
    """The mean of the paper's figures, where it has one for every column."""
    found = [published.find(row[0], setting, column) for column in columns] if published else []
    figures = [figure for figure in found if figure]
    if not figures or len(figures) < len(columns):
        return None
    return PublishedFigure(sum(figure.mean for figure in figures) / len(figures))


def _with_best(cells: dict[RowKey, list[Cell]], setting: Callable[[RowKey], str]) -> dict[RowKey, list[Cell]]:
    """Mark the highest figure of each column and setting, and those that look the same, when there is a choice."""
    width = len(next(iter(cells.values()), []))
    for which in {setting(row) for row in cells}:
        for column in range(width):
            places = {row: place[column] for row, place in cells.items() if setting(row) == which}
            means = {row: round(cell.summary.mean, cell.decimals) for row, cell in places.items() if cell.summary}
            for row, mean in means.items():
                cells[row][column] = replace(places[row], best=len(means) > 1 and mean == max(means.values()))
    return cells


def _published_rows(
    grid: Grid, published: PublishedTable, setting: Callable[[RowKey], str], *, average: bool
) -> list[Row]:
    """What the paper compares with and nobody ran here."""
    here = {(published.printed_method(row[0]), setting(row)) for row in grid.rows}
    rows = []
    for method, which in published.methods:
        if (method, which) in here:
            continue
        figures = [published.figures.get((method, which, plain_target(column))) for column in grid.columns]
        if not any(figures):
            continue
        cells = [Cell(published=figure) if figure else Cell(text="not printed") for figure in figures]
        if average:
            whole = [figure.mean for figure in figures if figure]
            complete = len(whole) == len(figures)
            mean = PublishedFigure(sum(whole) / len(whole))
            cells.append(Cell(published=mean) if complete else Cell(text="not printed"))
        suffix = f", {which} per class" if which else ""
        rows.append(Row(f"{_unicode(method)}{suffix} (paper)", tuple(cells), published=True))
    return rows


def _unicode(method: str) -> str:
    return method.replace(r"G_\phi", "G_φ").replace(r"f_\theta", "f_θ")


def _table(
    group: _Group,
    title: str,
    stub: str,
    rows: _Rows,
    published: PublishedTable | None,
    *,
    caption: str = "",
    name: str = "",
) -> Table:
    setup = group.setup
    parts = (group.suite or "runs", setup.dataset, name, setup.backbone, setup.preset)
    slug = _slug("-".join(dict.fromkeys(part for part in parts if part)))
    marked = tuple(row if row.published else replace(row, label=f"{row.label} †") for row in rows.rows)
    return Table(
        name=f"{slug}-oracle" if group.oracle else slug,
        title=title,
        caption=" ".join(part for part in (_caption(group, rows, published), caption) if part),
        stub=stub,
        columns=rows.columns,
        rows=marked if group.oracle else rows.rows,
        oracle=group.oracle,
        suite=group.suite,
    )


def _titled(group: _Group, what: str = "") -> str:
    suite = group.suite if group.kind in ("targets", "samplers") else ""
    same = suite.replace("-", "") == group.setup.dataset.lower().replace("-", "").replace("_", "")
    return " · ".join(part for part in (group.setup.title, what or ("" if same else suite)) if part)


def _caption(group: _Group, rows: _Rows, published: PublishedTable | None) -> str:
    runs = group.runs
    seeds = sorted({run.seed for run in runs})
    sentences = [_how_measured(len(seeds), [cell for row in rows.rows for cell in row.cells])]
    facts = [
        ("Protocol", sorted({run.protocol for run in runs})),
        ("selection", sorted({run.selection for run in runs})),
        ("preset", [group.setup.preset]),
        ("backbone", [group.setup.backbone]),
        ("seeds", [_ranges(seeds)]),
    ]
    named = "; ".join(f"{what} {', '.join(filter(None, values)) or 'not recorded'}" for what, values in facts)
    sentences.append(f"{named}; {sum(run.ok for run in runs)} runs finished, {_left(group, rows)}.")
    if group.oracle:
        sentences.append("† Models were selected on the target itself (oracle): not a fair comparison.")
    if published:
        network = f" (with {published.backbone})" if published.backbone else ""
        sentences.append(f"paper: the printed figure{network}, and in parentheses ours minus it.")
    return " ".join(sentences)


def _how_measured(seeds: int, cells: Sequence[Cell]) -> str:
    """What the signs in the cells mean, as far as they are there."""
    compared = any(cell.comparison for cell in cells)
    parts = ["Accuracy on the unseen target in %"]
    if seeds > 1:
        parts.append("mean ± standard deviation over seeds, [95 % confidence interval, Student’s t]")
    else:
        parts.append("one seed, so no spread and no test")
    signs = []
    if compared:
        test = ", with the p of a two-sided paired t-test over seeds, not adjusted for the number of tests"
        signs.append(f"Δ: difference to the control named in the row{test if seeds > 1 else ''}.")
    if any(cell.best for cell in cells):
        signs.append("Bold: the highest mean of those run here under the same setting.")
    return " ".join([f"{': '.join(parts)}.", *signs])


def _left(group: _Group, rows: _Rows) -> str:
    failed = sum(not run.ok for run in group.runs)
    missing = rows.expected - rows.done
    if not failed and not missing:
        return "none missing"
    return f"{failed} failed, {missing} of {rows.expected} figures without a value"


def _ranges(seeds: Sequence[int]) -> str:
    consecutive = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}–{seeds[-1]} (n = {len(seeds)})" if consecutive else ", ".join(map(str, seeds))


def _count(group: _Group, what: str) -> str:
    names = list(dict.fromkeys(str(getattr(run, what)) for run in group.runs))
    return f"{len(names)} {what}s ({', '.join(names)})" if len(names) > 1 else f"the {what} {names[0]}"


def _setting(run: Run, name: str, default: str) -> str:
    value = run.facts.get(name)
    return default if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _named(tables: Sequence[Table]) -> list[Table]:
    """Number the names that stand twice."""
    seen: dict[str, int] = {}
    named = []
    for table in tables:
        seen[table.name] = seen.get(table.name, 0) + 1
        again = seen[table.name]
        named.append(table if again == 1 else replace(table, name=f"{table.name}-{again}"))
    return named
