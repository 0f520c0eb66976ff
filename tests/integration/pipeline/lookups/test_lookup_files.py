"""Files of lookup tables: all of their rows or none, once, whatever happens meanwhile."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from sqlalchemy import func, select

from meterlake.model.errors import Forbidden, Invalid, NotFound, StaleVersion
from meterlake.model.resources import BY_NAME
from meterlake.model.values import failpoint
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.ingest.receiving import receiving
from meterlake.pipeline.ingest.uploads import ingest_uploads, list_jobs
from meterlake.pipeline.lookups import jobs as lookup_jobs
from meterlake.pipeline.lookups import lookups
from meterlake.pipeline.lookups.lookups import At
from meterlake.settings import Settings
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.ingest.uploads import Created
from meterlake.stores.state.lookups import LOOKUP_ITEM
from meterlake.worker.rounds import UPLOADS
from tests.organizations import Clock, new_organization, open_new
from tests.rounds import go_round

FIELDS = [
    {"type": "STRING", "name": "country"},
    {"type": "NUMBER", "name": "rate"},
    {"type": "STRING", "name": "note"},
]
SCHEMA = {"fields": FIELDS, "keys": ["country"]}
CSV, JSONL = "text/csv", "application/jsonl"
OLD = {"country": "DE", "rate": 1}


class Table:
    """A draft of a lookup table, and files for it."""

    def __init__(self, stores, clock):
        self.stores, self.clock = stores, clock
        self.org = new_organization(stores.state)
        organization = self.organization
        document = {"name": "Rates", "code": "rates"}
        made = entities.create(
            organization, "a", ResourceRef(BY_NAME["lookupTables"], {}), document
        )
        self.place = ResourceRef(BY_NAME["lookupTableRevisions"], {"lookupTableId": made["id"]})
        revision = entities.create(organization, "a", self.place, {"name": "First", **SCHEMA})
        self.at = At(made["id"], revision["id"])

    @property
    def organization(self):
        return self.stores.organization(self.org)

    def announce(self, data, kind=CSV, **more):
        body = {"fileName": "f", "contentType": kind, "contentLength": len(data), **more}
        return lookup_jobs.announce(self.organization, "me", self.at, body, "http://here")

    def send(self, made, data):
        headers = {key.lower(): value for key, value in made["headers"].items()}
        with receiving(self.stores, made["url"].rpartition("/")[2], headers) as file:
            file.write(data)
            file.finish()

    def uploaded(self, data, kind=CSV, **more):
        data = data.encode() if isinstance(data, str) else data
        made = self.announce(data, kind, **more)
        self.send(made, data)
        return made["jobId"]

    def work(self):
        assert list(ingest_uploads(self.organization)) == []

    def job(self, id_):
        return lookup_jobs.read_job(self.organization, self.at, id_)

    def run(self, data, kind=CSV, **more):
        id_ = self.uploaded(data, kind, **more)
        self.work()
        return self.job(id_)

    def write(self, *items):
        document = {"items": list(items)}
        return lookups.write_data(self.organization, "a", self.at, document)

    def data(self):
        found = lookups.read_data(self.organization, self.at)
        return found["items"], found["version"]

    def stored(self):
        with self.organization.reading() as reader:
            return reader.connection.scalar(select(func.count()).select_from(LOOKUP_ITEM))

    def publish(self):
        document = {"status": "PUBLISHED"}
        lookups.set_status(self.organization, "a", self.at, document)

    def written(self, kind):
        asked = {"contentType": kind}
        id_ = lookup_jobs.write_file(self.organization, "a", self.at, asked)["jobId"]
        self.work()
        return self.content(self.job(id_)["downloadUrl"])

    def content(self, url):
        download = self.stores.downloads.open(url.rpartition("/")[2])
        return self.stores.objects.get(download.key).decode()

    def files(self):
        return sorted(path.name for path in self.stores.home.glob("objects/*/*/*"))


@pytest.fixture
def table(tmp_path):
    clock = Clock()
    settings = Settings(home=tmp_path / "home", _env_file=None)
    with open_new(settings, clock) as opened:
        yield Table(opened, clock)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (CSV, "\ufeffrate,country\r\n2.50,US\r\n\r\n,DE\r\n"),
        (JSONL, '\ufeff{"country":"US","rate":2.50}\n\n{"country":"DE","rate":null}'),
    ],
)
def test_rows_are_added_and_replace_those_of_the_same_key(table, kind, text):
    table.write(OLD, {"country": "FR", "rate": 3})
    job = table.run(text, kind, version=1)

    assert (job["type"], job["status"], job["fileName"]) == ("UPLOAD", "SUCCEEDED", "f")
    items = [
        {"country": "DE"},
        {"country": "FR", "rate": 3},
        {"country": "US", "rate": Decimal("2.5")},
    ]
    assert table.data() == (items, 2)
    table.work()
    assert (table.data(), table.stored()) == ((items, 2), 3)


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (
            CSV,
            "country,rate\nUS,2\nDE,much\n",
            "row 3.rate: 'much' is not allowed: it must be a number",
        ),
        (
            CSV,
            "country,rate\nUS,2\nUS,3\n",
            "row 3: 'US' is not allowed: it must be a key of its own",
        ),
        (CSV, "country,rate\nUS,2\n,3\n", "row 3.country is required"),
        (
            CSV,
            "country,rate\nUS,2\nDE\n",
            "row 3: ['DE'] is not allowed: it must have as many columns",
        ),
        (CSV, "country,rate\nUS,1e30\n", "row 2.rate: "),
        (CSV, 'country,note\n"U\nS",\n\n,3\n', "row 5.country is required"),
        (
            CSV,
            "country,size\nUS,2\n",
            "header: 'size' is not allowed: it must be one of country, rate, note",
        ),
        (CSV, "country,rate,rate\nUS,2,3\n", "header: 'rate'"),
        (CSV, "rate\n2\n", "country is missing"),
        (CSV, "\n", "country is missing"),
        (CSV, 'country,rate\nUS,"2\n', "CSV: "),
        (CSV, b"country,rate\n\xff,2\n", "UTF-8: "),
        (CSV, "country,note\nUS,a\x00b\n", "row 2.note: "),
        (
            JSONL,
            '{"country":"US","rate":"2"}',
            "row 1.rate: '2' is not allowed: it must be a number",
        ),
        (
            JSONL,
            '{"country":"US"}\n["DE"]',
            "row 2: ['DE'] is not allowed: it must be a map of fields",
        ),
        (JSONL, '{"country":"US"}\n{"country":', "row 2: "),
        (JSONL, '{"country":"US","size":2}', "row 1.size: 2 is not allowed: it must be one of"),
        (JSONL, "[" * 5000, "row 1: "),
    ],
)
def test_one_wrong_row_keeps_all_out(table, kind, text, told):
    table.write(OLD)
    job = table.run(text, kind)

    assert job["status"] == "FAILED"
    assert job["failureReason"].startswith("InvalidRows: ")
    assert told in job["failureReason"]
    assert table.data() == ([OLD], 1)


def test_the_worker_runs_the_job(table):
    id_ = table.uploaded("country\nUS\n")
    rounds = iter(range(10_000))

    def stop():
        return table.job(id_)["status"] != "PENDING" or next(rounds, None) is None

    go_round(UPLOADS, table.stores, stop, every=0)

    assert table.job(id_)["status"] == "SUCCEEDED"


def test_of_many_wrong_rows_some_are_told(table):
    job = table.run("country,rate\n" + "".join(f"c{n},no\n" for n in range(25)))

    assert job["failureReason"].count(" is not allowed") == 10
    assert job["failureReason"].endswith("; and 15 more")


def test_a_file_is_refused_by_what_happened_since_it_was_announced(table):
    table.write(OLD)
    with pytest.raises(StaleVersion):
        table.announce(b"x", version=2)
    stale = table.uploaded("country\nUS\n", version=1)
    table.write(OLD)
    table.work()
    assert table.job(stale)["status"] == "FAILED"
    assert "Refused: " in table.job(stale)["failureReason"]

    late = table.uploaded("country\nUS\n")
    table.publish()
    table.work()
    assert "DRAFT" in table.job(late)["failureReason"]
    assert (table.data()[0], table.stored()) == ([OLD], 1)
    with pytest.raises(Invalid):
        table.announce(b"x")


def test_columns_that_change_meanwhile_are_those_that_count(table, monkeypatch):
    id_ = table.uploaded("country,rate\nUS,2\n")
    changed = {"name": "First", "version": 1, **SCHEMA, "fields": FIELDS[::2]}

    def change(step):
        if step == "lookups.checked" and changed:
            place = replace(table.place, id=table.at.revision_id)
            entities.update(table.organization, "a", place, dict(changed))
            changed.clear()

    monkeypatch.setattr(failpoint, "hook", change)
    table.work()
    assert table.job(id_)["status"] == "PENDING"
    table.work()

    assert "header: 'rate'" in table.job(id_)["failureReason"]
    assert table.data()[0] == []


def test_files_that_do_not_come_as_announced(table):
    never, wrong = table.announce(b"country\n"), table.announce(b"country\n")
    table.stores.objects.put_bytes(f"uploads/{table.org}/{wrong['jobId']}", b"x")
    table.work()
    assert "WrongLength" in table.job(wrong["jobId"])["failureReason"]
    assert table.job(never["jobId"])["status"] == "PENDING"

    table.clock.advance(minutes=1, seconds=1)
    with pytest.raises(Forbidden):
        table.send(never, b"country\n")
    table.work()
    assert "NotUploaded" in table.job(never["jobId"])["failureReason"]


def test_a_file_that_is_gone_fails_its_job(table):
    id_ = table.uploaded("country\nUS\n")
    table.stores.objects.delete(f"uploads/{table.org}/{id_}")
    table.work()

    assert table.job(id_)["failureReason"].startswith("FileGone: ")


@pytest.mark.parametrize("when", ["lookups.checked", "lookups.ready"])
def test_a_forgotten_job_changes_nothing_and_leaves_no_file(table, monkeypatch, when):
    waiting, running = table.uploaded("country\nUS\n"), table.uploaded("country\nFR\n")
    unsent = table.announce(b"x")

    def forget(id_):
        lookup_jobs.delete_job(table.organization, "a", table.at, id_)

    forget(waiting)
    forget(unsent["jobId"])
    with pytest.raises(Forbidden):
        table.send(unsent, b"x")
    monkeypatch.setattr(failpoint, "hook", lambda step: forget(running) if step == when else None)
    table.work()

    assert table.data() == ([], 0)
    assert table.stored() == 0
    assert table.files() == []
    for id_ in (waiting, running):
        with pytest.raises(NotFound):
            table.job(id_)


def test_what_is_written_to_a_file_can_be_read_from_it(table):
    odd = 'a, "b"\n\\'
    text = [{"country": odd, "rate": Decimal("0.10"), "note": "ü\r=1"}, OLD]
    table.write(*text)
    before = table.data()[0]
    found = {kind: table.written(kind) for kind in (CSV, JSONL)}

    assert found[CSV].splitlines()[0] == "country,rate,note"
    assert [json.loads(line)["country"] for line in found[JSONL].splitlines()] == ["DE", odd]
    for kind, data in found.items():
        lookups.delete_data(table.organization, "a", table.at)
        assert table.run(data, kind)["status"] == "SUCCEEDED"
        assert table.data()[0] == before


def test_a_revision_that_is_published_is_archived_for_good(table):
    table.write(OLD)
    asked = {"contentType": JSONL}
    with pytest.raises(Invalid, match="DRAFT"):
        lookup_jobs.archive_link(table.organization, table.at, asked, "")
    table.publish()
    table.work()
    assert table.files() == [f"{table.at.revision_id}{end}" for end in (".csv", ".jsonl")]

    found = lookup_jobs.archive_link(table.organization, table.at, asked, "http://here")
    assert table.content(found["url"]) == '{"country":"DE","rate":1}\n'
    table.clock.advance(minutes=59)
    assert table.content(found["url"])
    table.clock.advance(minutes=1)
    assert found["expiry"] == table.clock()
    with pytest.raises(Forbidden):
        table.content(found["url"])


def test_a_deleted_revision_leaves_no_files(table):
    table.uploaded("country\nUS\n")
    table.work()
    table.written(CSV)
    table.publish()
    table.work()
    assert len(table.files()) == 4
    lookups.delete_revision(table.organization, "a", table.at)

    assert table.files() == []
    table.work()


def test_jobs_of_tables_are_no_uploads_of_measurements(table):
    table.uploaded("country\nUS\n")
    table.work()

    assert list_jobs(table.organization, Created(), Page(10)) == {"data": []}
    listed = lookup_jobs.list_jobs(table.organization, table.at, Page(10))["data"]
    assert [each["type"] for each in listed] == ["UPLOAD"]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (JSONL, b'{"country": "DE", "note": "' + b"x" * (1 << 20) + b'"}\n'),
        (JSONL, b"[" * (1 << 21)),
        (CSV, b"country,rate,note\nDE,1," + b"," * (1 << 20)),
        (CSV, b"country,rate,note\nDE,1" + b',"\n"' * (1 << 18)),
    ],
    ids=["text", "nested", "columns", "columns of lines"],
)
def test_a_row_that_is_for_more_memory_than_rows_have_fails_the_file(table, kind, data):
    job = table.uploaded(data, kind)
    table.work()

    found = table.job(job)
    assert found["status"] == "FAILED"
    assert "at most 1048576 characters" in found["failureReason"]


@pytest.mark.long
def test_many_rows_of_lines_are_no_large_record(table):
    note = "line\n" * 100
    rows = "".join(f'c{number},{number},"{note}"\n' for number in range(3_000))
    assert len(rows) > 1 << 20
    job = table.uploaded("country,rate,note\n" + rows)
    table.work()

    assert table.job(job)["status"] == "SUCCEEDED", table.job(job)
