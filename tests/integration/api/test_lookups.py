"""Lookup tables through the official SDK."""

from datetime import UTC, datetime

import httpx
import m3ter
import pytest
from sqlalchemy import insert

from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.ingest.uploads import ingest_uploads
from meterlake.stores.state.ingest.uploads import UPLOAD
from meterlake.stores.state.jobs import JOB
from tests.served import served

FIELDS = [{"type": "STRING", "name": "country"}, {"type": "NUMBER", "name": "rate"}]
DE, US = {"country": "DE", "rate": 1}, {"country": "US", "rate": 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("lookups") / "home") as running:
        yield running


def work(server):
    """Run the jobs that wait."""
    assert list(ingest_uploads(server.organization)) == []


@pytest.fixture
def tables(server):
    return server.sdk().lookup_tables


@pytest.fixture
def table(tables, request):
    return tables.create(name="Discounts", code=request.node.name[:80]).id


@pytest.fixture
def at(tables, table):
    made = tables.lookup_table_revisions.create(
        table, name="First", fields=FIELDS, keys=["country"]
    )
    return {"lookup_table_id": table, "lookup_table_revision_id": made.id}


def test_a_table_shows_its_active_revision_when_asked(tables, table, at):
    revisions = tables.lookup_table_revisions
    found = revisions.update_status(
        at["lookup_table_revision_id"], lookup_table_id=table, status="PUBLISHED", version=1
    )
    code = tables.retrieve(table).code
    asked = {"codes": [code], "additional": ["activeRevision"]}

    assert found.status == "PUBLISHED"
    assert tables.retrieve(table).active_revision is None
    assert tables.retrieve(table, additional=["activeRevision"]).active_revision.id == found.id
    assert [each.active_revision.id for each in tables.list(**asked)] == [found.id]
    assert [each.active_revision for each in tables.list(codes=[code])] == [None]
    with pytest.raises(m3ter.BadRequestError, match="additional"):
        tables.retrieve(table, additional=["everything"])


@pytest.mark.sees("DeleteLookupTableRevisionData", "DeleteLookupTableRevisionDataEntry")
def test_data_is_written_read_and_deleted(tables, table, at):
    data = tables.lookup_table_revision_data
    revision = at["lookup_table_revision_id"]
    wrote = data.update(revision, lookup_table_id=table, items=[US, DE], additional=["lookupKey"])
    assert [item["lookupKey"] for item in wrote.items] == ["DE", "US"]
    assert data.update_key("US", **at, item=US | {"rate": 3}, version=1).version == 2
    assert data.retrieve_key("US", **at).items == [US | {"rate": 3}]
    assert data.retrieve(revision, lookup_table_id=table, limit=1).items == [DE]
    assert data.delete_key("US", **at, version=2).items == [US | {"rate": 3}]
    assert data.delete(revision, lookup_table_id=table).result
    assert data.retrieve(revision, lookup_table_id=table).items == []
    for limit in (0, 2001):
        with pytest.raises(m3ter.BadRequestError, match="limit"):
            data.retrieve(revision, lookup_table_id=table, limit=limit)


@pytest.mark.parametrize("country", ["jobs", "copy", "a/b", "a,b", "50%", "?#", "a b", "ü", ".."])
def test_the_key_that_an_item_shows_finds_it(tables, table, at, country):
    data = tables.lookup_table_revision_data
    item = {"country": country, "rate": 1}
    wrote = data.update(
        at["lookup_table_revision_id"],
        lookup_table_id=table,
        items=[item],
        additional=["lookupKey"],
    )

    assert data.retrieve_key(wrote.items[0]["lookupKey"], **at).items == [item]


