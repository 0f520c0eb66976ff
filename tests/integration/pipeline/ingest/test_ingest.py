"""One file from its bytes to the ledger: every kind of file and row has one outcome."""

import io
import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meterlake.model.measurements.mapping import parse_mapping
from meterlake.model.measurements.receipt import Delivery
from meterlake.model.values import failpoint
from meterlake.pipeline.ingest.run import ingest_file
from tests.homes import (
    EGRESS,
    HEADER,
    a_home,
    configure,
    csv_row,
    gz,
    ndjson,
    wire_row,
    zst,
)
from tests.long_cases import long_repeats

GOOD = (HEADER + csv_row("u1") + csv_row("u2")).encode()
GOOD_JSON = ndjson([wire_row("u1"), wire_row("u2")])


@pytest.fixture(scope="module")
def module_home(every_lake, tmp_path_factory):  # noqa: ARG001
    with a_home(tmp_path_factory.mktemp("ingest"), line_bytes=1 << 20) as home:
        yield home


@pytest.fixture(scope="module")
def failing_home(every_lake, tmp_path_factory):  # noqa: ARG001
    with a_home(tmp_path_factory.mktemp("failing"), line_bytes=1 << 20) as home:
        yield home


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as home:
        yield home


def parquet(**columns) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def counts(receipt):
    return receipt.received, receipt.accepted, receipt.repeats, receipt.rejected


GOOD_PARQUET = parquet(
    meter=["egress"] * 2,
    account=["acme"] * 2,
    uid=["u1", "u2"],
    ts=pa.array([datetime(2026, 9, 3, 10)] * 2, pa.timestamp("us")),
    **{"measure.gb": [Decimal("1.5")] * 2, "where.region": ["eu"] * 2},
)
NESTED_PARQUET = parquet(
    meter=["egress"] * 2,
    account=["acme"] * 2,
    uid=["u1", "u2"],
    ts=pa.array([datetime(2026, 9, 3, 10)] * 2).cast(pa.timestamp("ns", "UTC")),
    measure=[{"gb": 1.5}] * 2,
    where=[{"region": "eu"}] * 2,
    tags=pa.array([["ignored"]] * 2),
)


