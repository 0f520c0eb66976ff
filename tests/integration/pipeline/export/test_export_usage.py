"""Exports of selected usage: split files, cells that are no formulas, a stop, and the way back."""

import csv
import gzip
import io
import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.customers.accounts import Account
from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import KIND, export, run_export, submit_export
from meterlake.pipeline.export.staging import ExportStaging
from meterlake.pipeline.export.usage import stage_usage
from meterlake.pipeline.jobs.attempt import Cancelled, running
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stages.export.column_kinds import unmark_cell
from meterlake.stages.export.exported_columns import MEASUREMENTS
from meterlake.stages.export.manifest import ObjectPrefix
from tests.bills import aggregation, price_egress
from tests.homes import ACCOUNTS, EGRESS, a_home, configure, ndjson, wire_row

REGIONS = ("eu", "=1+1", "'quoted", "a\nb", '",', " ", "-2", "\ré")
ROWS = [
    wire_row(f"{n:03}", n / 8, ("acme", "bolt")[n % 2], where={"region": REGIONS[n % 8]})
    for n in range(60)
]
SEPTEMBER = Month(2026, 9)
ENDLESS = "SELECT sum(a.range ^ b.range) FROM range(10000000) a, range(1000000) b"


@contextmanager
def priced(folder):
    """A home whose clock goes on behind the making of its configuration."""
    with a_home(folder) as opened:
        price_egress(opened)
        opened.clock.time = datetime.now(UTC) + timedelta(hours=1)
        yield opened


@pytest.fixture(scope="module")
def home(every_lake, tmp_path_factory):  # noqa: ARG001
    with priced(tmp_path_factory.mktemp("usage")) as opened:
        assert opened.ingest("rows.ndjson", ndjson(ROWS)).rejected == 0
        aggregate(opened.organization, SEPTEMBER)
        yield opened


def usage(format, **rest):
    chosen = {"types": ("measurements",), **rest}
    return ExportRequest(source=Source.USAGE, format=Format(format), **chosen)


def written(home, request):
    """The export, and the files of what has rows or is of the meter of this module."""
    done = export(home.organization, request)
    return done, [Path(done.url, each["key"]) for each in done.manifest["files"] if ours(each)]


def ours(file):
    return file.get("meter") != "calls"


def texts(paths):
    return [gzip.decompress(path.read_bytes()).decode() for path in paths]


@pytest.mark.long
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_large_file_is_split_between_rows(home, tmp_path, format):
    _, [whole] = written(home, usage(format, to=str(tmp_path / "whole")))
    done, parts = written(home, usage(format, to=str(tmp_path / "parts"), file_bytes=2048))
    _, again = written(home, usage(format, to=str(tmp_path / "again"), file_bytes=2048))
    files, found = done.manifest["files"], texts(parts)

    assert [path.name.rpartition("-")[2] for path in parts] == [
        f"{number:04}.{format}.gz" for number in range(1, len(parts) + 1)
    ]
    assert len({path.name.rpartition("-")[0] for path in parts}) == 1
    assert len(parts) > 1
    assert all(len(text.encode()) <= 2048 for text in found)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in parts]
    header = texts([whole])[0].partition("\n")[0] + "\n" if format == "csv" else ""
    assert all(text.startswith(header) for text in found)
    assert header + "".join(text.removeprefix(header) for text in found) == texts([whole])[0]
    assert sum(file["rows"] for file in files) == len(ROWS)
    if format == "csv":
        read = [row for text in found for row in csv.DictReader(io.StringIO(text))]
        assert [row["where.region"] for row in read] == [row["where"]["region"] for row in ROWS]


def test_the_settings_say_how_large_a_file_may_be(home, tmp_path):
    stores = home.stores
    before = stores.settings
    stores.settings = before.model_copy(update={"export_file_bytes": 4096})
    try:
        _, paths = written(home, usage("jsonl", to=str(tmp_path)))
    finally:
        stores.settings = before

    assert len(paths) > 1


def test_cells_are_no_formulas_where_that_is_asked_for(home, tmp_path):
    _, [path] = written(home, usage("csv", to=str(tmp_path), spreadsheet=True))
    rows = list(csv.DictReader(io.StringIO(texts([path])[0])))
    cells = [row["where.region"] for row in rows]

    assert cells[:8] == ["eu", "'=1+1", "''quoted", "a\nb", '",', "' ", "'-2", "'\ré"]
    assert [unmark_cell(cell) for cell in cells] == [row["where"]["region"] for row in ROWS]
    query = {
        "aggregations": [fold(home, "gb", "MEASURE", "SUM")],
        "groups": [{"groupType": "DIMENSION", **field(home, "region")}],
    }
    asked = UsageQueryRequest.model_validate(query)
    _, [path] = written(home, usage("csv", to=str(tmp_path), spreadsheet=True, usage=asked))
    folded = [row["where.region"] for row in csv.DictReader(io.StringIO(texts([path])[0]))]
    assert sorted(folded) == sorted(cells[:8])


def egress(home):
    [meter] = home.query("SELECT DISTINCT meter_id FROM lake.uid_index")
    return meter[0]


