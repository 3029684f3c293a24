"""RSC's masks and its choice of samples, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from homefold.features import FeatureNet, build_backbone
from homefold.features.level_maps import features_from_map, level_maps
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
    assert dominant_mask(last, gradient, 0.2, spatial=False).flatten().tolist() == [1, 1, 0, 1], "rounded up"


def test_of_one_place_none_is_muted():
    last, gradient = torch.ones(2, 3, 1, 1), torch.ones(2, 3, 1, 1)
    assert dominant_mask(last, gradient, 1 / 3, spatial=True).flatten().tolist() == [1, 1]


def test_of_resnets_maps_17_places_or_160_channels_are_muted():
    generator = torch.Generator().manual_seed(0)
    last, gradient = (torch.rand(2, 512, 7, 7, generator=generator) for _ in range(2))
    method = RSC()
    assert (dominant_mask(last, gradient, method.drop, spatial=True) == 0).sum(dim=(1, 2, 3)).tolist() == [17, 17]
    channels = dominant_mask(last, gradient, method.channel_drop, spatial=False)
    assert (channels == 0).sum(dim=(1, 2, 3)).tolist() == [160, 160]


def test_where_the_network_pools_each_image_has_places_of_its_own():
    torch.manual_seed(0)
    net = FeatureNet(build_backbone("resnet18"), (96, 96)).eval()
    task = LearningTask(num_classes=3, num_domains=2, num_images=8, image_size=(96, 96), seed=0)
    learner = RSC(spatial_share=1.0, batch_share=1.0).learner(net, task).eval()
    last = level_maps(net, torch.rand(8, 3, 96, 96))[-1].detach()
    masks = learner._challenge(last, torch.arange(8) % 3)
    assert masks.shape == (8, 1, 3, 3)
    assert set((masks == 0).sum(dim=(1, 2, 3)).tolist()) == {0, 3}, "none where it loses nothing by it"
    assert len(masks.flatten(1).unique(dim=0)) > 1


def test_those_whose_true_class_loses_most_are_challenged():
    before = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]).log()
    after = torch.tensor([[0.4, 0.6], [0.3, 0.7], [0.9, 0.1], [0.2, 0.8]]).log()
    labels = torch.tensor([0, 0, 0, 0])  # they lose 0.1, 0.6, −0.7 and 0.5
    assert most_shaken(before, after, labels, 0.5).tolist() == [False, True, False, True]
    assert most_shaken(before, after, labels, 0.2).tolist() == [False, True, False, False]
    assert most_shaken(before, after, labels, 1.0).tolist() == [True, True, False, True], "one that gains is let be"
    assert most_shaken(before, before, labels, 1.0).tolist() == [False] * 4


def test_the_share_grows_every_ten_epochs_up_to_the_whole_batch(build):
    learner, shares = build(RSC()), []
    for epoch in (0, 9, 10, 20, 29, 60):
        learner.epoch_start(epoch, None)
        shares.append(round(learner.batch_share, 3))
    assert shares == [0.3, 0.3, 0.5, 0.7, 0.7, 1.0]


def test_every_image_comes_beside_its_mirror_image(build, batch):
    alone = build(RSC(batch_share=1e-9, mirrored=0)).eval()
    both = replace(batch, images=torch.cat([batch.images, batch.images.flip(3)]), labels=batch.labels.repeat(2))
    beside = build(RSC(batch_share=1e-9)).eval()
    assert beside.loss(batch).item() == pytest.approx(alone.loss(both).item(), rel=1e-6)


@pytest.mark.parametrize("spatial", [0.0, 1.0])
def test_the_loss_is_cross_entropy_on_the_maps_of_those_that_lose_by_it(build, batch, spatial):
    settings = RSC(drop=0.25, channel_drop=0.25, batch_share=1.0, spatial_share=spatial, mirrored=0)
    learner = build(settings, side=32).eval()
    batch = replace(batch, images=F.interpolate(batch.images, size=32))  # of smaller ones the last map is one place
    last = level_maps(learner.net, batch.images)[-1].detach().requires_grad_()
    logits = learner.classifier(features_from_map(learner.net, last))
    logits[torch.arange(len(batch)), batch.labels].sum().backward()
    weight = last.grad.mean(dim=(2, 3), keepdim=True)
    voice = ((weight * last.detach()).sum(dim=1, keepdim=True) if spatial else weight).flatten(1)
    threshold = voice.sort(dim=1, descending=True).values[:, voice.shape[1] // 4]
    mask = (voice <= threshold[:, None]).view(len(batch), *((1, 2, 2) if spatial else (-1, 1, 1)))
    muted = learner.classifier(features_from_map(learner.net, last * mask))
    own = torch.arange(len(batch)), batch.labels
    falls = logits.softmax(dim=1)[own] - muted.softmax(dim=1)[own] > 1e-4
    assert falls.any()
    expected = F.cross_entropy(torch.where(falls[:, None], muted, logits), batch.labels)
    assert learner.loss(batch).item() == pytest.approx(expected.item(), rel=1e-5)
    assert expected.item() != pytest.approx(F.cross_entropy(logits, batch.labels).item(), rel=1e-3)
