"""Rows that are set aside while a source is staged: what is stored is the same, and cheaper."""

from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.values.sql import quote
from meterlake.stages.ingest import dedup as seen
from tests.homes import HEADER, Home, a_home, configure, csv_row, ndjson, wire_row

BLOCK = 1 << 10
DERIVED = [{"category": "MEASURE", "code": "share", "name": "Share", "calculation": "100 / gb"}]


def call(uid: str, n: object = 2) -> dict:
    return wire_row(uid) | {
        "meter": "calls",
        "measure": {"n": n},
        "cost": {"own": "0.5"},
        "where": None,
        "metadata": {"key": "k"},
    }


def derive(home: Home) -> None:
    meter = {
        "code": "egress",
        "name": "Egress",
        "dataFields": [
            {"category": "MEASURE", "code": "gb", "name": "Sent"},
            {"category": "WHERE", "code": "region", "name": "Region"},
        ],
        "derivedFields": DERIVED,
    }
    configure(home.organization, meters=[meter])


@contextmanager
def blocks_of(folder, size: int):
    """A home that reads files in blocks of so many bytes; only longer files set rows aside."""
    with a_home(folder, block_bytes=size) as home:
        derive(home)
        yield home


def everything(home: Home) -> tuple:
    home.check()
    errors = home.query("SELECT name, row, part, field, uid FROM lake.calculation_error")
    derived = home.query("SELECT name, incomplete FROM lake.source ORDER BY ALL")
    return (
        home.measurements(of_source=True),
        home.uids(),
        home.rejected(),
        home.ledger(),
        sorted(errors),
        derived,
    )


def outcomes(folder, files: list[bytes], size: int) -> tuple:
    with blocks_of(folder, size) as home:
        receipts = [home.ingest(f"{number}.ndjson", data) for number, data in enumerate(files)]
        told = [
            (each.accepted, each.repeats, each.rejected, each.reasons, each.incomplete)
            for each in receipts
        ]
        shown = [[(row.row, row.reason, row.original) for row in each.sample] for each in receipts]
        missing = [[(row.row, row.field) for row in each.errors] for each in receipts]
        return told, shown, missing, everything(home)


def makers(home: Home) -> set[str]:
    """Who wrote the lake's files: `rows` as they were staged, `again` at the commit."""
    files = home.organization.lake.files
    found = home.query(
        "SELECT created_by FROM parquet_file_metadata([{}])".format(
            ", ".join(quote(files.root + name) for name in files.names())
        )
    )
    made = [each for [each] in found]
    return {"rows" if "arrow" in each else "again" for each in made}


def months(uids, **more) -> list[dict]:
    return [
        wire_row(uid, ts=f"2026-{1 + number % 3:02}-01T00:00:00Z", **more)
        for number, uid in enumerate(uids)
    ]


def several(first: int, last: int) -> list[str]:
    return [f"u{number}" for number in range(first, last)]


FIRST = months(several(0, 40))
ZERO = months(several(40, 60), gb=0)
CASES = {
    "repeats in the file": [FIRST + FIRST[3:9]],
    "repeats against the lake": [FIRST, months(several(50, 90)) + FIRST[3:9]],
    "repeats in the file and against the lake": [
        FIRST,
        (new := months(several(50, 90))) + FIRST[3:9] + new[5:7] + FIRST[3:5],
    ],
    "nothing but repeats": [FIRST, FIRST[::-1]],
    "contradictions in the file": [FIRST + months(several(3, 9), gb=7) + FIRST[3:9]],
    "contradictions of the lake": [FIRST, months(several(30, 80), gb=7) + FIRST[2:4]],
    "one uid of two meters": [[*FIRST, call("u3"), call("u70"), call("u71")], [call("u71")] * 9],
    "several meters": [FIRST + [call(uid) for uid in several(40, 60)] + [call("u45")] + FIRST[:2]],
    "repeats side by side": [[row for row in FIRST for _ in range(3)]],
    "repeats without a derived value": [ZERO + FIRST + ZERO[5:9], ZERO[7:] + FIRST[:3] + ZERO[:7]],
    "nothing but a new account near another one, of one meter": [
        [wire_row("n1", account="Nova Corp"), call("n2") | {"account": "nova corp"}, *FIRST]
    ],
    "a new account near another one": [
        months(several(0, 20))
        + [wire_row("n1", account="Nova Corp"), wire_row("n2", account="nova corp")] * 3
    ],
}


# What the others have in them, too.
COMMON = (
    "repeats in the file and against the lake",
    "contradictions in the file",
    "one uid of two meters",
)


@pytest.mark.long
@pytest.mark.parametrize(
    "case",
    [pytest.param(each, marks=[] if each in COMMON else [pytest.mark.slow]) for each in CASES],
)
def test_what_is_stored_does_not_depend_on_what_is_set_aside(tmp_path, case):
    files = [ndjson(rows) for rows in CASES[case]]

    assert outcomes(tmp_path, files, BLOCK) == outcomes(tmp_path, files, 1 << 23)


@pytest.mark.long
def test_uids_that_are_mistaken_for_seen_ones_are_stored_like_others(tmp_path):
    files = [ndjson(FIRST + FIRST[:3]), ndjson(months(several(30, 80)))]
    with patch.object(seen, "_WORDS_MAX", 1):
        mistaken = outcomes(tmp_path, files, BLOCK)

    assert mistaken == outcomes(tmp_path, files, 1 << 23)


@pytest.mark.long
def test_repeats_leave_the_other_rows_as_they_were_staged(tmp_path):
    with blocks_of(tmp_path, BLOCK) as home:
        again = home.ingest("a.csv", HEADER + "".join(map(csv_row, several(0, 60) + several(3, 9))))
        known = home.ingest("b.csv", HEADER + "".join(map(csv_row, several(50, 99))))

        assert (again.accepted, again.repeats) == (60, 6)
        assert (known.accepted, known.repeats) == (39, 10)
        assert makers(home) == {"rows"}
        home.check()


@pytest.mark.long
def test_a_row_that_stays_among_those_set_aside_is_kept_without_the_others(tmp_path):
    with blocks_of(tmp_path, BLOCK) as home, patch.object(seen, "_WORDS_MAX", 1):
        rows = several(0, 60) + several(3, 9)
        assert home.ingest("a.csv", HEADER + "".join(map(csv_row, rows))).accepted == 60
        assert makers(home) == {"rows", "again"}
        home.check()


def test_a_source_of_one_block_sets_nothing_aside(tmp_path):
    with blocks_of(tmp_path, 1 << 23) as home:
        home.ingest("a.csv", HEADER + csv_row("u1") + csv_row("u1") + csv_row("u2"))

        assert makers(home) == {"again"}
        home.check()


row = st.tuples(st.integers(0, 40), st.sampled_from(["1", "0"]), st.integers(1, 3), st.booleans())


@pytest.mark.slow
@settings(max_examples=2)
@given(st.lists(st.lists(row, min_size=20, max_size=60), min_size=1, max_size=3))
def test_any_rows_are_stored_as_without_setting_aside(tmp_path_factory, files):
    """A row is a uid, a content with or without a derived value, a month, and one of two meters."""
    data = [
        ndjson(
            [
                call(f"u{uid}", gb)
                if calls
                else wire_row(f"u{uid}", gb, ts=f"2026-0{month}-02T00:00:00Z")
                for uid, gb, month, calls in rows
            ]
        )
        for rows in files
    ]
    folder = tmp_path_factory.mktemp("homes")

    assert outcomes(folder, data, BLOCK) == outcomes(folder, data, 1 << 23)