def field(home, code):
    return {"meterId": egress(home), "fieldCode": code}


def fold(home, code, kind, function):
    return {**field(home, code), "fieldType": kind, "function": function}


@pytest.mark.parametrize("format", Format)
def test_folded_usage_is_split_like_any_other(home, tmp_path, format):
    query = {
        "aggregations": [fold(home, "gb", "MEASURE", "SUM")],
        "groups": [{"groupType": "ACCOUNT"}, {"groupType": "DIMENSION", **field(home, "region")}],
    }
    asked = UsageQueryRequest.model_validate(query)
    done, paths = written(home, usage(format, to=str(tmp_path), usage=asked, file_bytes=300))

    assert done.rows == 8
    assert (len(paths) > 1) is (format is not Format.PARQUET)
    assert done.manifest["files"][0]["type"] == "measurements"


def test_quantities_are_those_of_the_chosen_accounts(home, tmp_path):
    codes = {code: id_ for id_, code in home.account_codes().items()}
    asked = UsageQueryRequest(account_ids=(codes["bolt"],))
    request = usage("jsonl", to=str(tmp_path), types=("quantities",), usage=asked)
    _, paths = written(home, request)
    rows = [json.loads(line) for line in texts(paths)[0].splitlines()]

    assert {row["account"] for row in rows} == {"bolt"}
    assert len(rows) == 2


@pytest.mark.long
def test_a_field_that_was_never_filled_has_no_value_that_is_wanted(tmp_path):
    with priced(tmp_path) as home:
        home.ingest("old.ndjson", ndjson(ROWS[:2]))
        late = {"category": "WHAT", "code": "late", "name": "Late"}
        changed = EGRESS | {"dataFields": [*EGRESS["dataFields"], late]}
        configure(home.organization, meters=[changed])
        wanted = {"dimensionFilters": [{**field(home, "late"), "values": ["x"]}]}
        folds = {"aggregations": [fold(home, "late", "DIMENSION", "COUNT")]}
        for query in (wanted, wanted | folds):
            asked = UsageQueryRequest.model_validate(query)
            done, _ = written(home, usage("csv", usage=asked, to=str(tmp_path / "out")))
            assert [file["rows"] for file in done.manifest["files"] if ours(file)] == [0]


@pytest.mark.long
def test_a_meter_without_measurements_has_the_file_that_it_had_with_no_row(tmp_path):
    derived = {"category": "COST", "code": "twice", "name": "Twice", "calculation": "gb * 2"}
    # Not in the order of files.
    fields = [{"category": "WHO", "code": "who", "name": "Who"}, *EGRESS["dataFields"]]
    late = EGRESS | {"code": "late", "dataFields": fields, "derivedFields": [derived]}
    with priced(tmp_path) as home:
        configure(home.organization, meters=[late])
        chosen = UsageQueryRequest(meter_ids=(id_of(home, Meter, "late"),))
        requests = [usage(each, usage=chosen, month=Month(2026, 8)) for each in Format]
        before = [export(home.organization, each) for each in requests]
        # At the snapshot of a job that waits there is no table either.
        waiting = submitted(home, requests[0])
        row = wire_row("1", 1, meter="late", who={"who": "x"})
        assert home.ingest("one.ndjson", ndjson([row])).accepted == 1
        after = [export(home.organization, each) for each in requests]
        everything = export(home.organization, usage("csv")).manifest["files"]

        assert contents(run_export(home.stores, waiting)) == contents(before[0])
    for old, new in zip(before, after, strict=True):
        [one], [other] = old.manifest["files"], new.manifest["files"]
        assert contents(old) == contents(new)
        assert one | {"key": ""} == other | {"key": ""}
        assert (one["meter"], one["rows"]) == ("late", 0)
    names = ["who.who", "where.region", "measure.gb", "derived.twice"]
    assert sorted(each["name"] for each in one["columns"][5:]) == sorted(names)
    assert {each["meter"]: each["rows"] for each in everything} == {
        "egress": 0,
        "calls": 0,
        "late": 1,
    }


def contents(done):
    return [Path(done.url, each["key"]).read_bytes() for each in done.manifest["files"]]


def id_of(home, kind, code):
    with home.organization.reading() as reader:
        return reader.find(kind, code).id


@contextmanager
def measured_and_gone(folder):
    """A home with measurements and quantities of a meter and an account that are deleted; a job.

    The job was made while they were there. The meter had a derived field.
    """
    derived = {"category": "MEASURE", "code": "twice", "name": "Twice", "calculation": "gb * 2"}
    with a_home(folder) as home:
        home.clock.time = datetime.now(UTC) + timedelta(hours=1)
        configure(home.organization, meters=[EGRESS | {"derivedFields": [derived]}])
        for code in ("sent", "mean"):
            configure(home.organization, aggregations=[aggregation(code, "SUM")])
        assert home.ingest("rows.ndjson", ndjson(ROWS[:4])).accepted == 4
        aggregate(home.organization, SEPTEMBER)
        job = submitted(home, usage("csv", types=()))
        home.clock.advance(hours=1)
        with home.organization.transaction("test") as transaction:
            for kind, code in (
                (Aggregation, "sent"),
                (Aggregation, "mean"),
                (Meter, "egress"),
                (Account, "bolt"),
            ):
                transaction.delete(kind, transaction.find(kind, code).id)
        home.clock.advance(hours=1)
        yield home, job


