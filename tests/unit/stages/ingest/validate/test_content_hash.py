"""What makes two measurements equal, and nothing else."""

from datetime import datetime
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.measurements.measurement import Category, Field, MeterFields
from meterlake.stages.ingest.validate.content_hash import content_hashes, uid_hashes

METER = MeterFields(
    "m1", 1, "egress", (Field(Category.MEASURE, "gb"), Field(Category.WHERE, "region"))
)
ROW = {
    "account_id": "a1",
    "ts": datetime(2026, 10, 1),
    "ets": None,
    "measure.gb": Decimal("1.5"),
    "where.region": "eu",
}
TYPES = {
    "account_id": pl.String,
    "ts": pl.Datetime("us"),
    "ets": pl.Datetime("us"),
    "measure.gb": pl.Decimal(38, 12),
    "where.region": pl.String,
}


def frame(*rows):
    return pl.DataFrame([ROW | row for row in rows], schema=TYPES)


def hashes(*rows, meter=METER):
    return content_hashes(frame(*rows), meter).to_list()


def test_equal_rows_have_equal_hashes_wherever_they_stand():
    assert len(set(hashes({}, {}, {"measure.gb": Decimal("1.500")}))) == 1
    assert content_hashes(frame({"account_id": "x"}, {})[1:], METER).to_list() == hashes({})


@pytest.mark.parametrize(
    "change",
    [
        {"account_id": "a2"},
        {"ts": datetime(2026, 10, 1, 0, 0, 0, 1)},
        {"ets": datetime(2026, 10, 1)},
        {"measure.gb": Decimal("1.500000000001")},
        {"measure.gb": Decimal("-1.5")},
        {"measure.gb": Decimal(2**64) + Decimal("1.5")},
        {"where.region": "eu "},
        {"where.region": "EU"},
        {"where.region": ""},
    ],
)
def test_a_difference_in_any_place_changes_the_hash(change):
    first, second = hashes({}, change)

    assert first != second


def test_the_meter_and_the_names_of_its_fields_count_but_not_their_order_or_its_version():
    fields = METER.fields

    assert hashes({}, meter=METER) == hashes({}, meter=MeterFields("m1", 7, "x", fields[::-1]))
    assert hashes({}, meter=METER) != hashes({}, meter=MeterFields("m2", 1, "egress", fields))
    assert hashes({}, meter=METER) != hashes({}, meter=MeterFields("m1", 1, "egress", fields[:1]))


def test_texts_do_not_run_into_each_other():
    two = MeterFields("m", 1, "m", (Field(Category.WHERE, "a"), Field(Category.WHERE, "b")))
    types = {k: v for k, v in TYPES.items() if "." not in k} | {
        "where.a": pl.String,
        "where.b": pl.String,
    }
    rows = [{**ROW, "where.a": "xy", "where.b": "z"}, {**ROW, "where.a": "x", "where.b": "yz"}]
    rows = [{name: row[name] for name in types} for row in rows]

    first, second = content_hashes(pl.DataFrame(rows, schema=types), two)

    assert first != second


def test_the_hashes_stay_what_they_are_for_ever():
    # A lake holds them: another way to compute them would make every repeat a contradiction.
    assert hashes({}) == [15914420360508809690]
    assert uid_hashes(pl.Series(["u1"])).to_list() == [11367126444297510385]


@pytest.mark.long
@given(st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=6), st.integers(1, 3))
def test_hashes_do_not_depend_on_how_rows_are_cut_into_frames(regions, size):
    rows = [{"where.region": region} for region in regions]
    apart = [each for at in range(0, len(rows), size) for each in hashes(*rows[at : at + size])]

    assert hashes(*rows) == apart
    chunks = pl.concat([frame(row) for row in rows], rechunk=False)
    assert content_hashes(chunks, METER).to_list() == apart


def test_no_rows_have_no_hashes():
    assert content_hashes(pl.DataFrame(schema=TYPES), METER).to_list() == []
