"""Parquet: every type has one outcome, nothing is lost on the way to Polars."""

import io
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meterlake.model.errors import UnreadableSource
from meterlake.stages.decode.parquet import check_types, decode_batch
from meterlake.stages.ingest.validate import parse_columns as columns

AT = datetime(2026, 10, 1, 12, 30, 0, 123456)


def decoded(values: pa.Array, first: int = 1) -> pl.Series:
    return decode_batch(pa.record_batch({"x": values}), first, "f.parquet").frame["x"]


def number(values: pa.Array) -> str | None:
    typed = columns.numbers(decoded(values))
    refused = typed.wrong is not None and typed.wrong[0]
    return None if refused else format(typed.values[0].normalize(), "f")


def instant(values: pa.Array) -> datetime | None:
    return columns.instants(decoded(values)).values[0]


def test_rows_are_numbered_from_the_first_one_of_the_batch():
    frame = decode_batch(pa.record_batch({"x": pa.array([1, 2])}), 41).frame

    assert frame["row"].to_list() == [41, 42]


def test_members_of_structs_become_columns_with_dots():
    batch = pa.record_batch(
        {
            "measure": pa.array([{"gb": Decimal("1.5"), "deep": {"er": 1}}, None]),
            "where.region": pa.array(["eu", "us"]),
        }
    )

    frame = decode_batch(batch, 1).frame

    assert frame["measure.gb"].to_list() == [Decimal("1.5"), None]
    assert frame["measure.deep.er"].to_list() == [1, None]
    assert frame["where.region"].to_list() == ["eu", "us"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (pa.array([5], pa.int8()), "5"),
        (pa.array([2**64 - 1], pa.uint64()), "18446744073709551615"),
        (pa.array([9007199254740993], pa.int64()), "9007199254740993"),
        (pa.array([0.1], pa.float64()), "0.1"),
        (pa.array([0.1], pa.float32()), "0.1"),
        (pa.array([0.5], pa.float16()), "0.5"),
        (pa.array([Decimal("1.5")], pa.decimal32(9, 2)), "1.5"),
        (pa.array([Decimal("1.5")], pa.decimal64(18, 2)), "1.5"),
        (pa.array([Decimal("1.5")], pa.decimal128(38, 12)), "1.5"),
        (pa.array([Decimal(500)], pa.decimal128(5, -2)), "500"),
        (pa.array([Decimal("1.5")], pa.decimal256(76, 38)), "1.5"),
        (pa.array(["1.5"]), "1.5"),
        (pa.array([b"1.5"]), "1.5"),
        (pa.array(["1.5"]).dictionary_encode(), "1.5"),
        (pa.array(["1.5"], pa.string_view()), "1.5"),
        (pa.array([float("nan")]), None),
        (pa.array([float("inf")]), None),
        (pa.array([True]), None),
        (pa.array([Decimal("9" * 38)], pa.decimal128(38, 0)), None),
        (pa.array([Decimal("9" * 60)], pa.decimal256(76, 0)), None),
    ],
)
def test_a_number_of_any_type_is_exact_or_wrong(values, shown):
    assert number(values) == shown


@pytest.mark.parametrize(
    "values",
    [
        pa.array([AT], pa.timestamp("us")),
        pa.array([AT.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")),
        pa.array([AT.replace(tzinfo=UTC)], pa.timestamp("ns", "America/New_York")),
        pa.array([AT.replace(tzinfo=UTC)], pa.timestamp("us", "+05:30")),
        pa.array([AT.replace(tzinfo=UTC)]).cast(pa.timestamp("us", "Nowhere/At_All")),
        pa.array(["2026-10-01T14:30:00.123456+02:00"]),
    ],
)
def test_an_instant_is_the_same_in_every_zone_and_unit(values):
    assert instant(values) == AT


@pytest.mark.parametrize(("unit", "ticks"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_every_unit_is_read(unit, ticks):
    assert instant(pa.array([ticks], pa.timestamp(unit))) == datetime(1970, 1, 1, 0, 0, 1)


@pytest.mark.parametrize(("ticks", "micro"), [(1999, 1), (-1, -1), (-1000, -1), (-1001, -2)])
def test_nanoseconds_are_cut_towards_the_past_as_in_text(ticks, micro):
    assert instant(pa.array([ticks], pa.timestamp("ns"))) == datetime(1970, 1, 1) + timedelta(
        microseconds=micro
    )


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-62135596801], pa.timestamp("s")),
        pa.array([2**62, 0], pa.timestamp("ms")),
        pa.array([-(2**62)], pa.timestamp("ms")),
        pa.array([2**63 - 1], pa.timestamp("s")),
        pa.array([253402300800000000], pa.timestamp("us")),
        pa.array([-62135596800000001], pa.timestamp("us")),
        pa.array([date(2026, 10, 1)]),
        pa.array([time(1)]),
        pa.array([1_790_000_000]),
    ],
)
def test_what_is_no_instant_of_the_calendar_is_wrong(values):
    typed = columns.instants(decoded(values))

    assert typed.wrong[0]
    assert not typed.wrong[1:].any()


def test_the_ends_of_the_calendar_are_instants():
    ends = pa.array([-62135596800, 253402300799], pa.timestamp("s"))

    assert columns.instants(decoded(ends)).values.to_list() == [
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.map_(pa.string(), pa.int64()),
        pa.duration("s"),
        pa.list_(pa.string(), 2),
    ],
)
def test_a_column_of_many_values_is_refused_by_name(kind):
    with pytest.raises(UnreadableSource) as caught:
        check_types({"measure.gb": kind}, "f.parquet")

    assert caught.value.reason == "DamagedFile"
    assert "measure.gb" in caught.value.detail


def broken_text(kind: pa.DataType) -> pa.Array:
    bad = pa.array([b"ok", b"\xff\xfe"], pa.binary())
    return pa.Array.from_buffers(kind, 2, bad.buffers())


@pytest.mark.parametrize(
    "values", [broken_text(pa.string()), pa.array([b"ok", b"\xff"], pa.binary())]
)
def test_texts_that_are_not_utf_8_fail_the_file(values):
    with pytest.raises(UnreadableSource) as caught:
        decoded(values)

    assert caught.value.reason == "InvalidEncoding"


def test_a_decimal_with_more_digits_than_its_type_fails_the_file():
    wide = pa.array([Decimal("1" + "0" * 37)], pa.decimal128(38, 0))
    lying = pa.Array.from_buffers(pa.decimal128(20, 0), 1, wide.buffers())

    with pytest.raises(UnreadableSource) as caught:
        decoded(lying)

    assert caught.value.reason == "DamagedFile"


def test_the_original_of_a_row_are_its_values():
    batch = pa.record_batch({"a": pa.array([1, 2]), "b": pa.array(["x", None])})

    original = decode_batch(batch, 7).original

    assert [original(7), original(8)] == ['{"a": "1", "b": "x"}', '{"a": "2"}']


def test_an_empty_batch_has_no_rows():
    out = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), out)
    batch = pa.RecordBatch.from_pydict({"a": pa.array([], pa.string())})

    assert len(decode_batch(batch, 1).frame) == 0
