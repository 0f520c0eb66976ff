"""The page on scale says what the model makes of the measured costs, and the model follows from them."""

import re

import pytest

from tests.benchmarks import capacity
from tests.benchmarks.capacity import Workload

TEXT = capacity.PAGE.read_text("utf-8")
COSTS = capacity.values("costs")
CPU_FACTOR, COUNT_FACTOR = 3, 1.5


def test_the_tables_of_the_page_are_those_of_the_model():
    assert capacity.written(TEXT, capacity.tables()) == TEXT
    assert {name for _, name, _ in capacity.BLOCK.findall(TEXT)} == set(capacity.tables())


@pytest.mark.parametrize("name", sorted(COSTS))
def test_every_cost_counts(name):
    """A cost that is twice as high changes some table."""
    changed = COSTS | {name: COSTS[name] * 2}
    work = Workload()

    def shown(costs):
        return (
            capacity.cpu_table(costs, work),
            capacity.storage_table(costs, work),
            capacity.money_table(costs, capacity.values("prices"), work),
            capacity.breaks_table(costs, work),
        )

    assert shown(changed) != shown(COSTS)


def test_the_model_is_right_about_the_simulation():
    found = capacity.load("simulated")
    model, real = capacity.predicted(COSTS, found), capacity.measured(found)
    for name, value in model.items():
        factor = CPU_FACTOR if name.endswith("_cpu") else COUNT_FACTOR
        assert 1 / factor <= real[name] / value <= factor, name


def test_the_load_is_ten_billion_a_month():
    work = Workload()
    assert (work.rows, round(work.rows / capacity.MONTH_S)) == (1e10, 3858)
    assert 400e9 < capacity.storage(COSTS, work)["measurements"] < 460e9


def test_twice_the_rows_cost_twice_the_bytes_and_no_more_bills():
    once, twice = Workload(), Workload(rows=2e10)
    kept = [capacity.storage(COSTS, each)["measurements"] for each in (once, twice)]
    bills = [capacity.cpu(COSTS, each)["bills"] for each in (once, twice)]
    assert kept[1] == 2 * kept[0]
    assert bills[0] == bills[1]


def test_what_repeats_cost_is_what_the_curve_says():
    """The cost for each stored row, of the longest history that was measured but one."""
    found = capacity.load("curve")["rows"]["100M"]
    seconds = found["repeats"]["cpu"] - found["commits"]["cpu"]
    assert COSTS["repeat_row_cpu"] == pytest.approx(seconds / 1e8, rel=0.05)
    assert COSTS["rebuild_row_cpu"] == pytest.approx(found["index"]["cpu"] / 1e8, rel=0.05)


def test_the_longest_history_that_was_measured_costs_what_the_model_says():
    found = capacity.load("curve")["rows"]["1B"]
    seconds = found["repeats"]["cpu"] - found["commits"]["cpu"]
    assert seconds / 1e9 == pytest.approx(COSTS["repeat_row_cpu"], rel=0.1)
    assert found["index"]["cpu"] / 1e9 == pytest.approx(COSTS["rebuild_row_cpu"], rel=0.1)
    assert found["index"]["bytes"] / 1e9 == COSTS["known_bytes"]


def test_prose_has_no_numbers_of_its_own_but_those_that_are_written_down_here():
    outside = capacity.BLOCK.sub("", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
    known = {
        "16 M",
        "100 M",
        "48",
        "46.4",
        "10.0",
        "2026",
        "1/100",
        "1.5",
        "1/100,000",
        "S3",
    }
    for each in sorted(known, key=len, reverse=True):
        outside = outside.replace(each, "")
    assert re.findall(r".*\d.*", outside) == []
