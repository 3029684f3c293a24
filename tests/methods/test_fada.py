"""FADA's pairs and losses by hand, and its adaptation to a few images of the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner
from homefold.methods import ImageSet
from homefold.methods.training.fada import Fada, FadaLearner


def with_target(batch):
    """The third domain becomes the one after the sources'."""
    return replace(batch, domains=torch.where(batch.domains == 2, 3, batch.domains))


def slow_surprise(learner, z, batch, group, as_group):
    """Over all pairs whose first is of a source, one by one."""
    found = []
    for i in range(len(batch)):
        for j in range(len(batch)):
            if batch.domains[i] == 3 or i == j:
                continue
            own = 2 * int(batch.labels[i] != batch.labels[j]) + int(batch.domains[j] == 3)
            if own == group:
                told = learner.discriminator(torch.cat([z[i], z[j]]))
                found.append(F.cross_entropy(told, torch.tensor(as_group)))
    return torch.stack(found).mean()


def gradients(loss, module):
    return torch.autograd.grad(loss, list(module.parameters()), retain_graph=True, allow_unused=True)


def test_each_part_learns_its_own_loss_of_all_pairs(build, batch):
    batch = with_target(replace(batch, images=batch.images[::4], labels=batch.labels[::4], domains=batch.domains[::4]))
    learner = build(Fada(weight=0.6)).eval()
    found = learner.adaptation_loss(batch)
    z = learner.features(batch.images)
    plain = F.cross_entropy(learner.classifier(z), batch.labels)
    told = sum(slow_surprise(learner, z, batch, group, group) for group in range(4)) / 4
    confused = slow_surprise(learner, z, batch, 1, 0) + slow_surprise(learner, z, batch, 3, 2)
    assert found.item() == pytest.approx((plain + 0.3 * confused + told).item(), rel=1e-5)
    for part, expected in ((learner.net, plain + 0.3 * confused), (learner.discriminator, told)):
        for mine, its in zip(gradients(found, part), gradients(expected, part), strict=True):
            assert torch.allclose(mine, its, atol=1e-6)


def test_at_first_the_discriminator_learns_alone(build, batch):
    learner = build(Fada(warm_up=0.2))
    learner.adaptation_loss(replace(with_target(batch), step=1)).backward()
    assert all(parameter.grad is None for parameter in (*learner.net.parameters(), *learner.classifier.parameters()))
    assert all(parameter.grad.abs().sum() > 0 for parameter in learner.discriminator.parameters())
    learner.adaptation_loss(replace(with_target(batch), step=2)).backward()
    assert all(parameter.grad is not None for parameter in learner.net.parameters())


@pytest.mark.slow
def test_source_and_target_meet_in_adaptation_and_it_answers_better_for_it(task_for, unseen, monkeypatch):
    seen, original = [], FadaLearner.adaptation_loss

    def watched(learner, batch):
        seen.append(batch.domains.bincount(minlength=4).tolist())
        return original(learner, batch)

    monkeypatch.setattr(FadaLearner, "adaptation_loss", watched)
    method, few = Fada(), unseen.subset(range(0, 72, 6))
    trained = method.train(task_for(method, adapt=few))
    assert all(max(counts) - min(counts) <= 1 for counts in seen)
    before, after = trained.stages
    moved = {
        name for name, value in after.state["learner"].items() if not torch.equal(value, before.state["learner"][name])
    }
    assert {"discriminator.0.weight", "classifier.weight", "net.head.weight"} <= moved
    rest = unseen.subset([row for row in range(72) if row % 6])
    answers = trained.answer(ImageSet(rest.images, "rest")).predictions.indices
    assert (answers == rest.labels).mean() > 0.6, "three classes: chance is a third"


def test_without_images_of_the_target_it_is_refused_with_a_sentence(few_digits):
    assert "fada brings labelled target images to the source's, and there are none" in Fada().without_signal(3, 0)
    assert not Fada().without_signal(1, 70)
    options = {"methods": ("fada",), "seeds": 1, "preset": "quick", "settings": ("preprocessing.image_size=16",)}
    with pytest.raises(ConfigError, match=r"fada brings labelled target images .* Leave it out, or run it in few-shot"):
        Planner(BenchOptions("digits-mini", Path("unused"), **options), few_digits).units()
    pair = few_digits.without("scan").without("street")
    runs = [run for unit in Planner(BenchOptions("few-shot", Path("unused"), **options), pair).units() for run in unit]
    assert {run.split.facts["shots"] for run in runs} == {7, 10}
