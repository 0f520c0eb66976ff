"""Columns of texts to columns of numbers and instants, as `model.money` and `model.period` define.

What makes two measurements equal, and nothing else.
"""

from datetime import datetime
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meterlake.model.measurements.measurement import Category, Field, MeterFields
from meterlake.model.values.money import parse_number
from meterlake.model.values.period import parse_instant
from meterlake.stages.ingest.validate import parse_columns as columns
from meterlake.stages.ingest.validate.parse_columns import content_hashes, uid_hashes

DIGITS = st.text("0123456789", min_size=1, max_size=42) | st.text("09", min_size=1, max_size=42)
NUMBER = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "+", "-"]),
    DIGITS,
    st.just("") | DIGITS.map(".{}".format),
    st.just("")
    | st.builds("{}{}".format, st.sampled_from(["e", "E", "e+", "e-"]), st.integers(0, 60)),
)
NEARLY = st.text("0123456789+-.eE_ ,nNaAif\u0661\uff11", max_size=9)
PLAIN = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str)


def marks(typed):
    """Which values are wrong, row by row."""
    return [False] * len(typed.values) if typed.wrong is None else typed.wrong.to_list()


def check_numbers(texts):
    typed = columns.numbers(pl.Series(texts, dtype=pl.String))

    expected = [None if text is None else parse_number(text) for text in texts]
    assert typed.values.to_list() == expected
    assert typed.values.dtype == pl.Decimal(38, 12)
    assert marks(typed) == [
        text is not None and value is None for text, value in zip(texts, expected, strict=True)
    ]
    lost = [
        value is not None and value != Decimal(text)
        for text, value in zip(texts, expected, strict=True)
    ]
    assert typed.rounded == sum(lost)


@given(st.lists(st.none() | PLAIN, min_size=1, max_size=8))
def test_plain_numbers_are_read_exactly(texts):
    check_numbers(texts)


@given(st.lists(st.none() | NUMBER | NEARLY | PLAIN, min_size=1, max_size=8))
@example(["0.9999999999995", "999999999999999999.9999999999999"])
@example(["99999999999999999999999999.9999999999995"])
@example(["9" * 26 + "." + "9" * 12, "1" * 27, "0" * 40 + "1", "0." + "0" * 45])
@example(["0e-50", "10e-13", "1.50e-12", "5e-13", "15e-13", "1e9999", "1e-9999", "1e99999"])
@example(["-0", "-0.0", "-0.00000000000001", "+0"])
@example(["NaN", "nan", "inf", "Infinity", "-inf", "", " 1", "1 ", "1_0", ".5", "5.", "0x1", "1,5"])
@example(["\u0661", "\uff11", "1\n", "1\x00", "\n1"])
def test_any_text_is_read_as_the_grammar_reads_it(texts):
    check_numbers(texts)


@given(st.lists(DIGITS, min_size=1, max_size=6), st.lists(DIGITS, min_size=1, max_size=6))
def test_wide_numbers_are_rounded_half_even_like_decimal(whole, fraction):
    check_numbers([f"{a[:18]}.{b}" for a in whole for b in fraction])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.0000000000005", "0"),
        ("0.0000000000015", "0.000000000002"),
        ("0.00000000000050000000000000000001", "0.000000000001"),
        ("-0.0000000000015", "-0.000000000002"),
        ("1.9999999999995", "2"),
    ],
)
def test_more_than_twelve_decimals_are_rounded_half_even_and_counted(text, value):
    typed = columns.numbers(pl.Series([text]))

    assert typed.values.to_list() == [Decimal(value)]
    assert typed.rounded == 1


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pl.Series([1, -5, None], dtype=pl.Int64), ["1", "-5", None]),
        (pl.Series([2**64 - 1], dtype=pl.UInt64), [str(2**64 - 1)]),
        (pl.Series([0.1, -0.0, 1e20, 1e-7, None]), ["0.1", "0", "1e20", "0.0000001", None]),
        (pl.Series([0.1], dtype=pl.Float32), ["0.1"]),
        (pl.Series([Decimal("1.5"), None]), ["1.5", None]),
        (pl.Series([Decimal(1)], dtype=pl.Decimal(38, 0)), ["1"]),
        (pl.Series([Decimal("0." + "1" * 20)], dtype=pl.Decimal(38, 20)), ["0.111111111111"]),
        (pl.Series([None, None]), [None, None]),
    ],
)
def test_typed_columns_are_numbers_too(column, values):
    typed = columns.numbers(column)

    assert typed.values.to_list() == [None if v is None else Decimal(v) for v in values]
    assert typed.wrong is None


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([float("nan")]),
        pl.Series([float("inf")]),
        pl.Series([-float("inf")]),
        pl.Series([1e26]),
        pl.Series([1e300]),
        pl.Series([Decimal("9" * 38)], dtype=pl.Decimal(38, 0)),
        pl.Series([True]),
        pl.Series([datetime(2026, 1, 1)]),
        pl.Series(["x"], dtype=pl.Categorical),
    ],
)
def test_what_is_no_number_is_marked_wrong_whatever_its_type(column):
    typed = columns.numbers(column)

    assert typed.values.to_list() == [None]
    assert typed.wrong.to_list() == [True]


