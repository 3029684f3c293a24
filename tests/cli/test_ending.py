"""Signals end a command by an exception, but never amid an import."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from homefold.cli.ending import Terminated, signals_raise

STOPS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]


def wait_to_be_stopped() -> None:
    threading.Event().wait(30)


@pytest.fixture(params=STOPS, ids=["Ctrl-C", "SIGTERM"])
def stop(request, monkeypatch):
    # As in a command; pytest has handlers of its own.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield request.param
    signal.signal(signal.SIGINT, before)


def test_a_signal_raises_at_once(stop):
    number, kind = stop
    with pytest.raises(kind), signals_raise():
        os.kill(os.getpid(), number)
        wait_to_be_stopped()


def test_a_signal_amid_an_import_raises_when_the_import_is_done(stop, tmp_path: Path, monkeypatch):
    number, kind = stop
    name = f"stopped_by_{number.name.lower()}"
    (tmp_path / f"{name}.py").write_text(
        f"import os\nos.kill(os.getpid(), {int(number)})\n"
        + "".join(f"x{i} = {i}\n" for i in range(100))
        + "whole = 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(kind), signals_raise():
        importlib.import_module(name)
        wait_to_be_stopped()
    assert sys.modules.pop(name).whole == 1


def test_the_handlers_that_were_there_are_there_again(stop):
    before = [signal.getsignal(number) for number, _ in STOPS]
    with signals_raise():
        assert [signal.getsignal(number) for number, _ in STOPS] != before
    assert [signal.getsignal(number) for number, _ in STOPS] == before


def test_ctrl_c_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_raise():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
