"""Records that were edited, cut short or damaged: an answer or one sentence, never a traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import record, write_runs

from homefold.errors import DataError
from homefold.evaluation.records import RunRecord, read_records
from homefold.report.document import build_report
from homefold.report.render import report_html, report_markdown, to_csv, to_latex
from homefold.report.runs import read_runs

FACTS = {
    "sources": ["photo"], "fraction": 0.5, "shots": 3, "corruption": "fog", "severity": 2, "beta": 0.1, "epsilon": 3,
    "code": "abc", "mean_iterations": 4.0, "split": "s", "variation": "v", "stages": {"features-1": {"seconds": 3.0}},
}  # fmt: skip
CONFIG = {"projection": {"views": 4, "textures": 0, "tints": 1, "steps": 20}, "seed": 1}
SUITES = ("pacs", "samplers", "single-source", "scarce", "few-shot", "cifar10-c", "beta", "stopping", "mine")

TEXTS: list[Any] = [
    "",
    "text",
    "NaN",
    "a\0b",
    "\ud800",
    "x" * 5000,
    "../../x",
    "<b>&",
    "$x$ $\\frac{",
    "a\nb\x1b[0m",
    "家",
]
NUMBERS: list[Any] = [-1, 0, 1.5, 10**30, 10**400, 1e308, -1e-300, float("nan"), float("inf")]
OTHERS: list[Any] = [None, True, [], {}, [[[]]], {"a": {"b": None}}]


def rich(**changes: Any) -> dict[str, Any]:
    return record(facts=copy.deepcopy(FACTS), config=copy.deepcopy(CONFIG), changes="a=1", **changes)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every value inside a record, the record itself first."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copied = copy.copy(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], odd)
    return copied


def tell(folder: Path) -> str:
    """`answered`, or the sentence that says why not."""
    try:
        report = build_report(read_runs(folder), figures=False)
    except DataError as error:
        return str(error)
    pages = [report_html(report), report_markdown(report), *map(to_csv, report.tables), *map(to_latex, report.tables)]
    assert all(page.encode() for page in pages)
    return "answered"


@pytest.mark.slow
@pytest.mark.parametrize("path", list(places(rich())), ids=lambda path: ".".join(map(str, path)) or "whole")
def test_any_value_in_any_place_of_a_record_is_an_answer_or_a_sentence(tmp_path: Path, path: tuple[Any, ...]) -> None:
    for number, odd in enumerate([*TEXTS, *NUMBERS, *OTHERS]):
        suite = SUITES[number % len(SUITES)]
        whole = [rich(suite=suite, method="deep-all"), rich(suite=suite, seed=1)]
        write_runs(tmp_path, [*whole, replaced(rich(suite=suite), path, odd)])
        told = tell(tmp_path)
        if told != "answered":
            assert told.startswith(f"{tmp_path / 'records.jsonl'}, line 3 is not a run record (")
            assert told.endswith("); remove or repair it.")
            assert "\n" not in told


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"seed": "one"}, 'seed is "one"; expected a whole number'),
        ({"seed": 1.5}, "seed is 1.5; expected a whole number"),
        ({"images": [3]}, "images is [3]; expected a whole number"),
        ({"target": 3}, "target is 3; expected text"),
        ({"target": None}, "it has no target"),
        ({"config": []}, "config is []; expected an object"),
        ({"config": {"projection": {"views": "many"}}}, 'config.projection.views is "many"; expected a whole number'),
        ({"seconds": {"training": "long"}}, 'seconds.training is "long"; expected a number of at most 1e+15'),
        ({"seconds": {"training": float("nan")}}, "seconds.training is nan; expected a number of at most 1e+15"),
        ({"facts": {"fraction": "half"}}, 'facts.fraction is "half"; expected a number of at most 1e+15'),
        ({"facts": {"sources": "photo"}}, 'facts.sources is "photo"; expected a list of names'),
        ({"facts": {"stages": {"f": {"seconds": []}}}}, "facts.stages.f.seconds is []; expected a number"),
        ({"method": "\ud800"}, "it holds halves of characters"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(tmp_path: Path, changes: dict[str, Any], wrong: str) -> None:
    write_runs(tmp_path, [record(), record() | changes])
    with pytest.raises(DataError) as error:
        read_runs(tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'records.jsonl'}, line 2 is not a run record ({wrong}")


LINES = {
    "not UTF-8": (b'{"dataset": "caf\xe9"}', "it is not valid UTF-8 text"),
    "UTF-16": ('{"dataset": "x"}'.encode("utf-16"), "it is not valid UTF-8 text"),
    "zeros": (b"\0" * 40, "Expecting value"),
    "nested too deeply": (b"[" * 100_000, "it is nested too deeply"),
    "too many digits": (b'{"seed": ' + b"9" * 5000 + b"}", "a number in it has too many digits"),
    "no object": (b"[1, 2]", "it is not an object"),
    "text": (b'"a"', "it is not an object"),
    "half": (b'{"dataset": "pa', "Unterminated string"),
}


@pytest.mark.parametrize(("line", "wrong"), LINES.values(), ids=LINES.keys())
def test_a_line_that_is_no_record_is_named_and_the_half_of_one_at_the_end_is_left_out(
    tmp_path: Path, line: bytes, wrong: str
) -> None:
    whole = json.dumps(record()).encode()
    path = tmp_path / "records.jsonl"
    path.write_bytes(whole + b"\n\n" + line + b"\n" + whole + b"\n")
    for read in (read_runs, read_records):
        with pytest.raises(DataError) as error:
            read(path)
        assert str(error.value).startswith(f"{path}, line 3 is not a run record ({wrong}")
    if wrong != "it is not an object":
        path.write_bytes(whole + b"\n" + line)
        assert len(read_runs(path).runs) == len(read_records(path)) == 1


def test_a_line_that_stands_twice_counts_once_and_line_ends_of_windows_are_read(tmp_path: Path) -> None:
    line = json.dumps(record()).encode()
    (tmp_path / "records.jsonl").write_bytes(line + b"\r\n\r\n" + line + b"\r\n" + line)
    assert len(read_runs(tmp_path).runs) == 1
    assert len(read_records(tmp_path / "records.jsonl")) == 3


@pytest.mark.parametrize("name", [name for name in RunRecord.__dataclass_fields__ if name != "accuracy"])
def test_a_bench_refuses_a_record_with_a_gap(tmp_path: Path, name: str) -> None:
    write_runs(tmp_path, [replaced({**rich(), name: ""}, (name,), None)])
    with pytest.raises(DataError, match=rf"line 1 is not a run record \({name} is null\)"):
        read_records(tmp_path / "records.jsonl")


@pytest.mark.parametrize("accuracy", ["high", [], float("nan"), 10**400])
def test_a_bench_refuses_an_accuracy_that_is_no_number(tmp_path: Path, accuracy: object) -> None:
    write_runs(tmp_path, [record(accuracy=accuracy)])
    with pytest.raises(DataError, match=r"line 1 is not a run record \(its accuracy is no number\)"):
        read_records(tmp_path / "records.jsonl")


@pytest.mark.parametrize(
    "plan",
    [b"", b"[]", b'{"runs": 3}', b'{"runs": [3]}', b'{"runs": [{"run": 3}]}', b'{"runs": [{"run": "a", "seed": "x"}]}',
     b'{"runs": [{"run": "a", "facts": []}]}', b'{"runs": [{"run": "\\ud800"}]}', b"\xff", b"[" * 100_000,
     b'{"runs": ' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_a_damaged_plan_is_a_sentence(tmp_path: Path, plan: bytes) -> None:
    write_runs(tmp_path, [record()])
    (tmp_path / "plan.json").write_bytes(plan)
    with pytest.raises(DataError, match=r"plan\.json is not a plan that homefold bench wrote \("):
        read_runs(tmp_path)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a\0b", "x" * 5000, "..", ""])
def test_a_run_that_is_called_like_a_path_has_no_artifact(tmp_path: Path, name: str) -> None:
    folder = read_runs(write_runs(tmp_path / "runs", [record(run=name)]))
    assert folder.artifact(folder.runs[0]) is None


def test_names_too_long_for_a_file_are_cut_and_stay_different(tmp_path: Path) -> None:
    write_runs(tmp_path, [record(dataset="x" * 5000), record(dataset="x" * 5000 + "y")])
    names = [table.name for table in build_report(read_runs(tmp_path), figures=False).tables]
    assert len(set(names)) == len(names) > 1
    assert max(map(len, names)) < 200
