"""A file read block by block gives the same, however small the blocks and however many the threads."""

import json
import random
from pathlib import Path

import polars as pl
import pytest

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.mapping import parse_mapping
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.pipeline.ingest.reading import Reading, completed_again, read
from meterlake.stages.ingest.validate.account_codes import AccountCodes
from meterlake.stores.files.source_file import recognize_format
from tests.homes import EGRESS_FIELDS, HEADER, ORIGIN, csv_row, gz, settings, wire_row

ACCOUNTS = AccountCodes("org", {"acme": "id-acme"})


def reading(path: Path, name: str, data: bytes, mapping=None, only=None, **change) -> Reading:
    path.mkdir(exist_ok=True)
    (path / "file").write_bytes(data)
    return Reading(
        path=path / "file",
        name=name,
        format=recognize_format(path / "file", name, mapping),
        mapping=mapping,
        meters={"egress": EGRESS_FIELDS},
        accounts=ACCOUNTS,
        origin=ORIGIN,
        settings=settings(path, **change),
        scratch=path,
        only=only,
    )


def outcome(wanted: Reading):
    accepted, rejected, seen, rounded = [], [], 0, 0
    for block in read(wanted):
        seen += block.seen
        rounded += block.rounded
        accepted += [row for each in block.accepted for row in each.frame.rows()]
        rejected += block.rejected
        assert block.seen == block.skipped + len(block.rejected) + sum(
            len(each.frame) for each in block.accepted
        )
    return accepted, sorted(rejected, key=lambda row: row.place()), seen, rounded


CSV_LINES = [
    csv_row("", "1"),
    csv_row("", "0.1234567890123"),
    csv_row("", "x"),
    csv_row("u-é"),
    csv_row("", meter="nope"),
    csv_row("", account="new"),
    'egress,acme,,2026-09-03T10:00:00Z,1,"e,u"\n',
    'egress,acme,,2026-09-03T10:00:00Z,1,"two\nlines"\n',
    'egress,acme,,2026-09-03T10:00:00Z,1,"open\n',
    'egress,acme,,2026-09-03T10:00:00Z,1,5" disk\n',
    "short\n",
    "\n",
    "egress,acme,,2026-09-03T10:00:00Z,1,a\rb\n",
    csv_row("", "1").replace("\n", "\r\n"),
    csv_row("", region="x" * 1500),
    csv_row("", region="y" * 1025),
]
JSON_ROWS = [
    wire_row(None),
    wire_row("u-é"),
    wire_row(None, "0.1234567890123"),
    wire_row(None, True),
    wire_row(None, measure={"gb": 1, "tb": 2}),
    wire_row(None, more={"x": [1, {"y": 2}]}),
    wire_row(None, where={"region": "z" * 1500}),
    wire_row(None, account=5),
    5,
    [],
]


def mixture(lines, seed: int, count: int = 150):
    chance = random.Random(seed)
    return [chance.choice(lines) for _ in range(count)]


def files(seed: int):
    rows = mixture(JSON_ROWS, seed)
    yield "a.csv", (HEADER + "".join(mixture(CSV_LINES, seed))).encode()
    yield "a.csv.gz", gz((HEADER + "".join(mixture(CSV_LINES[:6], seed))).encode())
    yield "a.ndjson", "".join(json.dumps(row) + "\n" for row in rows).encode() + b'{"a":\n\n[]'
    yield "a.json", json.dumps(rows, indent=seed % 3 or None, ensure_ascii=False).encode()


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
)
@pytest.mark.parametrize("line_bytes", [1024, 1 << 20])
def test_blocks_of_any_size_and_any_number_of_threads_give_the_same(tmp_path, seed, line_bytes):
    for name, data in files(seed):
        found = [
            outcome(
                reading(
                    tmp_path, name, data, block_bytes=size, threads=threads, line_bytes=line_bytes
                )
            )
            for size, threads in ((1 << 23, 1), (1024, 4), (3001, 2))
        ]
        # What is kept of a line that is too long depends on where the file was cut.
        cut = [
            (a, [row._replace(original=row.original[:1000]) for row in b], c, d)
            for a, b, c, d in found
        ]
        assert cut[1] == cut[0], name
        assert cut[2] == cut[0], name
        assert found[0][2] >= 100


