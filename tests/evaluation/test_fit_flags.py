"""What an error advises in the words of the command that was given."""

from __future__ import annotations

import pytest

from homefold.evaluation.bench import run_bench
from homefold.fit_flags import as_settings


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Lower --learning-rate (it was 3).", "Lower --set features.learning_rate (it was 3)."),
        ("choose a --batch-size that is", "choose a --set features.batch_size that is"),
        ("add --features.cross-entropy-weight 1, or", "add --set features.cross_entropy_weight=1, or"),
        ("its kl_weight (--manifold.kl-weight; it is 2)", "its kl_weight (--set manifold.kl_weight; it is 2)"),
        ("Choose --search.engine auto.", "Choose --set search.engine=auto."),
        ("--features.precision float32.", "--set features.precision=float32."),
        ("from pretrained --weights, fewer --jobs", "from pretrained --weights, fewer --jobs"),
        ("--learning-rates and --epochs-of", "--learning-rates and --epochs-of"),
        ("nothing to say", "nothing to say"),
    ],
)
def test_flags_of_fit_become_settings(said, expected):
    assert as_settings(said) == expected
    assert as_settings(expected) == expected


@pytest.mark.slow
def test_a_run_that_fails_names_what_the_benchmark_takes(tiny, tiny_digits):
    options = tiny(methods=("without-projection",))
    enormous = (*options.settings, "features.learning_rate=1e12", "features.schedule=constant")
    (record,) = run_bench(tiny(methods=("without-projection",), settings=enormous), dataset=tiny_digits)
    assert record.status == "failed"
    assert "--set features.learning_rate" in record.error
    assert " --learning-rate" not in record.error
