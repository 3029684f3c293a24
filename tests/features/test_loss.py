"""L_A against a double loop, its gradient against finite differences, its value at any scale."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from homefold.features.loss import cosine_normalise, pairwise_metric_loss, pairwise_metric_loss_bound


def slow_pairwise_metric_loss(z, labels, temperature):
    """Equation by equation, pair by pair, in Python floats."""
    total, n = 0.0, len(z)
    for i in range(n):
        for j in range(n):
            dot = sum(a * b for a, b in zip(z[i], z[j], strict=True))
            length = math.sqrt(sum(a * a for a in z[i])) * math.sqrt(sum(b * b for b in z[j]))
            p = 1 / (1 + math.exp(-dot / length / temperature))
            total += -math.log(p) if labels[i] == labels[j] else -math.log(1 - p)
    return total / n**2


@given(n=st.integers(1, 7), d=st.integers(1, 5), temperature=st.floats(0.1, 2.0), seed=st.integers(0, 2**31))
@pytest.mark.slow
def test_equals_the_double_loop(n, d, temperature, seed):
    random = torch.Generator().manual_seed(seed)
    z = torch.randn(n, d, generator=random, dtype=torch.float64)
    labels = torch.randint(0, 3, (n,), generator=random)
    expected = slow_pairwise_metric_loss(z.tolist(), labels.tolist(), temperature)
    assert float(pairwise_metric_loss(z, labels, temperature)) == pytest.approx(expected, rel=1e-9)


def test_its_gradient_is_that_of_finite_differences():
    torch.manual_seed(0)
    z = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 1, 0, 2, 1])
    assert torch.autograd.gradcheck(lambda x: pairwise_metric_loss(x, labels, 0.3), (z,))


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 1e6, 1e30, 1e37])
def test_scale_changes_neither_value_nor_finiteness_of_the_gradient(scale):
    torch.manual_seed(1)
    z = torch.randn(6, 8)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    scaled = (z * scale).requires_grad_()
    loss = pairwise_metric_loss(scaled, labels)
    loss.backward()
    assert loss.item() == pytest.approx(pairwise_metric_loss(z, labels).item(), rel=1e-5)
    assert torch.isfinite(scaled.grad).all()


def test_a_zero_feature_is_similar_to_nothing_and_gets_a_finite_gradient():
    z = torch.zeros(2, 3, requires_grad=True)
    loss = pairwise_metric_loss(z, torch.tensor([0, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert torch.isfinite(z.grad).all()


def test_it_is_computed_in_float32_under_autocast():
    torch.manual_seed(2)
    z, labels = torch.randn(16, 32), torch.arange(16) % 4
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = pairwise_metric_loss(z, labels)
    assert inside.dtype == torch.float32
    assert float(inside) == float(pairwise_metric_loss(z, labels))


def test_every_pair_counts_once_its_own_with_itself_too():
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    positive, negative = math.log1p(math.exp(-1)), math.log1p(math.exp(1))
    found = pairwise_metric_loss(z, torch.tensor([0, 0, 1]), 1.0)
    assert float(found) == pytest.approx((5 * positive + 4 * negative) / 9)


@given(classes=st.integers(2, 6), each=st.integers(1, 3), temperature=st.floats(0.1, 1.0))
def test_the_bound_is_reached_at_the_corners_of_a_simplex(classes, each, temperature):
    corners = torch.eye(classes, dtype=torch.float64) - 1 / classes
    z = corners.repeat(each, 1)
    labels = torch.arange(classes).repeat(each)
    bound = pairwise_metric_loss_bound([each] * classes, temperature)
    assert float(pairwise_metric_loss(z, labels, temperature)) == pytest.approx(bound, rel=1e-9)


def test_the_published_bounds():
    assert pairwise_metric_loss_bound([1] * 7, 0.1) == pytest.approx(0.148, abs=5e-4)
    assert pairwise_metric_loss_bound([1] * 10, 0.1) == pytest.approx(0.256, abs=5e-4)


def test_normalising_gives_unit_rows():
    z = torch.tensor([[3.0, 4.0], [3e30, 4e30], [0.0, 0.0]])
    expected = torch.tensor([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]])
    torch.testing.assert_close(cosine_normalise(z), expected)


@given(
    n=st.integers(1, 12),
    d=st.integers(1, 6),
    chunk=st.integers(1, 14),
    temperature=st.floats(0.1, 2.0),
    seed=st.integers(0, 2**31),
)
def test_in_chunks_it_has_the_same_value_and_the_same_gradient(n, d, chunk, temperature, seed):
    random = torch.Generator().manual_seed(seed)
    z = torch.randn(n, d, generator=random, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 3, (n,), generator=random) - 1
    whole, chunked = (pairwise_metric_loss(z, labels, temperature, chunk=size) for size in (None, chunk))
    torch.testing.assert_close(chunked, whole, rtol=1e-9, atol=1e-12)
    gradients = [torch.autograd.grad(3 * loss, z)[0] for loss in (whole, chunked)]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-9, atol=1e-12)
    expected = slow_pairwise_metric_loss(z.tolist(), labels.tolist(), temperature)
    assert float(chunked.detach()) == pytest.approx(expected, rel=1e-9)


def test_in_chunks_of_float32_it_stays_near_the_float64_reference():
    torch.manual_seed(3)
    z, labels = torch.randn(300, 16), torch.arange(300) % 7
    exact = z.double().requires_grad_()
    pairwise_metric_loss(exact, labels).backward()
    near = z.clone().requires_grad_()
    loss = pairwise_metric_loss(near, labels, chunk=64)
    loss.backward()
    assert loss.item() == pytest.approx(float(pairwise_metric_loss(z.double(), labels)), rel=1e-5)
    torch.testing.assert_close(near.grad.double(), exact.grad, rtol=1e-3, atol=1e-8)


class PeakBytes(TorchDispatchMode):
    """Counts the bytes of all tensors made inside it that live at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.peak, self._alive = 0, WeakIdKeyDictionary()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {id(item.untyped_storage()) for item in tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)}
        for item in tree_leaves(result):
            if isinstance(item, torch.Tensor) and id(item.untyped_storage()) not in given:
                self._alive[item.untyped_storage()] = item.untyped_storage().nbytes()
        self.peak = max(self.peak, sum(self._alive.values()))
        return result


def peak_bytes(n: int, **settings) -> int:
    torch.manual_seed(4)
    z, labels = torch.randn(n, 8, requires_grad=True), torch.arange(n) % 7
    with PeakBytes() as counter:
        pairwise_metric_loss(z, labels, **settings).backward()
    return counter.peak


@pytest.mark.slow
def test_in_chunks_memory_grows_with_the_batch_and_not_with_its_square():
    once, twice = peak_bytes(512, chunk=32), peak_bytes(1024, chunk=32)
    assert once < 512 * 512 * 4
    assert 1.8 < twice / once < 2.2
    assert peak_bytes(1024) / peak_bytes(512) > 3.5


def test_a_batch_beyond_the_largest_whole_one_never_holds_all_pairs(monkeypatch):
    monkeypatch.setattr("homefold.features.loss._LARGEST_WHOLE", 256)
    monkeypatch.setattr("homefold.features.loss._PAIRS_AT_A_TIME", 256 * 16)
    assert peak_bytes(512) < 512 * 512 * 4
