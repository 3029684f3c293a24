"""The command as a whole: help, versions, exit codes, and what is said when something goes wrong."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scene import QUICK, Homefold

import homefold as package
from homefold.cli import app, bench, data, demo, evaluate, explore, fit, info, methods, predict, serve
from homefold.cli.commands import Command
from homefold.cli.ending import when_stopped
from homefold.cli.parsing import parse, parser_of
from homefold.errors import DataError

EVERY_OPTIONS = [
    fit.FitOptions,
    predict.PredictOptions,
    evaluate.EvaluateOptions,
    serve.ServeOptions,
    explore.ExploreOptions,
    info.InfoOptions,
    demo.DemoOptions,
    bench.BenchCommand,
    methods.MethodsOptions,
    data.ListOptions,
    data.DescribeOptions,
    data.VerifyOptions,
]


def test_help_names_every_command_once_and_ends_with_examples(homefold: Homefold) -> None:
    ended = homefold("--help")
    assert ended.code == 0
    commands = ended.out.split("commands:\n")[1].split("\n\n")[0].splitlines()
    names = "fit predict evaluate check serve explore info export push pull demo bench methods settings report data"
    assert [line.split()[0] for line in commands] == names.split()
    assert "homefold predict model new-images/ --json" in ended.out.split("examples:")[1]
    assert max(map(len, ended.out.splitlines())) <= 100
    assert homefold("help") == homefold("-h") == ended


def test_no_command_is_a_usage_error_that_shows_the_help_on_standard_error(homefold: Homefold) -> None:
    ended = homefold()
    assert (ended.code, ended.out) == (2, "")
    assert "usage: homefold COMMAND" in ended.err


def test_version(homefold: Homefold) -> None:
    assert homefold("--version").out == f"homefold {package.__version__}\n"


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [(["predct"], "Did you mean homefold predict?"), (["data", "verfy"], "Did you mean homefold data verify?")],
)
def test_an_unknown_command_gets_the_closest_one_suggested(
    homefold: Homefold, typed: list[str], suggested: str
) -> None:
    ended = homefold(*typed)
    assert (ended.code, ended.out) == (2, "")
    assert suggested in ended.error


def test_a_command_unlike_any_other_gets_no_suggestion(homefold: Homefold) -> None:
    assert "Did you mean" not in homefold("xyz").error


@pytest.mark.parametrize(
    "command", [["fit"], ["predict"], ["evaluate"], ["check"], ["serve"], ["info"], ["data", "describe"]]
)
def test_a_missing_argument_is_a_usage_error(homefold: Homefold, command: list[str]) -> None:
    ended = homefold(*command)
    assert (ended.code, ended.out) == (2, "")
    assert "required" in ended.err


@pytest.mark.parametrize("command", [["fit"], ["predict"], ["evaluate"], ["info"], ["demo"], ["data", "list"]])
def test_each_command_has_a_help_page_with_its_own_name(homefold: Homefold, command: list[str]) -> None:
    ended = homefold(*command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"usage: homefold {' '.join(command)} ")


@pytest.mark.parametrize("options", EVERY_OPTIONS)
def test_every_flag_says_what_it_does(options: type) -> None:
    parser = parser_of(options, "command")
    silent = [
        action.option_strings or action.dest
        for action in parser._actions
        if not (action.help or "").split("(default")[0].split("(required")[0].split("(one or more")[0].strip()
    ]
    assert len(parser._actions) > 2
    assert silent == []


@pytest.mark.parametrize(
    ("words", "rate", "epochs"),
    [
        ([], 0.5, 7),
        (["--manifold.learning-rate=none", "--manifold.epochs", "None"], None, None),
        (["--manifold.learning-rate", "1e-1", "--manifold.epochs", "3"], 0.1, 3),
        (["--manifold.learning-rate", "2"], 2.0, 7),
    ],
)
def test_a_number_that_may_be_none_is_spelled_as_its_description_has_it(
    tmp_path: Path, words: list[str], rate: float | None, epochs: int | None
) -> None:
    (tmp_path / "s.toml").write_text("[manifold]\nlearning_rate = 0.5\nepochs = 7\n")
    given = fit.read_options(["photos", "--out", "model", "--config", str(tmp_path / "s.toml"), *words])[1]
    assert (given.manifold.learning_rate, given.manifold.epochs) == (rate, epochs)
    assert type(given.manifold.learning_rate) is type(rate)


@pytest.mark.parametrize("word", ["2.5", "no"])
def test_a_number_that_may_be_none_is_nothing_else(homefold: Homefold, word: str) -> None:
    ended = homefold("fit", "photos", "--out", "model", "--manifold.epochs", word)
    assert (ended.code, ended.out) == (2, "")
    assert ended.error.startswith("manifold.epochs must be a whole number; got ")


def pretend(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    """Make a command that ends with `error`."""

    class Failing(Command):
        def run(self, arguments: Any) -> int:
            raise error

    monkeypatch.setitem(app.COMMANDS, name, Failing("fails", "nowhere"))


def test_an_error_of_ours_is_a_sentence_alone_and_exit_code_1(
    homefold: Homefold, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "info", DataError("the sky is green; expected blue."))
    ended = homefold("info", "x")
    assert (ended.code, ended.out, ended.err) == (1, "", "error: the sky is green; expected blue.\n")


@pytest.mark.parametrize("arguments", [["--debug", "info", "x"], ["info", "x", "--debug"]])
def test_debug_shows_the_traceback_too(
    homefold: Homefold, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    pretend(monkeypatch, "info", DataError("green."))
    ended = homefold(*arguments)
    assert ended.code == 1
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.endswith("error: green.\n")


def test_the_environment_can_ask_for_tracebacks(homefold: Homefold, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "info", DataError("green."))
    monkeypatch.setenv("HOMEFOLD_DEBUG", "1")
    assert "Traceback" in homefold("info", "x").err
    monkeypatch.setenv("HOMEFOLD_DEBUG", "0")
    assert "Traceback" not in homefold("info", "x").err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), "a.txt: Permission denied."),
        (OSError(errno.ENOSPC, "No space left on device", "b/c"), "the disk is full: could not write b/c."),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "b/c"), "the disk is full: could not write b/c."),
        (OSError(errno.EFBIG, "File too large", "b/c"), "b/c would be larger than files may be here; raise"),
        (MemoryError("40 GB"), "there is not enough memory (40 GB)."),
    ],
)
def test_an_error_of_the_system_is_a_sentence_that_names_the_file(
    homefold: Homefold, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    pretend(monkeypatch, "info", error)
    ended = homefold("info", "x")
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(sentence)


@pytest.mark.parametrize(
    ("allocate", "detail"),
    [
        (lambda: torch.empty(2**50), " (4503599.6 GB at once were asked for)"),
        (lambda: np.empty(2**50), " (Unable to allocate 8.00 PiB for an array with shape (1125899906842624,) and data"),
        (lambda: bytearray(2**60), ". Lower"),
    ],
)
def test_memory_that_cannot_be_had_is_a_sentence(
    homefold: Homefold, monkeypatch: pytest.MonkeyPatch, allocate: Callable[[], object], detail: str
) -> None:
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        allocate()
    pretend(monkeypatch, "info", caught.value)
    ended = homefold("info", "x")
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"there is not enough memory{detail}")
    assert ended.error.endswith(
        "Lower --batch-size or --image-size for a fit, or give fewer random starts for a projection."
    )


@pytest.mark.parametrize("size", [2**31 - 1])
def test_a_network_too_large_for_the_memory_is_a_sentence(
    homefold: Homefold, shared_photos: Path, tmp_path: Path, size: int
) -> None:
    ended = homefold("fit", shared_photos, "--out", tmp_path / "m", *QUICK, "--features.feature-dim", size)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith("there is not enough memory (")
    assert list(tmp_path.iterdir()) == []


def test_a_defect_of_ours_is_not_dressed_up(homefold: Homefold, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "info", ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        homefold("info", "x")


def test_ctrl_c_promises_nothing_of_its_own_and_passes_on_what_the_command_says(
    homefold: Homefold, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "fit", KeyboardInterrupt())
    ended = homefold("fit", "x")
    assert (ended.code, ended.err) == (130, "\nStopped.\n")
    stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), when_stopped(lambda: "Have some tea."):
        raise stop
    pretend(monkeypatch, "fit", stop)
    ended = homefold("fit", "x")
    assert (ended.code, ended.err) == (130, "\nStopped. Have some tea.\n")


def test_sigterm_ends_a_command_like_ctrl_c(homefold: Homefold, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(Command):
        def run(self, arguments: Any) -> int:
            with when_stopped(lambda: "Have some tea."):
                os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("the signal did nothing")

    monkeypatch.setitem(app.COMMANDS, "fit", Killed("is killed", "nowhere"))
    before = signal.getsignal(signal.SIGTERM)
    ended = homefold("fit", "x")
    assert (ended.code, ended.err) == (143, "\nStopped. Have some tea.\n")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["--version"], ["methods"], ["data", "list", "--json"]])
def test_results_that_have_no_room_are_named(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "homefold", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    sentence = "error: the disk is full: could not write standard output. Free some space and try again.\n"
    assert (done.returncode, done.stderr) == (1, sentence)


@pytest.mark.slow
def test_python_dash_m_runs_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "homefold", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"homefold {package.__version__}\n"


@pytest.mark.slow
def test_help_needs_nothing_large() -> None:
    folder = Path(package.__file__).parent
    # The package without its __init__, which may import what it likes.
    script = f"""
