"""Two processes on one batch: the same loss, the same gradients and the same training as one process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import multiprocessing

from homefold.data import DomainDataset
from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import FeatureConfig, build_feature_net, train_features
from homefold.features.gradient_step import require_even_parts
from homefold.features.objective import Objective
from homefold.runtime.processes import Processes, add_up, current_processes, from_first, joined_processes, local_device
from homefold.store.files import read_state, write_state

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
CASES = [(1.0, 0.0), (1.0, 0.5), (0.0, 1.0)]


def objective_case(metric: float, entropy: float) -> dict[str, torch.Tensor]:
    """Loss and gradients of one batch, of which this process computes its part."""
    torch.manual_seed(0)
    z, labels = torch.randn(12, 5, dtype=torch.float32), torch.arange(12) % 3
    objective = Objective(5, 3, metric_weight=metric, cross_entropy_weight=entropy)
    processes = current_processes()
    part = processes.part(12)
    own = z[part].clone().requires_grad_()
    loss = objective(own, labels[part])
    loss.backward()
    total = loss.detach().clone()
    gradients = {name: parameter.grad for name, parameter in objective.named_parameters()}
    add_up([total, *gradients.values()])
    return {"loss": total, "z": own.grad, **gradients}


def training_case(config: FeatureConfig, dataset: DomainDataset, checkpoint: Path | None = None) -> dict[str, object]:
    train, held_out = holdout_split(dataset.labels, dataset.domains, config.held_out, 0)
    net = build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    trained = train_features(config, net, dataset, train, held_out, seed=0, device=CPU, checkpoint=checkpoint)
    return {"net": trained.net.state_dict(), "history": [dict(entry) for entry in trained.report.history]}


def averaging(config: FeatureConfig) -> FeatureConfig:
    """With batch norm, styles mixed, and weights averaged within epochs and over two runs."""
    return replace(
        config,
        backbone="digits-bn",
        select="last",
        average_from=0.0,
        average_every=2,
        mix_style_probability=0.5,
        runs=2,
    )


def work(rank: int, port: int, folder: str, config: FeatureConfig, dataset: DomainDataset) -> None:
    """What each of the two processes does."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with joined_processes(CPU) as processes:
        assert processes == Processes(rank, 2)
        found = {
            "objectives": [objective_case(*case) for case in CASES],
            "training": training_case(config, dataset, Path(folder) / f"checkpoint{rank}"),
            "averaged": training_case(averaging(config), dataset),
            "first": from_first(float(rank + 7), CPU),
        }
    assert current_processes() == Processes()
    write_state(Path(folder) / f"found{rank}", found)


@pytest.fixture(scope="module")
def config(quick_config) -> FeatureConfig:
    # Batch norm sees only its own process's images, so a network without it is compared.
    return replace(quick_config.features, backbone="digits", epochs=2, batch_size=24)


@pytest.fixture(scope="module")
def dataset() -> DomainDataset:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (80, 32, 32, 3), dtype=np.uint8)
    return DomainDataset(
        images, np.arange(80) % 2, np.arange(80) // 40, ("even", "odd"), ("left", "right"), name="noise"
    )


@pytest.fixture(scope="module")
def two(tmp_path_factory, config, dataset) -> list[dict]:
    folder = tmp_path_factory.mktemp("processes")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    multiprocessing.spawn(work, (port, str(folder), config, dataset), nprocs=2)
    assert (folder / "checkpoint0").exists()
    assert not (folder / "checkpoint1").exists()
    return [read_state(folder / f"found{rank}") for rank in range(2)]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_loss_over_the_pairs_of_all_processes_is_that_of_one(two, case):
    alone = objective_case(*CASES[case])
    for rank, found in enumerate(two):
        own = found["objectives"][case]
        assert own.keys() == alone.keys()
        for name in alone.keys() - {"z"}:
            torch.testing.assert_close(own[name], alone[name], rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(own["z"], alone["z"][Processes(rank, 2).part(12)], rtol=1e-5, atol=1e-7)


def test_two_processes_train_as_one_does(two, config, dataset):
    alone = training_case(config, dataset)
    for found in two:
        for entry, expected in zip(found["training"]["history"], alone["history"], strict=True):
            assert entry == pytest.approx(expected, rel=1e-4)
        for name, value in alone["net"].items():
            torch.testing.assert_close(found["training"]["net"][name], value, rtol=1e-3, atol=1e-5)


def test_both_processes_end_with_the_same_bytes(two):
    left, right = (found["training"]["net"] for found in two)
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_averages_within_an_epoch_and_over_runs_are_the_same_in_both(two, config, dataset):
    left, right = (found["averaged"]["net"] for found in two)
    assert all(torch.equal(left[name], right[name]) for name in left)
    start = build_feature_net(averaging(config), dataset.image_size, normalisation="half", seed=0, pretrained=True)
    assert not torch.equal(left["backbone.2.running_mean"], start.state_dict()["backbone.2.running_mean"])


def test_all_take_the_value_of_the_first(two):
    assert [found["first"] for found in two] == [7.0, 7.0]


def test_a_batch_that_cannot_be_shared_evenly_is_refused():
    with pytest.raises(ConfigError, match=r"a batch of 33 images.*2 processes.*features.batch_size"):
        require_even_parts(33, 2)


def test_alone_nothing_is_exchanged():
    values = [torch.ones(2)]
    add_up(values)
    assert values[0].tolist() == [1.0, 1.0]
    assert from_first(3.5, CPU) == 3.5
    assert local_device("auto") == "auto"


def test_torchrun_trains_one_model_that_only_the_first_process_writes(tmp_path, few_digits):
    from PIL import Image

    photos = tmp_path / "photos"
    for i, image in enumerate(few_digits.images[:: len(few_digits.images) // 72]):
        position = i * (len(few_digits.images) // 72)
        label, domain = few_digits.labels[position], few_digits.domains[position]
        path = photos / f"domain{domain}" / f"class{label}" / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    settings = [
        "--preset",
        "small",
        "--device",
        "cpu",
        "--epochs",
        "2",
        "--batch-size",
        "16",
        "--manifold.epochs",
        "60",
    ]
    fit = ["-m", "homefold", "fit", str(photos), "--out", str(tmp_path / "model"), *settings, "--json"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launcher, *fit], capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["device"] == "cpu"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "photos"]
