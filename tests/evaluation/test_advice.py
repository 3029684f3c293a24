"""What a failed run advises."""

from __future__ import annotations

import pytest

from homefold.evaluation.bench import run_bench


@pytest.mark.slow
def test_a_run_that_fails_names_settings_and_no_flags(tiny, tiny_digits):
    options = tiny(methods=("without-projection",))
    enormous = (*options.settings, "features.learning_rate=1e12", "features.schedule=constant")
    (record,) = run_bench(tiny(methods=("without-projection",), settings=enormous), dataset=tiny_digits)
    assert record.status == "failed"
    assert "Lower features.learning_rate" in record.error
    assert "--" not in record.error