import sys, types
package = types.ModuleType("homefold")
package.__path__ = [{str(folder)!r}]
sys.modules["homefold"] = package
from homefold.cli import main
assert main(["--help"]) == 0 and main(["--version"]) == 0 and main(["nothing"]) == 2
print(sorted({{"torch", "argparse", "numpy", "rich"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")


HEAVY = ("torch", "torchvision", "sklearn", "matplotlib", "scipy", "pandas")
HELP_OF_EVERYTHING = f"""
import sys
from homefold.cli import app, data
asked = [[], *([name] for name in app.COMMANDS), *(["data", name] for name in data.COMMANDS)]
for words in [*([*words, "--help"] for words in asked), ["methods"], ["data", "list"]]:
    assert app.main(words) == 0, words
    assert not {set(HEAVY)} & set(sys.modules), words
print(len(asked))
"""


@pytest.mark.slow
def test_no_help_and_no_list_imports_what_only_work_needs() -> None:
    done = subprocess.run([sys.executable, "-c", HELP_OF_EVERYTHING], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.splitlines()[-1]) == 1 + 16 + 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "photos", "--out", ""], "got an empty value"),
        (["predict", "", "photos"], "got an empty value"),
        (["predict", "model", "photos", "--out="], "got an empty value"),
        (["evaluate", "", "photos"], "got an empty value"),
        (["info", ""], "got an empty value"),
        (["demo", "--out", ""], "got an empty value"),
        (["bench", "pacs", "--out", ""], "got an empty value"),
        (["report", ""], "got an empty value"),
        (["data", "get", "mnist", "--to", ""], "got an empty value"),
    ],
)
def test_an_empty_path_is_a_usage_error(
    homefold: Homefold, words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = homefold(*words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "", "--out", "model"], "homefold fit got an empty value;"),
        (["data", "describe", ""], "homefold data describe got an empty value;"),
        (["data", "verify", ""], "homefold data verify got an empty value;"),
        (["data", "verify", "pacs", ""], "homefold data verify got an empty value after pacs;"),
        (["bench", "beta", "--data", "", "--out", "runs"], "homefold bench got an empty value after --data;"),
    ],
)
def test_data_without_a_name_is_refused(
    homefold: Homefold, words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = homefold(*words)
    assert ended.code == 2
    assert ended.error.startswith(sentence)
    assert list(tmp_path.iterdir()) == []


def test_a_home_folder_is_found_also_where_the_shell_did_not_look_for_it(tmp_path: Path) -> None:
    assert parse(info.InfoOptions, "info", ["~/model"]).model == Path.home() / "model"