@pytest.mark.long
def test_rows_of_parquet_keep_their_numbers_over_batches(tmp_path):
    rows = 150_000
    frame = pl.DataFrame(
        {
            "meter": ["egress"] * rows,
            "account": ["acme"] * rows,
            "ts": ["2026-09-03T10:00:00Z"] * rows,
            "measure.gb": [None if n % 50_000 == 49_999 else n for n in range(rows)],
            "where.region": ["eu"] * rows,
        }
    )
    frame.write_parquet(tmp_path / "p")

    wanted = reading(tmp_path / "x", "a.parquet", (tmp_path / "p").read_bytes())
    accepted, rejected, seen, _ = outcome(wanted)

    assert (seen, len(accepted)) == (rows, rows - 3)
    assert [row.row for row in rejected] == [50_000, 100_000, 150_000]
    assert '"account": "acme"' in rejected[0].original


@pytest.mark.long
def test_the_original_texts_of_rows_are_found_again(tmp_path):
    for name, data in files(1):
        wanted = reading(tmp_path, name, data, block_bytes=1024)
        told = {row[6] for row in outcome(wanted)[0]}
        few = [Rejection(row, Reason.DUPLICATE_UID, "") for row in list(told)[:5]]
        found = completed_again(wanted, few)
        assert [row.row for row in found] == [row.row for row in few]
        assert all("egress" in row.original for row in found)
        assert all('"meter":"egress"' in row.measurement for row in found)
        assert completed_again(wanted, []) == []


def test_only_the_rows_and_parts_that_are_asked_for_are_looked_at(tmp_path):
    mapping = parse_mapping(
        {
            "account": {"value": "acme"},
            "ts": "at",
            "measurements": [
                {
                    "meter": "egress",
                    "fields": {"measure.gb": "a"},
                    "constants": {"where.region": "x"},
                },
                {
                    "meter": "egress",
                    "fields": {"measure.gb": "b"},
                    "constants": {"where.region": "y"},
                },
            ],
        },
        "m",
    )
    data = b"at,a,b\n" + b"2026-09-03T10:00:00Z,1,2\n" * 3 + b"bad\n"
    only = pl.DataFrame(
        {"row": [3, 4, 5], "part": [1, 0, 0]}, schema={"row": pl.Int64, "part": pl.Int16}
    )

    accepted, rejected, seen, _ = outcome(reading(tmp_path, "a.csv", data, mapping, only))

    assert seen == 7
    assert [(row[6], row[7]) for row in accepted] == [(4, 0), (3, 1)]
    assert [row.row for row in rejected] == [5]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_file_that_breaks_in_the_middle_stops_the_reading(tmp_path, threads):
    data = (HEADER + csv_row("u") * 2000).encode() + b"\xff\n" + csv_row("v").encode() * 2000

    with pytest.raises(UnreadableSource) as caught:
        outcome(reading(tmp_path, "a.csv", data, block_bytes=4096, threads=threads))

    assert "line 2002" in caught.value.detail


def test_a_first_line_that_is_too_long_is_no_header(tmp_path):
    data = HEADER.encode()[:-1] + b"," + b"x" * 2000 + b"\n"

    for size in (1024, 1 << 20):
        with pytest.raises(UnreadableSource) as caught:
            outcome(reading(tmp_path, "a.csv", data, block_bytes=size, line_bytes=1024))
        assert caught.value.reason == "MissingHeader"


def test_a_line_of_many_megabytes_is_rejected_and_its_neighbours_stay(tmp_path):
    long = csv_row("long", region="x" * (20 << 20))
    data = (HEADER + csv_row("a") + long + csv_row("b")).encode()

    accepted, rejected, seen, _ = outcome(reading(tmp_path, "a.csv", data, block_bytes=1 << 20))

    assert [row[0] for row in accepted] == ["a", "b"]
    assert [(row.row, row.reason, len(row.original)) for row in rejected] == [
        (3, "MalformedRow", 4096)
    ]
    assert seen == 3
