"""Laws of ingest: what is stored does not depend on how it arrives, and the books always balance.

The oracle is plain Python: a dictionary of uids.
"""

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.homes import CALLS, Home, a_home, configure, gz, zst
from tests.laws import examples

# Every example makes a home: a copy, a database, extensions to load.
few = settings(
    max_examples=examples(3),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

uids = st.text("abcdefgh0123-_ä", min_size=1, max_size=50)
texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00\r", exclude_categories=["Cs"]),
    min_size=1,
    max_size=20,
)
numbers = st.decimals(-(10**9), 10**12, places=6)
instants = st.datetimes(
    min_value=datetime.fromisoformat("2020-01-01"),
    max_value=datetime.fromisoformat("2026-09-01"),
).map(lambda instant: instant.isoformat() + "Z")

measurements = st.fixed_dictionaries(
    {
        "account": st.sampled_from(["acme", "bolt", "newcomer"]),
        "uid": uids,
        "ts": instants,
        "gb": numbers,
        "region": texts,
    }
)
# Two uids may look alike to nobody: each stands for one measurement.
batches = st.lists(measurements, min_size=1, max_size=25, unique_by=lambda row: row["uid"])

COLUMNS = ("meter", "account", "uid", "ts", "measure.gb", "where.region")


def values(row: dict[str, Any]) -> list[str]:
    return ["egress", row["account"], row["uid"], row["ts"], str(row["gb"]), row["region"]]


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(values(row) for row in rows)
    return text.getvalue().encode()


def as_wire(row: dict[str, Any]) -> str:
    members = {"meter": "egress", "account": row["account"], "uid": row["uid"], "ts": row["ts"]}
    members["where"] = {"region": row["region"]}
    head = json.dumps(members)[:-1]
    return f'{head}, "measure": {{"gb": {row["gb"]}}}}}'


def as_ndjson(rows: list[dict[str, Any]]) -> bytes:
    return "".join(as_wire(row) + "\n" for row in rows).encode()


def as_json(rows: list[dict[str, Any]]) -> bytes:
    return f"[{','.join(map(as_wire, rows))}]".encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    frame = pl.DataFrame([values(row) for row in rows], schema=list(COLUMNS), orient="row")
    frame.with_columns(pl.col("measure.gb").str.to_decimal(scale=6)).write_parquet(out)
    return out.getvalue()


FORMATS = {"csv": as_csv, "ndjson": as_ndjson, "json": as_json, "parquet": as_parquet}
COMPRESSIONS = {"": lambda data: data, ".gz": gz, ".zst": zst}


@contextmanager
def fresh(**changes: Any) -> Iterator[Home]:
    with tempfile.TemporaryDirectory() as folder, a_home(Path(folder), **changes) as home:
        yield home


def stored(home: Home) -> dict[str, tuple[str, str, Decimal, str]]:
    """What the lake holds, by uid, in the words of the generator."""
    codes = home.account_codes()
    tables = [name for name in home.organization.lake.tables() if name.startswith("m_")]
    rows = [
        row
        for table in tables
        for row in home.query(
            'SELECT uid, account_id, ts, "measure.gb", "where.region" FROM lake."' + table + '"'
        )
    ]
    assert len({row[0] for row in rows}) == len(rows)
    return {uid: (codes[a], ts.isoformat() + "Z", gb, region) for uid, a, ts, gb, region in rows}


def expected(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str, Decimal, str]]:
    return {row["uid"]: (row["account"], row["ts"], row["gb"], row["region"]) for row in rows}


@few
@given(batches, st.sampled_from(sorted(FORMATS)), st.sampled_from(sorted(COMPRESSIONS)))
def test_what_is_stored_is_what_was_sent_in_any_format(rows, form, compression):
    data = COMPRESSIONS[compression](FORMATS[form](rows))
    with fresh() as home:
        receipt = home.ingest(f"rows.{form}{compression}", data)
        assert (receipt.accepted, receipt.rejected) == (len(rows), 0), receipt.sample
        assert stored(home) == expected(rows)
        home.check()


