"""DSON's normalisation against batch and instance normalisation, and its branches."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from homefold.config import preset_config
from homefold.errors import ConfigError
from homefold.features import build_feature_net
from homefold.methods import ImageSet, LearningTask
from homefold.methods.training.dson import DomainNorm, Dson, _CurrentDomains

DOMAINS = torch.tensor([0, 1, 1, 0, 1])


@pytest.fixture
def x() -> torch.Tensor:
    scale = torch.tensor([1.0, 2.0, 5.0])[:, None, None]
    return scale * torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(0)) + scale


def norm(share: float, domains: int = 2) -> DomainNorm:
    plain = nn.BatchNorm2d(3)
    with torch.no_grad():
        plain.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
        plain.bias.copy_(torch.tensor([0.5, 0.0, -0.5]))
    made = DomainNorm(plain, domains, _CurrentDomains())
    with torch.no_grad():
        made.mixture.fill_(torch.logit(torch.tensor(share)))
    made.current.of_images = DOMAINS
    return made


def test_with_batch_statistics_alone_each_domain_has_its_own_batch_norm(x):
    made = norm(1.0)
    for domain in (0, 1):
        plain = nn.BatchNorm2d(3)
        plain.load_state_dict({**plain.state_dict(), "weight": made.weight[domain], "bias": made.bias[domain]})
        rows = domain == DOMAINS
        assert torch.allclose(made.train()(x)[rows], plain(x[rows]), atol=1e-5)
        fresh = norm(1.0)
        fresh(x)
        assert torch.allclose(fresh.running_mean[domain], plain.running_mean, atol=1e-6)
        assert torch.allclose(fresh.running_var[domain], plain.running_var, atol=1e-5)
        assert torch.allclose(fresh.eval()(x)[rows], plain.eval()(x[rows]), atol=1e-5)


def test_with_the_images_own_statistics_alone_it_is_instance_norm(x):
    made = norm(0.0)
    expected = F.instance_norm(x) * made.weight[0][:, None, None] + made.bias[0][:, None, None]
    assert torch.allclose(made(x), expected, atol=1e-4)


def test_statistics_are_mixed_value_by_value(x):
    made = norm(0.3)
    found = made(x)
    for i in range(5):
        domain = x[DOMAINS[i] == DOMAINS]
        for c in range(3):
            mean = 0.3 * domain[:, c].mean() + 0.7 * x[i, c].mean()
            var = 0.3 * domain[:, c].var(correction=0) + 0.7 * x[i, c].var(correction=0)
            expected = (x[i, c] - mean) / (var + 1e-5).sqrt() * made.weight[0, c] + made.bias[0, c]
            assert torch.allclose(found[i, c], expected, atol=1e-4)


def test_a_domain_that_a_batch_lacks_keeps_its_statistics_and_learns_nothing(x):
    made = norm(0.5, domains=3)
    made(x).square().sum().backward()
    assert made.running_mean[2].tolist() == [0, 0, 0]
    assert made.running_var[2].tolist() == [1, 1, 1]
    assert not made.weight.grad[2].any()
    assert made.weight.grad[:2].all()
    assert made.mixture.grad[:2].all()


def test_the_answer_is_the_mean_of_the_branches_logits(build, batch):
    learner = build(Dson())
    learner.loss(batch)
    learner.eval()
    ones = torch.ones(len(batch), dtype=torch.long)
    branches = [learner.classify(learner.branch(batch.images, ones * domain)) for domain in range(3)]
    assert not torch.allclose(branches[0], branches[1], atol=1e-3)
    assert torch.allclose(learner.logits(batch.images), torch.stack(branches).mean(dim=0), atol=1e-5)


def test_the_loss_takes_each_image_through_its_own_branch(build, batch):
    learner = build(Dson()).eval()
    with torch.no_grad():
        for module in learner.modules():
            if isinstance(module, DomainNorm):
                module.bias += torch.arange(3.0)[:, None]
    logits = torch.stack([learner.classify(learner.branch(batch.images, batch.domains * 0 + d)) for d in range(3)])
    own = logits[batch.domains, torch.arange(len(batch))]
    assert learner.loss(batch).item() == pytest.approx(F.cross_entropy(own, batch.labels).item(), rel=1e-5)


def test_a_share_of_the_layers_is_replaced_from_the_images_on_in_a_copy(batch):
    config = preset_config("small", {"features.backbone": "digits-bn"}).features
    net = build_feature_net(config, (16, 16), normalisation="half", seed=0, pretrained=True)
    before = copy.deepcopy(net.state_dict())
    task = LearningTask(num_classes=3, num_domains=3, num_images=10, image_size=(16, 16), seed=0)
    kinds = [
        type(item).__name__
        for item in Dson(layers=0.5).learner(net, task).net.modules()
        if "Norm" in type(item).__name__
    ]
    assert kinds == ["DomainNorm", "DomainNorm", "BatchNorm2d", "BatchNorm2d"]
    assert list(net.state_dict()) == list(before)
    assert not any(isinstance(module, DomainNorm) for module in net.modules())
    assert Dson(layers=0.0).learner(net, task).replaced == 0


def test_a_network_without_batch_norm_is_refused_with_a_sentence(build):
    with pytest.raises(ConfigError, match="this network has none; choose a resnet, digits-bn or wrn-16-4"):
        build(Dson(), backbone="digits")


@pytest.mark.slow
def test_it_learns_digits_of_a_domain_it_never_saw_and_adapts_to_few_of_it(task_for, unseen):
    method, few = Dson(), unseen.subset(range(0, 72, 6))
    task = task_for(method, adapt=few, features__epochs=8)
    for case in (replace(task, key=replace(task.key, adapt=""), adapt=None), task):
        answers = method.train(case).answer(ImageSet(unseen.images, "unseen")).predictions
        assert float((answers.indices == unseen.labels).mean()) > 0.7, "a third would be chance"
