"""Mixup, CORAL, DANN, IRM, GroupDRO and VREx, against slow references."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from scipy.stats import beta
from torch.nn import functional as F

from homefold import preset_config
from homefold.errors import ConfigError
from homefold.methods import ImageSet, find_method
from homefold.methods.training.coral import Coral, moment_distance
from homefold.methods.training.dann import Dann
from homefold.methods.training.domain_bed import begins_at
from homefold.methods.training.group_dro import GroupDro
from homefold.methods.training.irm import Irm, scale_penalty
from homefold.methods.training.mixup import Mixup, of_next_domain
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
    def test_partners_are_of_the_next_domain_in_a_ring_through_all(self):
        domains = torch.tensor([0, 0, 0, 1, 2, 2])
        torch.manual_seed(0)
        rings = set()
        for _ in range(20):
            its = domains[of_next_domain(domains, 3)]
            after = [set(its[domains == domain].tolist()) for domain in range(3)]
            assert all(len(found) == 1 for found in after)
            rings.add(tuple(found.pop() for found in after))
        assert rings == {(1, 2, 0), (2, 0, 1)}

    def test_where_there_is_no_next_domain_any_image_is_the_partner(self):
        torch.manual_seed(0)
        alone = torch.zeros(4, dtype=torch.long)
        for count in (1, 2):
            assert {int(place) for _ in range(20) for place in of_next_domain(alone, count)} == {0, 1, 2, 3}

    def test_the_loss_blends_images_and_labels(self, build, batch):
        learner = build(Mixup(alpha=0.5)).eval()
        torch.manual_seed(3)
        found = learner.loss(batch)
        torch.manual_seed(3)
        partner = of_next_domain(batch.domains, 3)
        share = beta.ppf(torch.rand(3).numpy(), 0.5, 0.5)[batch.domains]
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
    def test_in_turn_the_features_unlearn_and_the_discriminator_learns(self, build, batch):
        learner = build(Dann(weight=0.3, hidden=8)).eval()
        z = learner.features(batch.images)
        plain = F.cross_entropy(learner.classifier(z), batch.labels)
        told = F.cross_entropy(learner.discriminator(z), batch.domains)
        parts = ([learner.net, learner.classifier], [learner.discriminator])
        for step, expected in ((0, plain - 0.3 * told), (1, told), (2, plain - 0.3 * told)):
            learning, still = parts if step % 2 == 0 else parts[::-1]
            learner.zero_grad()
            found = learner.loss(replace(batch, step=step))
            assert found.item() == pytest.approx(expected.item(), rel=1e-5)
            found.backward()
            parameters = [parameter for part in learning for parameter in part.parameters()]
            its = torch.autograd.grad(expected, parameters, retain_graph=True)
            for parameter, gradient in zip(parameters, its, strict=True):
                assert torch.allclose(parameter.grad, gradient, atol=1e-6)
            assert all(parameter.grad is None for part in still for parameter in part.parameters())


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


class TestANewBeginning:
    def test_it_is_the_first_step_of_the_share_but_not_of_the_training(self, batch):
        for share, expected in ((0.0, []), (0.1, [1]), (0.25, [3]), (1.0, [])):
            found = [step for step in range(10) if begins_at(share, replace(batch, step=step, steps=10))]
            assert found == expected

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["irm", "vrex", "fishr"])
    def test_there_adam_forgets_its_averages(self, name, task_for, monkeypatch):
        method = find_method(name).varied(optimiser="adam", warm_up=0.5, weight=0.1)
        plain, counts = torch.optim.Adam.step, []

        def step(optimizer, *given, **named):
            plain(optimizer, *given, **named)
            counts.append({int(state["step"]) for state in optimizer.state.values()})

        monkeypatch.setattr(torch.optim.Adam, "step", step)
        method.train(task_for(method, features__epochs=2, features__learning_rate=1e-4))
        half = len(counts) // 2
        assert counts == 2 * [{number} for number in range(1, half + 1)]

    @pytest.mark.parametrize("name", ["irm", "vrex", "fishr"])
    def test_without_a_penalty_there_is_none(self, name, build, batch):
        for weight, expected in ((1.0, True), (0.0, False)):
            learner = build(find_method(name).varied(warm_up=0.5, weight=weight))
            assert learner.begins_anew(batch) == expected


class TestStatistics:
    def test_kept_ones_are_those_the_network_came_with(self, build, batch):
        for kept in (True, False):
            learner = build(Coral(statistics="kept" if kept else "learned")).train()
            before = {name: value.clone() for name, value in learner.named_buffers()}
            learner.loss(batch)
            norms = [name for name in before if name.endswith("running_mean")]
            assert norms
            assert all(torch.equal(before[name], dict(learner.named_buffers())[name]) == kept for name in norms)
            assert learner.training

    def test_by_its_recipe_pretrained_networks_keep_theirs_and_adam_steps_under_its_weights(self):
        assert find_method("coral", "resnet18").settings()["statistics"] == "kept"
        assert find_method("erm-plus-plus", "resnet18").settings()["statistics"] == "learned"
        assert find_method("coral", "digits-bn").settings()["statistics"] == "learned"
        for name, weight in (("irm", 100), ("fishr", 1000)):
            for backbone in ("resnet18", "digits-bn"):
                settings = find_method(name, backbone).settings()
                assert (settings["optimiser"], settings["weight"]) == ("adam", weight)
        from_scratch = Coral().starting(preset_config("default", {"features.weights": "none"}))
        with pytest.raises(ConfigError, match=r"coral by its authors' recipe keeps the statistics .* there are none"):
            find_method("coral", "resnet18").configure(from_scratch, "default")
        assert Coral().configure(from_scratch, "default").features.weights == "none"
        with pytest.raises(ConfigError, match="statistics of coral must be one of learned, kept; got 'never'"):
            Coral(statistics="never")


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
