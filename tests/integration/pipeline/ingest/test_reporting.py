"""What went wrong with a source becomes one event with a file, once, whatever happens meanwhile."""

import json

import pytest

from meterlake.model.errors import NotFound, Unavailable
from meterlake.model.resources.events import UPLOAD_ALERT, VALIDATION_FAILURE, fields_of
from meterlake.model.values import failpoint
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.events.events import EventFilters, list_events, mark_actioned
from meterlake.pipeline.home.alerts import check_alerts
from meterlake.pipeline.ingest.reporting import failed_ingest_file, report
from meterlake.stores.objects.local import LocalObjects
from meterlake.stores.state import Job
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.ingest import uploads
from meterlake.worker.rounds import ALERTS
from tests.homes import HEADER, a_home, csv_row, ndjson, wire_row
from tests.long_cases import long_after
from tests.rounds import go_round


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        yield opened


def told(home, name=VALIDATION_FAILURE):
    found = list_events(home.organization, EventFilters(event_name=name), Page(100, None))
    return [each["m3terEvent"]["eventData"]["newDto"] for each in found["data"]]


def file_of(home, event):
    download = failed_ingest_file(home.organization, event["file"])
    return json.loads(home.stores.objects.get(download.key))


def announce(home, job):
    now = home.clock()
    made = Job(job, home.org_id, JobKind.UPLOAD, now, author="USER_1")
    upload = uploads.Upload(made, "u.json", "text/json", content_length=1, start_until=now)
    with home.stores.state.writing_home() as connection:
        uploads.add(connection, upload)


@pytest.mark.long
def test_a_source_without_faults_raises_nothing(home):
    home.ingest("good.csv", HEADER + csv_row("u1"))

    assert report(home.organization) == 0
    assert told(home) == []
    assert list(home.stores.objects.list()) == []


def test_a_partly_rejected_source_raises_one_event_with_its_counts(home):
    receipt = home.ingest(
        "mixed.ndjson",
        ndjson([wire_row("u1"), wire_row("u2", meter="nope"), wire_row("u3", "x")]),
        delivery="d1",
    )
    [event] = told(home)

    assert event["failures"] == event["rejected"] == event["fileRows"] == 2
    assert (event["received"], event["accepted"], event["repeats"]) == (3, 1, 0)
    assert event["reasons"] == {"InvalidNumber": 1, "UndefinedMeter": 1}
    assert (event["deliveryId"], event["identity"]) == ("d1", receipt.identity)
    assert event["jobId"] is None
    assert "mixed.ndjson" in event["message"]
    assert event["getDownloadUrl"].endswith(f"getDownloadUrl?file={event['file']}")
    assert {f"new.{name}" for name in event} == set(fields_of(VALIDATION_FAILURE))
    assert told(home, UPLOAD_ALERT) == []


@pytest.mark.long
def test_the_file_holds_every_error_with_the_measurement_as_it_was_sent(home):
    bad = [wire_row("u2", meter="nope"), wire_row("u3", "x")]
    home.ingest("mixed.ndjson", ndjson([wire_row("u1"), *bad]))
    first, second = file_of(home, told(home)[0])

    assert first["error"]["type"] == "UndefinedMeter"
    assert first["error"]["row"] == 2
    assert second["error"] | {"message": ""} == {
        "type": "InvalidNumber",
        "message": "",
        "field": "measure.gb",
        "row": 3,
    }
    assert [first["measurement"], second["measurement"]] == bad


def test_a_line_that_is_no_json_stands_in_the_file_as_well(home):
    home.ingest("rows.csv", HEADER + csv_row("u1", "x") + "short,row\n")
    first, second = file_of(home, told(home)[0])

    assert "u1" in json.dumps(first["measurement"])
    assert second["measurement"]["original"] == "short,row"


def test_a_source_that_is_refused_whole_raises_one_event(home):
    receipt = home.ingest("broken.csv.gz", b"no gzip")
    [event] = told(home)
    [entry] = file_of(home, event)

    assert receipt.status == event["status"] == "failed"
    assert event["failures"] == 1
    assert entry["error"]["type"] == event["reason"] == str(receipt.reason)
    assert entry["measurement"] is None


def test_the_file_lists_no_more_rows_than_the_setting_allows(tmp_path):
    with a_home(tmp_path, failed_rows=3) as home:
        home.ingest("bad.csv", HEADER + "".join(csv_row(f"u{n}", "x") for n in range(9)))
        [event] = told(home)

        assert (event["failures"], event["fileRows"]) == (9, 3)
        assert [entry["error"]["row"] for entry in file_of(home, event)] == [2, 3, 4]


