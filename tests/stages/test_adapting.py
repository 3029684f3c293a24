"""Few-shot adaptation goes on with the source and the samples of the target together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from homefold.config import replace_settings
from homefold.evaluation.protocols import source_dataset
from homefold.features.loop import TrainingRun
from homefold.stages.features import features_ids, train_feature_stage
from homefold.stages.task import TaskKey, TrainingTask
from homefold.stages.training_features import TrainingFeatures
from homefold.store.stage_store import StageStore


@pytest.fixture
def task(few_digits, quick_config, tmp_path):
    """Trained on two domains, with six samples of a third."""
    domains = np.asarray(few_digits.domains)
    source = source_dataset(few_digits, np.flatnonzero(domains < 2))
    config = replace_settings(quick_config, {"features.epochs": 2, "features.batch_size": 12})
    return TrainingTask(
        TaskKey("source", config, "few"),
        source,
        torch.device("cpu"),
        StageStore(tmp_path),
        adapt=source_dataset(few_digits, np.flatnonzero(domains == 2)[:6]),
    )


def test_the_samples_are_one_domain_more_and_all_are_trained_on(task):
    joined, train, held_out = task.together
    n = len(task.source)
    assert joined.domain_names == (*task.source.domain_names, *task.adapt.domain_names)
    assert (joined.images[n:] == task.adapt.images).all()
    assert joined.labels.tolist() == [*task.source.labels, *task.adapt.labels]
    assert joined.domains[n:].tolist() == [2] * 6
    own_train, own_held_out = task.split
    assert train.tolist() == [*own_train, *range(n, n + 6)]
    assert held_out.tolist() == own_held_out.tolist()


@pytest.mark.slow
def test_f_goes_on_with_as_many_of_the_samples_as_of_each_source_domain(task, monkeypatch):
    batches, original = [], TrainingRun._own_rows

    def watched(run, epoch):
        rows = original(run, epoch)
        batches.extend(run.domains[run.train_indices][own].bincount(minlength=3).tolist() for own in rows)
        return rows

    before = train_feature_stage(task.without_adaptation())
    monkeypatch.setattr(TrainingRun, "_own_rows", watched)
    after = train_feature_stage(task)
    assert [stage.id for stage in after.stages] == list(features_ids(task.key))
    assert after.stages[0].id == before.stage.id
    assert batches
    assert set(map(tuple, batches)) == {(4, 4, 4)}
    assert after.report["selected_epoch"] == len(after.report["history"])


@pytest.mark.slow
def test_the_samples_features_are_repeated_to_as_many_as_a_source_domains(task):
    features = train_feature_stage(task)
    source = TrainingFeatures.of(task.without_adaptation(), train_feature_stage(task.without_adaptation()))
    even, once = (TrainingFeatures.of(task, features, evenly=evenly) for evenly in (True, False))
    n = len(source.train)
    times = round(n / 2 / 6)
    assert times > 1
    assert (len(even.train), len(once.train)) == (n + 6 * times, n + 6)
    assert torch.equal(even.train[n : n + 6], even.train[-6:])
    assert torch.equal(even.train[: n + 6], once.train)
    assert even.train_labels[n:].tolist() == task.adapt.labels.tolist() * times
    assert torch.equal(even.held_out_labels, source.held_out_labels)
