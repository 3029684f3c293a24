"""Methods of one's own: from a file on the command line, and trained anew when their code changes."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from forgetting import forget_plugins, forgetting
from homefold.config import preset_config
from homefold.errors import ConfigError
from homefold.evaluation import bench
from homefold.evaluation.bench import run_bench
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner, make_plan
from homefold.methods import code_key, find_method, list_methods
from homefold.methods.registry import METHODS
from homefold.report.runs import read_runs
from homefold.runtime.plugins import load_plugin
from homefold.stages.task import TaskKey

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
BLEND = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]


NAMES = ("deep-all", "blend")


def do_nothing(*arguments: object) -> None:
    """Stands in for a worker whose plan no longer has the runs it was sent for."""


@pytest.fixture(autouse=True)
def forget():
    """What plugins of a test registered and imported is gone after it."""
    with forgetting():
        yield


def forget_blend() -> None:
    forget_plugins()
    if "blend" in METHODS:
        METHODS.remove("blend")


@pytest.fixture
def blend(tmp_path):
    """Writes the example of the documentation with something replaced, and reads it as a new process would."""

    def write(old: str = "", new: str = "", more: str = "") -> Path:
        assert old in BLEND
        (tmp_path / "blend.py").write_text(BLEND.replace(old, new) + more, encoding="utf-8")
        forget_blend()
        load_plugin(tmp_path / "blend.py")
        return tmp_path / "blend.py"

    return write


def test_what_a_plugin_registered_before_it_failed_is_gone(blend, tmp_path):
    before = list_methods()
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        blend(more="\n1 / 0\n")
    assert list_methods() == before
    blend()
    assert [info.name for info in list_methods() if info not in before] == ["blend"]


def test_a_file_is_imported_once(blend):
    path = blend(more="\nCOUNT = []\n")
    first = load_plugin(path)
    first.COUNT.append(1)
    assert load_plugin(str(path)).COUNT == [1]
    assert find_method("blend").info.title == "Blend"


def test_a_plugin_may_import_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_the_plugin.py").write_text("VALUE = 7\n")
    (tmp_path / "plugin.py").write_text("from beside_the_plugin import VALUE\n")
    assert load_plugin(tmp_path / "plugin.py").VALUE == 7
    assert sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\nraise ValueError('no')\n", "failed in line 2: ValueError: no"),
        ("def f(:\n", "failed: SyntaxError"),
        ("from homefold.methods import *\nregister_method(DeepAllMethod())\n", "there already is a method 'deep-all'"),
        (
            "import sys\nsys.exit('needs more')\n",
            r"ended the program in line 2 \(needs more\); put .* under if __name__",
        ),
        ("from .other import x\n", "relative import.*by its plain name"),
    ],
)
def test_a_plugin_that_fails_is_named_with_the_line(tmp_path, text, words):
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as failure:
        load_plugin(path)
    assert str(path) in str(failure.value)
    path.write_text("VALUE = 1\n")
    assert load_plugin(path).VALUE == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.py", "there is no file .*missing.py"),
        ("", "does not end in .py"),
        ("notes.txt", "does not end in .py"),
    ],
)
def test_what_is_no_python_file_is_refused(tmp_path, name, words):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=words):
        load_plugin(tmp_path / name)


def test_what_a_plugin_prints_does_not_stand_among_the_answers(tmp_path, capsys):
    (tmp_path / "loud.py").write_text("print('hello')\n")
    load_plugin(tmp_path / "loud.py")
    assert capsys.readouterr() == ("", "hello\n")


def test_a_home_folder_and_a_link_are_followed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "text").write_text("VALUE = 3\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "text")
    assert load_plugin("~/link.py").VALUE == 3


def test_a_file_that_was_imported_otherwise_is_not_run_again(blend, tmp_path):
    (tmp_path / "beside_blend.py").write_text(BLEND, encoding="utf-8")
    sys.path.append(str(tmp_path))
    module = importlib.import_module("beside_blend")
    assert load_plugin(tmp_path / "beside_blend.py") is module


def test_a_plugin_may_import_another_one(blend, tmp_path):
    path = blend()
    (tmp_path / "beside_all.py").write_text("from blend import Blend\nHALF = Blend(strength=0.25)\n")
    try:
        assert load_plugin(tmp_path / "beside_all.py").HALF.strength == 0.25
    finally:
        del sys.modules["blend"]
    assert load_plugin(path).Blend().strength == 0.5


def test_plugins_are_several():
    with pytest.raises(ConfigError, match=r"several files, \('blend.py',\) for one"):
        BenchOptions("digits-mini", Path("runs"), plugins="blend.py")


def test_the_packages_own_methods_have_no_key_of_their_code():
    for info in list_methods():
        assert code_key(find_method(info.name)) == ""
    assert code_key(find_method("t3a+vae:search.steps=3")) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"more": "\n# a comment\n"},
        {"old": "    Null setting: `strength` 0 is Deep All.", "new": "    Nothing."},
        {"old": "        first = 1 - self.settings", "new": "        first = 1 - (self\n            .settings)"},
        {"more": "\nif __name__ == '__main__':\n    print(find_everything())\n"},
    ],
    ids=["comment", "docstring", "layout", "program"],
)
def test_what_does_not_change_the_code_does_not_change_the_key(blend, change):
    blend()
    plain = code_key(find_method("blend"))
    blend(**change)
    assert code_key(find_method("blend")) == plain != ""


def test_the_branch_that_an_import_takes_counts(blend):
    keys = []
    for value in (1, 2):
        blend(more=f"\nif __name__ == '__main__':\n    VALUE = 0\nelse:\n    VALUE = {value}\n")
        keys.append(code_key(find_method("blend")))
    assert keys[0] != keys[1]


def test_a_base_class_of_another_file_counts(blend, tmp_path):
    keys = []
    for value in (0.1, 0.2):
        (tmp_path / "beside_base.py").write_text(BLEND.replace("register_method(Blend())", f"VALUE = {value}"))
        lines = [
            "from __future__ import annotations",
            "from dataclasses import dataclass",
            "from beside_base import Blend",
            "from homefold.methods import register_method",
            "@dataclass(frozen=True)",
            "class Mine(Blend):",
            "    weight: float = 1.0",
            "register_method(Mine())",
        ]
        (tmp_path / "mine.py").write_text("\n".join(lines))
        forget_blend()
        load_plugin(tmp_path / "mine.py")
        keys.append(code_key(find_method("blend")))
    assert keys[0] != keys[1]
    assert len(set(keys[0].split("-")) & set(keys[1].split("-"))) == 1


def test_a_class_without_a_file_is_new_each_time():
    keys = []
    for _ in range(2):
        module = ModuleType("beside_nothing")
        sys.modules["beside_nothing"] = module
        exec(BLEND, module.__dict__)
        keys.append(code_key(find_method("blend")))
        assert code_key(find_method("blend")) == keys[-1] != ""
        METHODS.remove("blend")
    assert keys[0] != keys[1]


def test_the_key_is_that_of_the_code_that_runs_not_of_the_file_by_now(blend, tiny, tiny_digits):
    path = blend()
    options = tiny(methods=("blend",), plugins=(path,))
    plain = code_key(find_method("blend"))
    path.write_text(BLEND.replace("1 - self", "2 - self"), encoding="utf-8")
    assert code_key(find_method("blend")) == plain
    with pytest.raises(ConfigError, match="changed since this process loaded it; start Python again"):
        Planner(options, tiny_digits)
    path.unlink()
    assert code_key(find_method("blend")) == plain
    path.write_text(BLEND + "\n# a comment\n", encoding="utf-8")
    assert len(make_plan(Planner(options, tiny_digits)).remaining) == 1


def test_the_key_changes_with_the_code_wherever_the_method_is_wrapped(blend):
    names = ("blend", "blend:strength=0.2", "blend:features.epochs=9", "t3a+blend")
    blend()
    before = {name: code_key(find_method(name)) for name in names}
    blend("1 - self.settings.strength", "1 - 0.9 * self.settings.strength")
    after = {name: code_key(find_method(name)) for name in names}
    assert all(before.values())
    assert not set(before.values()) & set(after.values())


@pytest.mark.slow
def test_a_changed_method_is_trained_and_run_again_and_others_are_not(blend, tiny, tiny_digits):
    path = blend()
    options = tiny(methods=("deep-all", "blend"), plugins=(path,))
    first = run_bench(options, dataset=tiny_digits)
    assert [record.status for record in first] == ["finished"] * 2
    assert make_plan(Planner(options, tiny_digits)).remaining == ()
    blend("1 - self.settings.strength", "1 - 0.9 * self.settings.strength")
    plan = make_plan(Planner(options, tiny_digits))
    assert [run.method_name for run in plan.remaining] == ["blend"]
    assert plan.summary()["trainings"]["learner"] == {"needed": 1, "done": 0}


def test_stages_of_the_packages_own_learners_are_found_as_before(blend):
    blend()
    key = TaskKey("source", preset_config("small"))
    assert "code" not in find_method("rsc").planned_stages(key)[0].identity
    assert find_method("blend").planned_stages(key)[0].identity["code"] == code_key(find_method("blend"))


@pytest.mark.parametrize("after", ["edited", "removed"])
def test_several_processes_run_the_plugin_as_it_was_planned(blend, tiny, tiny_digits, after):
    path = blend()
    options = tiny(methods=("blend",), plugins=(path,), jobs=2)
    planner = Planner(options, tiny_digits)
    plan = make_plan(planner)
    path.write_text("raise RuntimeError('edited since')\n") if after == "edited" else path.unlink()
    (record,) = run_bench(options, dataset=tiny_digits, plan=plan, planner=planner)
    assert (record.status, record.error, record.method) == ("finished", "", "blend")
    assert record.facts["code"] == code_key(find_method("blend"))
    assert record.facts["titles"] == {"blend": "Blend"}


def test_runs_that_a_worker_does_not_find_any_more_have_that_reason(tiny, tiny_digits, monkeypatch):
    monkeypatch.setattr(bench, "_work", do_nothing)
    (record,) = run_bench(tiny(methods=("deep-all",), jobs=2), dataset=tiny_digits)
    assert record.status == "failed"
    assert "changed after the benchmark was started; start it again" in record.error


def test_a_report_shows_the_newest_code_alone(blend, tiny, tiny_digits):
    def bench_of(change: str, seeds: int) -> None:
        path = blend("1 - self.settings.strength", change)
        run_bench(tiny(methods=("deep-all", "blend"), plugins=(path,), seeds=seeds), dataset=tiny_digits)

    def reported() -> dict[str, list[int]]:
        folder = read_runs(tiny().out)
        found = {name: [run.seed for run in folder.runs if run.method == name and run.ok] for name in NAMES}
        return found | {"failed": [run.seed for run in folder.runs if run.failed]}

    bench_of("1 - self.settings.strength", 2)
    assert reported() == {"deep-all": [0, 1], "blend": [0, 1], "failed": []}
    bench_of("1 - 0.9 * self.settings.strength", 1)
    assert reported() == {"deep-all": [0, 1], "blend": [0], "failed": []}
    bench_of("1 / 0 - self.settings.strength", 1)
    assert reported() == {"deep-all": [0, 1], "blend": [], "failed": [0]}
    bench_of("1 - self.settings.strength", 2)
    assert reported() == {"deep-all": [0, 1], "blend": [0, 1], "failed": []}
