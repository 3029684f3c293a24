"""MMD-AAE, DDAIG, D-SAM and MMLD: what each minimises, and that nothing of it is left at its null setting."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from homefold.classifier.entropy import prediction_entropy
from homefold.errors import ConfigError
from homefold.features.backbones import build_backbone
from homefold.features.backbones.digits import DigitsNet
from homefold.features.batches import ImageStore
from homefold.features.level_maps import level_maps
from homefold.features.network import FeatureNet
from homefold.methods import ImageSet, find_method
from homefold.methods.training.d_sam import DSam, block_maps
from homefold.methods.training.ddaig import Ddaig
from homefold.methods.training.learner import Batch, Learner, LearningTask, TrainingImages, ramp
from homefold.methods.training.mmd_aae import MmdAae, domain_discrepancy, laplace_like, prior_game
from homefold.methods.training.mmld import Mmld, even_weights
from homefold.store.stage_store import StageStore

pytestmark = pytest.mark.slow

SIZE = (16, 16)
TASK = LearningTask(num_classes=3, num_domains=2, num_images=12, image_size=SIZE, seed=5)


def _net(batch_norm: bool = False) -> FeatureNet:
    torch.manual_seed(0)
    backbone = DigitsNet(4, batch_norm=batch_norm)
    return FeatureNet(backbone, SIZE, head="linear", feature_dim=6, normalisation="half")


def _batch(step: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(1)
    return Batch(
        images=torch.rand(6, 3, *SIZE, generator=generator),
        labels=torch.tensor([0, 1, 2, 0, 1, 2]),
        domains=torch.tensor([0, 1, 1, 0, 1, 0]),
        rows=torch.tensor([3, 0, 7, 11, 5, 2]),
        step=step,
        steps=10,
    )


def _gradients(loss: torch.Tensor, module: torch.nn.Module) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(module.parameters()), retain_graph=True, allow_unused=True))


METHODS = [MmdAae, Ddaig, DSam, Mmld]


@pytest.mark.parametrize("method", METHODS)
def test_at_its_null_setting_the_loss_is_that_of_deep_all(method):
    deep_all, batch = Learner(_net(), TASK), _batch(step=4)
    learner = method(**method.null).learner(_net(), TASK)
    assert learner.loss(batch).item() == deep_all.loss(batch).item()
    assert torch.equal(learner.logits(batch.images), deep_all.logits(batch.images))
    as_it_comes = method().learner(_net(), TASK)
    assert abs(as_it_comes.loss(batch).item() - deep_all.loss(batch).item()) > 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_the_linear_layer_is_what_answers(method):
    learner = method().learner(_net(), TASK).eval()
    images = _batch().images
    z, logits = learner(images)
    assert torch.allclose(learner.linear_layer()(z), logits, atol=1e-6)
    assert torch.equal(learner.logits(images), logits)


SMALL = [MmdAae(), Ddaig(width=4, blocks=1), DSam(width=0.5), Mmld()]


@pytest.mark.parametrize("method", SMALL, ids=lambda method: method.info.name)
def test_it_learns_digits_of_a_domain_it_never_saw(method, task_for, few_digits):
    # Those that learn at a lower rate need longer.
    epochs = 16 if getattr(method, "rate", 1.0) < 1 else 12
    task = replace(task_for(method, features__epochs=epochs), source=few_digits.without("scan"))
    trained = method.train(task)
    scan = few_digits.only("scan")
    answers = trained.answer(ImageSet(scan.images, "scan")).predictions.probabilities
    assert (answers.argmax(axis=1) == scan.labels).mean() > 0.7, "three classes: chance is a third"


def test_the_same_seed_gives_the_same_bytes_whatever_was_drawn_before(task_for, tmp_path):
    states = []
    for name in ("first", "second"):
        torch.rand(len(name))
        task = replace(task_for(Mmld(), features__epochs=2), stages=StageStore(tmp_path / name))
        states.append(Mmld().train(task).stages[0].state["learner"])
    assert len(states[0]["pseudo_domains"].unique()) == 3
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


@pytest.mark.parametrize("method", METHODS)
def test_a_single_source_domain_will_do(method):
    learner = method().learner(_net(), replace(TASK, num_domains=1))
    batch = replace(_batch(), domains=torch.zeros(6, dtype=torch.long))
    loss = learner.loss(batch)
    loss.backward()
    assert torch.isfinite(loss)
    assert learner.logits(batch.images).shape == (6, 3)


@pytest.mark.parametrize("method", METHODS)
def test_reduced_precision_gives_about_the_same_loss(method):
    learner, batch = method().learner(_net(batch_norm=True), TASK), _batch(step=4)
    losses = []
    for enabled in (False, True):
        torch.manual_seed(0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            losses.append(learner.loss(batch))
    losses[1].backward()
    assert losses[1].dtype == torch.float32
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=0.02)
    assert losses[1].item() != losses[0].item()
    assert all(torch.isfinite(item.grad).all() for item in learner.parameters() if item.grad is not None)


@pytest.mark.parametrize("method", METHODS)
def test_it_is_known_by_its_name(method):
    assert find_method(method().info.name) == method()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: MmdAae(bandwidths=(1.0, 0.0)), r"bandwidths of mmd-aae must be positive numbers; got \(1.0, 0.0\)"),
        (lambda: Ddaig(share=1.5), "share of ddaig must be a number from 0 to 1; got 1.5"),
        (lambda: Ddaig(width=0), "width of ddaig must be at least 1; got 0"),
        (lambda: DSam(width=-1), "width of d-sam must be zero or a positive number; got -1.0"),
        (lambda: Mmld(every=0), "every of mmld must be at least 1; got 0"),
    ],
)
def test_a_setting_that_makes_no_sense_gets_a_sentence(wrong, sentence):
    with pytest.raises(ConfigError, match=sentence):
        wrong()


class TestMmdAae:
    def test_its_loss_is_the_weighted_sum_of_its_four_terms(self):
        method = MmdAae(code_dim=5, discrepancy=3.0, reconstruction=0.5, prior=0.25, slope=0.4, bandwidths=(0.7, 1.4))
        learner, batch = method.learner(_net(), TASK), _batch()
        torch.manual_seed(9)
        found = learner.loss(batch)
        z = learner.net(batch.images)
        codes = learner.encoder(z)
        assert codes.shape == (6, 5)
        torch.manual_seed(9)
        expected = (
            F.cross_entropy(learner.classifier(codes), batch.labels)
            + 3.0 * domain_discrepancy(codes, batch.domains, 2, (0.7, 1.4))
            + 0.5 * (learner.decoder(codes) - z).square().mean()
            + 0.25 * prior_game(learner.discriminator, codes, laplace_like(codes), 0.4)
        )
        assert found.item() == pytest.approx(expected.item(), abs=1e-6)

    def test_the_auto_encoder_is_trained_on_given_features(self):
        learner, batch = MmdAae(discrepancy=0, prior=0.5, reconstruction=1.0).learner(_net(), TASK), _batch()
        z = learner.net(batch.images)
        plain = F.cross_entropy(learner.classify(learner.encoder(z)), batch.labels)
        found, expected = _gradients(learner.loss(batch), learner.net), _gradients(plain, learner.net)
        for mine, its in zip(found, expected, strict=True):
            assert torch.allclose(mine, its, atol=1e-6)
        rebuilt = F.mse_loss(learner.decoder(learner.encoder(z)), z.detach())
        moved = _gradients(learner.loss(batch) - plain, learner.encoder)
        assert all(item.abs().max() > 1e-4 for item in moved)
        assert torch.allclose(
            _gradients(learner.loss(batch), learner.decoder)[0], _gradients(rebuilt, learner.decoder)[0], atol=1e-6
        )


@pytest.mark.parametrize("method", [MmdAae, Mmld])
def test_a_game_is_learned_at_a_lower_rate_but_not_at_none(method):
    (group,) = method(rate=0.3).learner(_net(), TASK).parameter_groups()
    (as_deep_all,) = method(**method.null).learner(_net(), TASK).parameter_groups()
    assert (group.rate, as_deep_all.rate) == (0.3, 1.0)
    with pytest.raises(ConfigError, match=rf"rate of {method.about.name} must be positive, such as 0\.2"):
        method(rate=0.0)
    assert len(group.parameters) == len(list(method().learner(_net(), TASK).parameters()))


class TestDdaig:
    def _parts(self):
        method, batch = Ddaig(share=0.25, step=0.3, width=4, blocks=1), _batch()
        learner = method.learner(_net(), TASK)
        moved = batch.images + 0.3 * 0.5 * learner.transformation((batch.images - 0.5) / 0.5)
        return learner, batch, moved

    def test_the_classifier_trains_on_both_kinds_of_images(self):
        learner, batch, moved = self._parts()
        own = F.cross_entropy(learner.logits(batch.images), batch.labels)
        kept = F.cross_entropy(learner.logits(moved.detach()), batch.labels)
        for found, expected in zip(
            _gradients(learner.loss(batch), learner.net),
            _gradients(0.75 * own + 0.25 * kept, learner.net),
            strict=True,
        ):
            assert torch.allclose(found, expected, atol=1e-6)

    def test_the_transformation_keeps_the_label_and_fools_the_domain_classifier(self):
        learner, batch, moved = self._parts()
        kept = F.cross_entropy(learner.logits(moved), batch.labels)
        fooled = F.cross_entropy(learner.domain_net(moved), batch.domains)
        for found, expected in zip(
            _gradients(learner.loss(batch), learner.transformation),
            _gradients(kept - fooled, learner.transformation),
            strict=True,
        ):
            assert torch.allclose(found, expected, atol=1e-6)
            assert found.abs().sum() > 0 or expected.abs().sum() == 0

    def test_the_domain_classifier_trains_on_the_originals_alone(self):
        learner, batch, _ = self._parts()
        told = F.cross_entropy(learner.domain_net(batch.images), batch.domains)
        for found, expected in zip(
            _gradients(learner.loss(batch), learner.domain_net), _gradients(told, learner.domain_net), strict=True
        ):
            assert torch.allclose(found, expected, atol=1e-6)

    def test_in_the_first_epochs_the_classifier_sees_no_moved_image_and_the_transformation_learns(self):
        learner, batch, moved = self._parts()
        learner.epoch_start(2, None)
        assert learner.warming_up
        own = F.cross_entropy(learner.logits(batch.images), batch.labels)
        kept = F.cross_entropy(learner.logits(moved), batch.labels)
        fooled = F.cross_entropy(learner.domain_net(moved), batch.domains)
        found = learner.loss(batch)
        for part, expected in ((learner.net, own), (learner.transformation, kept - fooled)):
            for mine, its in zip(_gradients(found, part), _gradients(expected, part), strict=True):
                assert torch.allclose(mine, its, atol=1e-6)
        learner.epoch_start(3, None)
        assert not learner.warming_up

    def test_its_running_statistics_are_of_the_originals_alone(self):
        learner, batch = Ddaig(width=4, blocks=1).learner(_net(batch_norm=True), TASK), _batch()
        alone = copy.deepcopy(learner.domain_net)
        learner.loss(batch)
        alone(batch.images)
        for found, expected in zip(learner.domain_net.buffers(), alone.buffers(), strict=True):
            assert torch.equal(found, expected)


class TestDSam:
    def test_a_module_learns_from_its_own_domain_only(self):
        learner, batch = DSam(width=1.25, dropout=0.0).learner(_net(), TASK), _batch()
        only_first = replace(batch, domains=torch.zeros(6, dtype=torch.long))
        loss = learner.loss(only_first)
        first, second = (learner.aggregation[domain] for domain in (0, 1))
        assert sum(gradient.abs().sum() for gradient in _gradients(loss, first)) > 0
        assert all(gradient is None or not gradient.any() for gradient in _gradients(loss, second))

    def test_its_loss_and_answer_from_the_modules_one_by_one(self):
        learner, batch = DSam(width=1.25, dropout=0.0).learner(_net(), TASK), _batch()
        maps = block_maps(learner.net, batch.images)
        assert maps[-1].shape[-2:] == (1, 1)
        outputs = [layer(module(maps)) for layer, module in zip(learner.layers, learner.aggregation, strict=True)]
        own = torch.stack([outputs[domain][row] for row, domain in enumerate(batch.domains.tolist())])
        assert learner.loss(batch).item() == pytest.approx(F.cross_entropy(own, batch.labels).item(), abs=1e-6)
        assert torch.allclose(learner.logits(batch.images), (outputs[0] + outputs[1]) / 2, atol=1e-6)

    @pytest.mark.parametrize(
        ("backbone", "size", "places"), [("digits", 32, 4), ("alexnet", 64, 1), ("resnet18", 50, 1)]
    )
    def test_it_keeps_places_where_the_backbone_does(self, backbone, size, places):
        net = FeatureNet(build_backbone(backbone), (size, size), head="linear", feature_dim=6)
        learner = DSam(width=1.25, dropout=0.0).learner(net, replace(TASK, image_size=(size, size)))
        last = block_maps(net, torch.rand(1, 3, size, size))[-1].shape[1]
        assert learner.features(torch.rand(2, 3, size, size)).shape == (2, 2 * round(1.25 * last) * places)

    def test_on_resnet18_a_module_and_its_layer_are_as_large_as_the_authors(self):
        net = FeatureNet(build_backbone("resnet18"), (224, 224), head="none", feature_dim=0)
        learner = DSam().learner(net, replace(TASK, num_classes=7, num_domains=1, image_size=(224, 224)))
        assert len(learner.aggregation[0].nodes) == 7
        parts = [*learner.aggregation[0].parameters(), *learner.layers[0].parameters()]
        assert sum(part.numel() for part in parts) == 3_812_871

    def test_the_maps_of_a_resnet_are_those_after_its_eight_blocks(self):
        net = FeatureNet(build_backbone("resnet18"), (64, 64)).eval()
        images = torch.rand(2, 3, 64, 64)
        maps = block_maps(net, images)
        assert [tuple(made.shape[1:]) for made in maps[::2]] == [(64, 16, 16), (128, 8, 8), (256, 4, 4), (512, 2, 2)]
        assert all(torch.equal(*pair) for pair in zip(maps[1::2], level_maps(net, images), strict=True))
        assert not any(module._forward_hooks for module in net.modules())

    def test_asking_for_the_shapes_leaves_the_network_as_it_was(self):
        net = _net(batch_norm=True)
        before = copy.deepcopy(net.state_dict())
        DSam(width=1.25, dropout=0.0).learner(net, TASK)
        assert net.training
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


class TestMmld:
    def _images(self) -> tuple[TrainingImages, torch.Tensor]:
        generator = torch.Generator().manual_seed(3)
        dark = torch.randint(0, 60, (12, *SIZE, 3), generator=generator)
        style = torch.arange(12) % 2
        pixels = (dark + 190 * style[:, None, None, None]).to(torch.uint8).numpy()
        store = ImageStore(pixels, torch.device("cpu"))
        images = TrainingImages(store, torch.arange(12), torch.zeros(12, dtype=torch.long), torch.zeros(12).long())
        return images, style

    def test_dark_and_bright_images_become_two_domains_that_keep_their_names(self):
        learner = Mmld().learner(_net(batch_norm=True), TASK)
        before = copy.deepcopy(learner.net.state_dict())
        images, style = self._images()
        learner.epoch_start(0, images)
        first = learner.pseudo_domains.clone()
        assert first.tolist() in (style.tolist(), (1 - style).tolist())
        learner.pseudo_domains.copy_(1 - first)
        learner.epoch_start(1, images)
        assert learner.pseudo_domains.tolist() == (1 - first).tolist()
        assert learner.training
        assert all(torch.equal(value, before[name]) for name, value in learner.net.state_dict().items())

    def test_images_are_clustered_anew_every_few_epochs_only(self):
        learner = Mmld(every=3).learner(_net(), TASK)
        images, style = self._images()
        learner.epoch_start(2, images)
        assert learner.pseudo_domains.tolist() == [0] * 12
        learner.epoch_start(3, images)
        assert learner.pseudo_domains.tolist() in (style.tolist(), (1 - style).tolist())

    def test_its_loss_and_its_gradients(self):
        method, batch = Mmld(adversary=0.6, entropy=0.4, hidden=7), _batch(step=2)
        learner = method.learner(_net(), TASK).eval()  # without dropout
        learner.pseudo_domains.copy_(torch.arange(12) % 2)
        learner.cluster_weights.copy_(torch.tensor([0.5, 1.5]))
        rise = ramp(0.2)
        z = learner.net(batch.images)
        logits = learner.classifier(z)
        probabilities = torch.softmax(logits, dim=1)
        entropy = -(probabilities * probabilities.log()).sum(dim=1).mean()
        plain = F.cross_entropy(logits, batch.labels) + 0.4 * rise * entropy
        told = F.cross_entropy(learner.discriminator(z), torch.tensor([1, 0, 1, 1, 1, 0]), torch.tensor([0.5, 1.5]))
        found = learner.loss(batch)
        assert found.item() == pytest.approx((plain + told).item(), abs=1e-6)
        for got, expected in zip(
            _gradients(found, learner.net), _gradients(plain - 0.6 * rise * told, learner.net), strict=True
        ):
            assert torch.allclose(got, expected, atol=1e-6)
        for got, expected in zip(
            _gradients(found, learner.discriminator), _gradients(told, learner.discriminator), strict=True
        ):
            assert torch.allclose(got, expected, atol=1e-6)

    def test_the_discriminator_has_two_layers_of_1024_with_dropout(self):
        layers = list(Mmld().learner(_net(), TASK).discriminator)
        assert [layer.out_features for layer in layers if isinstance(layer, torch.nn.Linear)] == [1024, 1024, 2]
        assert [layer.p for layer in layers if isinstance(layer, torch.nn.Dropout)] == [0.5, 0.5]

    def test_clusters_weigh_the_same_whatever_their_size(self):
        learner = Mmld().learner(_net(batch_norm=True), TASK)
        images, _ = self._images()
        learner.epoch_start(0, images)
        assert learner.cluster_weights.tolist() == [1.0, 1.0]
        sizes = torch.tensor([0] * 9 + [1] * 3)
        assert [float((even_weights(sizes, 2)[sizes] * (sizes == k)).sum()) for k in (0, 1)] == pytest.approx(
            [4.5, 4.5]
        )

    def test_its_authors_let_the_classifier_and_the_discriminator_learn_ten_times_as_fast(self):
        method = find_method("mmld", "resnet18").method
        net, heads = method.learner(_net(), TASK).parameter_groups()
        assert (net.rate, heads.rate) == (1.0, 10.0)
        assert len(net.parameters) + len(heads.parameters) == len(list(method.learner(_net(), TASK).parameters()))

    def test_certain_answers_have_no_entropy(self):
        assert prediction_entropy(torch.tensor([[0.0, 200.0]])).item() == 0
        mean = prediction_entropy(torch.tensor([[0.0, 0.0], [0.0, 200.0]])).mean()
        assert mean.item() == pytest.approx(0.34657, abs=1e-5)
