"""The pieces of MMD-AAE, DDAIG, D-SAM and MMLD, against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from homefold.methods.training.d_sam import AggregationModule, own_domain
from homefold.methods.training.ddaig import TransformationNet
from homefold.methods.training.learner import ramp, scale_gradient
from homefold.methods.training.mmd_aae import domain_discrepancy, laplace_like, prior_game
from homefold.methods.training.mmld import cluster_styles, match_clusters, style_features

pytestmark = pytest.mark.slow


class TestScaledGradients:
    def test_a_scale_multiplies_the_gradient_only(self):
        x = torch.tensor([2.0], requires_grad=True)
        y = scale_gradient(x, 4.0)
        (0.25 * y**2).sum().backward()
        assert y.item() == 2.0
        assert x.grad.item() == pytest.approx(4.0 * 0.25 * 2 * 2)

    @given(st.floats(0, 1))
    def test_the_ramp_is_the_logistic_one(self, progress):
        assert ramp(progress) == pytest.approx(2 / (1 + math.exp(-10 * progress)) - 1, abs=1e-12)


class TestDomainDiscrepancy:
    def test_two_points_in_two_domains(self):
        codes = torch.tensor([[0.0], [2.0]])
        # squared distances 0, 4, 4, 0: their mean is 2, so the far pair is at relative distance 2
        far = (math.exp(-2 / 2) + math.exp(-2 / 8)) / 2
        found = domain_discrepancy(codes, torch.tensor([0, 1]), 2, (1.0, 2.0))
        assert found.item() == pytest.approx(2 * (2 - 2 * far) / 4, abs=1e-6)

    def test_the_same_codes_in_every_domain_do_not_differ(self):
        codes = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).repeat(3, 1)
        domains = torch.arange(3).repeat_interleave(4)
        assert domain_discrepancy(codes, domains, 3, (0.5, 1.0)).item() == pytest.approx(0, abs=1e-6)

    def test_a_domain_that_the_batch_lacks_counts_for_nothing(self):
        codes, domains = torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([0, 0, 2])
        with_a_gap = domain_discrepancy(codes, domains, 4, (1.0,))
        assert with_a_gap.item() == pytest.approx(domain_discrepancy(codes, domains // 2, 2, (1.0,)).item(), abs=1e-6)
        assert with_a_gap.item() > 0.1

    def test_it_is_the_mean_over_all_pairs_of_domains(self):
        generator = torch.Generator().manual_seed(1)
        codes, domains = torch.randn(9, 4, generator=generator), torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 2])
        scale = torch.cdist(codes, codes).square().mean()

        def kernel(a, b):
            return torch.exp(-torch.cdist(a, b).square() / (2 * scale)).mean()

        parts = [codes[domains == domain] for domain in range(3)]
        pairs = [kernel(a, a) + kernel(b, b) - 2 * kernel(a, b) for a in parts for b in parts]
        assert domain_discrepancy(codes, domains, 3, (1.0,)).item() == pytest.approx(
            torch.stack(pairs).mean().item(), abs=1e-5
        )

    def test_following_its_gradient_brings_the_domains_together(self):
        codes = torch.tensor([[0.0, 0.0], [0.1, 0.0], [3.0, 0.0], [3.1, 0.0]], requires_grad=True)
        domain_discrepancy(codes, torch.tensor([0, 0, 1, 1]), 2, (1.0,)).backward()
        assert codes.grad[:2, 0].max() < 0 < codes.grad[2:, 0].min()


class TestPriorGame:
    def test_its_value_for_known_logits(self):
        logits = nn.Identity()
        value = prior_game(logits, torch.tensor([[1.0]]), torch.tensor([[-2.0]]))
        expected = [math.log1p(math.exp(x)) for x in (2.0, 1.0, -1.0)]
        assert value.item() == pytest.approx(sum(expected), abs=1e-6)

    def test_the_discriminator_and_the_codes_pull_apart(self):
        discriminator = nn.Linear(1, 1, bias=False)
        nn.init.ones_(discriminator.weight)
        codes = torch.tensor([[-1.0]], requires_grad=True)
        prior_game(discriminator, codes, torch.tensor([[1.0]])).backward()
        # descending raises D at the prior (1) and lowers it at the code (-1), and moves the code towards the prior
        assert discriminator.weight.grad.item() == pytest.approx(-2 * torch.sigmoid(torch.tensor(-1.0)).item())
        assert codes.grad.item() == pytest.approx(-torch.sigmoid(torch.tensor(1.0)).item())

    def test_codes_that_fool_the_discriminator_are_let_go(self):
        codes = torch.tensor([[30.0]], requires_grad=True)
        discriminator = nn.Linear(1, 1, bias=False)
        nn.init.ones_(discriminator.weight)
        prior_game(discriminator, codes, torch.tensor([[1.0]])).backward()
        assert abs(codes.grad.item()) < 1e-12

    def test_the_discriminator_pays_for_its_slope_at_the_prior(self):
        discriminator = nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            discriminator.weight.copy_(torch.tensor([[3.0, 4.0]]))
        codes, prior = torch.zeros(2, 2, requires_grad=True), torch.zeros(3, 2)
        value = prior_game(discriminator, codes, prior, slope=0.5)
        assert value.item() == pytest.approx(3 * math.log(2) + 0.25 * 25, abs=1e-5)
        value.backward()
        # at the origin the game itself does not move the weights, and d/dw of 0.25 ‖w‖² is w / 2
        assert discriminator.weight.grad.tolist()[0] == pytest.approx([1.5, 2.0])

    def test_the_prior_is_laplace_of_scale_one(self):
        torch.manual_seed(0)
        draws = laplace_like(torch.empty(200_000))
        assert draws.mean().item() == pytest.approx(0, abs=0.01)
        assert draws.var().item() == pytest.approx(2, abs=0.04)
        assert draws.abs().mean().item() == pytest.approx(1, abs=0.01)


class TestTransformation:
    def test_it_moves_every_pixel_by_less_than_one(self):
        torch.manual_seed(0)
        images = torch.rand(2, 3, 9, 7)
        moved = TransformationNet(4, 2)(images)
        assert moved.shape == images.shape
        assert 0 < moved.abs().max() < 1

    def test_it_starts_from_small_weights_and_normalises_without_any(self):
        net = TransformationNet(64, 3)
        convolutions = [item for item in net.modules() if isinstance(item, nn.Conv2d)]
        assert len(convolutions) == 9, "a stem, three blocks of two, and two that mix"
        weights = torch.cat([item.weight.detach().flatten() for item in convolutions])
        assert weights.std().item() == pytest.approx(0.02, rel=0.02)
        assert not any(list(item.parameters()) for item in net.modules() if isinstance(item, nn.InstanceNorm2d))

    def test_a_pixel_sees_the_whole_image(self):
        torch.manual_seed(0)
        net = TransformationNet(4, 1).eval()
        images = torch.rand(1, 3, 16, 16)
        other = images.clone()
        other[..., -4:, -4:] = 0
        assert not torch.equal(net(images)[..., 0, 0], net(other)[..., 0, 0])


class TestAggregation:
    def test_one_channel_by_hand(self):
        shapes = [torch.Size((1, 2, 2)), torch.Size((1, 1, 1))]
        module = AggregationModule(shapes, 1.0, places=1).eval()
        with torch.no_grad():
            module.smaller[0][0].weight.fill_(2.0)
            module.smaller[0][0].bias.fill_(1.0)
            module.nodes[0][1].weight.copy_(torch.tensor([10.0, 1.0]).view(1, 2, 1, 1))
            module.nodes[0][1].bias.fill_(-1.0)
        first = torch.tensor([[[[3.0, -4.0], [0.0, 3.0]]]])
        second = torch.tensor([[[[5.0]]]])
        # The stride takes the first place, relu(2 · 3 + 1) = 7; the node gives relu(10 · 7 + 5 - 1).
        assert module([first, second]).item() == pytest.approx(74.0)

    def test_the_last_node_keeps_as_many_places_as_asked_for(self):
        module = AggregationModule([torch.Size((1, 4, 4))] * 2, 1.0, places=2).eval()
        with torch.no_grad():
            module.nodes[0][1].weight.copy_(torch.tensor([0.0, 1.0]).view(1, 2, 1, 1))
            module.nodes[0][1].bias.zero_()
        corners = torch.arange(16.0).view(1, 1, 4, 4)
        assert module([corners, corners])[0].tolist() == pytest.approx([2.5, 4.5, 10.5, 12.5], abs=1e-3)
        assert isinstance(module.smaller[0], nn.Identity)

    def test_channels_are_left_out_in_training_alone(self):
        module = AggregationModule([torch.Size((4, 2, 2))] * 2, 1.0, places=1)
        maps = [torch.ones(1, 4, 2, 2)] * 2
        assert len({module(maps).sum().item() for _ in range(10)}) > 1
        module.eval()
        assert len({module(maps).sum().item() for _ in range(10)}) == 1

    def test_each_sample_answers_through_its_own_domain(self):
        outputs = torch.tensor([[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]]])
        assert own_domain(outputs, torch.tensor([1, 0, 1])).tolist() == [[10.0], [2.0], [30.0]]


class TestStyleClusters:
    def test_a_style_is_mean_and_spread_of_each_channel(self):
        first = torch.tensor([[[[0.0, 2.0], [0.0, 2.0]], [[3.0, 3.0], [3.0, 3.0]]]])
        second = torch.tensor([[[[-1.0, 3.0]]]])
        assert style_features([first, second]).tolist() == [[1.0, 3.0, 1.0, 0.0, 1.0, 2.0]]

    def test_two_styles_are_told_apart_among_more_dimensions_than_are_looked_at(self):
        generator = torch.Generator().manual_seed(0)
        truth = torch.arange(320) % 2
        styles = 0.1 * torch.randn(320, 300, generator=generator) + 0.3 * truth[:, None]
        found = cluster_styles(styles, 2, seed=0)
        assert match_clusters(found, truth, 2).tolist() == truth.tolist()
        assert cluster_styles(styles, 2, seed=0).tolist() == found.tolist()

    def test_identical_images_make_one_cluster(self):
        assert cluster_styles(torch.ones(5, 3), 3, seed=0).tolist() == [0] * 5

    def test_the_names_that_most_images_had_are_kept(self):
        old = torch.tensor([0, 0, 0, 1, 1, 2])
        new = torch.tensor([1, 1, 2, 2, 2, 0])
        # 1 → 0 keeps two, 2 → 1 keeps two, 0 → 2 keeps one: no other naming keeps five
        assert match_clusters(new, old, 3).tolist() == [0, 0, 1, 1, 1, 2]

    @given(st.permutations([0, 1, 2]))
    def test_a_mere_renaming_is_undone(self, names):
        old = torch.tensor([0, 0, 1, 1, 2, 2, 2])
        assert match_clusters(torch.tensor(names)[old], old, 3).tolist() == old.tolist()
