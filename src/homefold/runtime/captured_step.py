"""A training step that is captured once as a CUDA graph and replayed: no Python and no launches between its kernels.

Small networks on a fast GPU wait for Python most of the time. Elsewhere the step is simply called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Protocol

import torch

__all__ = ["CapturedStep", "Capturer", "CudaCapturer", "StepInput", "capturer_for"]

StepInput = torch.Tensor | float | None
StepFunction = Callable[..., torch.Tensor]

# Before a capture, libraries must have made their workspaces and optimisers their state.
_CALLS_BEFORE_CAPTURE = 3


class Capturer(Protocol):
    """How a device runs a function now, and how it captures one to run it again."""

    def run(self, function: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Call `function` in a way that does not hinder a later capture."""

    def capture(self, function: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """What repeats all that `function` does on the device, without doing it now."""


class CudaCapturer:
    """CUDA graphs, with everything that is to be captured on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def run(self, function: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Call `function` on the stream that captures use: gradients remember the stream they were made on."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            result = function()
        current.wait_stream(self._stream)
        return result

    def capture(self, function: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        """Capture `function`; the result of a replay lies in the same memory every time."""
        graph = torch.cuda.CUDAGraph()
        # Another thread may be pinning memory or copying batches meanwhile, which is no part of the capture.
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            result = function()

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay


def capturer_for(device: torch.device, *, enabled: bool = True) -> Capturer | None:
    """What captures steps on `device`; None where they are simply called."""
    return CudaCapturer(device) if enabled and device.type == "cuda" else None


class CapturedStep:
    """Calls `function`, and from the fourth call on replays a captured graph of it with the new inputs.

    The function must do the same on every call, must not look at the values of its inputs, and must set gradients to
    None before it computes new ones. Numbers become tensors of one value, so that a captured graph sees each call's.

    Without a capturer it is called with the inputs as they are. `device` is where these lie.
    """

    def __init__(self, function: StepFunction, device: torch.device, capturer: Capturer | None) -> None:
        self._function, self._device, self._capturer = function, device, capturer
        self._calls = 0
        self._inputs: list[torch.Tensor | None] = []
        self._replay: Callable[[], torch.Tensor] | None = None

    @property
    def is_captured(self) -> bool:
        """Whether calls are replayed by now."""
        return self._replay is not None

    def __call__(self, *inputs: StepInput) -> torch.Tensor:
        """One step. The result is overwritten by the next call once the step is captured."""
        capturer = self._capturer
        if capturer is None:
            return self._function(*inputs)
        if self._inputs and not self._fits(inputs):
            # A last batch of another size, say: too rare to be worth a capture.
            given = [self._own(value) for value in inputs]
            return capturer.run(lambda: self._function(*given))
        self._take(inputs)
        if self._replay is None and self._calls < _CALLS_BEFORE_CAPTURE:
            self._calls += 1
            return capturer.run(self._step)
        if self._replay is None:
            try:
                self._replay = capturer.capture(self._step)
            except RuntimeError as error:
                # A network of the user's own may look at values, which no captured graph can.
                warnings.warn(f"a step cannot be captured as a CUDA graph and runs without ({error})", stacklevel=2)
                self._capturer = None
                return capturer.run(self._step)
        return self._replay()

    def _step(self) -> torch.Tensor:
        return self._function(*self._inputs)

    def _own(self, value: StepInput) -> torch.Tensor | None:
        if value is None or isinstance(value, torch.Tensor):
            return value
        return torch.full((), value, device=self._device)

    def _fits(self, inputs: tuple[StepInput, ...]) -> bool:
        pairs = zip(self._inputs, inputs, strict=True)
        return all(
            (old is None) == (new is None)
            and (old is None or not isinstance(new, torch.Tensor) or old.shape == new.shape)
            for old, new in pairs
        )

    def _take(self, inputs: tuple[StepInput, ...]) -> None:
        """Copy the inputs to where the captured graph looks for them."""
        if not self._inputs:
            owned = [self._own(value) for value in inputs]
            self._inputs = [None if value is None else value.clone() for value in owned]
            return
        for place, value in zip(self._inputs, inputs, strict=True):
            if place is not None and isinstance(value, torch.Tensor):
                place.copy_(value, non_blocking=True)
            elif place is not None and value is not None:
                place.fill_(value)
