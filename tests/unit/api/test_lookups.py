"""Lookup tables through the official SDK."""

import httpx
import m3ter
import pytest

from tests.served import served

FIELDS = [{"type": "STRING", "name": "country"}, {"type": "NUMBER", "name": "rate"}]
DE, US = {"country": "DE", "rate": 1}, {"country": "US", "rate": 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("lookups") / "home") as running:
        yield running


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


def test_what_comes_later_says_so(tables, table, at):
    data = tables.lookup_table_revision_data
    revision = at["lookup_table_revision_id"]
    for call in (
        lambda: data.archieve(revision, lookup_table_id=table, content_type="text/csv"),
        lambda: data.generate_download_url(
            revision,
            lookup_table_id=table,
            content_length=1,
            content_type="text/csv",
            file_name="a.csv",
        ),
        lambda: data.lookup_table_revision_data_jobs.download(
            revision, lookup_table_id=table, content_type="text/csv"
        ),
    ):
        with pytest.raises(m3ter.InternalServerError) as caught:
            call()
        assert caught.value.status_code == httpx.codes.NOT_IMPLEMENTED


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
