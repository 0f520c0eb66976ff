"""An export is the same whatever happens: order of ingest, threads, crashes, failing stores."""

import csv
import gzip
import hashlib
import io
import json
import uuid
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meterlake.model.errors import Invalid, NotFound, ObjectExists, Unavailable
from meterlake.model.measurements.measurement import Category, Field
from meterlake.model.measurements.receipt import Delivery
from meterlake.model.values.period import Month
from meterlake.model.values.sql import identifier
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export import files as export_files
from meterlake.pipeline.export import rows as export_rows
from meterlake.pipeline.export.rows import RowOutput
from meterlake.pipeline.export.run import Exported, export, run_export, submit_export
from meterlake.pipeline.export.usage import Sheet, rows_of, write_sheet
from meterlake.pipeline.export.verify import verify
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.settings import Settings
from meterlake.stages.decode.gzipped import GzipStream
from meterlake.stages.export.manifest import ExportPart, ObjectPrefix
from meterlake.stages.export.measurements import Measurements
from meterlake.stores import open_stores
from meterlake.stores.objects import open_objects
from meterlake.stores.state import JobStatus
from tests.databases import copy_home
from tests.doubles.homes import FIELDS, Clock, Home, make_home

pytest_plugins = ["tests.doubles.fixtures"]

OCTOBER = Month(2026, 10)
EXPECTED_CSV = (
    "meter,account,uid,ts,ets,what.region,metadata.note,measure.bytes,cost.egress\n"
    'disk,zoë\'s,U-2,2026-09-30T22:30:00Z,,"q""uo,te","a\nb",99999999999999999999999999.999999999999,7\n'
    "disk,acme,u-1,2026-10-01T00:00:00.000001Z,2026-10-01T01:00:00Z,,,-0.000000000001,\n"
    "disk,acme,u-3,2026-10-31T23:30:00Z,,eu,,1.5,0\n"
    "disk,acme,u-4,2026-10-15T12:00:00.12Z,,ü€😀\\, ,100,20.5\n"
    "disk,acme,ü,2026-11-01T00:00:00Z,,=1+1,\x01,,1000000\n"
)


def usage(format: str, **rest) -> ExportRequest:
    return ExportRequest(source=Source.USAGE, format=Format(format), **rest)


def operational(format: str, **rest) -> ExportRequest:
    return ExportRequest(source=Source.OPERATIONAL, format=Format(format), **rest)


def content(exported: Exported, type: str) -> bytes:
    [file] = [file for file in exported.manifest["files"] if file["type"] == type]
    return Path(exported.url, file["key"]).read_bytes()


def lines(exported: Exported, type: str) -> list:
    text = gzip.decompress(content(exported, type)).decode()
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


