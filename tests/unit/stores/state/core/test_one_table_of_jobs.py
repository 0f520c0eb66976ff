"""A home of revision 0013, where files, lookup tables and inbox objects had tables of their own."""

from datetime import UTC, datetime, timedelta

import pytest

from meterlake.model.catalog.lookups import LookupTableDataJobStatus
from meterlake.model.errors import StaleVersion
from meterlake.model.measurements.receipt import UploadStatus
from meterlake.pipeline.ingest.uploads import upload_document
from meterlake.stores.objects import ObjectInfo
from meterlake.stores.state import JobStatus, State, lookups
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.ingest import uploads
from meterlake.stores.state.ingest.inboxes import Afterwards, ClaimStatus, Inbox, Inboxes
from tests.migrations import changing, insert, upgrade

BEFORE = "0013"
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
URL, LOST_URL = "s3://bucket/in", "s3://bucket/lost"


def at(minute):
    """A minute after noon, as the database has it."""
    return (NOON + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:00.000000Z")


# id, status, version, arrived, lease_until, attempt, outcome, finished, kind
UPLOADS = [
    ("u-announced", "notUploaded", 1, None, None, 0, None, None, "measurements"),
    ("u-late", "failed", 2, None, None, 0, '{"failureReason":"Never"}', at(9), "measurements"),
    ("u-there", "running", 2, at(1), None, 0, None, None, "measurements"),
    ("u-given-back", "running", 2, at(1), None, 3, None, None, "measurements"),
    ("u-interrupted", "running", 2, at(1), at(5), 2, None, None, "measurements"),
    ("u-done", "succeeded", 3, at(1), None, 1, '{"totalRows":3}', at(2), "measurements"),
    ("u-bad", "failed", 3, at(1), None, 1, '{"failureReason":"No"}', at(2), "measurements"),
    ("l-announced", "notUploaded", 1, None, None, 0, None, None, "lookup"),
    ("l-interrupted", "running", 2, at(1), at(5), 1, None, None, "lookup"),
    ("l-done", "succeeded", 2, at(1), None, 1, '{"items":2}', at(2), "lookup"),
]
# id, type, destination, status, data_version
LOOKUPS = [
    ("l-announced", "UPLOAD", None, "PENDING", 4),
    ("l-interrupted", "ARCHIVE", None, "PENDING", None),
    ("l-done", "DOWNLOAD", None, "PENDING", None),
    ("l-copy", "COPY", "r2", "SUCCEEDED", None),
]
# id, inbox, status, attempt, lease_until, report, error, finished
CLAIMS = [
    ("c-taken", "i", "TAKEN", 1, at(5), None, None, None),
    ("c-in-lake", "i", "INGESTED", 2, at(5), '{"status":"done"}', "Unavailable: no", None),
    ("c-done", "i", "DONE", 1, None, '{"accepted":3}', None, at(2)),
    ("c-tagged", "i", "DONE", 1, None, None, None, at(2)),
    ("c-failed", "i", "FAILED", 1, None, '{"status":"failed"}', None, at(2)),
    ("c-gone", "i", "GONE", 1, None, None, None, at(2)),
    ("c-lost", "lost", "TAKEN", 1, at(5), None, None, None),
]


@pytest.fixture
def stored(empty_database):
    """The URL of a database of the revision before, with jobs that stand everywhere."""
    with changing(empty_database) as connection:
        upgrade(connection, BEFORE)
        fill(connection)
    return empty_database


def fill(connection):
    insert(connection, "organization", id="o", code="o", name="O", created=at(0))
    begun = {"created": at(0), "lease_until": at(5), "attempt": 1, "snapshot": 7}
    insert(
        connection,
        "job",
        id="e",
        org="o",
        kind="export",
        status="RUNNING",
        parameters="{}",
        **begun,
    )
    for id_, status, version, arrived, lease, attempt, outcome, finished, kind in UPLOADS:
        file = {"name": f"{id_}.csv", "content_type": "text/csv", "content_length": 9}
        made = {"created": at(0), "created_by": "me", "start_until": at(3), "sha256": None}
        job = {"status": status, "version": version, "lease_until": lease, "attempt": attempt}
        end = {"outcome": outcome, "finished": finished, "kind": kind, "arrived": arrived}
        insert(connection, "upload", id=id_, org="o", **file, **made, **job, **end)
    for id_, type_, destination, status, data_version in LOOKUPS:
        what = {"type": type_, "destination_id": destination, "data_version": data_version}
        stands = {"status": status, "created": at(0)}
        insert(connection, "lookup_job", id=id_, org="o", revision_id="r", **what, **stands)
    inbox_ids = {"i": inbox(URL).id, "lost": inbox(LOST_URL).id}
    how = {"url": URL, "afterwards": "move", "created": at(0)}
    insert(connection, "inbox", id=inbox_ids["i"], org="o", **how)
    for id_, inbox_id, status, attempt, lease, report, error, finished in CLAIMS:
        info = {"key": f"in/{id_}", "version": "v1", "size_bytes": 9, "received": at(0)}
        job = {"status": status, "attempt": attempt, "lease_until": lease}
        end = {"report": report, "error": error, "finished": finished}
        insert(connection, "inbox_claim", id=id_, inbox=inbox_ids[inbox_id], **info, **job, **end)


def inbox(url):
    """An inbox as State makes it: its id follows from its place."""
    from meterlake.model.values.ids import derived_id

    return Inbox(derived_id("inbox", "o", url), "o", url, Afterwards.MOVE, NOON)


@pytest.fixture
def migrated_state(stored, clock):
    clock.time = NOON
    with State.at(stored, clock) as state:
        yield state


@pytest.mark.long
def test_every_file_stands_where_it_stood(migrated_state):
    with migrated_state.reading_home() as connection:
        found = uploads.find_all(connection, [row[0] for row in UPLOADS])

    for id_, status, version, arrived, _, attempt, outcome, finished, _ in UPLOADS:
        job = found[id_].job
        assert (found[id_].status, job.version) == (UploadStatus(status), version), id_
        assert (job.attempt, job.author, job.created) == (attempt, "me", NOON)
        assert (found[id_].arrived is None, job.finished is None) == (not arrived, not finished)
        assert (job.result == {}) is (outcome is None)
    assert upload_document(found["u-done"])["totalRows"] == 3
    assert found["u-interrupted"].job.lease_until == NOON + timedelta(minutes=5)
    with migrated_state.reading_home() as connection:
        listed, _ = uploads.page(connection, "o", uploads.Created(), Page(50))
        awaiting = uploads.awaiting(connection, "o")
    assert {each.id for each in listed} == {row[0] for row in UPLOADS if row[0][0] == "u"}
    assert {each.id for each in awaiting} == {"u-announced", "l-announced"}


def test_an_interrupted_file_is_taken_up_again(migrated_state, clock):
    def due():
        with migrated_state.reading_home() as connection:
            return {each.id for each in uploads.due(connection, "o", clock())}

    assert due() == {"u-there", "u-given-back"}
    clock.advance(minutes=5)
    assert due() == {"u-there", "u-given-back", "u-interrupted", "l-interrupted"}
    with migrated_state.writing_home() as connection:
        dead = uploads.find(connection, "o", "u-interrupted")
        taken = uploads.take(connection, "o", "u-interrupted", clock())
        assert taken.job.attempt == 3
        with pytest.raises(StaleVersion):
            dead.job.lease.finish(connection, clock(), JobStatus.COMPLETE)
        assert uploads.arrive(connection, "u-announced", clock())
        assert uploads.find(connection, "o", "u-announced").job.version == 2


def test_every_job_of_a_lookup_table_stands_where_it_stood(migrated_state):
    with migrated_state.reading("o") as reader:
        found = {each.id: each for each in lookups.jobs(reader, "r", Page(50))[0]}

    statuses = {id_: each.status for id_, each in found.items()}
    pending, done = LookupTableDataJobStatus.PENDING, LookupTableDataJobStatus.SUCCEEDED
    assert statuses == {
        "l-announced": pending,
        "l-interrupted": pending,
        "l-done": done,
        "l-copy": done,
    }
    assert (found["l-announced"].data_version, found["l-copy"].destination_id) == (4, "r2")
    assert (found["l-copy"].file, found["l-done"].file.job.result) == (None, {"items": 2})
    assert {each.created for each in found.values()} == {NOON}


def test_every_object_stands_where_it_stood(migrated_state):
    claims = Inboxes(migrated_state).claims(row[0] for row in CLAIMS)

    for id_, _, status, attempt, lease, report, error, finished in CLAIMS:
        claim = claims[id_]
        assert claim.status is ClaimStatus(status), id_
        assert (claim.job.attempt, claim.job.error) == (attempt, error)
        assert (claim.received, claim.key, claim.version) == (NOON, f"in/{id_}", "v1")
        assert (claim.report == {}) is (report is None)
        assert (claim.job.finished is None, claim.job.lease_until is None) == (
            not finished,
            not lease,
        )
    assert claims["c-in-lake"].report == {"status": "done"}


def test_an_interrupted_object_is_taken_up_again_also_of_an_inbox_that_comes_back(
    migrated_state, clock
):
    inboxes = Inboxes(migrated_state)
    [known] = inboxes.all("o")
    assert inboxes.due(known) == []
    clock.advance(minutes=5)
    assert {each.id for each in inboxes.due(known)} == {"c-taken", "c-in-lake"}
    lost = inboxes.add("o", LOST_URL, Afterwards.MOVE)
    for each in [*inboxes.due(known), *inboxes.due(lost)]:
        assert inboxes.take_over(each).job.attempt == each.job.attempt + 1
    assert [each.id for each in inboxes.recent(lost)] == ["c-lost"]

    gone = inboxes.claims(["c-gone"])["c-gone"]
    assert inboxes.take_over(gone).status is ClaimStatus.TAKEN
    assert inboxes.take_over(gone) is None
    assert inboxes.take(known, ObjectInfo("in/new", 9, version="v1")).status is ClaimStatus.TAKEN


def test_jobs_that_were_there_are_the_ones_that_people_see(migrated_state, clock):
    [job] = migrated_state.jobs.recent("o")
    assert (job.id, job.status, job.snapshot) == ("e", JobStatus.RUNNING, 7)

    clock.advance(minutes=5)
    assert migrated_state.jobs.take("e", 8).attempt == 2
