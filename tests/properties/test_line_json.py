"""The JSON of bill lines: the short way gives the same text as the way of everything else."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.bills.bill import BandUsage, Line, LineItemType, MadeFrom, ProductName
from meterlake.model.values import wire
from meterlake.model.values.period import Period

TEXTS = st.text(max_size=8)
MAYBE = st.none() | TEXTS
NUMBERS = st.builds(
    Decimal, st.from_regex(r"\A-?[0-9]{1,12}(\.[0-9]{1,6})?(E[+-]?[0-9])?\Z").filter(bool)
)
# Also instants that equal others of another zone.
INSTANTS = st.datetimes(
    datetime(2026, 1, 1),
    datetime(2027, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))]),
)
PERIODS = st.tuples(INSTANTS, INSTANTS).map(lambda pair: Period(min(pair), max(pair)))
PRODUCTS = st.none() | st.builds(ProductName, TEXTS, TEXTS, TEXTS)
BANDS = st.builds(BandUsage, *([NUMBERS] * 7), MAYBE)
SEGMENTS = st.none() | st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple)
# Some take the place of members that all lines have.
OWN = st.dictionaries(
    st.sampled_from(["childAccountId", "unit", "credit", "Zone", "é"]),
    NUMBERS | TEXTS | INSTANTS | st.none() | st.lists(NUMBERS, max_size=2),
    max_size=3,
)
LINES = st.builds(
    Line,
    type=st.sampled_from(LineItemType),
    description=TEXTS,
    plan_id=MAYBE,
    service_period=PERIODS,
    quantity=NUMBERS,
    units=NUMBERS,
    unit=TEXTS,
    currency=TEXTS,
    subtotal=NUMBERS,
    conversion_rate=NUMBERS,
    converted_subtotal=NUMBERS,
    average_unit_price=NUMBERS,
    product=PRODUCTS,
    accounting_product=PRODUCTS,
    made_from=st.builds(
        MadeFrom,
        st.integers(0, 9),
        MAYBE,
        st.none() | st.integers(0, 9),
        posted=st.none() | NUMBERS,
    ),
    aggregation_id=MAYBE,
    meter_id=MAYBE,
    pricing_id=MAYBE,
    bands=st.lists(BANDS, max_size=2).map(tuple),
    sequence_number=st.integers(0, 9),
    segment=SEGMENTS,
    members=OWN,
)


@settings(max_examples=50)
@given(LINES)
def test_json_of_a_line_is_the_text_of_its_members(line):
    """To the byte: stored bills are compared as texts."""
    assert wire.dumps_sorted(line.to_json()) == wire.dumps_sorted(line.to_wire())
    assert wire.dumps_sorted(line.made_from.to_json()) == wire.dumps_sorted(
        line.made_from.to_wire()
    )


@given(st.lists(NUMBERS, min_size=1), INSTANTS)
def test_what_is_ready_is_the_same_text(numbers, instant):
    """Numbers and instants, whether they were made ready one by one or together."""
    one_by_one = {"at": wire.instant(instant), "each": [wire.number(each) for each in numbers]}
    plain = {"each": numbers, "at": instant}

    assert wire.dumps_sorted(wire.dumps_ready(one_by_one)) == wire.dumps_sorted(plain)
    assert wire.dumps_sorted(wire.ready(plain)) == wire.dumps_sorted(plain)
