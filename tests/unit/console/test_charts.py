"""Charts: every value is a bar with its exact number, and no bar leaves the drawing."""

import re
from decimal import Decimal

import pytest
from babel import Locale
from hypothesis import given
from hypothesis import strategies as st

from meterlake.console.shell.charts import bar_chart

ENGLISH = Locale("en")
amounts = st.decimals(-(10**12), 10**12, places=4)


def bars(chart):
    found = re.findall(
        r'<rect class="group-\d" x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)">'
        r"<title>([^<]*)</title>",
        chart,
    )
    return [(*map(Decimal, numbers), title) for *numbers, title in found]


@given(st.lists(st.tuples(amounts, st.none() | amounts), min_size=1, max_size=40))
def test_every_value_is_a_bar_within_the_drawing(pairs):
    labels = [f"day {each}" for each in range(len(pairs))]
    groups = {"first": [one for one, _ in pairs], "second": [two for _, two in pairs]}
    found = bars(bar_chart("Usage", labels, groups, ENGLISH))

    said = [
        f"{label}, {name}: {value:,f}"
        for name, values in groups.items()
        for label, value in zip(labels, values, strict=True)
        if value
    ]
    assert [title for *_, title in found] == said
    for x, y, width, height, _ in found:
        assert x >= 0
        assert x + width <= 800
        assert y >= 0
        assert y + height <= Decimal("240.5")


@pytest.mark.parametrize("values", [[], [Decimal(0), None]], ids=["no days", "nothing used"])
def test_there_is_no_chart_of_nothing(values):
    assert bar_chart("Usage", ["day"] * len(values), {"": values}, ENGLISH) == ""


def test_names_and_labels_are_text():
    chart = bar_chart("<b>", ["<i>"], {'"><script>': [Decimal(1)], "b": [Decimal(2)]}, ENGLISH)

    assert "<script" not in chart
    assert "<i>" not in chart
    assert "<b>" not in chart


def test_the_axis_is_in_thousands_and_its_top_has_the_unit():
    chart = bar_chart("Usage", ["Oct"], {"": [Decimal(2_500_000)]}, ENGLISH, "GB")

    assert re.findall(r'text-anchor="end">([^<]*)<', chart) == ["0", "1M", "2M", "3M GB"]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((0, 1_004), ["0", "500", "1k", "1.5k"]),
        ((0, 372_100), ["0", "100k", "200k", "300k", "400k"]),
        ((0, 200), ["0", "50", "100", "150", "200"]),
        ((0, "0.07"), ["0", "0.02", "0.04", "0.06", "0.08"]),
        ((-30, 100), ["-50", "0", "50", "100"]),
        ((-7, 0), ["-8", "-6", "-4", "-2", "0"]),
    ],
)
def test_the_axis_has_round_numbers_and_every_bar_ends_within_it(values, ticks):
    chart = bar_chart("Usage", ["a", "b"], {"": [Decimal(each) for each in values]}, ENGLISH)
    assert re.findall(r'text-anchor="end">([^<]*)<', chart) == ticks
    for top, height in re.findall(r' y="([^"]*)" width="[^"]*" height="([^"]*)"', chart):
        assert 12 <= Decimal(top) <= Decimal(top) + Decimal(height) <= 212
