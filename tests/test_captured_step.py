"""A recorded step sees each call's inputs; where nothing records, it is the function itself."""

from __future__ import annotations

import pytest
import torch

from homefold.captured_step import CapturedStep, recorder_for

CPU = torch.device("cpu")


class FakeRecorder:
    """Repeats a function as a graph would: with the memory of the inputs it was recorded with."""

    def __init__(self) -> None:
        self.runs = self.recordings = self.replays = 0

    def run(self, function):
        self.runs += 1
        return function()

    def record(self, function):
        self.recordings += 1

        def replay():
            self.replays += 1
            return function()

        return replay


class StubbornRecorder(FakeRecorder):
    def record(self, function):
        raise RuntimeError("operation not permitted when stream is capturing")


def weighted_sum(values: torch.Tensor, weight, extra) -> torch.Tensor:
    assert extra is None
    return (values * weight).sum()


def test_without_a_recorder_the_inputs_arrive_as_they_are():
    seen = []
    step = CapturedStep(lambda *given: seen.append(given) or torch.zeros(()), CPU, None)
    values = torch.ones(2)
    step(values, 0.5, None)
    assert seen[0][0] is values
    assert seen[0][1:] == (0.5, None)


def test_only_cuda_records():
    assert recorder_for(CPU) is None


def test_every_replay_uses_the_inputs_of_its_own_call():
    recorder = FakeRecorder()
    step = CapturedStep(weighted_sum, CPU, recorder)
    results = [float(step(torch.full((3,), float(i)), 0.5 * i, None)) for i in range(7)]
    assert results == [1.5 * i * i for i in range(7)]
    assert (recorder.runs, recorder.recordings, recorder.replays) == (3, 1, 4)
    assert step.is_recorded


def test_the_callers_tensors_are_never_written_to():
    step = CapturedStep(weighted_sum, CPU, FakeRecorder())
    first = torch.ones(3)
    step(first, 1.0, None)
    step(torch.zeros(3), 1.0, None)
    assert first.tolist() == [1.0, 1.0, 1.0]


def test_a_batch_of_another_size_is_run_and_not_recorded():
    recorder = FakeRecorder()
    step = CapturedStep(weighted_sum, CPU, recorder)
    for _ in range(5):
        step(torch.ones(3), 1.0, None)
    assert float(step(torch.ones(2), 2.0, None)) == 4.0
    assert float(step(torch.ones(3), 3.0, None)) == 9.0
    assert recorder.recordings == 1


def test_a_step_that_cannot_be_recorded_goes_on_without():
    step = CapturedStep(weighted_sum, CPU, StubbornRecorder())
    for _ in range(3):
        step(torch.ones(3), 1.0, None)
    with pytest.warns(UserWarning, match="cannot be recorded"):
        assert float(step(torch.ones(3), 2.0, None)) == 6.0
    assert float(step(torch.ones(3), 3.0, None)) == 9.0
