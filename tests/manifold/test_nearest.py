"""1-NN answers with the source feature that brute force finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import homefold.manifold.nearest as nearest_module
from homefold.errors import DataError, ManifoldCollapsedError
from homefold.manifold import ManifoldConfig, NearestNeighbour, build_manifold, fit_manifold, nearest_index
from homefold.runtime.seeding import generator
from homefold.store.files import read_state, write_state

CONFIG = ManifoldConfig(kind="nearest")


def brute_force(z: torch.Tensor, bank: torch.Tensor) -> list[int]:
    """First index of the highest cosine, row by row, in float64."""
    answers = []
    for row in z.double().numpy():
        cosines = [float(row @ other / np.linalg.norm(row) / np.linalg.norm(other)) for other in bank.double().numpy()]
        answers.append(next(i for i, c in enumerate(cosines) if c >= max(cosines) - 1e-6))
    return answers


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 80), st.integers(1, 40), st.integers(2, 9), st.integers(0, 10_000), st.integers(3, 64))
def test_it_finds_what_brute_force_finds(n: int, k: int, d: int, seed: int, bank_tile: int) -> None:
    draw = generator(seed, "nearest")
    # small integers make ties and repeated rows common; the offset keeps every row away from zero length
    z, bank = (torch.randint(-2, 3, (rows, d), generator=draw) + 0.25 for rows in (n, k))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_module, "_BANK_TILE", bank_tile)
        assert nearest_index(z, bank).tolist() == brute_force(z, bank)


def test_the_lowest_of_equal_rows_wins_even_across_pieces_of_the_bank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = torch.randn(1, 256, generator=generator(0, "row"))
    other = torch.randn(500, 256, generator=generator(0, "other"))
    bank = torch.cat([other[:90], row, other[90:], 3 * row, row])
    for tile in (7, 64, 65536):
        monkeypatch.setattr(nearest_module, "_BANK_TILE", tile)
        assert nearest_index(row.repeat(5, 1), bank).tolist() == [90] * 5


def test_no_rows_give_no_indices() -> None:
    assert nearest_index(torch.zeros(0, 4), torch.ones(3, 4)).shape == (0,)


def test_an_answer_does_not_depend_on_the_rest_of_the_batch() -> None:
    draw = generator(1, "batch")
    bank, z = torch.randn(300, 16, generator=draw), torch.randn(70, 16, generator=draw)
    together = nearest_index(z, bank)
    assert [int(nearest_index(row[None], bank)) for row in z] == together.tolist()


@pytest.fixture(scope="module")
def fitted() -> NearestNeighbour:
    z = torch.randn(60, 8, generator=generator(0, "z"))
    model = fit_manifold(CONFIG, z[:50], z[50:], labels=torch.arange(50) % 4, seed=0)
    assert isinstance(model, NearestNeighbour)
    return model


def test_a_source_feature_is_its_own_nearest_and_decodes_to_itself(fitted: NearestNeighbour) -> None:
    latents = fitted.encode(2.5 * fitted.bank_features)
    assert latents.shape == (50, 1)
    assert torch.equal(latents, fitted.bank_latents)
    assert torch.equal(fitted.decode(latents), fitted.bank_features)
    assert not fitted.is_continuous


def test_all_features_and_their_labels_are_kept(fitted: NearestNeighbour) -> None:
    assert torch.equal(fitted.bank_features, torch.randn(60, 8, generator=generator(0, "z"))[:50])
    assert fitted.bank_labels.tolist() == [i % 4 for i in range(50)]


def test_samples_are_source_features_drawn_by_the_generator(fitted: NearestNeighbour) -> None:
    drawn = fitted.sample(200, generator(3, "sample"))
    assert torch.equal(drawn, fitted.sample(200, generator(3, "sample")))
    index = fitted.encode(drawn)[:, 0].long()
    assert torch.equal(fitted.bank_features[index], drawn)
    assert len(index.unique()) > 30


@pytest.mark.parametrize("labelled", [True, False])
def test_a_state_survives_the_disk_with_and_without_labels(labelled: bool, tmp_path: Path) -> None:
    z = torch.randn(30, 8, generator=generator(0, "z"))
    model = fit_manifold(CONFIG, z[:20], z[20:], labels=torch.arange(20) if labelled else None, seed=0)
    write_state(tmp_path / "state.safetensors", model.state_dict())
    copy = build_manifold(CONFIG, 8)
    copy.load_state_dict(read_state(tmp_path / "state.safetensors"))
    assert torch.equal(copy.bank_features, z[:20])
    assert len(copy.bank_labels) == (20 if labelled else 0)  # type: ignore[arg-type]
    assert torch.equal(copy.encode(z), model.encode(z))


def test_the_report_measures_the_distance_to_the_nearest(fitted: NearestNeighbour) -> None:
    held_out = torch.randn(60, 8, generator=generator(0, "z"))[50:]
    found = fitted.decode(fitted.encode(held_out))
    cosine = float(torch.nn.functional.cosine_similarity(held_out, found).mean())
    assert fitted.report.reconstruction_cosine == pytest.approx(cosine)
    assert not fitted.report.collapsed


def test_constant_features_are_refused_in_use() -> None:
    model = fit_manifold(CONFIG, torch.ones(10, 4), torch.ones(5, 4), seed=0)
    with pytest.raises(ManifoldCollapsedError, match="source features hardly differ"):
        model.require_usable()


def test_labels_must_match_the_features() -> None:
    z = torch.eye(4)
    with pytest.raises(DataError, match=r"4 training features.*\(3,\)"):
        fit_manifold(CONFIG, z, z, labels=torch.arange(3), seed=0)
