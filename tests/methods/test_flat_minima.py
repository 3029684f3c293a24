"""SAM, SWAD and ERM++: Deep All's loss under another gradient, another mean of weights and a warmed-up classifier."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from homefold.config import preset_config
from homefold.features.averaging import ValleyAverage
from homefold.features.gradient_step import GradientStep
from homefold.features.loop import TrainingRun
from homefold.methods import find_method
from homefold.methods.training.erm_plus_plus import ErmPlusPlus
from homefold.methods.training.sam import Sam
from homefold.methods.training.swad import Swad
from homefold.store.stage_store import StageStore


def learned(method, task):
    return method.train(task).stages[0].state["learner"]


def same_bytes(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.slow
def test_at_their_null_settings_they_are_deep_all_to_the_byte(task_for):
    settings = {"features__epochs": 1, "features__average_from": 0.5}
    plain = find_method("deep-all")
    trained = plain.train(task_for(plain, **settings)).classifier_network()
    network = {f"net.{name}": value for name, value in trained.features.state_dict().items()}
    layer = {f"classifier.{name}": value for name, value in trained.layer.state_dict().items()}
    for method in (Sam(radius=0.0), Swad(ratio=0.0), ErmPlusPlus(warm_up=0.0)):
        assert same_bytes(learned(method, task_for(method, **settings)), {**network, **layer})


@pytest.mark.slow
class TestSam:
    def test_two_steps_are_those_written_out(self, task_for, monkeypatch):
        method = Sam(radius=0.2)
        steps = []
        plain = GradientStep.__call__

        def watched(step, pixels, labels, *others, rates, generator):
            if len(steps) < 2:
                state = generator.get_state()
                images = step.varied(pixels, generator)
                generator.set_state(state)
                before = {name: value.clone() for name, value in runs[0].net.state_dict().items()}
                loss = plain(step, pixels, labels, *others, rates=rates, generator=generator)
                after = {name: value.clone() for name, value in runs[0].net.state_dict().items()}
                steps.append((images, labels, before, after, rates[0], loss.item()))
                return loss
            return plain(step, pixels, labels, *others, rates=rates, generator=generator)

        runs = []
        begun = TrainingRun.__init__

        def noted(run, *given, **named):
            begun(run, *given, **named)
            runs.append(run)

        monkeypatch.setattr(TrainingRun, "__init__", noted)
        monkeypatch.setattr(GradientStep, "__call__", watched)
        method.train(task_for(method, features__epochs=1, features__momentum=0.0, features__weight_decay=0.0))
        learner = runs[0].net.train()
        for images, labels, before, after, rate, told in steps:
            learner.load_state_dict(before)
            loss = F.cross_entropy(learner.logits(images), labels)
            assert told == pytest.approx(loss.item(), rel=1e-5)
            start = list(learner.parameters())
            slopes = torch.autograd.grad(loss, start)
            length = sum(slope.square().sum() for slope in slopes).sqrt()
            moved = {
                name: (weight + 0.2 * slope / length).detach().requires_grad_()
                for (name, weight), slope in zip(learner.named_parameters(), slopes, strict=True)
            }
            _, logits = functional_call(learner, moved, (images,))
            slopes = torch.autograd.grad(F.cross_entropy(logits, labels), list(moved.values()))
            for (name, weight), slope in zip(learner.named_parameters(), slopes, strict=True):
                assert torch.allclose(after[name], weight - rate * slope, atol=1e-5)
            assert (after["classifier.weight"] - before["classifier.weight"]).abs().max() > 1e-4

    def test_its_captured_step_is_the_plain_one(self, task_for, monkeypatch, tmp_path):
        class Replaying:
            def run(self, function):
                return function()

            def capture(self, function):
                return function

        task = task_for(Sam(), features__epochs=2)
        losses = [learned(Sam(), task)["classifier.weight"]]
        monkeypatch.setattr("homefold.features.gradient_step.capturer_for", lambda device, *, enabled: Replaying())
        losses.append(learned(Sam(), replace(task, stages=StageStore(tmp_path / "elsewhere")))["classifier.weight"])
        # A captured rate is a float32, so the last digits differ.
        assert torch.allclose(*losses, atol=1e-3)
        assert Sam().learner(*_nothing(task)).capturable


def _nothing(task):
    """A network and a task for a learner of which only its kind is asked."""
    from homefold.methods import LearningTask
    from homefold.stages.features import build_task_net

    size = LearningTask(3, 3, 9, task.source.image_size, 0)
    return build_task_net(task, pretrained=False), size


@pytest.mark.slow
class TestSwad:
    METHOD = Swad(patience=1, tolerance=1, ratio=1.05)

    def task(self, task_for, **settings):
        return task_for(self.METHOD, features__epochs=5, features__schedule="constant", **settings)

    def test_what_it_keeps_is_the_mean_over_the_steps_of_the_valley(self, task_for, monkeypatch):
        states, losses = [], [3.0, 1.0, 1.1, 2.0, 2.0]
        step, epoch = ValleyAverage.after_step, ValleyAverage.after_epoch

        def after_step(average, number, steps):
            states.append({name: value.double().clone() for name, value in average.module.state_dict().items()})
            step(average, number, steps)

        def after_epoch(average, number, epochs, held_out_loss):
            assert held_out_loss() > 0
            epoch(average, number, epochs, lambda: losses[number - 1])

        monkeypatch.setattr(ValleyAverage, "after_step", after_step)
        monkeypatch.setattr(ValleyAverage, "after_epoch", after_epoch)
        found = learned(Swad(patience=2, tolerance=2), self.task(task_for))
        each = len(states) // 5
        inside = states[each : 3 * each]  # of the second epoch and the third
        for name, value in found.items():
            if value.is_floating_point():
                mean = torch.stack([state[name] for state in inside]).mean(dim=0)
                torch.testing.assert_close(value.double(), mean, rtol=1e-4, atol=1e-5)

    def test_a_killed_training_goes_on_to_the_same_bytes(self, task_for, after_a_kill):
        whole = learned(self.METHOD, self.task(task_for))
        task = self.task(task_for, features__checkpoint_seconds=0.0)
        assert same_bytes(after_a_kill(self.METHOD, task).stages[0].state["learner"], whole)

    def test_without_a_valley_the_best_epoch_is_kept(self, task_for):
        never = Swad(patience=5)
        plain = find_method("deep-all")
        settings = {"features__average_from": 1.0, "features__average_every": 0}
        network = plain.train(task_for(plain, **settings)).classifier_network()
        found = learned(never, task_for(never, **settings))
        assert torch.equal(found["classifier.weight"], network.layer.weight)


class TestErmPlusPlus:
    def test_until_the_warm_up_is_over_the_classifier_alone_learns(self, build, batch):
        learner = build(ErmPlusPlus(warm_up=0.5))
        for step, learns in ((4, False), (5, True)):
            learner.zero_grad(set_to_none=True)
            loss = learner.loss(replace(batch, step=step))
            loss.backward()
            assert loss.item() == pytest.approx(
                learner.cross_entropy(learner.logits(batch.images), batch.labels).item()
            )
            assert all((parameter.grad is not None) == learns for parameter in learner.net.parameters())
            assert all(parameter.grad.abs().max() > 0 for parameter in learner.classifier.parameters())

    def test_momentum_and_decay_leave_the_network_alone_meanwhile(self, task_for):
        method = ErmPlusPlus(warm_up=1.0)
        task = task_for(method, features__epochs=1, features__select="last")
        net, size = _nothing(task)
        start = {name: value.clone() for name, value in method.learner(net, size).net.named_parameters()}
        found = learned(method, task)
        assert all(torch.equal(found[f"net.{name}"], value) for name, value in start.items())
        assert not torch.equal(found["classifier.weight"], method.learner(net, size).classifier.weight)

    def test_its_recipe_is_long_and_averages_every_step_from_the_six_hundredth(self):
        method = find_method("erm-plus-plus", "resnet18")
        features = method.starting(preset_config("default")).features
        assert (features.epochs, features.average_from, features.average_every) == (288, 0.03, 1)
        assert (features.learning_rate, features.batch_size, features.sampling) == (5e-5, 96, "domains")
        assert method.settings()["optimiser"] == "adam"
        assert find_method("sam", "resnet18").starting(preset_config("default")).features.average_every == 0
