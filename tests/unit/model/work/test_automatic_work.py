"""What runs by itself: what is printed of it, and what it is switched off by."""

from pathlib import Path

import pytest

from meterlake.model.errors import Invalid
from meterlake.model.work.automatic_work import AUTOMATIC_WORK, NAMES, check_names, left_on

TIMES = {
    "drops": "every 1 s",
    "ingest-summary": "hourly at :02",
    "verify": "daily at 05:15",
    "export-usage": "day 2, 04:20",
}


def test_times_are_said_as_people_say_them():
    said = {each.name: each.time for each in AUTOMATIC_WORK}
    assert {name: said[name] for name in TIMES} == TIMES
    assert not [time for time in said.values() if "*" in time]


def test_a_table_of_all_of_it_fits_into_80_columns():
    widths = [
        max(map(len, column))
        for column in zip(*((e.name, e.time, e.what) for e in AUTOMATIC_WORK), strict=True)
    ]
    assert sum(widths) + 2 + 2 * 3 <= 80


def test_the_page_lists_all_of_it():
    page = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
    for each in AUTOMATIC_WORK:
        who = "Prefect" if each.needs_prefect else "worker"
        assert f"| `{each.name}` | {each.time} | {who} | " in page


def test_what_is_switched_off_is_not_listed():
    names = {each.name for each in left_on(["verify", "drops"], worker=True, prefect=True)}
    assert names == NAMES - {"verify", "drops"}


@pytest.mark.parametrize(
    ("worker", "prefect", "there"), [(True, False, "drops"), (False, True, "verify")]
)
def test_what_nobody_runs_is_not_listed(worker, prefect, there):
    names = {each.name for each in left_on((), worker=worker, prefect=prefect)}
    assert there in names
    assert ("drops" in names) is worker
    assert ("verify" in names) is prefect


def test_names_that_nothing_has_are_refused_with_the_nearest():
    with pytest.raises(
        Invalid,
        match=r"--without: 'publsh' is not allowed: it must be one of .*; did you mean publish\?",
    ):
        check_names("--without", ["drops", "publsh"])
