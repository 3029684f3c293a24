"""MEMO and TTT by hand: the one step they take for an image, and what they take it on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from homefold.methods import ImageSet, find_method
from homefold.methods.test_time.memo import with_mixed_statistics
from homefold.methods.test_time.wrapping import reached_parameters
from homefold.methods.training.rotation import RotationBranch, RotationLearner, rotation_loss, shared_map, turned

RATE = 0.3


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


def test_memo_steps_down_the_entropy_of_the_mean_answer(toy):
    layer = nn.Linear(3, 2, bias=False)
    weight = np.array([[1.0, -1.0, 0.5], [-0.5, 1.0, 0.0]])
    layer.load_state_dict({"weight": torch.from_numpy(weight).float()})
    memo = toy(nn.Flatten(), layer).wrapped_by("memo", learning_rate=RATE, copies=4)
    pixels = np.array([[[[255, 51, 102]]]], dtype=np.uint8)
    (found,) = memo.answer(ImageSet(pixels, "x")).predictions.probabilities
    # The copies are equal: p̄ = p = softmax(W x), and dH/dlogit_k = −p_k (ln p_k + H).
    x = np.array([1.0, 0.2, 0.4])
    p = softmax(weight @ x)
    slope = -p * (np.log(p) - (p * np.log(p)).sum())
    assert found == pytest.approx(softmax((weight - RATE * np.outer(slope, x)) @ x), abs=1e-6)
    assert found.max() > p.max() + 0.01


def test_memo_counts_what_passes_once_against_the_training_n_times():
    norm = nn.BatchNorm2d(2)
    norm.running_mean.copy_(torch.tensor([1.0, -1.0]))
    norm.running_var.copy_(torch.tensor([4.0, 9.0]))
    x = torch.tensor([[[[0.0, 2.0]], [[5.0, 5.0]]]], dtype=torch.float32)
    mixed = with_mixed_statistics(nn.Sequential(norm), 3.0).eval()
    # Means 1 and 5, unbiased variances 2 and 0: (3 · 1 + 1) / 4, (3 · −1 + 5) / 4; (3 · 4 + 2) / 4, (3 · 9 + 0) / 4.
    expected = (x - torch.tensor([1.0, 0.5]).view(1, 2, 1, 1)) / torch.tensor([3.5, 6.75]).view(1, 2, 1, 1).sqrt()
    assert torch.allclose(mixed(x), expected, atol=1e-4)
    assert torch.isfinite(mixed(x[..., :1])).all(), "a single value has no spread"
    assert norm.running_mean.tolist() == [1.0, -1.0]


def test_memo_on_a_pretrained_network_is_its_authors():
    memo = find_method("memo", "resnet18")
    assert (memo.learning_rate, memo.copies, memo.prior) == (2.5e-4, 64, 16.0)
    assert find_method("memo", "digits-bn") == find_method("memo")


def test_ttt_steps_down_the_loss_of_telling_four_turns(toy):
    random = np.random.default_rng(1)
    shared, head, layer = random.normal(size=(2, 12)), random.normal(size=(4, 2)), random.normal(size=(2, 2))
    features = nn.Sequential(nn.Flatten(), nn.Linear(12, 2, bias=False))
    features[1].load_state_dict({"weight": torch.from_numpy(shared).float()})
    last = nn.Linear(2, 2, bias=False)
    last.load_state_dict({"weight": torch.from_numpy(layer).float()})
    images = random.integers(0, 256, (20, 2, 2, 3)).astype(np.uint8)
    base = toy(features, last, images, [0] * 10 + [1] * 10)
    ttt = base.wrapped_by("ttt", learning_rate=RATE, steps=1, copies=2)
    ttt._head.load_state_dict({"layers.0.weight": torch.from_numpy(head).float(), "layers.0.bias": torch.zeros(4)})
    (found,) = ttt.answer(ImageSet(images[:1], "x")).predictions.probabilities
    # dℓ/dA = mean over turns r of Hᵀ (softmax(H A x_r) − e_r) x_rᵀ
    image = images[0].transpose(2, 0, 1) / 255
    turns = [np.rot90(image, quarter, (1, 2)).reshape(12) for quarter in range(4)]
    slope = sum(
        np.outer(head.T @ (softmax(head @ shared @ x) - np.eye(4)[quarter]), x) / 4 for quarter, x in enumerate(turns)
    )
    assert found == pytest.approx(softmax(layer @ (shared - RATE * slope) @ turns[0]), abs=1e-5)


@pytest.mark.slow
def test_ttt_takes_the_head_that_was_trained_along(finished, scan):
    base = finished("rotation")
    assert isinstance(base.trained.learner, RotationLearner)
    ttt = base.wrapped_by("ttt")
    own = base.trained.learner.rotation_head
    assert isinstance(ttt._head, RotationBranch)
    assert ttt._head is not own, "it changes for an image"
    assert all(torch.equal(*pair) for pair in zip(ttt._head.parameters(), own.parameters(), strict=True))
    assert ttt.stages == base.trained.stages
    for method in ("ttt", "ttt+rotation:features.epochs=5"):
        assert find_method(method).planned_stages(base.task.key) == base.method.planned_stages(base.task.key)


@pytest.mark.slow
def test_for_any_other_method_a_head_is_trained_as_a_stage(finished):
    base = finished("deep-all", features__feature_dim=64)
    method = find_method("ttt+deep-all")
    wrapped = method.wrap(base.trained, base.task)
    assert [stage.id for stage in wrapped.stages] == [*method.planned_stages(base.task.key)]
    assert [stage.id.kind for stage in wrapped.stages] == ["features", "rotation-head"]
    assert wrapped.facts()["rotation_head"]["held_out_accuracy"] > 0.35  # one in four by chance
    assert not method.wrap(base.trained, base.task).stages[1].made_now


@pytest.mark.slow
def test_only_what_both_branches_share_and_the_branch_of_the_turns_are_changed(finished, scan):
    base = finished("rotation")
    ttt, memo = base.wrapped_by("ttt"), base.wrapped_by("memo")
    image = torch.rand(1, 3, 16, 16)
    changed = {id(parameter) for parameter in ttt.adapted(image)}
    net, branch = ttt.network.features, ttt._head
    # The fourth of the digits net's blocks and the head are each branch's own.
    shared = {id(item) for layer in list(net.backbone)[:12] for item in layer.parameters()}
    own = nn.ModuleList(list(branch.net.backbone)[12:])
    last = [*own.parameters(), *branch.net.head.parameters(), *branch.layer.parameters()]
    assert changed == shared | {id(item) for item in last}
    assert len(memo.adapted(image)) == len(list(memo.network.features.parameters())) + 2
    assert not any(parameter.requires_grad for parameter in ttt.network.layer.parameters())


@pytest.mark.slow
def test_online_what_an_image_taught_stays_until_it_is_reset(finished, scan):
    some = scan.subset(np.arange(0, len(scan), 6))
    online = finished("rotation").wrapped_by("ttt", steps=1, copies=2, online=1, learning_rate=0.01)
    assert not online.method.info.stateless
    assert finished("rotation").wrapped_by("ttt").method.info.stateless
    online.reset()
    first, second = (online.answer(ImageSet(some.images, "some")).predictions.probabilities for _ in range(2))
    assert not np.array_equal(first, second)
    online.reset()
    assert np.array_equal(online.answer(ImageSet(some.images, "some")).predictions.probabilities, first)


def test_parameters_that_nothing_reaches_are_left_out():
    net = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2)})
    net.forward = lambda x: net["used"](x)
    assert [id(p) for p in reached_parameters(net, torch.ones(1, 2))] == [id(p) for p in net["used"].parameters()]


class TestRotation:
    def test_each_image_is_turned_by_its_own_number_of_quarters(self):
        image = torch.arange(4.0).view(1, 1, 2, 2).expand(4, 3, 2, 2)
        found = turned(image, torch.tensor([0, 1, 2, 3]))[:, 0].flatten(1).tolist()
        assert found == [[0, 1, 2, 3], [1, 3, 0, 2], [3, 2, 1, 0], [2, 0, 3, 1]]

    def test_the_loss_adds_the_turns_to_deep_alls(self, build, batch):
        joint = build(find_method("rotation"))
        with torch.no_grad():
            torch.manual_seed(3)
            found = joint.loss(batch)
            torch.manual_seed(3)
            turns = torch.randint(4, (len(batch),))
            expected = nn.functional.cross_entropy(joint.classifier(joint.net(batch.images)), batch.labels)
            before = shared_map(joint.net, turned(batch.images, turns))
            expected += nn.functional.cross_entropy(joint.rotation_head(before), turns)
        assert float(found) == pytest.approx(float(expected), rel=1e-5)

    def test_the_branch_starts_as_the_network_and_holds_no_other_weights(self, build, batch):
        joint = build(find_method("rotation")).eval()
        branch = joint.rotation_head
        with torch.no_grad():
            told = branch(shared_map(joint.net, batch.images))
            assert torch.allclose(told, branch.layer(joint.net(batch.images)), atol=1e-5)
        trained = [name for name, parameter in branch.net.named_parameters() if parameter.requires_grad]
        assert trained
        assert all(name.startswith("head.") or int(name.split(".")[1]) >= 12 for name in trained)

    def test_without_a_branch_the_head_shares_the_feature(self, build, batch):
        joint = build(find_method("rotation:branches=0"))
        torch.manual_seed(3)
        found = joint.loss(batch)
        torch.manual_seed(3)
        turns = torch.randint(4, (len(batch),))
        expected = nn.functional.cross_entropy(joint.classifier(joint.net(batch.images)), batch.labels)
        expected += rotation_loss(joint.net(turned(batch.images, turns)), joint.rotation_head, turns)
        assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)

    def test_at_weight_zero_it_is_deep_all(self, build, batch):
        method = find_method("rotation")
        null = build(replace(method, **method.null))
        with torch.no_grad():
            expected = nn.functional.cross_entropy(null.classifier(null.net(batch.images)), batch.labels)
            assert torch.equal(null.loss(batch), expected)
