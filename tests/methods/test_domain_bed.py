"""Mixup, CORAL, DANN, IRM, GroupDRO and VREx, against slow references."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from scipy.stats import beta
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.methods import ImageSet, find_method
from homefold.methods.training.coral import Coral, moment_distance
from homefold.methods.training.dann import Dann
from homefold.methods.training.group_dro import GroupDro
from homefold.methods.training.irm import Irm, scale_penalty
from homefold.methods.training.mixup import Mixup, other_domain
from homefold.methods.training.vrex import Vrex

NAMES = ("mixup", "coral", "dann", "irm", "groupdro", "vrex", "fishr", "mldg", "sagnet", "sam", "swad", "erm-plus-plus")


def losses_by_domain(learner, batch):
    logits = learner.logits(batch.images)
    return [
        F.cross_entropy(logits[batch.domains == domain], batch.labels[batch.domains == domain]) for domain in range(3)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_learns_what_holds_on_an_unseen_domain(name, task_for, unseen):
    method = find_method(name)
    # A heavy penalty needs longer than these few steps.
    weight = {"irm": 0.1, "vrex": 1.0}.get(name)
    method = method if weight is None else method.varied(weight=weight)
    trained = method.train(task_for(method, features__epochs=8))
    answers = trained.answer(ImageSet(unseen.images, "unseen")).predictions
    assert float((answers.indices == unseen.labels).mean()) > 0.7, "a third would be chance"


class TestMixup:
    def test_the_partner_is_of_another_domain_where_there_is_one(self):
        domains = torch.tensor([0, 0, 0, 1, 2, 2])
        torch.manual_seed(0)
        for _ in range(20):
            assert (domains[other_domain(domains)] != domains).all()
        assert other_domain(torch.zeros(4, dtype=torch.long)).max() < 4

    def test_the_loss_blends_images_and_labels(self, build, batch):
        learner = build(Mixup(alpha=0.5)).eval()
        torch.manual_seed(3)
        found = learner.loss(batch)
        torch.manual_seed(3)
        partner = other_domain(batch.domains)
        share = beta.ppf(torch.rand(len(batch)).numpy(), 0.5, 0.5)
        expected = 0.0
        for i in range(len(batch)):
            j, own = int(partner[i]), float(share[i])
            image = own * batch.images[i] + (1 - own) * batch.images[j]
            both = batch.labels[[i, j]]
            told = F.log_softmax(learner.logits(image[None]), dim=1)[0, both]
            expected -= (own * told[0] + (1 - own) * told[1]).item() / len(batch)
        assert found.item() == pytest.approx(expected, rel=1e-3)


class TestCoral:
    def test_means_and_covariances_by_hand(self):
        z = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
        domains = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 2])
        parts = [z[domains == domain] for domain in range(3)]
        terms = [
            (a.mean(dim=0) - b.mean(dim=0)).square().mean() + (a.T.cov() - b.T.cov()).square().mean()
            for a, b in combinations(parts, 2)
        ]
        assert moment_distance(z, domains, 3).item() == pytest.approx(torch.stack(terms).mean().item(), rel=1e-5)

    def test_a_domain_without_two_images_counts_for_nothing(self):
        z = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
        domains = torch.tensor([0, 0, 1, 1, 2])
        assert torch.isclose(moment_distance(z, domains, 4), moment_distance(z[:4], domains[:4], 2))
        assert moment_distance(z, torch.zeros(5, dtype=torch.long), 1) == 0

    def test_the_loss_adds_it_to_deep_alls(self, build, batch):
        learner = build(Coral(weight=0.3)).eval()
        z = learner.features(batch.images)
        plain = F.cross_entropy(learner.classifier(z), batch.labels)
        expected = plain + 0.3 * moment_distance(z, batch.domains, 3)
        assert learner.loss(batch).item() == pytest.approx(expected.item(), rel=1e-5)


class TestDann:
    def test_the_discriminator_learns_and_the_features_unlearn(self, build, batch):
        learner = build(Dann(weight=0.3, hidden=8)).eval()
        z = learner.features(batch.images)
        plain = F.cross_entropy(learner.classifier(z), batch.labels)
        told = F.cross_entropy(learner.discriminator(z), batch.domains)
        found = learner.loss(batch)
        assert found.item() == pytest.approx((plain + told).item(), rel=1e-5)
        for part, expected in ((learner.net, plain - 0.3 * told), (learner.discriminator, told)):
            parameters = list(part.parameters())
            mine, its = (torch.autograd.grad(loss, parameters, retain_graph=True) for loss in (found, expected))
            assert all(torch.allclose(*pair, atol=1e-6) for pair in zip(mine, its, strict=True))


class TestIrm:
    def test_the_penalty_is_the_product_of_two_halves_slopes(self):
        generator = torch.Generator().manual_seed(2)
        logits, labels = torch.randn(12, 3, generator=generator), torch.arange(12) % 3
        domains = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 2])
        terms = []
        for domain in (0, 1):
            own = domains == domain
            slopes = []
            for half in (slice(0, None, 2), slice(1, None, 2)):
                scale = torch.ones((), requires_grad=True)
                F.cross_entropy(scale * logits[own][half], labels[own][half]).backward()
                slopes.append(scale.grad)
            terms.append(slopes[0] * slopes[1])
        expected = torch.stack(terms).mean()  # of the third domain there is one half only
        assert scale_penalty(logits, labels, domains, 3).item() == pytest.approx(expected.item(), rel=1e-4)

    def test_its_weight_is_one_until_the_warm_up_is_over(self, build, batch):
        learner = build(Irm(weight=7.0, warm_up=0.5)).eval()
        logits = learner.logits(batch.images)
        plain = F.cross_entropy(logits, batch.labels)
        penalty = scale_penalty(logits, batch.labels, batch.domains, 3)
        for step, weight in ((4, 1.0), (5, 7.0)):
            found = learner.loss(replace(batch, step=step))
            assert found.item() == pytest.approx((plain + weight * penalty).item(), rel=1e-5)


class TestGroupDro:
    def test_the_worst_domain_gains_weight_step_by_step(self, build, batch):
        learner = build(GroupDro(step=0.5)).eval()
        weights = torch.full((3,), 1 / 3)
        for _ in range(3):
            losses = torch.stack(losses_by_domain(learner, batch)).detach()
            weights = weights * torch.exp(0.5 * losses)
            weights = weights / weights.sum()
            assert learner.loss(batch).item() == pytest.approx(float(weights @ losses), rel=1e-5)
            assert torch.allclose(learner.weights, weights)
        assert learner.weights.argmax() == losses.argmax()

    def test_of_the_domains_that_are_there_the_weights_sum_to_one(self, build, batch):
        learner = build(GroupDro(step=0.5)).eval()
        rows = batch.domains == 1
        part = replace(batch, images=batch.images[rows], labels=batch.labels[rows], domains=batch.domains[rows])
        plain = F.cross_entropy(learner.logits(part.images), part.labels)
        assert learner.loss(part).item() == pytest.approx(plain.item(), rel=1e-5)

    @pytest.mark.slow
    def test_a_killed_training_goes_on_with_its_weights(self, task_for, after_a_kill):
        method = GroupDro(step=0.5)
        whole = method.train(task_for(method, features__select="last")).stages[0].state["learner"]
        task = task_for(method, features__select="last", features__checkpoint_seconds=0.0)
        again = after_a_kill(method, task).stages[0].state["learner"]
        assert all(torch.equal(value, again[name]) for name, value in whole.items())
        assert not torch.allclose(whole["weights"], torch.full((3,), 1 / 3))


class TestVrex:
    @pytest.mark.parametrize(("step", "weight"), [(0, 1.0), (5, 7.0)])
    def test_the_loss_adds_the_variance_of_the_domains_losses(self, build, batch, step, weight):
        learner = build(Vrex(weight=7.0)).eval()
        losses = torch.stack(losses_by_domain(learner, batch))
        expected = losses.mean() + weight * losses.var(correction=0)
        assert learner.loss(replace(batch, step=step)).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.slow
def test_with_adam_a_training_goes_on_to_the_same_bytes_after_a_kill(task_for, after_a_kill):
    method = Vrex(optimiser="adam")
    settings = {"features__select": "last", "features__learning_rate": 1e-3}
    whole = method.train(task_for(method, **settings)).stages[0].state["learner"]
    by_sgd = Vrex().train(task_for(Vrex(), **settings)).stages[0].state["learner"]
    assert not torch.equal(whole["classifier.weight"], by_sgd["classifier.weight"])
    task = task_for(method, **settings, features__checkpoint_seconds=0.0)
    again = after_a_kill(method, task).stages[0].state["learner"]
    assert all(torch.equal(value, again[name]) for name, value in whole.items())


def test_their_recipe_is_domain_beds():
    method = find_method("coral", "resnet18")
    assert method.settings()["optimiser"] == "adam"
    assert (method.training.learning_rate, method.training.batch_size, method.training.sampling) == (
        5e-5,
        96,
        "domains",
    )
    with pytest.raises(ConfigError, match="optimiser of coral must be one of sgd, adam"):
        find_method("coral:optimiser=lion")
