"""RSC's masks and its choice of samples, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from homefold.features import FeatureNet, build_backbone
from homefold.features.stage_maps import features_from_map, stage_maps
from homefold.methods import LearningTask
from homefold.methods.training.rsc import RSC, dominant_mask, most_shaken


def test_the_places_that_speak_loudest_are_muted():
    last = torch.tensor([[[[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]], [[4.0, 0.0, 1.0], [0.0, 0.0, 0.0]]]])
    # The channels' gradients have the means 2 and −1: places speak by −2, 4, −1 / 0, 2, 6, of which a third are two.
    gradient = torch.tensor([2.0, -1.0]).view(1, 2, 1, 1) + torch.tensor([-3.0, 0.0, 3.0]).view(1, 1, 1, 3)
    mask = dominant_mask(last, gradient.expand(1, 2, 2, 3), 1 / 3, spatial=True)
    assert mask.tolist() == [[[[1, 0, 1], [1, 1, 0]]]]


def test_the_channels_with_the_largest_mean_gradient_are_muted():
    gradient = torch.tensor([1.0, -5.0, 3.0, 2.0]).view(1, 4, 1, 1) + torch.tensor([-1.0, 1.0]).view(1, 1, 1, 2)
    last = torch.randn(1, 4, 1, 2)
    assert dominant_mask(last, gradient, 0.5, spatial=False).flatten().tolist() == [1, 1, 0, 0]
    assert dominant_mask(last, gradient, 0.2, spatial=False).flatten().tolist() == [1, 1, 1, 1], "less than one is none"


def test_where_the_network_pools_each_image_has_places_of_its_own():
    torch.manual_seed(0)
    net = FeatureNet(build_backbone("resnet18"), (96, 96)).eval()
    task = LearningTask(num_classes=3, num_domains=2, num_images=8, image_size=(96, 96), seed=0)
    learner = RSC(spatial_share=1.0, batch_share=1.0).learner(net, task).eval()
    last = stage_maps(net, torch.rand(8, 3, 96, 96))[-1].detach()
    masks = learner._challenge(last, torch.arange(8) % 3)
    assert masks.shape == (8, 1, 3, 3)
    assert (masks == 0).sum(dim=(1, 2, 3)).tolist() == [3] * 8
    assert len(masks.flatten(1).unique(dim=0)) > 1


def test_those_whose_true_class_loses_most_are_challenged():
    before = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]).log()
    after = torch.tensor([[0.4, 0.6], [0.3, 0.7], [0.9, 0.1], [0.2, 0.8]]).log()
    labels = torch.tensor([0, 0, 0, 0])  # they lose 0.1, 0.6, −0.7 and 0.5
    assert most_shaken(before, after, labels, 0.5).tolist() == [False, True, False, True]
    assert most_shaken(before, after, labels, 0.2).tolist() == [False, True, False, False]


@pytest.mark.parametrize("spatial", [0.0, 1.0])
def test_the_loss_is_cross_entropy_on_the_challenged_maps(build, batch, spatial):
    learner = build(RSC(drop=0.25, batch_share=1.0, spatial_share=spatial), side=32).eval()
    batch = replace(batch, images=F.interpolate(batch.images, size=32))  # of smaller ones the last map is one place
    last = stage_maps(learner.net, batch.images)[-1].detach().requires_grad_()
    logits = learner.classifier(features_from_map(learner.net, last))
    logits[torch.arange(len(batch)), batch.labels].sum().backward()
    weight = last.grad.mean(dim=(2, 3), keepdim=True)
    mean = (weight * last.detach()).sum(dim=1, keepdim=True) if spatial else weight
    muted = mean.flatten(1).shape[1] // 4
    threshold = mean.flatten(1).sort(dim=1, descending=True).values[:, muted - 1]
    masked = last * (mean < threshold[:, None, None, None])
    expected = F.cross_entropy(learner.classifier(features_from_map(learner.net, masked)), batch.labels)
    assert learner.loss(batch).item() == pytest.approx(expected.item(), rel=1e-5)
    assert expected.item() != pytest.approx(F.cross_entropy(logits, batch.labels).item(), rel=1e-3)