@pytest.mark.long
@pytest.mark.parametrize(
    "format",
    [
        Format.CSV,
        pytest.param(Format.JSONL, marks=pytest.mark.slow),
        pytest.param(Format.PARQUET, marks=pytest.mark.slow),
    ],
)
def test_what_is_gone_has_its_last_code(tmp_path, format):
    with measured_and_gone(tmp_path) as (home, job):
        [path] = written(home, usage(format))[1]
        _, [_, of_quantities] = written(home, usage("jsonl", types=()))
        then = run_export(home.stores, job)
        configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
        assert home.ingest("more.ndjson", ndjson(ROWS[4:6])).accepted == 2
        home.clock.advance(hours=1)
        both, paths = written(home, usage(format))
    rows = [json.loads(line) for line in texts([of_quantities])[0].splitlines()]
    found = [each.read_bytes() for each in paths]

    assert path.name.endswith(f"_egress_measurements{format.suffix}")
    assert len(rows) == 4
    assert {(row["meter"], row["account"], row["aggregation"]) for row in rows} == {
        ("egress", account, code) for account in ("acme", "bolt") for code in ("sent", "mean")
    }
    # A younger meter of that code has a file of its own under another key.
    assert [each["meter"] for each in both.manifest["files"] if ours(each)] == ["egress"] * 2
    assert len({each.name for each in paths}) == 2
    assert path.read_bytes() in found
    if format is Format.CSV:
        # A job that was made before the deletion shows the same.
        assert path.read_bytes() in contents(then)
        assert texts([path])[0].startswith("meter,account,uid,ts,ets,where.region,measure.gb,deri")
    with priced(tmp_path) as other:
        for each in paths:
            receipt = other.ingest(each.name, each.read_bytes())
            assert (receipt.rejected, receipt.accepted) == (0, receipt.received)
        assert len(other.uids()) == 6


def submitted(home, request):
    """A job that reads the snapshot of now, whenever it goes on."""
    jobs, id_ = home.stores.state.jobs, submit_export(home.organization, request)
    jobs.release(jobs.take(id_, home.organization.lake.snapshot()))
    return id_


def test_a_cancelled_export_stops_between_two_files_and_tells_its_rows(home, tmp_path):
    chosen = UsageQueryRequest(meter_ids=(egress(home),))
    request = usage("jsonl", to=str(tmp_path), file_bytes=1024, usage=chosen)
    stores = home.stores
    organization = stores.organization(home.org_id)
    jobs, id_ = stores.state.jobs, submit_export(organization, request)
    job = jobs.take(id_, organization.lake.snapshot())
    with running(jobs, job) as attempt:
        place = ObjectPrefix(home.org_id, id_, job.created)
        staging = ExportStaging(
            stores, place, request, tmp_path, job.snapshot, job.created, attempt
        )
        files = stage_usage(staging, MEASUREMENTS)
        next(files)
        jobs.cancel(home.org_id, id_, KIND)
        attempt.renew()
        with pytest.raises(Cancelled):
            list(files)

    assert jobs.get(id_).progress["rows"] == len(ROWS)


@pytest.mark.long
@pytest.mark.parametrize(
    "format",
    [
        Format.JSONL,
        pytest.param(Format.CSV, marks=pytest.mark.slow),
        pytest.param(Format.PARQUET, marks=pytest.mark.slow),
    ],
)
def test_exported_usage_gives_the_same_quantities_in_an_empty_home(home, tmp_path, format):
    expected = quantities(home)
    _, paths = written(home, usage(format, to=str(tmp_path), file_bytes=2048))
    with priced(tmp_path) as other:
        for path in paths:
            receipt = other.ingest(path.name, path.read_bytes())
            assert receipt.received == receipt.accepted
        aggregate(other.organization, SEPTEMBER)

        assert quantities(other) == expected
    assert len(expected) == 4


def quantities(home):
    codes = home.account_codes()
    rows = home.query(
        "SELECT account_id, aggregation_version, quantity, units, measurements, period_start"
        " FROM lake.quantity ORDER BY ALL"
    )
    return sorted((codes[row[0]], *row[1:]) for row in rows)


def test_a_cancelled_export_stops_in_the_middle_of_a_query(home, tmp_path):
    stores = home.stores
    organization = stores.organization(home.org_id)
    jobs = stores.state.jobs
    id_ = submit_export(organization, usage("jsonl", to=str(tmp_path)))
    job = jobs.take(id_, organization.lake.snapshot())
    over = threading.Event()
    with running(jobs, job) as attempt, organization.lake.reader() as connection:

        def cancel():
            jobs.cancel(home.org_id, id_, KIND)
            while not over.wait(0.05):  # the query may not have begun
                attempt.renew()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(Cancelled), attempt.interrupting(connection.interrupt):
            connection.execute(ENDLESS)
        over.set()
        thread.join()
