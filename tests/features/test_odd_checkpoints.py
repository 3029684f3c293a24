"""Checkpoints in which something is odd: the training goes on, or says in one sentence what to do."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
import torch

from homefold.config import replace_settings
from homefold.data.splits import selection_split
from homefold.errors import ModelFileError
from homefold.features import build_feature_net, train_features
from homefold.store.files import read_state, write_state
from odd_folders import GONE, places, with_value

ODD = (
    None,
    -1,
    10**40,
    "x",
    [],
    {},
    [[]],
    {"a": 1},
    math.nan,
    torch.zeros(2),
    torch.zeros(3, 1, dtype=torch.int64),
    GONE,
)
# Of all combinations of a place and an odd value every so many is tried.
EVERY = int(os.environ.get("HOMEFOLD_TEST_EVERY", "11"))


@pytest.fixture(scope="module")
def setting(few_digits, quick_config):
    """Settings of a short training that averages weights, and how to run it with a checkpoint."""
    changes = {
        "features.epochs": 2,
        "features.batch_size": 64,
        "features.average_from": 0.0,
    }
    config = replace_settings(quick_config, changes)
    dataset = few_digits.without("street")
    train, held_out = selection_split(dataset, 0.2, 0)

    def run(checkpoint, on_epoch=None, **options):
        net = build_feature_net(config.features, (16, 16), normalisation="half", seed=0, pretrained=False)
        settings = replace_settings(config, options).features
        return train_features(
            settings, net, dataset, train, held_out, seed=0, device=torch.device("cpu"), checkpoint=checkpoint,
            on_epoch=on_epoch,
        )  # fmt: skip

    return run


class Stopped(Exception):
    """The training was killed."""


def stop_after_one(figures: dict[str, float]) -> None:
    if figures["epoch"] == 2:
        raise Stopped


@pytest.fixture(scope="module")
def kept(setting, tmp_path_factory) -> dict[str, Any]:
    """The state after the first of two epochs."""
    checkpoint = tmp_path_factory.mktemp("kept") / "features.safetensors"
    with pytest.raises(Stopped):
        setting(checkpoint, stop_after_one)
    state = read_state(checkpoint)
    assert state["epoch"] == 1
    return state


@pytest.mark.slow
def test_a_state_that_does_not_fit_is_told_and_any_other_is_gone_on_from(setting, kept, tmp_path):
    checkpoint = tmp_path / "features.safetensors"
    combinations = [(place, value) for place in places(kept) for value in ODD]
    told = 0
    for place, value in combinations[::EVERY]:
        write_state(checkpoint, with_value(kept, place, value))
        try:
            setting(checkpoint, stop_after_one)
        except Stopped:
            continue
        except ModelFileError as error:
            sentence = str(error)
            assert sentence.startswith(f"{checkpoint} does not fit this training (")
            assert sentence.endswith("); delete it to start anew.")
            assert "\n" not in sentence
            assert len(sentence) < 500
            told += 1
    assert told > len(combinations) / EVERY / 2, "most odd values are refused"


@pytest.mark.parametrize("state", [None, 3, "x", [], {}, {"net": {}}])
@pytest.mark.parametrize("runs", [1, 2])
def test_a_state_of_another_form_is_told(setting, tmp_path, state, runs):
    checkpoint = tmp_path / "features.safetensors"
    write_state(checkpoint, state)
    with pytest.raises((ModelFileError, ValueError), match=r"delete it"):
        setting(checkpoint, **{"features.runs": runs})


def test_a_training_goes_on_from_a_state_that_fits(setting, kept, tmp_path):
    checkpoint = tmp_path / "features.safetensors"
    write_state(checkpoint, kept)
    whole, resumed = setting(None), setting(checkpoint)
    assert resumed.report == whole.report
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, resumed.net.state_dict()[name]), name
