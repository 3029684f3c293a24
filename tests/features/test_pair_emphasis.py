"""Pairs that count more in L_A: against a double loop and autograd, in blocks, and in training."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import FeatureConfig, build_feature_net, train_features
from homefold.features.loss import pairwise_metric_loss
from homefold.features.pair_emphasis import PairEmphasis

CPU = torch.device("cpu")


def slow_weights(probabilities, labels, domains, cross_domain, hardness, balanced):
    """Pair by pair, in Python floats: they add up to 1."""
    n = len(labels)
    places = [(i, j) for i in range(n) for j in range(n)]
    same = [place for place in places if labels[place[0]] == labels[place[1]]]
    weight = dict.fromkeys(places, 1.0)
    for i, j in same:
        weight[i, j] = cross_domain if domains[i] != domains[j] else 1.0
    kept = sum(weight[place] for place in same)
    for place in same:
        weight[place] *= len(same) / kept
    for i, j in places:
        truth = 1.0 if labels[i] == labels[j] else 0.0
        weight[i, j] *= abs(probabilities[i][j] - truth) ** hardness
    kinds = [same, [place for place in places if place not in set(same)]] if balanced else [places]
    for kind in kinds:
        total = sum(weight[place] for place in kind)
        for place in kind:
            weight[place] /= total * len(kinds)
    return [[weight[i, j] for j in range(n)] for i in range(n)]


@given(
    n=st.integers(1, 9),
    d=st.integers(1, 5),
    chunk=st.one_of(st.none(), st.integers(1, 10)),
    temperature=st.floats(0.2, 2.0),
    bias=st.floats(-1.0, 1.0),
    balanced=st.booleans(),
    cross_domain=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    hardness=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    seed=st.integers(0, 2**31),
)
def test_equals_the_double_loop_in_value_and_gradient(
    n, d, chunk, temperature, bias, balanced, cross_domain, hardness, seed
):
    random = torch.Generator().manual_seed(seed)
    z = torch.randn(n, d, generator=random, dtype=torch.float64)
    labels, domains = (torch.randint(0, 3, (n,), generator=random) for _ in range(2))
    inputs = [value.clone().requires_grad_() for value in (z, *torch.tensor([temperature, bias], dtype=torch.float64))]
    unit = F.normalize(inputs[0], dim=1)
    logits = unit @ unit.T / inputs[1] + inputs[2]
    probabilities = torch.sigmoid(logits).tolist()
    weights = slow_weights(probabilities, labels.tolist(), domains.tolist(), cross_domain, hardness, balanced)
    same = (labels[:, None] == labels).double()
    losses = F.binary_cross_entropy_with_logits(logits, same, reduction="none")
    expected = (torch.tensor(weights, dtype=torch.float64) * losses).sum()
    found = pairwise_metric_loss(
        inputs[0],
        labels,
        inputs[1],
        bias=inputs[2],
        balanced=balanced,
        chunk=chunk,
        emphasis=PairEmphasis(cross_domain, hardness),
        domains=domains,
    )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    gradients = (torch.autograd.grad(3 * loss, inputs) for loss in (found, expected))
    for left, right in zip(*gradients, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-8, atol=1e-11)


def test_a_weight_of_two_lets_pairs_across_domains_count_twice():
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    labels, domains = torch.tensor([0, 0, 0]), torch.tensor([0, 0, 1])
    near, far = math.log1p(math.exp(-1)), math.log(2)
    # Nine pairs: five of one domain, all near, and four of two domains, all far.
    emphasised = pairwise_metric_loss(z, labels, 1.0, emphasis=PairEmphasis(cross_domain=2.0), domains=domains)
    assert float(pairwise_metric_loss(z, labels, 1.0)) == pytest.approx((5 * near + 4 * far) / 9)
    assert float(emphasised) == pytest.approx((5 * near + 2 * 4 * far) / 13)


def test_the_weight_across_domains_leaves_pairs_of_different_labels_alone():
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    labels, domains = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1])
    plain = pairwise_metric_loss(z, labels, 1.0)
    emphasised = pairwise_metric_loss(z, labels, 1.0, emphasis=PairEmphasis(cross_domain=7.0), domains=domains)
    # Same-label pairs all have the same loss, so however they share their weight nothing changes.
    assert float(emphasised) == pytest.approx(float(plain))


@pytest.mark.parametrize("emphasis", [PairEmphasis(), PairEmphasis(cross_domain=2.0, hardness=1.0)])
def test_numbers_serve_as_well_as_tensors(emphasis):
    random = torch.Generator().manual_seed(0)
    z, labels = torch.randn(6, 3, generator=random, dtype=torch.float64), torch.tensor([0, 1, 0, 2, 1, 0])
    scalars = ((0.3, -0.1), torch.tensor([0.3, -0.1], dtype=torch.float64))
    left, right = (
        pairwise_metric_loss(z, labels, tau, bias=bias, chunk=4, emphasis=emphasis, domains=labels.flip(0))
        for tau, bias in scalars
    )
    assert float(left) == pytest.approx(float(right), rel=1e-14)


def test_hard_pairs_count_more():
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    labels = torch.tensor([0, 0])
    easy, hard = 1 / (1 + math.e), 1 / (1 + math.exp(-1))  # errors of the diagonal and of the pair
    expected = (easy**2 * -math.log(1 - easy) + hard**2 * -math.log(1 - hard)) / (easy**2 + hard**2)
    found = pairwise_metric_loss(z, labels, 1.0, emphasis=PairEmphasis(hardness=2.0))
    assert float(found) == pytest.approx(expected)


def test_pairs_that_are_all_easy_leave_a_finite_loss():
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    loss = pairwise_metric_loss(z, torch.tensor([0, 0]), 0.01, emphasis=PairEmphasis(hardness=4.0))
    loss.backward()
    assert 0 <= loss.item() < 1e-6
    assert torch.isfinite(z.grad).all()


def test_domains_must_be_given_where_they_matter():
    with pytest.raises(ConfigError, match="domain of every image"):
        pairwise_metric_loss(torch.eye(2), torch.tensor([0, 1]), emphasis=PairEmphasis(cross_domain=2.0))


@pytest.mark.parametrize("name", ["cross_domain_weight", "hard_pairs"])
def test_settings_out_of_range_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} must not be negative; got -1.0"):
        FeatureConfig(**{name: -1.0})
    with pytest.raises(ConfigError, match=f"{name} must be a finite number; got inf"):
        FeatureConfig(**{name: float("inf")})


def test_training_follows_the_settings(few_digits, quick_config):
    config = replace(quick_config.features, epochs=4, cross_entropy_weight=0.0)
    train, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
    reports = {}
    for changes in ({}, {"cross_domain_weight": 3.0}, {"hard_pairs": 1.0}):
        one = replace(config, **changes)
        net = build_feature_net(one, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
        trained = train_features(one, net, few_digits, train, held_out, seed=0, device=CPU)
        reports["".join(changes)] = trained.report
    first = {name: report.history[0]["loss"] for name, report in reports.items()}
    assert len(set(first.values())) == 3
    # Hard pairs have the higher losses, and pairs across domains are the harder ones of equal label.
    assert first["hard_pairs"] > first[""]
    assert first["cross_domain_weight"] > first[""]
    assert all(report.spread.same - report.spread.different > 0.1 for report in reports.values())
