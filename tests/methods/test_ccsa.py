"""CCSA's loss on pairs that can be computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Planner
from homefold.methods.training.ccsa import CCSA, _CCSALearner, alignment_loss

Z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.6, 0.8], [0.0, 0.0]])
LABELS = torch.tensor([0, 0, 1, 1])
DOMAINS = torch.tensor([0, 1, 1, 0])


def test_the_loss_is_the_one_computed_by_hand():
    # Across domains: (0, 1) same class at distance 5; (2, 3) same class at 1; (0, 2) and (1, 3) of two classes at 1
    # and 5; (0, 3) and (1, 2) lie in one domain and do not count.
    aligned = (25 + 1) / 2
    separated = ((3 - 1) ** 2 + 0) / 2
    # Three pairs of two classes for each of one, all in one mean.
    assert float(alignment_loss(Z, LABELS, DOMAINS, 3.0)) == pytest.approx((aligned + 3 * separated) / 4)
    assert float(alignment_loss(Z, LABELS, DOMAINS, 3.0, negatives=1.0)) == pytest.approx((aligned + separated) / 2)


def test_pairs_of_one_domain_do_not_count():
    assert float(alignment_loss(Z, LABELS, torch.zeros(4, dtype=torch.long), 3.0)) == 0.0


def test_images_at_one_point_have_a_finite_gradient():
    z = torch.zeros(4, 2, requires_grad=True)
    alignment_loss(z, LABELS, DOMAINS, 1.0).backward()
    assert torch.isfinite(z.grad).all()


def test_the_whole_loss_weighs_both_parts(build, batch):
    learner = build(CCSA(weight=0.4, margin=0.5)).eval()
    z = learner.features(batch.images)
    unit = z / z.norm(dim=1, keepdim=True)
    own = alignment_loss(unit, batch.labels, batch.domains, 0.5)
    plain = torch.nn.functional.cross_entropy(learner.classifier(z), batch.labels)
    assert learner.loss(batch).item() == pytest.approx(0.6 * plain.item() + 0.4 * own.item(), rel=1e-5)


def test_few_shot_adaptation_sees_source_and_target_together(task_for, unseen, monkeypatch):
    few, seen = unseen.subset(range(0, 72, 6)), []
    original = _CCSALearner.adaptation_loss

    def watched(learner, batch):
        seen.append(batch.domains.bincount(minlength=4).tolist())
        return original(learner, batch)

    monkeypatch.setattr(_CCSALearner, "adaptation_loss", watched)
    method = CCSA()
    before, after = method.train(task_for(method, adapt=few, features__epochs=2)).stages
    assert before.id != after.id
    assert seen
    assert all(max(counts) - min(counts) <= 1 for counts in seen), "as many of the target as of each source"


def test_it_has_a_signal_from_one_source_and_a_few_images_of_the_target():
    method = CCSA()
    assert "ccsa compares source domains" in method.without_signal(1, 0)
    assert not method.without_signal(1, 70)
    assert not method.without_signal(3, 0)


def test_few_shot_leaves_out_the_splits_without_any_shot(digits_pair):
    options = BenchOptions("few-shot", Path("unused"), methods=("ccsa",), seeds=1, preset="quick",
                           settings=("preprocessing.image_size=16",))  # fmt: skip
    runs = [run for unit in Planner(options, digits_pair).units() for run in unit]
    assert {run.split.facts["shots"] for run in runs} == {7, 10}


@pytest.fixture
def digits_pair(few_digits):
    return few_digits.without("scan").without("street")