@pytest.mark.sees(
    "CopyLookupTableRevisionData",
    "GetLookupTableRevisionDataJobResponse",
    "ListLookupTableRevisionDataJobs",
    "DeleteLookupTableRevisionDataJobResponse",
)
def test_a_copy_is_a_job_that_succeeded(tables, table, at):
    data = tables.lookup_table_revision_data
    jobs = data.lookup_table_revision_data_jobs
    revision = at["lookup_table_revision_id"]
    copy = data.copy(revision, lookup_table_id=table)

    (job,) = jobs.list(revision, lookup_table_id=table)
    assert (job.id, job.type, job.status) == (copy.job_id, "COPY", "SUCCEEDED")
    assert jobs.retrieve(job.id, **at).destination_lookup_table_revision_id == copy.revision_id
    assert jobs.delete(job.id, **at).id == job.id
    with pytest.raises(m3ter.NotFoundError):
        jobs.retrieve(job.id, **at)


CSV = b"country,rate\nDE,1\nUS,2\n"


def announced(tables, table, at, data=CSV, **changes):
    body = {"content_length": len(data), "content_type": "text/csv", "file_name": "a.csv"}
    return tables.lookup_table_revision_data.generate_download_url(
        at["lookup_table_revision_id"], lookup_table_id=table, **{**body, **changes}
    )


@pytest.mark.long
def test_no_more_files_of_tables_are_announced_than_may_wait(tmp_path):
    """By their bytes, together with uploads of measurements, and by their number."""
    with served(tmp_path / "home", upload_bytes=1000, upload_waiting_bytes=3000) as found:
        tables = found.sdk().lookup_tables
        table = tables.create(name="Many", code="many").id
        made = tables.lookup_table_revisions.create(
            table, name="First", fields=FIELDS, keys=["country"]
        )
        at = {"lookup_table_id": table, "lookup_table_revision_id": made.id}
        for _ in range(3):
            announced(tables, table, at, content_length=1000)
        with pytest.raises(m3ter.RateLimitError, match="3000 of them are unfinished") as caught:
            announced(tables, table, at, content_length=1)
        assert caught.value.response.headers["retry-after"] == "60"
        uploads = found.sdk().usage.file_uploads
        with pytest.raises(m3ter.RateLimitError, match="3000 of them"):
            uploads.generate_upload_url(
                content_length=1, content_type="application/json", file_name="a"
            )

        now = found.stores.now()
        job = {"org": found.org_id, "kind": JobKind.LOOKUP, "status": "AWAITING_FILE"}
        job |= {"parameters": "{}", "attempt": 0, "created": now}
        file = {"name": "a", "content_type": "x", "content_length": 0, "start_until": now}
        ids = [{"id": f"job-{number}"} for number in range(10_000 - 3)]
        with found.stores.state.writing_home() as connection:
            connection.execute(insert(JOB), [job | each for each in ids])
            connection.execute(insert(UPLOAD), [file | each for each in ids])
        data = tables.lookup_table_revision_data
        trigger = data.lookup_table_revision_data_jobs.download
        with pytest.raises(m3ter.RateLimitError, match="10000 of them are unfinished"):
            trigger(made.id, lookup_table_id=table, content_type="text/csv")


@pytest.mark.sees("GenerateLookupTableDataUploadUrl", "TriggerLookupTableRevisionDataDownloadJob")
def test_a_file_goes_up_and_comes_down_again(server, tables, table, at):
    data = tables.lookup_table_revision_data
    jobs, revision = data.lookup_table_revision_data_jobs, at["lookup_table_revision_id"]
    made = announced(tables, table, at)
    assert httpx.put(made.url, content=CSV, headers=made.headers).status_code == 200
    assert jobs.retrieve(made.job_id, **at).status == "PENDING"
    work(server)
    job = jobs.retrieve(made.job_id, **at)
    assert (job.type, job.status, job.file_name) == ("UPLOAD", "SUCCEEDED", "a.csv")
    assert job.download_url is None
    assert data.retrieve(revision, lookup_table_id=table).items == [DE, US]

    asked = jobs.download(revision, lookup_table_id=table, content_type="text/csv")
    assert jobs.retrieve(asked.job_id, **at).download_url is None
    work(server)
    job = jobs.retrieve(asked.job_id, **at)
    assert (job.type, job.status, bool(job.download_url_expiry)) == ("DOWNLOAD", "SUCCEEDED", True)
    assert httpx.get(job.download_url).content == CSV
    assert jobs.delete(asked.job_id, **at).download_url is None
    assert httpx.get(job.download_url).status_code == 404
    assert data.retrieve(revision, lookup_table_id=table).items == [DE, US]
    with server.sdk() as sdk:
        assert [each.id for each in sdk.usage.file_uploads.jobs.list()] == []
        for call in (
            sdk.usage.file_uploads.jobs.retrieve,
            sdk.usage.file_uploads.jobs.get_original_download_url,
        ):
            with pytest.raises(m3ter.NotFoundError):
                call(made.job_id)


