"""`homefold COMMAND …`: finds the command, and turns every way it can end into an exit code and a sentence."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from homefold.cli.commands import Command, run_command
from homefold.cli.ending import Terminated, UsageError, explain, signals_raise
from homefold.version import __version__

__all__ = ["main"]

SUCCESS, FAILURE, USAGE = 0, 1, 2
INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143  # 128 + the signal's number, as shells have it

COMMANDS = {
    "fit": Command("train a model on a folder of images, or on a named dataset", "homefold.cli.fit"),
    "predict": Command("label images of any domain", "homefold.cli.predict"),
    "evaluate": Command("measure accuracy with and without projection, side by side", "homefold.cli.evaluate"),
    "check": Command("tell whether a model will hold up on images without labels", "homefold.cli.check"),
    "serve": Command("answer over HTTP and on a page; needs the extra homefold[serve]", "homefold.cli.serve"),
    "explore": Command("write the explorer of a model as a folder for any browser", "homefold.cli.explore"),
    "info": Command("show what a model is", "homefold.cli.info"),
    "export": Command("write a model as ONNX, which runs without torch", "homefold.cli.export"),
    "push": Command("put a model on the Hugging Face Hub", "homefold.cli.hub", "run_push"),
    "pull": Command("bring a model from the Hugging Face Hub", "homefold.cli.hub", "run_pull"),
    "demo": Command("train and answer on the embedded dataset; needs no images", "homefold.cli.demo"),
    "bench": Command("run a table of the evaluation: methods × targets × seeds", "homefold.cli.bench"),
    "methods": Command("list the methods that bench compares", "homefold.cli.methods"),
    "settings": Command("explain the settings of a fit", "homefold.cli.settings"),
    "report": Command("make tables and figures from finished runs", "homefold.cli.report"),
    "data": Command("list, describe, verify and fetch datasets; the cache", "homefold.cli.data"),
}

_END = """\
options:
  -h, --help  show this; homefold COMMAND --help shows the options of one command
  --version   show the version
  --debug     show the whole traceback of an error (or set HOMEFOLD_DEBUG=1)

examples:
  homefold demo
  homefold fit photos/ --out model --holdout hospital4    # photos/domain/class/image.jpg
  homefold evaluate model photos/ --domain hospital4
  homefold predict model new-images/ --json > answers.jsonl
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0 is success, 1 an error that a sentence explains, 2 a command line that makes no sense; 130 and 143 stand for
    Ctrl-C and SIGTERM, 141 for a reader of standard output that went away.

    Args:
        argv: the words after `homefold`; those of the process by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or os.environ.get("HOMEFOLD_DEBUG", "0") not in ("", "0")
    _let_any_name_be_printed()
    try:
        with signals_raise():
            code = _run(arguments)
            sys.stdout.flush()
            return code
    except SystemExit as end:  # after --help
        return end.code if isinstance(end.code, int) else SUCCESS
    except KeyboardInterrupt as stop:
        return _stopped(stop, INTERRUPTED)
    except Terminated as stop:
        return _stopped(stop, TERMINATED)
    except BrokenPipeError:
        _abandon_stdout()
        return PIPE_CLOSED
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        if debug:
            traceback.print_exc()
        print(f"error: {' '.join(sentence.splitlines())}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILURE


def _run(arguments: list[str]) -> int:
    while arguments[:1] == ["--debug"]:
        arguments = arguments[1:]
    if arguments[:1] == ["--version"]:
        print(f"homefold {__version__}")
        return SUCCESS
    about = "Classifiers that hold up on domains they have never seen."
    return run_command("homefold", COMMANDS, arguments, about=about, end=_END)


def _stopped(stop: BaseException, code: int) -> int:
    advice = getattr(stop, "__notes__", [])
    print("\n" + " ".join(["Stopped.", *advice]), file=sys.stderr)
    return code


def _let_any_name_be_printed() -> None:
    """A file name need not be valid in the terminal's encoding: show its odd bytes escaped instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _abandon_stdout() -> None:
    """What is still buffered for the closed pipe goes nowhere, so that Python does not complain at its exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # standard output is no real file
        pass
