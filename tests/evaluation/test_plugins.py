"""Methods of one's own: from a file on the command line, and trained anew when their code changes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from homefold.config import preset_config
from homefold.errors import ConfigError
from homefold.evaluation import bench
from homefold.evaluation.bench import run_bench
from homefold.evaluation.planning import Planner, make_plan
from homefold.methods import find_method, list_methods, registry
from homefold.methods.base import TaskKey
from homefold.methods.origin import code_key, load_plugin

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-method.md").read_text(encoding="utf-8")
MIXUP = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture(autouse=True)
def forget():
    """What plugins of a test registered and imported is gone after it."""
    methods, wrappers, path = dict(registry._methods), dict(registry._wrappers), list(sys.path)
    yield
    forget_plugins()
    registry._methods.clear()
    registry._methods.update(methods)
    registry._wrappers.clear()
    registry._wrappers.update(wrappers)
    sys.path[:] = path


def forget_plugins() -> None:
    for name in [name for name in sys.modules if name.startswith("homefold_plugin_")]:
        del sys.modules[name]
    registry._methods.pop("mixup", None)


@pytest.fixture
def mixup(tmp_path):
    """Writes the example of the documentation with something replaced, and reads it as a new process would."""

    def write(old: str = "", new: str = "", more: str = "") -> Path:
        assert old in MIXUP
        (tmp_path / "mixup.py").write_text(MIXUP.replace(old, new) + more, encoding="utf-8")
        forget_plugins()
        load_plugin(tmp_path / "mixup.py")
        return tmp_path / "mixup.py"

    return write


def test_a_file_is_imported_once(mixup):
    path = mixup(more="\nCOUNT = []\n")
    first = load_plugin(path)
    first.COUNT.append(1)
    assert load_plugin(str(path)).COUNT == [1]
    assert find_method("mixup").info.title == "Mixup"


def test_a_plugin_may_import_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_the_plugin.py").write_text("VALUE = 7\n")
    (tmp_path / "plugin.py").write_text("from beside_the_plugin import VALUE\n")
    assert load_plugin(tmp_path / "plugin.py").VALUE == 7
    del sys.modules["beside_the_plugin"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\nraise ValueError('no')\n", "failed in line 2: ValueError: no"),
        ("def f(:\n", "failed: SyntaxError"),
        ("from homefold.methods import *\nregister_method(DeepAllMethod())\n", "called 'deep-all' is registered"),
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


@pytest.mark.parametrize("name", ["missing.py", "", "notes.txt"])
def test_what_is_no_python_file_is_refused(tmp_path, name):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match="takes a Python file"):
        load_plugin(tmp_path / name)


def test_the_packages_own_methods_have_no_key_of_their_code():
    for info in list_methods():
        assert code_key(find_method(info.name)) == ""
    assert code_key(find_method("t3a+vae:projection.steps=3")) == ""


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
def test_what_does_not_change_the_code_does_not_change_the_key(mixup, change):
    mixup()
    plain = code_key(find_method("mixup"))
    mixup(**change)
    assert code_key(find_method("mixup")) == plain != ""


def test_the_key_changes_with_the_code_wherever_the_method_is_wrapped(mixup):
    names = ("mixup", "mixup:strength=0.2", "mixup:features.epochs=9", "t3a+mixup")
    mixup()
    before = {name: code_key(find_method(name)) for name in names}
    mixup("1 - self.settings.strength", "1 - 0.9 * self.settings.strength")
    after = {name: code_key(find_method(name)) for name in names}
    assert all(before.values())
    assert not set(before.values()) & set(after.values())


def test_a_changed_method_is_trained_and_run_again_and_others_are_not(mixup, tiny, tiny_digits):
    path = mixup()
    options = tiny(methods=("deep-all", "mixup"), plugins=(path,))
    first = run_bench(options, dataset=tiny_digits)
    assert [record.status for record in first] == ["finished"] * 2
    assert make_plan(Planner(options, tiny_digits)).remaining == ()
    mixup("1 - self.settings.strength", "1 - 0.9 * self.settings.strength")
    plan = make_plan(Planner(options, tiny_digits))
    assert [run.method_name for run in plan.remaining] == ["mixup"]
    assert plan.summary()["trainings"]["learner"] == {"needed": 1, "done": 0}


def test_stages_of_the_packages_own_learners_are_found_as_before(mixup):
    mixup()
    key = TaskKey("source", preset_config("small"))
    assert "code" not in find_method("rsc").planned_stages(key)[0].identity
    assert find_method("mixup").planned_stages(key)[0].identity["code"] == code_key(find_method("mixup"))


def test_several_processes_know_the_plugin_too(mixup, tiny, tiny_digits):
    options = tiny(methods=("mixup",), plugins=(mixup(),), jobs=2)
    (record,) = run_bench(options, dataset=tiny_digits)
    assert (record.status, record.error, record.method) == ("finished", "", "mixup")


def test_a_worker_that_finds_other_runs_than_it_was_sent_for_says_so(tiny, tiny_digits, monkeypatch):
    monkeypatch.setattr(bench.signal, "signal", lambda *arguments: None)
    monkeypatch.setattr(bench.torch, "set_num_threads", lambda count: None)
    with pytest.raises(ConfigError, match="changed after the benchmark was started"):
        bench._work(None, tiny(methods=("deep-all",)), tiny_digits, 0, frozenset({"another"}))