@pytest.mark.sees("GetLookupTableRevisionArchivedDataUrl")
def test_only_a_published_revision_is_archived(server, tables, table, at):
    data, revision = tables.lookup_table_revision_data, at["lookup_table_revision_id"]
    data.update(revision, lookup_table_id=table, items=[US, DE])
    with pytest.raises(m3ter.BadRequestError, match="DRAFT"):
        data.archieve(revision, lookup_table_id=table, content_type="text/csv")

    tables.lookup_table_revisions.update_status(revision, lookup_table_id=table, status="PUBLISHED")
    found = data.archieve(revision, lookup_table_id=table, content_type="text/csv")
    assert (found.expiry - datetime.now(UTC)).total_seconds() == pytest.approx(3600, abs=60)
    assert httpx.get(found.url).content == CSV
    (job,) = data.lookup_table_revision_data_jobs.list(revision, lookup_table_id=table)
    assert (job.type, job.status, job.file_name) == ("ARCHIVE", "PENDING", None)
    work(server)
    job = data.lookup_table_revision_data_jobs.retrieve(job.id, **at)
    assert (job.status, job.download_url) == ("SUCCEEDED", None)
    with pytest.raises(m3ter.BadRequestError, match="DRAFT"):
        announced(tables, table, at)


@pytest.mark.parametrize(
    "changes",
    [
        {"content_type": "csv"},
        {"content_length": 0},
        {"content_length": 104_857_601},
        {"file_name": ""},
        {"file_name": "n" * 101},
    ],
)
def test_files_that_are_not_announced_as_they_must_be(tables, table, at, changes):
    with pytest.raises(m3ter.BadRequestError):
        announced(tables, table, at, **changes)


def test_a_file_for_data_that_was_changed_is_refused(tables, table, at):
    data, revision = tables.lookup_table_revision_data, at["lookup_table_revision_id"]
    assert data.update(revision, lookup_table_id=table, items=[US]).version == 1
    with pytest.raises(m3ter.ConflictError):
        announced(tables, table, at, version=7)
    assert announced(tables, table, at, version=1).job_id


def test_a_revision_goes_before_its_table(tables, table, at):
    with pytest.raises(m3ter.ConflictError):
        tables.delete(table)

    revision = at["lookup_table_revision_id"]
    assert tables.lookup_table_revisions.delete(revision, lookup_table_id=table).id == revision
    assert tables.delete(table).id == table


def test_bodies_that_may_be_absent_are_read_where_they_are(server, table, at):
    path = f"/lookuptables/{table}/revisions/{at['lookup_table_revision_id']}/data"
    with server.http() as client:
        client.put(path, json={"items": [US]})
        stale = client.request("DELETE", f"{path}/US", json={"version": 7})
        broken = client.post(f"{path}/copy", content=b"[", headers={"content-type": "text/json"})
        gone = client.delete(f"{path}/US")
        strange = client.get("/lookuptables/none/revisions/none/data")

    assert [each.status_code for each in (stale, broken, gone, strange)] == [409, 400, 200, 404]
