"""Columns of a file to columns of measurements."""

import polars as pl
import pytest

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.mapping import parse_mapping
from meterlake.model.measurements.measurement import UNKNOWN_COLUMN
from meterlake.stages.ingest.mapped_columns import (
    check_columns,
    is_field_column,
    shape,
    wanted_columns,
)


def mapping(**change):
    rule = {"meter": "egress", "fields": {"measure.gb": "sent"}}
    base = {"account": {"column": "who"}, "ts": "at", "measurements": [rule]}
    return parse_mapping(base | change, "m")


def parts(rows, mapping=None, account=None):
    found = shape(pl.DataFrame(rows), mapping, account)
    return [(part.number, part.frame.rows(named=True)) for part in found]


ROWS = {
    "row": [1, 2],
    "who": ["a", None],
    "at": ["t1", "t2"],
    "sent": ["5", "-"],
    "kind": ["x", "y"],
}


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("measure.gb", True),
        ("metadata.a b", True),
        ("measure.", True),
        ("measure", False),
        ("Measure.gb", False),
        ("derived.gb", False),
        ("gb", False),
        ("", False),
    ],
)
def test_a_field_column_is_a_category_and_a_code(name, is_one):
    assert is_field_column(name) == is_one


def test_our_own_files_keep_their_fields_and_nothing_else():
    rows = {
        "row": [1],
        "meter": ["m"],
        "measure.gb": ["1"],
        "derived.x": ["2"],
        "note": ["n"],
        UNKNOWN_COLUMN: ["z"],
    }

    ((index, (row,)),) = parts(rows)

    assert index == 0
    assert row == {
        "row": 1,
        "meter": "m",
        "account": None,
        "uid": None,
        "ts": None,
        "ets": None,
        "measure.gb": "1",
        UNKNOWN_COLUMN: "z",
    }


@pytest.mark.parametrize("missing", ["meter", "account", "ts"])
def test_our_own_files_must_have_meter_account_and_ts(missing):
    columns = [name for name in ("meter", "account", "ts", "measure.gb") if name != missing]

    with pytest.raises(UnreadableSource) as caught:
        check_columns(columns, "f.csv", None)

    assert caught.value.reason == "MissingHeader"
    assert missing in caught.value.detail


def test_a_mapping_decides_which_columns_must_be_there():
    check_columns(["who", "at", "sent"], "f.csv", mapping())

    with pytest.raises(UnreadableSource):
        check_columns(["who", "at"], "f.csv", mapping())


def test_only_what_is_needed_is_read():
    columns = ["meter", "uid", "measure.gb", "measure", "note", "derived.x"]

    assert wanted_columns(columns, None) == ["meter", "uid", "measure.gb", "measure"]
    assert wanted_columns(columns, mapping()) == ["at", "who", "sent"]


def test_a_mapping_gives_each_row_its_meter_account_and_fields():
    ((_, rows),) = parts(ROWS, mapping(nulls=["-"]))

    assert [
        (row["meter"], row["account"], row["ts"], row["measure.gb"], row["uid"]) for row in rows
    ] == [
        ("egress", "a", "t1", "5", None),
        ("egress", None, "t2", None, None),
    ]


def test_an_account_that_is_fixed_is_everybodys():
    ((_, rows),) = parts(ROWS, mapping(account={"value": "acme"}), "acme")

    assert {row["account"] for row in rows} == {"acme"}


def test_null_tokens_are_whole_texts():
    ((_, rows),) = parts(ROWS, mapping(nulls=["5", "", "x"]))

    assert [row["measure.gb"] for row in rows] == [None, "-"]


def test_empty_is_a_text_where_the_mapping_does_not_call_it_none():
    ((_, rows),) = parts(ROWS | {"sent": ["", None]}, mapping(nulls=["-"]))

    assert [row["measure.gb"] for row in rows] == ["", None]


def test_defaults_fill_what_has_no_value_and_constants_are_everywhere():
    rule = {
        "meter": "m",
        "fields": {"measure.gb": "sent"},
        "defaults": {"measure.gb": 7},
        "constants": {"what.x": "y", "measure.n": 1},
    }

    ((_, rows),) = parts(ROWS, mapping(nulls=["-"], measurements=[rule]))

    assert [(row["measure.gb"], row["what.x"], row["measure.n"]) for row in rows] == [
        ("5", "y", "1"),
        ("7", "y", "1"),
    ]


def test_each_rule_takes_the_rows_that_meet_all_its_conditions():
    rules = [
        {"meter": "a", "when": {"present": ["sent"]}},
        {"meter": "b", "when": {"absent": ["sent"]}},
        {"meter": "c", "when": {"equals": {"kind": "x", "who": "a"}}},
        {"meter": "d", "when": {"equals": {"kind": "X"}}},
        {"meter": "e"},
    ]

    found = parts(ROWS, mapping(nulls=["-"], measurements=rules))

    assert [(index, [row["row"] for row in rows]) for index, rows in found] == [
        (0, [1]),
        (1, [2]),
        (2, [1]),
        (3, []),
        (4, [1, 2]),
    ]


def test_a_uid_is_made_of_its_columns_and_tells_the_measurements_of_a_row_apart():
    rules = [{"meter": "a"}, {"meter": "b"}]

    assert [row["uid"] for row in parts(ROWS, mapping(uid=["at", "kind"]))[0][1]] == [
        "t1-x",
        "t2-y",
    ]
    both = parts(ROWS, mapping(uid=["kind"], measurements=rules))
    assert [[row["uid"] for row in rows] for _, rows in both] == [["x.0", "y.0"], ["x.1", "y.1"]]


def test_a_row_without_a_part_of_its_uid_has_none():
    assert [row["uid"] for row in parts(ROWS, mapping(uid=["kind", "who"]))[0][1]] == ["x-a", None]


def test_typed_columns_can_be_compared_and_made_uids_of():
    rows = ROWS | {"sent": [5, 6], "kind": [1, 2]}
    rule = {
        "meter": "m",
        "when": {"equals": {"kind": "2"}},
        "fields": {"measure.gb": "sent"},
        "defaults": {"measure.gb": 0},
    }

    ((_, (row,)),) = parts(rows, mapping(uid=["kind"], measurements=[rule]))

    assert (row["row"], row["uid"], row["measure.gb"]) == (2, "2", "6")