# --- instants

INSTANT = st.builds(
    "{:04}-{:02}-{:02}{}{:02}:{:02}{}{}".format,
    st.sampled_from([0, 1, 4, 100, 1900, 1970, 2000, 2024, 2026, 9999]),
    st.integers(0, 13),
    st.integers(0, 32),
    st.sampled_from(["T", " ", "t", ""]),
    st.integers(0, 25),
    st.integers(0, 61),
    st.just("")
    | st.builds(
        ":{:02}{}".format, st.integers(0, 61), st.just("") | DIGITS.map(lambda d: "." + d[:12])
    ),
    st.sampled_from(
        [
            "",
            "Z",
            "z",
            "+00:00",
            "-00:00",
            "+0530",
            "-08",
            "+18:00",
            "-18",
            "+18:01",
            "+99:00",
            "+1:00",
            " UTC",
        ]
    ),
)
MACHINE = st.datetimes(min_value=datetime(1, 1, 1)).map(lambda at: at.isoformat() + "Z")


PLACES = [
    "2024-02-29T00:00:00.000000",
    "2026-02-29T00:00:00.000000",
    "0000-01-01T00:00:00.000000",
    "2026-13-01T00:00:00.000000",
    "2026-10-01T24:00:00.000000",
    "2026-10-01T23:59:60.000000",
    "2026-10-01 23:59:59.999999",
]


def check_instants(texts):
    typed = columns.instants(pl.Series(texts, dtype=pl.String))

    expected = [None if text is None else parse_instant(text) for text in texts]
    assert typed.values.to_list() == [at and at.replace(tzinfo=None) for at in expected]
    assert typed.values.dtype == pl.Datetime("us")
    assert marks(typed) == [
        text is not None and value is None for text, value in zip(texts, expected, strict=True)
    ]


@given(st.lists(st.none() | MACHINE, min_size=1, max_size=8))
def test_what_machines_write_is_read_exactly(texts):
    check_instants(texts)


@given(st.lists(st.none() | INSTANT | MACHINE, min_size=1, max_size=8))
@example(
    ["2026-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z"]
)
@example(["2026-06-30T23:59:60Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00+99:00"])
@example(["0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
@example(["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"])
@example(
    ["2026-01-01T00:00:00.1234569Z", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.", "2026-01-01"]
)
@example(
    [
        "",
        " ",
        "now",
        "1790000000",
        "2026-10-01T00:00:00Z ",
        "\n2026-10-01T00:00:00Z",
        "2026-10-01T00:00:00Z\n",
    ]
)
@example(
    ["2026-10-01T00:00:00+14:00", "2026-10-01T00:00:00-12:00", "2026-W40-4T00:00", "2026-10-01T00"]
)
def test_any_text_is_read_as_the_grammar_of_instants_reads_it(texts):
    check_instants(texts)


def test_no_offset_means_utc_and_an_offset_is_taken_off():
    typed = columns.instants(pl.Series(["2026-10-01T12:00", "2026-10-01T12:00+02:00"]))

    assert typed.values.to_list() == [datetime(2026, 10, 1, 12), datetime(2026, 10, 1, 10)]


def test_below_the_microsecond_is_cut_not_rounded():
    typed = columns.instants(pl.Series(["2023-11-16 18:17:03.9799999"]))

    assert typed.values.to_list() == [datetime(2023, 11, 16, 18, 17, 3, 979999)]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.datetimes(), st.sampled_from(PLACES)),
            st.integers(0, 26),
            st.one_of(st.none(), st.sampled_from([*"0369:-.TZ é +\0"])),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([0, 1, 3, 6]),
)
def test_instants_of_one_length_are_read_as_any_others(rows, decimals):
    texts = []
    for at, place, put in rows:
        text = at.isoformat(timespec="microseconds") if isinstance(at, datetime) else at
        text = f"{text[: 19 + decimals + bool(decimals)]}Z"
        texts.append(text if put is None else f"{text[:place]}{put}{text[place + 1 :]}")
    check_instants(texts)


def test_instants_of_a_typed_column_stay():
    at = datetime(2026, 10, 1, 0, 0, 0, 1)

    typed = columns.instants(pl.Series([at, None]))

    assert typed.values.to_list() == [at, None]
    assert typed.wrong is None


@pytest.mark.parametrize(
    "column", [pl.Series([1_790_000_000]), pl.Series([1.5]), pl.Series([True])]
)
def test_numbers_are_no_instants(column):
    assert columns.instants(column).wrong.to_list() == [True]


def test_a_column_of_nothing_has_nothing_wrong():
    typed = columns.instants(pl.Series([None, None]))

    assert typed.values.to_list() == [None, None]
    assert typed.wrong is None


def test_texts_of_typed_columns_are_as_files_write_them():
    assert columns.texts(pl.Series([1, None])).to_list() == ["1", None]
    assert columns.texts(pl.Series([True])).to_list() == ["true"]
    assert columns.texts(pl.Series(["a"])).to_list() == ["a"]


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