def cells(exported: Exported, type: str) -> list[dict]:
    text = gzip.decompress(content(exported, type)).decode()
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def shared(home_template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("order") / "home"
    copy_home(home_template, folder)
    clock = Clock()
    with open_stores(Settings(home=folder), clock) as stores:
        yield Home.of(stores, clock)


values = st.one_of(
    st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
)
numbers = st.one_of(
    st.none(),
    st.decimals(-(10**26) + 1, 10**26 - 1, places=12, allow_nan=False, allow_infinity=False),
)
rows = st.lists(
    st.tuples(
        st.text("ab-Zü", min_size=1, max_size=6),
        st.sampled_from(["a", "b"]),
        st.datetimes().map(str),
        st.none(),
        numbers,
        numbers,
        values,
        values,
    ),
    unique_by=lambda row: row[0],
    max_size=12,
)


@pytest.mark.slow
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows, st.randoms(use_true_random=False), st.integers(1, 3))
def test_the_order_of_ingest_changes_no_byte(shared, tmp_path_factory, rows, random, cuts):
    home = shared
    meters = [home.meter(f"order-{uuid.uuid4()}") for _ in range(2)]
    shuffled = random.sample(rows, len(rows))
    step = max(1, len(rows) // cuts)
    home.store(meters[0], rows)
    for start in range(0, max(1, len(rows)), step):
        home.store(meters[1], shuffled[start : start + step])
    folder = tmp_path_factory.mktemp("bytes")
    for written_as in Format:
        first, second = (
            written_bytes(home, meter, written_as, folder / f"{n}")
            for n, meter in enumerate(meters)
        )
        assert first == second
    assert decimals(folder / "0") == {row[0]: row[4:6] for row in rows}


def written_bytes(home, meter, format, path) -> bytes:
    with home.lake.reader() as connection:
        connection.execute("CREATE TEMP TABLE account_code(id VARCHAR, code VARCHAR)")
        table = f"lake.{identifier(meter.table)}"
        measurements = Measurements(
            table, home.lake.snapshot(), "m", tuple(f.column for f in FIELDS)
        )
        written(connection, measurements, format, path, 2)
    return path.read_bytes()


def written(connection, measurements, format, path, threads) -> int:
    sheet = Sheet(ExportPart("m"), measurements.columns, rows_of(connection, measurements, format))
    numbers = [column.name for column in measurements.columns if column.summed]
    [piece] = write_sheet(sheet, format, RowOutput(lambda _: path, numbers, 1 << 30, threads))
    return piece.rows


def decimals(path: Path) -> dict:
    table = pq.read_table(path).select(["uid", "measure.bytes", "cost.egress"])
    return {row["uid"]: (row["measure.bytes"], row["cost.egress"]) for row in table.to_pylist()}


@pytest.mark.slow
def test_many_rows_are_written_the_same_by_any_number_of_threads(shared, tmp_path):
    home = shared
    meter = home.meter("many", (Field(Category.MEASURE, "n"), Field(Category.WHAT, "t")))
    for order, threads in (("i", 1), ("hash(i)", 2)):
        table = f"lake.{identifier(meter.table)}"
        with home.lake.lock(), home.lake.transaction() as connection:
            home.lake.ensure_meter_table(connection, meter)
            connection.execute(f"DELETE FROM {table}")
            connection.execute(
                f'INSERT INTO {table} (uid, account_id, ts, "measure.n", "what.t")'
                " SELECT md5(i::VARCHAR), 'a', TIMESTAMP '2026-10-01', i / 8, repeat('x', i::INT % 9)"
                f" FROM range(150000) r(i) ORDER BY {order}"
            )
        for written_as in Format:
            path = tmp_path / f"{written_as}-{threads}"
            with home.lake.reader() as connection:
                connection.execute(f"SET threads = {threads}")
                connection.execute("CREATE TEMP TABLE account_code(id VARCHAR, code VARCHAR)")
                measurements = Measurements(
                    table, home.lake.snapshot(), "many", ("measure.n", "what.t")
                )
                assert written(connection, measurements, written_as, path, threads) == 150_000
    for written_as in Format:
        found = {path.read_bytes() for path in tmp_path.glob(f"{written_as}-*")}
        assert len(found) == 1
    with duckdb.connect() as connection:
        uids = connection.execute(
            f"SELECT uid FROM read_parquet('{tmp_path}/parquet-1')"
        ).fetchall()
    assert uids == sorted(uids)


def test_an_export_that_was_changed_behind_our_back_is_not_replaced(home, tmp_path):
    organization = home.organization
    job = organization.state.jobs.get(
        submit_export(organization, usage("csv", to=str(tmp_path / "t")))
    )
    place = ObjectPrefix(organization.id, job.id, job.created)
    key = place.file_key(ExportPart("quantities"), Format.CSV)
    open_objects(tmp_path / "t", organization.settings).put_bytes(key, b"something else")

    with pytest.raises(ObjectExists):
        run_export(organization.stores, job.id)
    assert organization.state.jobs.get(job.id).status is JobStatus.FAILED


@pytest.mark.long
def test_an_export_after_a_change_leaves_the_one_before_it_whole(home, tmp_path):
    """Two jobs into one place: files and manifests of their own, and both verify."""
    to = tmp_path / "t"
    first = export(home.organization, usage("csv", to=str(to)))
    before = {path: path.read_bytes() for path in to.rglob("*") if path.is_file()}
    row = ("late", "acme", "2026-10-20 00:00:00", None, 3, None, "eu", None)
    home.store(home.meter_fields(), [row])
    second = export(home.organization, usage("csv", to=str(to)))

    after = {path: path.read_bytes() for path in to.rglob("*") if path.is_file()}
    manifests = [path for path in after if path.name.endswith("_manifest.json")]
    assert first.job_id != second.job_id
    assert len(manifests) == 2
    assert {path: after[path] for path in before} == before
    assert len(after) == 2 * len(before)
    assert not {file["key"] for file in first.manifest["files"]} & {
        file["key"] for file in second.manifest["files"]
    }
    counts = [
        sum(file["rows"] for file in each.manifest["files"] if file["type"] == "measurements")
        for each in (first, second)
    ]
    assert counts[1] == counts[0] + 1
    for path in manifests:
        assert verify(home.stores.settings, path) == []


@pytest.mark.long
@pytest.mark.parametrize("writer", [export_rows, export_files])
def test_a_full_disk_is_unavailable_and_leaves_no_manifest(home, monkeypatch, writer):
    organization = home.organization

    class FullStream(GzipStream):
        def write(self, _data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "GzipStream", FullStream)
    organization.stores.settings = organization.settings.model_copy(
        update={"export_retry_seconds": 0.01}
    )
    with pytest.raises(Unavailable, match="No space left"):
        export(organization, usage("csv"))
    [job] = organization.state.jobs.recent(organization.id)
    assert job.status is JobStatus.FAILED
    assert not (organization.stores.home / "exports").exists()


@pytest.mark.parametrize("kind", ["moto", "gs"])
def test_exports_go_to_object_stores(home, new_place, kind):
    organization = home.organization
    place = new_place(kind)
    organization.stores.settings = organization.settings.model_copy(update=place.endpoints)
    exported = export(organization, usage("csv", to=place.url))
    objects = place.open()

    assert sorted(info.key for info in objects.list()) == sorted(
        [
            *(file["key"] for file in exported.manifest["files"]),
            exported.manifest_url.removeprefix(f"{place.url}/"),
        ]
    )
    for file in exported.manifest["files"]:
        assert hashlib.sha256(objects.get(file["key"])).hexdigest() == file["sha256"]


@pytest.mark.long
def test_a_missing_bucket_is_not_found(home, new_place):
    organization = home.organization
    place = new_place("moto")
    organization.stores.settings = organization.settings.model_copy(update=place.endpoints)
    with pytest.raises(NotFound):
        export(organization, usage("csv", to="s3://never-made/x"))
    job = organization.state.jobs.recent(organization.id)[0]
    assert job.status is JobStatus.FAILED
    # What is staged waits for a retry.
    assert (organization.stores.home / "staging" / "exports" / job.id / "manifest.json").exists()


def test_a_job_of_another_kind_is_no_export(home):
    organization = home.organization
    with organization.state.jobs.running(organization.id, "bill", {}) as job:
        pass
    with pytest.raises(Invalid, match="must be export, not bill"):
        run_export(organization.stores, job.id)


COMPLETE = [
    ("r-2", "acme", "2026-10-31 23:30:00", None, "1.5", "-7", 'q"uo,te', "ü€😀\\"),
    (
        "r-1",
        "zoë's",
        "2026-10-01 00:00:00.000001",
        "2026-10-01 01:00:00",
        "0",
        "20.000000000001",
        "=1+1",
        "a;b",
    ),
]


@pytest.mark.long
@pytest.mark.parametrize("written_as", list(Format))
def test_exported_measurements_can_be_ingested_again(home, tmp_path, written_as):
    meter = home.meter("round trip", FIELDS)
    home.store(meter, COMPLETE)
    before = measurements_of(home, written_as)
    made, clock = make_home(tmp_path / "other")
    with open_stores(made, clock) as stores:
        other = Home(stores, stores.state.organization().id, clock, "")
        other.meter("round trip", FIELDS)
        delivery = Delivery("d-1", before.name, clock())
        receipt = ingest_file(stores.organization(other.org_id), before, delivery)
        after = measurements_of(other, written_as)

        assert (receipt.received, receipt.accepted) == (2, 2)
        if written_as is Format.PARQUET:
            assert pq.read_table(after).equals(pq.read_table(before))
        else:
            assert gzip.decompress(after.read_bytes()) == gzip.decompress(before.read_bytes())


def measurements_of(home, written_as) -> Path:
    exported = export(home.organization, usage(written_as, types=("measurements",)))
    [key] = [f["key"] for f in exported.manifest["files"] if f["meter"] == "round trip"]
    return Path(exported.url, key)
