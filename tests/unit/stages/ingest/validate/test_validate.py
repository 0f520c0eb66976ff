"""Rows are accepted or get the first of their reasons; the good ones have the lake's types."""

from datetime import datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from meterlake.model.measurements.measurement import UNKNOWN_COLUMN
from meterlake.stages.ingest.validate import validate
from meterlake.stages.ingest.validate.account_codes import AccountCodes
from tests.homes import EGRESS_FIELDS, ORIGIN

ACCOUNTS = AccountCodes("org", {"acme": "id-acme"})
ROW = {
    "row": 7,
    "meter": "egress",
    "account": "acme",
    "uid": "u1",
    "ts": "2026-09-03T10:00:00Z",
    "ets": None,
    "measure.gb": "1.5",
    "where.region": "eu",
}
TYPES = dict.fromkeys(ROW, pl.String) | {"row": pl.Int64}


def run(*rows, part=0, types=None):
    frame = pl.DataFrame(
        [ROW | row for row in rows],
        schema=types or TYPES | {n: pl.String for row in rows for n in row if n not in TYPES},
    )
    return validate(frame, part, {"egress": EGRESS_FIELDS}, ACCOUNTS, ORIGIN)


def reason(**change):
    found = run(change)
    if found.accepted:
        return None
    (bad,) = found.rejected
    return bad.reason, bad.field


def test_a_good_row_has_the_columns_and_types_of_its_table():
    (accepted,) = run({}).accepted

    assert accepted.frame.drop("uid_hash", "content_hash", "meter_id").schema == {
        "uid": pl.String,
        "account_id": pl.String,
        "ts": pl.Datetime("us"),
        "ets": pl.Datetime("us"),
        "received_at": pl.Datetime("us"),
        "source": pl.Enum([ORIGIN.identity]),
        "row": pl.Int64,
        "part": pl.Int16,
        "measure.gb": pl.Decimal(38, 12),
        "where.region": pl.String,
    }
    (row,) = accepted.frame.rows(named=True)
    assert (row["uid"], row["account_id"], row["row"], row["measure.gb"]) == (
        "u1",
        "id-acme",
        7,
        Decimal("1.5"),
    )
    assert row["ts"] == datetime(2026, 9, 3, 10)
    assert row["source"] == ORIGIN.identity


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"uid": ""}, ("InvalidUid", "uid")),
        ({"uid": "u" * 50}, None),
        ({"uid": "ü" * 50}, None),
        ({"uid": "ü" * 51}, ("InvalidUid", "uid")),
        ({"uid": None}, None),
        ({"where.region": "ü" * 1024}, None),
        ({"where.region": "ü" * 1025}, ("InvalidText", "where.region")),
        ({"ts": "2026-10-01T00:05:00Z"}, None),
        ({"ts": "2026-10-01T00:05:00.000001Z"}, ("FutureTimestamp", "ts")),
        ({"ts": "0001-01-01T00:00:00Z"}, None),
        ({"ets": "2026-09-03T10:00:00Z"}, None),
        ({"ets": "2030-01-01T00:00:00Z"}, None),
        ({"ets": "2026-09-03T09:59:59.999999Z"}, ("InvalidTimestamp", "ets")),
        ({"account": "brand new"}, None),
        ({"account": "ACME"}, ("InvalidAccountCode", "account")),
        ({"measure.gb": "1e25"}, None),
        ({"who.user": "x"}, ("UnknownField", "who.user")),
        ({"who.user": None}, None),
        ({"other.region": "x"}, ("DuplicateField", "other.region")),
        ({UNKNOWN_COLUMN: "who.me"}, ("UnknownField", "who.me")),
        ({"meter": "x", "ts": "x"}, ("UndefinedMeter", "meter")),
        # Of several problems the first counts, in the order of the columns' meaning.
        ({"ts": "x", "uid": "", "account": "", "measure.gb": "x"}, ("InvalidTimestamp", "ts")),
        ({"uid": "", "account": None, "measure.gb": "x"}, ("InvalidUid", "uid")),
        ({"account": None, "measure.gb": "x"}, ("MissingField", "account")),
        (
            {"measure.gb": "x", "where.region": None, "who.user": "x"},
            ("InvalidNumber", "measure.gb"),
        ),
        ({"measure.gb": None, "where.region": None}, ("MissingField", "measure.gb")),
    ],
)
def test_a_row_is_accepted_or_has_its_first_reason(change, expected):
    assert reason(**change) == expected


