"""SagNet: its two ways to mix content and style by hand, and who learns from which of its three losses."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.level_maps import features_from_map, level_maps
from homefold.methods.training.sagnet import SagNet, content_of_another, style_towards_another


@pytest.fixture
def maps() -> torch.Tensor:
    return 3 * torch.randn(5, 2, 4, 4, generator=torch.Generator().manual_seed(1)) + 1


def statistics(maps):
    return maps.mean(dim=(2, 3)), maps.var(dim=(2, 3), correction=0)


def test_a_style_moves_by_the_drawn_share_and_the_content_stays(maps):
    torch.manual_seed(2)
    found = style_towards_another(maps, 0.8)
    torch.manual_seed(2)
    share, other = 0.8 * torch.rand(5, 1, 1, 1)[:, :, 0, 0], torch.rand(5).argsort()
    for now, before in zip(statistics(found), statistics(maps), strict=True):
        assert torch.allclose(now, before + share * (before[other] - before), rtol=1e-3)
    ratio = (found - found.mean(dim=(2, 3), keepdim=True)) / (maps - maps.mean(dim=(2, 3), keepdim=True))
    assert torch.allclose(ratio, ratio.mean(dim=(2, 3), keepdim=True).expand_as(ratio), rtol=1e-3)
    assert torch.allclose(style_towards_another(maps, 0.0), maps, atol=1e-5)


def test_the_content_of_another_comes_in_the_own_style_without_a_gradient(maps):
    leaf = maps.clone().requires_grad_()
    torch.manual_seed(2)
    found = content_of_another(leaf)
    torch.manual_seed(2)
    other = torch.rand(5).argsort()
    for now, own in zip(statistics(found), statistics(maps), strict=True):
        assert torch.allclose(now, own, rtol=1e-3)
    for row in range(5):
        pair = torch.stack([found[row, 0].flatten(), maps[other[row], 0].flatten()]).detach()
        assert torch.corrcoef(pair)[0, 1] > 0.999
    # Of another's content nothing comes back: the gradient of an image moves mean and deviation alone.
    (gradient,) = torch.autograd.grad(found[0].square().sum(), leaf)
    assert gradient[1:].abs().max() == 0
    assert gradient[0].abs().max() > 1e-3


@pytest.mark.parametrize("pulled_far", [False, True])
def test_each_part_learns_from_its_own_losses(build, batch, pulled_far):
    # The longer gradient is cut, the shorter one is not.
    weight = 10.0 if pulled_far else 1e-3
    learner = build(SagNet(weight=weight, dropout=0.0), side=16).eval()
    nn.init.normal_(learner.style_classifier.weight)

    def parts():
        torch.manual_seed(3)
        maps = level_maps(learner.net, batch.images)[1]
        moved, styled = style_towards_another(maps, 1.0), content_of_another(maps)

        def answer(net, classifier, x):
            for block in range(8, len(net.backbone) - 1):
                x = net.backbone[block](x)
            return classifier(features_from_map(net, x))

        told = answer(learner.style_net, learner.style_classifier, styled)
        content = F.cross_entropy(answer(learner.net, learner.classifier, moved), batch.labels)
        return content, F.cross_entropy(told, batch.labels), -(F.softmax(told, dim=1) + 1e-5).log().mean()

    content, style, uniform = parts()
    torch.manual_seed(3)
    found = learner.loss(batch)
    assert found.item() == pytest.approx((content + style).item(), rel=1e-5)
    found.backward()

    own = dict(learner.named_parameters())
    affine = [name for name in own if name.startswith(("net.backbone.2.", "net.backbone.6."))]
    assert [own[name].shape for name in affine] == [(64,)] * 4
    pull = torch.autograd.grad(weight * uniform, [own[name] for name in affine], retain_graph=True)
    length = torch.cat(pull).norm()
    assert (length > 0.1) == pulled_far
    pulls = dict(zip(affine, (slope * min(1.0, 0.1 / float(length)) for slope in pull), strict=True))
    for name, parameter in own.items():
        source = style if name.startswith("style") else content
        (expected,) = torch.autograd.grad(source, parameter, retain_graph=True, allow_unused=True)
        if name.startswith("style_net.backbone") and int(name.split(".")[2]) < 8:
            assert parameter.grad is None, "the copy's levels before the maps are not used"
            continue
        assert torch.allclose(parameter.grad, expected + pulls.get(name, 0), atol=1e-5, rtol=1e-3), name


def test_without_batch_normalisation_all_weights_before_the_maps_are_pulled(build, batch):
    learner = build(SagNet(weight=1.0, dropout=0.0), backbone="digits").eval()
    weight = learner.net.backbone[0].weight
    gradients = []
    for strength in (1.0, 1e-9):
        learner.settings = SagNet(weight=strength, dropout=0.0)
        learner.zero_grad()
        torch.manual_seed(3)
        learner.loss(batch).backward()
        gradients.append(weight.grad.clone())
    assert (gradients[0] - gradients[1]).abs().max() > 1e-6
