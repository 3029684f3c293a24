"""CCSA's loss on pairs that can be computed by hand."""

from __future__ import annotations

import pytest
import torch

from homefold.methods.training.ccsa import CCSA, alignment_loss

Z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.6, 0.8], [0.0, 0.0]])
LABELS = torch.tensor([0, 0, 1, 1])
DOMAINS = torch.tensor([0, 1, 1, 0])


def test_the_loss_is_the_one_computed_by_hand():
    # Across domains: (0, 1) same class at distance 5; (2, 3) same class at 1; (0, 2) and (1, 3) of two classes at 1
    # and 5; (0, 3) and (1, 2) lie in one domain and do not count.
    aligned = (25 / 2 + 1 / 2) / 2
    separated = ((3 - 1) ** 2 / 2 + 0) / 2
    assert float(alignment_loss(Z, LABELS, DOMAINS, 3.0)) == pytest.approx(aligned + separated)


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