def test_a_column_that_the_meter_needs_and_the_file_lacks_is_missing_everywhere():
    types = {name: kind for name, kind in TYPES.items() if name != "where.region"}
    frame = pl.DataFrame([[ROW[name] for name in types]] * 2, schema=types, orient="row")

    found = validate(frame, 0, {"egress": EGRESS_FIELDS}, ACCOUNTS, ORIGIN)

    assert [(bad.reason, bad.field) for bad in found.rejected] == [
        ("MissingField", "where.region")
    ] * 2


def test_derived_uids_follow_from_identity_row_and_part():
    (first,) = run({"uid": None}).accepted
    (second,) = run({"uid": None}, part=2).accepted

    assert first.frame["uid"].to_list() == [f"{ORIGIN.identity[:32]}-7"]
    assert second.frame["uid"].to_list() == [f"{ORIGIN.identity[:32]}-7.2"]
    assert len(f"{ORIGIN.identity[:32]}-{10**13}.99") <= 50


def test_bad_and_good_rows_are_told_apart_one_by_one():
    found = run(
        {"row": 1},
        {"row": 2, "ts": "x"},
        {"row": 3, "meter": None},
        {"row": 4, "uid": None},
        {"row": 5, "measure.gb": "NaN"},
    )

    (accepted,) = found.accepted
    assert accepted.frame["row"].to_list() == [1, 4]
    assert sorted((bad.row, bad.reason) for bad in found.rejected) == [
        (2, "InvalidTimestamp"),
        (3, "MissingField"),
        (5, "InvalidNumber"),
    ]


def test_only_good_rows_bring_new_accounts():
    found = run(
        {"account": "n1"},
        {"account": "n2", "ts": "x"},
        {"account": "n1"},
        {"account": "n0"},
        {"meter": "x", "account": "n3"},
    )

    assert found.accepted[0].new_accounts == ["n1", "n0"]


def test_a_detail_shows_what_was_found_but_not_a_megabyte_of_it():
    (bad,) = run({"ts": "x" * 5000, "uid": "u" * 5000}).rejected

    assert "xxx" in bad.detail
    assert len(bad.detail) < 200
    assert len(bad.uid) <= 200


def test_of_a_column_of_unknown_fields_each_row_names_its_own():
    found = run({UNKNOWN_COLUMN: "who.a"}, {UNKNOWN_COLUMN: None}, {UNKNOWN_COLUMN: "who.b"})

    assert [(bad.field, bad.detail) for bad in found.rejected] == [
        ("who.a", "meter 'egress' has no field 'who.a'"),
        ("who.b", "meter 'egress' has no field 'who.b'"),
    ]


def test_no_rows_are_no_problem():
    empty = pl.DataFrame(schema=TYPES)

    assert validate(empty, 0, {"egress": EGRESS_FIELDS}, ACCOUNTS, ORIGIN) == ([], [], 0)


def test_typed_columns_are_checked_like_texts():
    at = datetime(2026, 9, 3, 10)
    types = TYPES | {
        "uid": pl.Int64,
        "ts": pl.Datetime("us"),
        "measure.gb": pl.Float64,
        "ets": pl.Null,
    }
    rows = [
        {"uid": 5, "ts": at, "measure.gb": 1.5},
        {"uid": 6, "ts": at + timedelta(days=400), "measure.gb": 1.5},
        {"uid": 7, "ts": at, "measure.gb": float("nan")},
    ]

    found = run(*rows, types=types)

    assert found.accepted[0].frame["uid"].to_list() == ["5"]
    assert [bad.reason for bad in found.rejected] == ["FutureTimestamp", "InvalidNumber"]
