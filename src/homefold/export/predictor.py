"""The whole way from pixels to answers as one module that ONNX can hold: views, styles, search, classifier."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from homefold.config.views import WHOLE
from homefold.export.gradient import decoder_layers, loss_and_gradient
from homefold.features.batches import to_pixels
from homefold.features.views import apply_view, mean_of_views
from homefold.manifold import Manifold
from homefold.manifold.nearest import nearest_to_each
from homefold.projection.rules.objective import cosine_distance
from homefold.projection.rules.starts import starting_latents
from homefold.projection.rules.steps import step_rule
from homefold.projection.rules.stopping import stopping_rule
from homefold.stages.feature_model import to_sphere
from homefold.stages.trained_model import TrainedModel

__all__ = ["OUTPUTS", "Loop", "Predictor", "one_loop", "unrolled"]

OUTPUTS = ("probabilities", "off_manifold")
"""What the module gives for `n` images: `(n, classes)` and `(n,)`."""

State = tuple[torch.Tensor, ...]
Loop = Callable[[Callable[[State], State], State, int], State]
"""Applies a step to a state so many times; the step's number is the state's first tensor."""


def one_loop(step: Callable[[State], State], first: State, steps: int) -> State:
    """As a loop in the graph, however many steps it has."""
    from torch._higher_order_ops.while_loop import while_loop

    def body(*state: torch.Tensor) -> State:
        # torch refuses a loop that hands a tensor on as it came, as the elbow's memory does.
        return tuple(after.clone() if any(after is before for before in state) else after for after in step(state))

    found: State = while_loop(lambda *state: state[0] < steps, body, first)
    return found


def unrolled(step: Callable[[State], State], first: State, steps: int) -> State:
    """Step after step in the graph: for versions of torch that cannot export a loop."""
    state = first
    for _ in range(steps):
        state = step(state)
    return state


class Predictor(nn.Module):
    """Answers for images with all settings of a model, as `TrainedModel.answer` gives them but for rounding.

    Args:
        trained: the model, on the CPU.
        loop: how the steps of the search stand in the graph.
    """

    numbers: torch.Tensor

    def __init__(self, trained: TrainedModel, loop: Loop) -> None:
        super().__init__()
        model = trained.feature_model
        look = trained.config.look
        styled = trained.styled if look.styles else None
        self.net = (styled or trained.encoder).net
        self.plain = trained.encoder.net
        self.watcher = trained.watcher.net if look.leave_familiar else None
        self.familiarity = trained.familiarity
        self.manifold, self.classifier = model.manifold, model.classifier
        self._views = trained.config.views(look)
        self._search, self._seed, self._normalise, self._loop = model.search, model.seed, model.normalise, loop
        self._scale, self._temperature = model.off_manifold_scale(model.search), model.temperature
        self._layers = decoder_layers(self.manifold) if self.manifold.is_continuous else []
        rule = step_rule(self._search)
        numbers = [rule.numbers(step) for step in range(self._search.steps)]
        self.register_buffer("numbers", torch.tensor(numbers), persistent=False)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`images: (n, height, width, 3)` uint8, of the model's size, to `OUTPUTS`."""
        pixels = to_pixels(images)
        z = self._features(self.net, pixels)
        is_familiar = None
        if self.watcher is not None:
            assert self.familiarity is not None
            plain, is_familiar = self.familiarity.split(self.watcher(pixels))
            plain = plain if self._views == WHOLE else self._features(self.plain, pixels)
            z = torch.where(is_familiar[:, None], plain, z)
        z = to_sphere(z) if self._normalise else z
        features, distance = self._nearest(z) if not self.manifold.is_continuous else self._searched(z)
        answered = features if is_familiar is None else torch.where(is_familiar[:, None], z, features)
        logits = self.classifier(answered)
        return torch.softmax(logits / self._temperature, dim=1), distance / self._scale

    def _features(self, net: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
        """Raw features `(n, d)`, the mean of all views."""
        seen = [net(apply_view(pixels, view)).float() for view in self._views]
        return seen[0] if len(seen) == 1 else mean_of_views(seen)

    def _nearest(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        bank = self.manifold.bank_features
        features = bank[nearest_to_each(F.normalize(z, dim=1), F.normalize(bank, dim=1))]
        return features, cosine_distance(features, z)

    def _searched(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """G(u*) `(n, d)` for `z: (n, d)`, the best of all starts, and its distance `(n,)`."""
        config, manifold = self._search, self.manifold
        assert isinstance(manifold, Manifold)
        starts = starting_latents(config, manifold, z, self._seed)
        count = starts.shape[1]
        targets = z.repeat_interleave(count, dim=0)
        first = starts.reshape(-1, starts.shape[2]).clone()
        mover, watcher = step_rule(config), stopping_rule(config)
        moved, watched = mover.memory(first), watcher.memory(first)
        begin = (torch.zeros((), dtype=torch.long), first, *moved, *watched)
        found = self._loop(partial(self._step, targets, len(moved)), begin, config.steps)
        latents, _ = watcher.result(found[1], config.steps, found[2 + len(moved) :])
        features = manifold.decode(latents)
        distances = cosine_distance(features, targets)
        won = distances.view(-1, count).nan_to_num(nan=torch.inf).argmin(dim=1)
        rows = torch.arange(z.shape[0]) * count + won
        return features[rows], distances[rows]

    def _step(self, targets: torch.Tensor, remembered: int, state: State) -> State:
        """The state after one more step: its number, the latents, and what the two rules remember."""
        number, u, *memory = state
        loss, gradient = loss_and_gradient(self._layers, u, targets)
        now = self.numbers.index_select(0, number.view(1)).unbind(1) if self.numbers.numel() else ()
        u, moved = step_rule(self._search).move(u, gradient, tuple(memory[:remembered]), now)
        watched = stopping_rule(self._search).watch(number, loss, u, tuple(memory[remembered:]))
        return number + 1, u, *moved, *watched