@pytest.mark.long
@pytest.mark.happens("ingest.upload.alert")
def test_an_upload_that_fails_raises_one_event_and_one_alert_that_carry_its_job(home):
    announce(home, "job-1")
    for _ in range(2):
        home.ingest("u.json", b"[", delivery="job-1")
    report(home.organization)

    assert [event["jobId"] for event in told(home)] == ["job-1"]
    [alert] = told(home, UPLOAD_ALERT)
    assert alert["jobId"] == "job-1"
    assert {f"new.{member}" for member in alert} == set(fields_of(UPLOAD_ALERT))


@pytest.mark.long
def test_the_alert_of_an_upload_is_open_until_its_event_is_marked(home):
    announce(home, "job-1")
    home.ingest("u.json", b"[", delivery="job-1")
    for _ in range(2):
        [alert] = check_alerts(home.organization)
        assert (alert.name, alert.subject) == (UPLOAD_ALERT, "job-1")

    mark_actioned(home.organization, "test", alert.event_id)

    assert check_alerts(home.organization) == []
    report(home.organization)
    assert check_alerts(home.organization) == told(home, UPLOAD_ALERT) == []


@pytest.mark.long
def test_the_same_bytes_again_are_reported_again_as_another_attempt(home):
    for _ in range(2):
        home.ingest("bad.csv", HEADER + csv_row("u1", "x"))

    assert sorted(event["attempt"] for event in told(home)) == [1, 2]
    assert len({event["file"] for event in told(home)}) == 2


class Stopped(Exception):
    """The process ended here."""


@pytest.mark.parametrize(
    "point",
    long_after(2, ["commit.done", "reporting.told", "reporting.file_written", "lake.after_commit"]),
)
def test_whoever_dies_on_the_way_is_made_up_for_once(home, monkeypatch, point):
    def stop(name):
        if name == point:
            raise Stopped

    monkeypatch.setattr(failpoint, "hook", stop)
    with pytest.raises(Stopped):
        home.ingest("bad.csv", HEADER + csv_row("u1", "x"), delivery="d")
    monkeypatch.setattr(failpoint, "hook", None)
    report(home.organization)
    home.ingest("bad.csv", HEADER + csv_row("u1", "x"), delivery="d")

    assert len(told(home)) == 1
    assert len(file_of(home, told(home)[0])) == 1
    home.check()


@pytest.mark.long
def test_ingest_goes_on_when_reports_cannot_be_written(home, monkeypatch):
    def refuse(*_args, **_more):
        raise Unavailable("the store", "it is away")

    monkeypatch.setattr(LocalObjects, "_put_object", refuse)
    receipt = home.ingest("bad.csv", HEADER + csv_row("u1", "x"))
    assert receipt.rejected == 1
    assert told(home) == []
    monkeypatch.undo()

    assert report(home.organization) == 1
    assert len(told(home)) == 1


@pytest.mark.long
def test_many_sources_are_reported_in_the_order_of_their_commits(home, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr("meterlake.pipeline.ingest.reporting._AT_ONCE", 2)
        later.setattr("meterlake.pipeline.ingest.run.report_source", lambda *_: None)
        for number in range(5):
            home.ingest(f"{number}.csv", HEADER + csv_row(f"u{number}", "x"))
        assert report(home.organization) == 5

    assert report(home.organization) == 0
    assert [event["name"] for event in reversed(told(home))] == [f"{n}.csv" for n in range(5)]


def test_only_files_of_the_own_organization_are_found(home):
    home.ingest("bad.csv", HEADER + csv_row("u1", "x"))
    [event] = told(home)
    key = event["file"]

    assert failed_ingest_file(home.organization, event["getDownloadUrl"]).key == key
    for other in (
        key.replace(home.org_id, "0" * 36),
        f"failed-ingest/{home.org_id}/../../secret.key",
        f"failed-ingest/{home.org_id}/nothing.json",
        f"failed-ingest/{home.org_id}/",
        f"failed-ingest/{home.org_id}//{key.rpartition('/')[2]}",
        "../secret.key",
        "secret.key",
        "",
        "x" * 2000,
        f"failed-ingest/{home.org_id}/" + "x" * 2000,
    ):
        with pytest.raises(NotFound):
            failed_ingest_file(home.organization, other)


@pytest.mark.long
def test_the_worker_makes_up_for_what_nobody_told(home, monkeypatch):
    with monkeypatch.context() as dying:
        dying.setattr("meterlake.pipeline.ingest.run.report_source", lambda *_: None)
        home.ingest("bad.csv", HEADER + csv_row("u1", "x"))
    assert told(home) == []

    go_round(ALERTS, home.stores, lambda: bool(told(home)))

    assert len(told(home)) == 1