@few
@given(batches, st.data())
def test_order_splitting_and_format_change_nothing(rows, data):
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    names = data.draw(st.lists(st.sampled_from(sorted(FORMATS)), min_size=2, max_size=2))
    with fresh(block_bytes=data.draw(st.sampled_from([1 << 10, 1 << 23]))) as home:
        for number, (form, part) in enumerate(
            zip(names, (shuffled[:cut], shuffled[cut:]), strict=True)
        ):
            if part:
                home.ingest(f"{number}.{form}", FORMATS[form](part))
        assert stored(home) == expected(rows)
        home.check()


@few
@given(batches, st.sampled_from(sorted(FORMATS)), st.sampled_from(sorted(FORMATS)))
def test_sending_everything_again_stores_nothing_and_says_so(rows, first, second):
    with fresh() as home:
        home.ingest(f"first.{first}", FORMATS[first](rows))
        before = home.measurements(of_source=True)
        for name in ("same", "another"):
            again = home.ingest(f"{name}.{first}", FORMATS[first](rows))
            assert (again.accepted, again.repeats) == (0, len(rows))
        other = home.ingest(f"other.{second}", FORMATS[second](rows[::-1]))
        assert (other.accepted, other.repeats) == (0, len(rows))
        assert home.measurements(of_source=True) == before
        home.check()


deliveries = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 1), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    min_size=1,
    max_size=5,
)


@few
@given(deliveries)
def test_repeats_contradictions_and_rejects_are_those_of_a_dictionary_of_uids(files):
    """A row is a uid, one of two contents, and whether its instant is broken."""
    known: dict[str, int] = {}
    seen: dict[bytes, int] = {}
    with fresh() as home:
        for number, rows in enumerate(files):
            lines = [
                f"egress,acme,{uid},{'never' if broken else '2026-08-01T00:00:00Z'},{content},eu\n"
                for uid, content, broken in rows
            ]
            data = ("meter,account,uid,ts,measure.gb,where.region\n" + "".join(lines)).encode()
            accepted = repeats = rejected = 0
            for uid, content, broken in rows:
                if broken or known.get(uid, content) != content:
                    rejected += 1
                elif uid in known:
                    repeats += 1
                else:
                    known[uid] = content
                    accepted += 1
            receipt = home.ingest(f"{number}.csv", data)
            assert (receipt.accepted, receipt.repeats, receipt.rejected) == (
                accepted,
                repeats,
                rejected,
            )
            seen[data] = seen.get(data, 0) + 1
            assert receipt.attempt == seen[data]
        assert {uid: int(row[2]) for uid, row in stored(home).items()} == known
        assert len(home.ledger()) == len(files)


@few
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_a_corrected_configuration_brings_in_what_was_rejected_and_only_that(known):
    """Some rows are of a meter that is configured only after the first try."""
    lines = [
        f"{'calls' if ready else 'later'},acme,u{number},2026-08-01T00:00:00Z,{number},1,k\n"
        for number, ready in enumerate(known)
    ]
    data = "meter,account,uid,ts,measure.n,cost.own,metadata.key\n" + "".join(lines)
    with fresh() as home:
        first = home.ingest("rows.csv", data)
        assert (first.accepted, first.rejected) == (sum(known), len(known) - sum(known))
        configure(home.organization, meters=[{**CALLS, "code": "later", "name": "Later"}])
        second = home.ingest("again.csv", data)
        assert (second.accepted, second.repeats) == (len(known) - sum(known), sum(known))
        third = home.ingest("and again.csv", data)
        assert (third.accepted, third.repeats, third.attempt) == (0, len(known), 3)
        assert len(stored_uids(home)) == len(known)


def stored_uids(home: Home) -> set[str]:
    return {row[0] for row in home.query("SELECT uid FROM lake.uid_index")}
