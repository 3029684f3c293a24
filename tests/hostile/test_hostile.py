"""Every hostile case by its id: a sentence or an answer, never a traceback, and nothing else touched.

`make hostile` runs all of them, a plain test run every tenth, and pytest 'tests/hostile/test_hostile.py::…' any one.
"""

from __future__ import annotations

from collections import Counter

import pytest

from hostile import images_and_archives, model_folders, records, settings
from hostile.campaign import Case, Scene, run, with_installed

FAMILIES = (images_and_archives, model_folders, settings, records)
CASES = with_installed([case for family in FAMILIES for case in family.cases()])


@pytest.mark.hostile
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_gets_an_answer_or_a_sentence(case: Case, scene: Scene, record_property: pytest.FixtureRequest) -> None:
    record_property("family", case.family)
    record_property("verdict", run(case, scene))


def test_the_campaign_is_as_large_as_it_says() -> None:
    ids = Counter(case.id for case in CASES)
    assert [name for name, count in ids.items() if count > 1] == []
    assert len(ids) >= 1800
    assert sum(case.installed for case in CASES) >= 90
