"""What holds for every training-time method: it learns, its null setting is Deep All, its settings are documented."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from torch.nn import functional as F

from homefold.methods import ImageSet, Learner, LearnerMethod, find_method
from homefold.methods.registry import METHODS
from homefold.runtime.device import autocast

pytestmark = pytest.mark.slow

LEARNERS = [method for method in map(find_method, METHODS) if isinstance(method, LearnerMethod)]
# Where one step of the default changes less than can be told, or takes long.
USUAL = {
    "groupdro": {"step": 50.0},
    "vrex": {"weight": 1e4},
    "irm": {"weight": 1e4},
    "fishr": {"weight": 1e4},
    "m-ada": {"ascent": 3, "encoder_epochs": 1, "images": 40},
    "l2a-ot": {"width": 4, "blocks": 1},
}
# Where the loss is Deep All's, and what is done with it is not; their own tests have them (test_flat_minima.py).
SAME_LOSS = ("sam", "swad", "erm-plus-plus")
every_method = pytest.mark.parametrize("method", LEARNERS, ids=lambda method: method.info.name)


def as_usual(method):
    return replace(method, **USUAL.get(method.info.name, {}))


def plain_loss(learner, batch):
    torch.manual_seed(1)
    return Learner.loss(learner, batch)


def own_loss(learner, batch):
    torch.manual_seed(1)
    if type(learner).loss is Learner.loss:  # its own part is in adaptation, where the domain after the sources' is new
        return learner.adaptation_loss(replace(batch, domains=batch.domains + 1))
    return learner.loss(batch)


@pytest.mark.parametrize(("name", "epochs"), [("ccsa", 6), ("crossgrad", 6), ("jigen", 14), ("rsc", 6)])
def test_it_learns_what_holds_on_an_unseen_domain(name, epochs, task_for, unseen):
    method = find_method(name)
    trained = method.train(task_for(method, features__epochs=epochs))
    answers = trained.answer(ImageSet(unseen.images, "unseen")).predictions
    assert float((answers.indices == unseen.labels).mean()) > 0.7, "a third would be chance"


@every_method
def test_at_its_null_setting_its_loss_is_that_of_deep_all(method, build, batch, training_images):
    assert method.null, "a method names the settings that switch it off"
    # At 32 px, where the last map has several places: of one RSC has none to mute.
    batch = replace(batch, images=F.interpolate(batch.images, size=32))
    null = build(replace(method, **method.null), side=32)
    assert own_loss(null, batch).item() == pytest.approx(plain_loss(null, batch).item(), rel=1e-6)
    usual = build(as_usual(method), side=32)
    if method.info.name in SAME_LOSS:
        assert own_loss(usual, batch).item() == plain_loss(usual, batch).item()
        return
    usual.epoch_start(3, training_images(32))
    assert abs(own_loss(usual, batch).item() - plain_loss(usual, batch).item()) > 1e-3, "its own part matters"


@every_method
def test_its_docstring_says_what_switches_it_off_and_what_it_costs(method):
    text = type(method).__doc__
    assert "Null setting:" in text
    assert "Cost of a step:" in text
    assert all(f"`{name}`" in text for name in method.null)


@every_method
def test_at_its_null_setting_the_network_learns_what_deep_all_does(method, build, batch):
    null = build(replace(method, **method.null))
    gradients = []
    for loss in (own_loss, plain_loss):
        null.zero_grad()
        loss(null, batch).backward()
        gradients.append([parameter.grad.clone() for parameter in null.net.parameters()])
    for own, plain in zip(*gradients, strict=True):
        assert torch.allclose(own, plain, atol=1e-6)


@every_method
def test_what_learns_in_full_precision_learns_in_half_too(method, build, batch, training_images):
    learner = build(as_usual(method))
    learner.epoch_start(3, training_images())
    # At odd steps the discriminator of dann learns alone.
    batch, gradients = replace(batch, step=6), []
    for dtype in (torch.float32, torch.bfloat16):
        learner.zero_grad()
        with autocast(torch.device("cpu"), dtype):
            own_loss(learner, batch).backward()
        found = {name: parameter.grad for name, parameter in learner.named_parameters()}
        gradients.append({name: gradient for name, gradient in found.items() if gradient is not None})
        learner.zero_grad(set_to_none=True)
    full, half = gradients
    assert full.keys() == half.keys(), "a weight loses its gradient under autocast"
    assert {name for name, _ in learner.net.backbone.named_parameters(prefix="net.backbone")} <= half.keys()
    for name, gradient in half.items():
        assert torch.isfinite(gradient).all()
        assert bool(gradient.any()) == bool(full[name].any()), name


@every_method
def test_every_setting_has_a_range_and_a_sentence(method):
    space = {item.name: item.metadata["search"] for item in fields(method)}
    for name, search in space.items():
        default = getattr(method, name)
        if search.choices:
            assert default in search.choices
        else:
            assert search.low <= default <= search.high
            assert search.low < search.high
    assert set(method.null) <= set(space)