# --- formats


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", GOOD),
        ("a.CSV", GOOD),
        ("a.csv", GOOD.replace(b"\n", b"\r\n")),
        ("a.csv", b"\xef\xbb\xbf" + GOOD),
        ("a.csv", GOOD.rstrip(b"\n")),
        ("a.csv.gz", gz(GOOD)),
        ("a.csv.gz", gz(GOOD[:20]) + gz(GOOD[20:])),
        ("a.csv.gzip", gz(GOOD)),
        ("a.csv.zst", zst(GOOD)),
        ("a.csv.zst", zst(GOOD[:20]) + zst(GOOD[20:])),
        ("a.ndjson", GOOD_JSON),
        ("a.jsonl", GOOD_JSON),
        ("a.ndjson.gz", gz(GOOD_JSON)),
        ("a.ndjson.zstd", zst(GOOD_JSON)),
        ("a.json", json.dumps([wire_row("u1"), wire_row("u2")], indent=2).encode()),
        ("a.json.gz", gz(json.dumps([wire_row("u1"), wire_row("u2")]).encode())),
        ("a.parquet", GOOD_PARQUET),
        ("a.parquet", NESTED_PARQUET),
        ("a.parquet.gz", gz(GOOD_PARQUET)),
        ("a.parquet.zst", zst(GOOD_PARQUET)),
    ],
)
def test_every_format_gives_the_same_measurements(module_home, name, data):
    receipt = module_home.ingest(name, data)

    assert receipt.status == "done", receipt.detail
    assert receipt.received == 2
    assert receipt.accepted + receipt.repeats == 2
    assert len([row for row in module_home.measurements() if ("uid", "u1") in row[1]]) == 1


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("e.csv", HEADER.encode()),
        ("e.csv", HEADER.rstrip("\n").encode()),
        ("e.csv", HEADER.encode() + b"\n\n"),
        ("e.ndjson", b""),
        ("e.ndjson", b"\n \n"),
        ("e.json", b"[]"),
        ("e.csv.gz", gz(HEADER.encode())),
        ("e.ndjson.gz", gz(b"")),
        ("e.ndjson.zst", zst(b"")),
        (
            "e.parquet",
            parquet(
                meter=pa.array([], pa.string()),
                account=pa.array([], pa.string()),
                ts=pa.array([], pa.string()),
            ),
        ),
    ],
)
def test_a_file_without_rows_is_done_and_empty(module_home, name, data):
    receipt = module_home.ingest(name, data)

    assert (receipt.status, *counts(receipt)) == ("done", 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    long_repeats(
        [
            ("f.csv", b"", "MissingHeader"),
            ("f.csv", b"\n" + GOOD, "MissingHeader"),
            ("f.csv", b"\xef\xbb\xbf", "MissingHeader"),
            ("f.csv", b"uid,ts\n1,2\n", "MissingHeader"),
            ("f.csv", GOOD.replace(b"meter,account", b"Meter,Account"), "MissingHeader"),
            ("f.csv", b"x" * (2 << 20), "MissingHeader"),
            ("f.csv", HEADER.encode()[:-1] + b",uid\n", "DuplicateColumn"),
            ("f.csv", GOOD.decode().encode("utf-16"), "InvalidEncoding"),
            ("f.csv", GOOD.decode().encode("utf-16-be"), "MissingHeader"),
            ("f.csv", GOOD + b"egress,acme,u3,\xff,1,eu\n" + GOOD, "InvalidEncoding"),
            ("f.csv", GOOD + "egress,acme,ü,x,1,eu\n".encode("latin-1"), "InvalidEncoding"),
            ("f.csv.gz", b"", "DamagedCompression"),
            ("f.csv.gz", GOOD, "DamagedCompression"),
            ("f.csv.gz", gz(GOOD)[:5], "DamagedCompression"),
            ("f.csv.gz", gz(GOOD)[:-1], "DamagedCompression"),
            ("f.csv.gz", gz(GOOD)[:-8], "DamagedCompression"),
            ("f.csv.gz", gz(GOOD)[:-12], "DamagedCompression"),
            ("f.csv.gz", gz(GOOD)[:-8] + b"\0" * 8, "DamagedCompression"),
            ("f.csv.gz", gz(GOOD) + b"junk", "DamagedCompression"),
            ("f.csv.gz", gz(GOOD) + gz(GOOD)[:15], "DamagedCompression"),
            ("f.csv.zst", b"", "DamagedCompression"),
            ("f.csv.zst", GOOD, "DamagedCompression"),
            ("f.csv.zst", zst(GOOD)[:-1], "DamagedCompression"),
            ("f.csv.zst", zst(GOOD)[:-4], "DamagedCompression"),
            ("f.csv.zst", zst(GOOD)[:-4] + b"\0" * 4, "DamagedCompression"),
            ("f.csv.zst", zst(GOOD) + b"junk", "DamagedCompression"),
            ("f.ndjson", GOOD_JSON + b'{"meter":"\xff"}\n', "InvalidEncoding"),
            ("f.ndjson", b"\xff\xfe" + GOOD_JSON, "InvalidEncoding"),
            ("f.json", b"", "DamagedFile"),
            ("f.json", GOOD_JSON, "DamagedFile"),
            ("f.json", b"[" + GOOD_JSON, "DamagedFile"),
            ("f.json", b'{"measurements":[]}', "DamagedFile"),
            ("f.parquet", b"", "DamagedFile"),
            ("f.parquet", GOOD, "DamagedFile"),
            ("f.parquet", GOOD_PARQUET[:-10], "DamagedFile"),
            ("f.parquet", GOOD_PARQUET[: len(GOOD_PARQUET) // 2], "DamagedFile"),
            ("f.parquet", b"PAR1" + b"\0" * 40 + GOOD_PARQUET[44:], "DamagedFile"),
            ("f.parquet", parquet(uid=["u"], ts=["x"]), "MissingHeader"),
            (
                "f.parquet",
                parquet(meter=["e"], account=["a"], ts=["x"], **{"measure.gb": [[1.0]]}),
                "DamagedFile",
            ),
            (
                "f.parquet",
                parquet(meter=["e"], account=["a"], ts=["x"], measure=[[1.0]]),
                "DamagedFile",
            ),
            (
                "f.parquet",
                parquet(
                    meter=["e"], account=["a"], ts=["x"], measure=[{"gb": 1}], **{"measure.gb": [1]}
                ),
                "DuplicateColumn",
            ),
            ("f.xlsx", b"\xd0\xcf\x11\xe0", "UnknownFormat"),
            ("f", b"", "UnknownFormat"),
            ("f.gz", gz(b"words"), "UnknownFormat"),
            ("f.csv.bz2", b"BZh9", "UnknownFormat"),
            ("f.csv.zip", GOOD, "DamagedCompression"),
        ],
        lambda name, _, reason: (name, reason),
    ),
)
def test_a_file_that_cannot_be_read_fails_whole_and_leaves_nothing(
    failing_home, name, data, reason
):
    receipt = failing_home.ingest(name, data)

    assert (receipt.status, receipt.reason) == ("failed", reason)
    assert receipt.detail
    assert counts(receipt) == (0, 0, 0, 0)
    assert failing_home.measurements() == failing_home.uids() == failing_home.rejected() == []
    assert (name, receipt.attempt, "failed", 0, 0, 0, 0) in failing_home.ledger()


@pytest.mark.long
def test_a_file_that_breaks_late_leaves_nothing_of_its_beginning(tmp_path):
    rows = "".join(csv_row(f"u{n}") for n in range(3000))
    damaged = gz((HEADER + rows).encode())[:-3]

    with a_home(tmp_path, block_bytes=4096) as home:
        assert home.ingest("a.csv.gz", damaged).reason == "DamagedCompression"
        assert home.ingest("a.csv", (HEADER + rows).encode() + b"\xff").reason == "InvalidEncoding"
        assert home.measurements() == []
        assert home.ingest("a.csv", HEADER + rows).accepted == 3000
        home.check()


@pytest.mark.long
def test_a_bomb_stops_at_the_limit(tmp_path):
    with a_home(tmp_path, source_bytes=1 << 20) as home:
        for packed in (gz, zst):
            receipt = home.ingest(f"a.csv.{packed.__name__}", packed(GOOD + b"\n" * (50 << 20)))
            assert receipt.reason == "TooLarge"


# --- rows


CSV = {
    "meter": "egress",
    "account": "acme",
    "uid": "",
    "ts": "2026-09-03T10:00:00Z",
    "ets": "",
    "measure.gb": "1",
    "where.region": "eu",
    "measure.tb": "",
    "other.gb": "",
    "cost.region": "",
}


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    long_repeats(
        [
            ({"meter": "egres"}, "UndefinedMeter", "meter"),
            ({"meter": "EGRESS"}, "UndefinedMeter", "meter"),
            ({"meter": "egress "}, "UndefinedMeter", "meter"),
            ({"meter": ""}, "MissingField", "meter"),
            ({"account": ""}, "MissingField", "account"),
            ({"ts": ""}, "MissingField", "ts"),
            ({"measure.gb": ""}, "MissingField", "measure.gb"),
            ({"where.region": ""}, "MissingField", "where.region"),
            ({"account": "Acme"}, "InvalidAccountCode", "account"),
            ({"account": "ac me"}, "InvalidAccountCode", "account"),
            ({"account": " new"}, "InvalidAccountCode", "account"),
            ({"account": "n\x00w"}, "InvalidAccountCode", "account"),
            ({"account": "n" * 81}, "InvalidAccountCode", "account"),
            ({"uid": "u" * 51}, "InvalidUid", "uid"),
            ({"uid": "u\x00"}, "InvalidUid", "uid"),
            ({"ts": "yesterday"}, "InvalidTimestamp", "ts"),
            ({"ts": "2026-02-29T00:00:00Z"}, "InvalidTimestamp", "ts"),
            ({"ts": "2026-06-30T23:59:60Z"}, "InvalidTimestamp", "ts"),
            ({"ts": "2026-09-03"}, "InvalidTimestamp", "ts"),
            ({"ts": "2026-10-01T00:05:00.000001Z"}, "FutureTimestamp", "ts"),
            ({"ts": "9999-12-31T23:59:59Z"}, "FutureTimestamp", "ts"),
            ({"ets": "later"}, "InvalidTimestamp", "ets"),
            ({"ets": "2026-09-03T09:59:59Z"}, "InvalidTimestamp", "ets"),
            ({"measure.gb": "NaN"}, "InvalidNumber", "measure.gb"),
            ({"measure.gb": "Infinity"}, "InvalidNumber", "measure.gb"),
            ({"measure.gb": "1" * 40}, "InvalidNumber", "measure.gb"),
            ({"measure.gb": "1e999"}, "InvalidNumber", "measure.gb"),
            ({"measure.gb": "1e26"}, "InvalidNumber", "measure.gb"),
            ({"measure.gb": "1,5"}, "MalformedRow", None),
            ({"measure.gb": "1_5"}, "InvalidNumber", "measure.gb"),
            ({"where.region": "x" * 1025}, "InvalidText", "where.region"),
            ({"where.region": "a\x00b"}, "InvalidText", "where.region"),
            ({"where.region": "x" * (1 << 20)}, "MalformedRow", None),
            ({"measure.tb": "1"}, "UnknownField", "measure.tb"),
            ({"other.gb": "1"}, "DuplicateField", "other.gb"),
            ({"cost.region": "eu"}, "DuplicateField", "cost.region"),
        ],
        lambda _, reason, field: (reason, field),
    ),
)
def test_a_bad_row_has_its_reason_row_number_and_text_and_its_neighbours_stay(
    module_home, change, reason, field
):
    good = CSV | {"ts": "2026-09-03T11:00:00Z"}
    bad = CSV | change
    data = (
        ",".join(CSV) + "\n" + "".join(",".join(row.values()) + "\n" for row in (good, bad, good))
    )

    receipt = module_home.ingest("r.csv", data)

    assert counts(receipt) in {(3, 2, 0, 1), (3, 0, 2, 1)}
    (row,) = receipt.sample
    assert (row.row, row.reason, row.field) == (3, reason, field)
    assert row.original == ",".join(bad.values())[:4096]
    assert module_home.query(
        f"SELECT row, reason, original FROM lake.rejected WHERE identity = '{receipt.identity}' LIMIT 1"
    ) == [(3, reason, row.original)]


@pytest.mark.parametrize(
    ("value", "stored", "rounded"),
    [
        ("1.5", "1.5", 0),
        ("-1.5", "-1.5", 0),
        ("+2", "2", 0),
        ("-0", "0", 0),
        ("1e3", "1000", 0),
        ("1E-12", "0.000000000001", 0),
        ("99999999999999999999999999.999999999999", "99999999999999999999999999.999999999999", 0),
        ("0.1234567890125", "0.123456789012", 1),
        ("0.1234567890135", "0.123456789014", 1),
        ("0.1" + "0" * 30, "0.1", 0),
        ("0.1" + "0" * 30 + "1", "0.1", 1),
    ],
)
def test_a_number_is_stored_to_the_last_digit(module_home, value, stored, rounded):
    receipt = module_home.ingest("n.csv", HEADER + csv_row("", value))

    assert (receipt.accepted, receipt.rounded) == (1, rounded)
    uid = f"{receipt.identity[:32]}-2"
    table = module_home.query(f"SELECT 'm_' || meter_id FROM lake.uid_index WHERE uid = '{uid}'")[
        0
    ][0]
    assert module_home.query(f'SELECT "measure.gb" FROM lake."{table}" WHERE uid = \'{uid}\'') == [
        (Decimal(stored),)
    ]


def test_a_missing_uid_follows_from_the_source_and_the_row(home):
    receipt = home.ingest("a.csv", HEADER + csv_row("") + "\n" + csv_row(""))

    assert [uid for uid, *_ in home.uids()] == [f"{receipt.identity[:32]}-{row}" for row in (2, 4)]


def test_the_future_is_counted_from_the_receipt_not_from_the_clock_of_processing(home):
    at_limit = csv_row("u", ts="2026-10-01T00:05:00Z")

    assert home.ingest("a.csv", HEADER + at_limit).accepted == 1


@pytest.mark.long
def test_a_new_code_becomes_a_skeleton_account_and_near_misses_do_not(home):
    rows = [
        csv_row(str(n), account=code)
        for n, code in enumerate(["neu", "NEU", "n e u", "neu", "Bolt", "grün ag"])
    ]

    receipt = home.ingest("a.csv", HEADER + "".join(rows))

    assert receipt.new_accounts == 2
    assert receipt.reasons == {"InvalidAccountCode": 3}
    assert sorted(home.account_codes().values()) == ["acme", "bolt", "grün ag", "neu"]
    home.check()


@pytest.mark.long
def test_a_near_miss_of_a_code_that_another_source_brings_meanwhile_is_rejected(home, tmp_path):
    path = tmp_path / "slow.csv"
    path.write_text(HEADER + csv_row("u1", account="Neu") + csv_row("u2", account="other"))
    others = []

    def meanwhile(*_):
        if not others:
            others.append(home.ingest("fast.csv", HEADER + csv_row("u3", account="NEU")))

    arrival = Delivery("slow", path.name, home.clock())
    receipt = ingest_file(home.organization, path, arrival, progress=meanwhile)

    assert (receipt.accepted, receipt.reasons) == (1, {"InvalidAccountCode": 1})
    assert others[0].accepted == 1
    assert {"NEU", "other"} <= set(home.account_codes().values())
    assert "Neu" not in home.account_codes().values()
    home.check()


@pytest.mark.long
def test_a_file_of_undefined_meters_only_makes_no_accounts_and_no_tables(home):
    rows = "".join(csv_row(str(n), meter=f"m{n}", account=f"a{n}") for n in range(2000))

    receipt = home.ingest("a.csv", HEADER + rows)

    assert receipt.reasons == {"UndefinedMeter": 2000}
    assert len(receipt.sample) == 100
    assert sorted(home.account_codes().values()) == ["acme", "bolt"]
    home.check()


@pytest.mark.long
def test_a_made_up_field_for_every_row_is_told_row_by_row(home):
    rows = [wire_row(f"u{n}", measure={"gb": 1, f"made_up_{n}": 1}) for n in range(3000)]

    receipt = home.ingest("a.ndjson", ndjson(rows))

    assert receipt.reasons == {"UnknownField": 3000}
    assert receipt.sample[7].field == "measure.made_up_7"
    assert "measure.made_up_7" in receipt.sample[7].detail


@pytest.mark.long
def test_rows_of_several_meters_share_a_file(home):
    rows = [
        wire_row("u1"),
        {
            **wire_row("u2"),
            "meter": "calls",
            "measure": {"n": 2},
            "cost": {"own": "0.5"},
            "where": None,
            "metadata": {"key": "k"},
        },
    ]

    assert home.ingest("a.ndjson", ndjson(rows)).accepted == 2
    assert len({table for table, _ in home.measurements()}) == 2
    home.check()


@pytest.mark.long
def test_usage_of_many_months_shares_a_file(home):
    rows = "".join(
        csv_row(f"u{year}-{month}", ts=f"{year}-{month:02}-01T00:00:00Z")
        for year in range(2010, 2015)
        for month in range(1, 13)
    )

    assert home.ingest("a.csv", HEADER + rows).accepted == 60
    home.check()


# --- repeats, contradictions, attempts


def test_the_same_uid_with_equal_content_is_a_repeat(home):
    again = csv_row("u1", "1.50", ts="2026-09-03T12:00:00+02:00")

    receipt = home.ingest("a.csv", HEADER + csv_row("u1") + again)

    assert counts(receipt) == (2, 1, 1, 0)
    assert counts(home.ingest("b.ndjson", ndjson([wire_row("u1")]))) == (1, 0, 1, 0)
    home.check()


@pytest.mark.parametrize(
    "change",
    long_repeats(
        [
            {"gb": 2},
            {"account": "bolt"},
            {"ts": "2026-09-03T10:00:00.000001Z"},
            {"ets": "2026-09-03T11:00:00Z"},
            {"where": {"region": "us"}},
            {"where": {"region": "EU"}},
            {
                "meter": "calls",
                "measure": {"n": 1},
                "cost": {"own": 1},
                "metadata": {"key": "k"},
                "where": None,
            },
        ],
        tuple,
    ),
)
def test_the_same_uid_with_other_content_is_rejected_with_its_text(home, change):
    home.ingest("a.ndjson", ndjson([wire_row("u1"), wire_row("u2")]))
    data = ndjson([wire_row("u3"), wire_row("u1", **change), wire_row("u2")])

    receipt = home.ingest("b.ndjson", data)

    assert counts(receipt) == (3, 1, 1, 1)
    (row,) = receipt.sample
    assert (row.row, row.reason, row.uid, row.meter) == (
        2,
        "DuplicateUid",
        "u1",
        change.get("meter", "egress"),
    )
    assert row.original.encode() == data.splitlines()[1]
    home.check()


def test_within_a_file_the_first_row_of_a_uid_counts(home):
    rows = [csv_row("u1", 1), csv_row("u1", 2), csv_row("u1", 1), csv_row("u1", 2, meter="nope")]

    receipt = home.ingest("a.csv", HEADER + "".join(rows))

    assert counts(receipt) == (4, 1, 1, 2)
    assert receipt.reasons == {"DuplicateUid": 1, "UndefinedMeter": 1}
    assert [row.row for row in receipt.sample] == [3, 5]


@pytest.mark.long
def test_the_same_bytes_many_times_are_ingested_once(home):
    first = home.ingest("a.csv", GOOD)

    for n in range(8):
        again = home.ingest(f"copy-{n}.csv", GOOD)
        assert (again.identity, again.attempt) == (first.identity, n + 2)
        assert counts(again) == (2, 0, 2, 0)
    home.check()


@pytest.mark.long
def test_known_bytes_under_the_name_of_another_format_are_read_anew(home):
    data = b"[" + ndjson([wire_row("u1")]).strip() + b"]"
    assert home.ingest("a.csv.json", data).accepted == 1

    assert home.ingest("a.csv", data).reason == "MissingHeader"
    assert counts(home.ingest("a.ndjson", data)) == (1, 0, 0, 1)
    assert counts(home.ingest("b.json", data)) == (1, 0, 1, 0)
    home.check()


def test_the_same_delivery_answers_with_its_first_receipt(home):
    data = HEADER + csv_row("u1") + csv_row("u2", gb="x")
    first = home.ingest("a.csv", data, delivery="d1")

    again = home.ingest("a.csv", data, delivery="d1")

    assert (again.attempt, counts(again), again.sample) == (
        first.attempt,
        counts(first),
        first.sample,
    )
    assert len(home.ledger()) == 1


def test_overlapping_uids_of_two_files_are_stored_once(home):
    rows = [csv_row(f"u{n}") for n in range(150)]

    assert counts(home.ingest("a.csv", HEADER + "".join(rows[:100]))) == (100, 100, 0, 0)
    assert counts(home.ingest("b.csv", HEADER + "".join(rows[80:]))) == (70, 50, 20, 0)
    home.check()


@pytest.mark.long
def test_corrected_configuration_brings_in_what_was_rejected_and_only_that(home):
    bad = (
        csv_row("u2", meter="ingress")
        + "egress,acme\n"
        + csv_row("u3", gb="x")
        + csv_row("", meter="ingress")
    )
    data = HEADER + csv_row("u1") + bad
    assert counts(home.ingest("a.csv", data)) == (5, 1, 0, 4)

    ingress = {
        "code": "ingress",
        "name": "Ingress",
        "dataFields": [
            {"category": "MEASURE", "code": "gb", "name": "Received"},
            {"category": "WHERE", "code": "region", "name": "Region"},
        ],
        "derivedFields": [],
    }
    configure(home.organization, meters=[ingress])
    again = home.ingest("other-name.csv", data)

    assert (again.attempt, *counts(again)) == (2, 5, 2, 1, 2)
    assert [row.row for row in again.sample] == [4, 5]
    assert counts(home.ingest("a.csv", data)) == (5, 0, 3, 2)
    home.check()


@pytest.mark.long
def test_a_field_taken_from_a_meter_brings_rows_in_without_it(home):
    data = HEADER + csv_row("u1", region="") + csv_row("u2")
    assert counts(home.ingest("a.csv", data)) == (2, 1, 0, 1)

    fields = [{"category": "MEASURE", "code": "gb", "name": "Sent"}]
    configure(
        home.organization,
        meters=[{"code": "egress", "name": "E", "dataFields": fields, "derivedFields": []}],
    )

    assert counts(home.ingest("a.csv", data)) == (2, 1, 1, 0)
    assert home.measurements()[0][1] == (
        ("account", "acme"),
        ("measure.gb", "1.500000000000"),
        ("ts", "2026-09-03 10:00:00"),
        ("uid", "u1"),
    )
    home.check()


@pytest.mark.long
def test_a_new_field_of_a_meter_is_a_new_column(home):
    home.ingest("a.csv", GOOD)
    fields = [
        {"category": "MEASURE", "code": "gb", "name": "Sent"},
        {"category": "WHERE", "code": "region", "name": "Region"},
        {"category": "WHO", "code": "user", "name": "User"},
    ]
    configure(
        home.organization,
        meters=[{"code": "egress", "name": "E", "dataFields": fields, "derivedFields": []}],
    )

    assert home.ingest(
        "b.ndjson", ndjson([wire_row("u3", who={"user": "x"}), wire_row("u4")])
    ).reasons == {"MissingField": 1}
    assert ("who.user", "x") in home.measurements()[-1][1]
    assert counts(home.ingest("a.csv", GOOD)) == (2, 0, 2, 0)
    home.check()


def test_a_field_that_comes_back_in_other_letters_is_refused_by_name(home):
    home.ingest("a.csv", HEADER + csv_row("u1"))
    gb, region = EGRESS["dataFields"]
    for fields in ([gb], [gb, region | {"code": "Region"}]):
        configure(home.organization, meters=[EGRESS | {"dataFields": fields}])

    receipt = home.ingest("b.csv", HEADER.replace("region", "Region") + csv_row("u2"))

    assert receipt.status == "failed"
    assert "'where.Region' is not allowed: it must be written as 'where.region'" in receipt.detail


# --- mappings


def mapping(**change):
    return parse_mapping(
        {
            "files": ["*.csv"],
            "account": {"value": "acme"},
            "ts": "at",
            "uid": ["id"],
            "measurements": [
                {
                    "meter": "egress",
                    "fields": {"measure.gb": "sent"},
                    "constants": {"where.region": "eu"},
                }
            ],
        }
        | change,
        "test",
    )


FOREIGN = "id,at,sent,kind\n1,2026-09-03T10:00:00Z,5,a\n2,2026-09-03T10:00:00Z,NA,b\n"


@pytest.mark.long
def test_constants_of_the_mapping_belong_to_the_identity(home):
    one = mapping(
        measurements=[
            {
                "meter": "egress",
                "fields": {"measure.gb": "sent"},
                "constants": {"where.region": "us"},
            }
        ]
    )

    first, second = home.ingest("a.csv", FOREIGN, mapping()), home.ingest("a.csv", FOREIGN, one)

    assert first.identity != second.identity
    assert second.attempt == 1
    assert second.reasons == {"DuplicateUid": 1, "InvalidNumber": 1}


@pytest.mark.long
def test_the_account_from_the_file_name_belongs_to_the_identity(home):
    named = mapping(account={"filename": r"^(?P<account>[a-z]+)-"}, uid=[])

    receipts = [
        home.ingest(name, FOREIGN, named) for name in ("acme-1.csv", "bolt-1.csv", "acme-2.csv")
    ]

    assert [counts(receipt) for receipt in receipts] == [(2, 1, 0, 1), (2, 1, 0, 1), (2, 0, 1, 1)]
    assert receipts[0].identity == receipts[2].identity != receipts[1].identity
    home.check()


def test_a_file_name_without_an_account_fails_the_file(home):
    named = mapping(account={"filename": r"^(?P<account>[a-z]+)-"})

    assert home.ingest("1.csv", FOREIGN, named).reason == "NoAccount"


def test_a_column_that_the_mapping_reads_must_be_there(home):
    assert home.ingest("a.csv", FOREIGN, mapping(ets="end")).reason == "MissingHeader"


@pytest.mark.long
def test_null_tokens_defaults_and_conditions_decide_what_a_row_becomes(home):
    rules = [
        {
            "meter": "egress",
            "when": {"present": ["sent"]},
            "fields": {"measure.gb": "sent", "where.region": "kind"},
            "defaults": {"where.region": "none"},
        },
        {
            "meter": "calls",
            "when": {"equals": {"kind": "b"}, "absent": ["sent"]},
            "constants": {"measure.n": 1, "cost.own": 0, "metadata.key": "k"},
        },
    ]
    data = FOREIGN + "3,2026-09-03T10:00:00Z,7,-\n4,2026-09-03T10:00:00Z,-,c\n"

    receipt = home.ingest("a.csv", data, mapping(nulls=["", "NA", "-"], measurements=rules))

    assert counts(receipt) == (3, 3, 0, 0)
    assert [uid for uid, *_ in home.uids()] == ["1.0", "2.1", "3.0"]
    assert [
        dict(fields).get("where.region")
        for _, fields in home.measurements()
        if dict(fields).get("where.region")
    ] == ["a", "none"]
    assert counts(
        home.ingest("b.csv", data, mapping(nulls=["", "NA", "-"], measurements=rules))
    ) == (3, 0, 3, 0)


def test_a_corrected_mapping_looks_at_every_row_again(home):
    first = mapping(nulls=["", "x"])
    assert counts(home.ingest("a.csv", FOREIGN, first)) == (2, 1, 0, 1)

    second = home.ingest(
        "a.csv",
        FOREIGN,
        mapping(
            nulls=["", "NA"],
            measurements=[
                {
                    "meter": "egress",
                    "fields": {"measure.gb": "sent"},
                    "defaults": {"measure.gb": 0},
                    "constants": {"where.region": "eu"},
                }
            ],
        ),
    )

    assert (second.attempt, *counts(second)) == (2, 2, 1, 1, 0)
    home.check()


@pytest.mark.long
def test_a_mapping_reads_json_of_any_shape(home):
    nested = mapping(
        format="ndjson",
        ts="t.at",
        measurements=[
            {"meter": "egress", "fields": {"measure.gb": "v.sent", "where.region": "v.r"}}
        ],
    )
    data = (
        b'{"id":1,"t":{"at":"2026-09-03T10:00:00Z"},"v":{"sent":1.10,"r":"eu"},"more":{"x":[1]}}\n'
    )

    assert home.ingest("a.log", data, nested).accepted == 1
    assert ("measure.gb", "1.100000000000") in home.measurements()[0][1]


def test_a_mapping_reads_parquet_of_any_shape(home):
    data = parquet(
        id=[1], at=pa.array([datetime(2026, 9, 3, 10)]), sent=[1.5], kind=["a"], more=[[1, 2]]
    )

    assert home.ingest("a.parquet", data, mapping()).accepted == 1
    assert home.uids()[0][0] == "1"


def test_a_source_is_finished_when_it_is_committed(home, monkeypatch):
    """Not when it was read: then it waits for the lock, and is compared and registered."""

    def hook(name):
        if name == "commit.locked":
            home.clock.advance(seconds=56)

    began = home.clock()
    monkeypatch.setattr(failpoint, "hook", hook)
    home.ingest("a.csv", GOOD)

    [[received, finished]] = home.query("SELECT received_at, finished_at FROM lake.source")
    assert received == began.replace(tzinfo=None)
    assert (finished - received).total_seconds() == 56
