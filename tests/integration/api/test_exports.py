"""Exports over HTTP: asked for with the SDK, run, and downloaded."""

import gzip
import hashlib
import io
import json
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import m3ter
import pytest
from sqlalchemy import insert, update

from meterlake.model.errors import Forbidden, Invalid
from meterlake.model.measurements.receipt import Delivery
from meterlake.model.values import failpoint
from meterlake.model.work.export_request import KIND, ExportRequest, Source
from meterlake.pipeline.export.jobs import forget_downloads
from meterlake.pipeline.export.run import run_export, submit_export
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.jobs.attempt import Cancelled
from meterlake.stores.downloads import Downloads
from meterlake.stores.state import JobStatus
from meterlake.stores.state.jobs import JOB
from tests.homes import ACCOUNTS, EGRESS, configure, ndjson, wire_row
from tests.served import served

PERIOD = {"startDate": "2026-09-01T00:00:00Z", "endDate": "2026-10-01T00:00:00Z"}
THEIRS = {
    "code": "job's",
    "destinationType": "S3",
    "iamRoleArn": "arn:aws:iam::123456789012:role/theirs",
}
NO_ID = "00000000-0000-0000-0000-000000000000"
OF_NOTHING = {"meterId": NO_ID, "fieldCode": "region", "values": ["eu"]}
ADHOC = {
    "USAGE": {"sourceType": "USAGE", **PERIOD},
    "OPERATIONAL": {"sourceType": "OPERATIONAL", "operationalDataTypes": ["METERS"]},
}
SCHEDULED = {
    "USAGE": {"sourceType": "USAGE", "timePeriod": "YESTERDAY"},
    "OPERATIONAL": ADHOC["OPERATIONAL"],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("exports") / "home"
    with served(home) as found:
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        path = home / "rows.ndjson"
        path.write_bytes(ndjson([wire_row("a", 1.5), wire_row("b", 2)]))
        ingest_file(found.organization, path, Delivery("d", path.name, datetime.now(UTC)))
        yield found


@pytest.fixture
def exports(server):
    with server.sdk() as sdk:
        yield sdk.data_exports


def ask(exports, **more):
    body = {"exportFileFormat": "JSONL", **more}
    source = body.pop("sourceType", "USAGE")
    if source == "OPERATIONAL":
        types = body.pop("operationalDataTypes", [])
        return exports.create_adhoc(
            source_type=source, operational_data_types=types, extra_body=body
        ).job_id
    return exports.create_adhoc(source_type=source, extra_body=PERIOD | body).job_id


@contextmanager
def robot(server, *actions):
    """A client of a service user that may do some things."""
    statement = {"effect": "allow", "action": list(actions), "resource": ["*"]}
    with robot_with(server, statement) as client:
        yield client


@contextmanager
def robot_with(server, *statements):
    """A client of a service user with these statements."""
    with server.http() as http:
        made = {"name": "robot", "permissionPolicy": list(statements)}
        policy = http.post("/permissionpolicies", json=made).json()["id"]
        user = http.post("/serviceusers", json={"name": "Robot"}).json()["id"]
        to = f"/permissionpolicies/{policy}/addtoserviceuser"
        http.post(to, json={"principalId": user}).raise_for_status()
        key = http.post(f"/serviceusers/{user}/accesskeys", json={}).json()
    asked = {"grant_type": "client_credentials"}
    given = httpx.post(f"{server.url}/oauth/token", json=asked, auth=(key["id"], key["apiSecret"]))
    with server.http(given.json()["access_token"]) as client:
        yield client


def scheduled(source, code):
    clock = {"scheduleType": "HOUR", "period": 2, "enabled": False}
    return {"name": code, "code": code, **clock, **SCHEDULED[source]}


def ended_ago(server, job_id, **ago):
    """Have a job have ended some time ago."""
    finished = datetime.now(UTC) - timedelta(**ago)
    with server.stores.state.writing_home() as connection:
        connection.execute(update(JOB).where(JOB.c.id == job_id).values(finished=finished))


def downloaded(exports, job_id):
    return httpx.get(exports.jobs.get_download_url(job_id).url)


def lines(content):
    return [json.loads(line) for line in gzip.decompress(content).decode().splitlines()]


@pytest.mark.sees("TriggerDataExport", "GetJob", "GenerateDataExportFileDownloadUrl", "GetDownload")
def test_measurements_are_exported_and_downloaded(server, exports):
    job_id = ask(exports)
    job = exports.jobs.retrieve(job_id)
    assert (job.status, job.source_type, job.started_at) == ("PENDING", "USAGE", None)

    run_export(server.stores, job_id)
    job = exports.jobs.retrieve(job_id)
    file = downloaded(exports, job_id)

    assert job.status == "SUCCEEDED"
    assert job.started_at >= job.date_created
    assert file.headers["content-type"] == "application/gzip"
    assert ".jsonl.gz" in file.headers["content-disposition"]
    assert [row["uid"] for row in lines(file.content)] == ["a", "b"]


def test_entities_are_what_the_api_answers(server, exports):
    job_id = ask(exports, sourceType="OPERATIONAL", operationalDataTypes=["ACCOUNTS", "METERS"])
    run_export(server.stores, job_id)
    file = downloaded(exports, job_id)

    with zipfile.ZipFile(io.BytesIO(file.content)) as archive:
        names = sorted(archive.namelist())
        manifest = json.loads(archive.read("manifest.json"))
        found = {name.split("_")[-1]: lines(archive.read(name)) for name in names[:-1]}
    with server.http() as http:
        accounts = http.get("/accounts").json()["data"]
        meters = http.get("/meters").json()["data"]
    key = lambda each: each["id"]  # noqa: E731
    assert sorted(found["account.jsonl.gz"], key=key) == sorted(accounts, key=key)
    assert sorted(found["meter.jsonl.gz"], key=key) == sorted(meters, key=key)
    assert manifest["rows"] == len(accounts) + len(meters)
    assert (names[-1], len(names)) == ("manifest.json", 3)


@pytest.mark.long
@pytest.mark.sees("listJobStatuses")
def test_jobs_are_listed_by_status_and_time(server, exports):
    waits, done = ask(exports), ask(exports)
    run_export(server.stores, done)
    tomorrow = (server.stores.now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

    listed = [job.id for job in exports.jobs.list(page_size=1)]
    assert listed[:2] == [done, waits]
    assert waits in [job.id for job in exports.jobs.list(status="PENDING")]
    assert done in [job.id for job in exports.jobs.list(status="SUCCEEDED")]
    assert [job.id for job in exports.jobs.list(ids=[waits])] == [waits]
    assert [*exports.jobs.list(date_created_start=tomorrow)] == []
    assert [job.id for job in exports.jobs.list(date_created_end=tomorrow)] == listed
    with pytest.raises(m3ter.BadRequestError, match="status"):
        exports.jobs.list(status="COMPLETE")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"endDate": None}, "endDate"),
        ({"startDate": PERIOD["endDate"]}, "endDate"),
        ({"endDate": "2999-01-01T00:00:00Z"}, "endDate"),
        ({"meterIds": [NO_ID]}, "meterIds[0]"),
        ({"accountIds": [NO_ID]}, "accountIds[0]"),
        ({"dimensionFilters": [OF_NOTHING]}, "dimensionFilters[0].meterId"),
        ({"destinationIds": [NO_ID]}, "destinationIds[0]"),
        ({"exportFileFormat": "XLSX"}, "exportFileFormat"),
        ({"groups": [{"groupType": "ACCOUNT"}]}, "aggregations"),
        ({"sourceType": "OPERATIONAL"}, "operationalDataTypes"),
        ({"sourceType": "OPERATIONAL", "operationalDataTypes": ["SECRETS"]}, "operationalData"),
        ({"sourceType": "OPERATIONAL", "operationalDataTypes": ["METERS"]}, "endDate"),
        ({"sourceType": "BOTH"}, "sourceType"),
    ],
)
def test_what_is_asked_wrongly_is_named_and_makes_no_job(server, body, named):
    whole = {"sourceType": "USAGE"} | PERIOD | body
    with server.http() as http:
        before = http.get("/dataexports/jobs").json()
        answer = http.post("/dataexports/adhoc", json=whole)
        assert answer.status_code == httpx.codes.BAD_REQUEST
        assert named in answer.json()["message"]
        assert http.get("/dataexports/jobs").json() == before


def test_a_job_has_a_download_only_once_it_ended_well(server, exports):
    job_id = ask(exports)
    with pytest.raises(m3ter.ConflictError, match="PENDING"):
        exports.jobs.get_download_url(job_id)
    with pytest.raises(m3ter.NotFoundError):
        exports.jobs.get_download_url(NO_ID)
    run_export(server.stores, job_id)
    link = exports.jobs.get_download_url(job_id)
    left = link.expiration_time - datetime.now(UTC)
    assert timedelta(minutes=14) < left <= timedelta(minutes=15)
    assert httpx.get(link.url[:-4] + "AAAA").status_code == httpx.codes.FORBIDDEN


def test_a_link_ends_with_the_day_for_which_files_are_kept(server, exports):
    job_id = ask(exports)
    run_export(server.stores, job_id)
    ended_ago(server, job_id, hours=23, minutes=50)
    link = exports.jobs.get_download_url(job_id)
    left = link.expiration_time - datetime.now(UTC)
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)
    assert httpx.get(link.url).status_code == httpx.codes.OK
    later = Downloads(server.stores.secrets, lambda: link.expiration_time + timedelta(seconds=1))
    with pytest.raises(Forbidden, match="has ended"):
        later.open(link.url.rpartition("/")[2])

    ended_ago(server, job_id, hours=24)
    with pytest.raises(m3ter.ConflictError, match="24 hours"):
        exports.jobs.get_download_url(job_id)


def test_no_more_exports_wait_than_may(server):
    """What has ended counts no more, and another organization has its own."""
    made = initialize(server.settings, "Many")
    configure(server.stores.organization(made.org_id), features={"beta": True, "preview": True})
    now = server.stores.now()
    row = {"org": made.org_id, "kind": KIND, "parameters": "{}", "attempt": 0, "created": now}
    rows = [{**row, "id": f"job-{number}", "status": "PENDING"} for number in range(1_000)]
    with server.stores.state.writing_home() as connection:
        connection.execute(insert(JOB), rows)
    many = replace(server, org_id=made.org_id, key=made.access_key_id, secret=made.api_secret)
    with many.sdk() as sdk, server.sdk() as others:
        with pytest.raises(m3ter.RateLimitError, match="1000 of them are unfinished") as caught:
            ask(sdk.data_exports)
        assert caught.value.response.headers["retry-after"] == "60"
        assert ask(others.data_exports)
        with server.stores.state.writing_home() as connection:
            last = JOB.c.id == "job-999"
            connection.execute(update(JOB).where(last).values(status="COMPLETE", finished=now))
        assert ask(sdk.data_exports)
        with pytest.raises(m3ter.RateLimitError):
            ask(sdk.data_exports)


def test_jobs_of_another_organization_are_not_found(server):
    other = initialize(server.settings, "Other").org_id
    request = ExportRequest(source=Source.OPERATIONAL, types=("meters",), keep=True)
    job_id = submit_export(server.stores.organization(other), request)
    with server.http() as http:
        job = f"/dataexports/jobs/{job_id}"
        found = [http.get(job), http.get(f"{job}/getdownloadurl")]
        found += [http.post(f"{job}/{verb}") for verb in ("cancel", "retry")]
    assert {each.status_code for each in found} == {httpx.codes.NOT_FOUND}
    assert server.stores.state.jobs.get(job_id).status is JobStatus.PENDING


@pytest.mark.parametrize(
    ("action", "may", "may_not"),
    [("measurements:export", "USAGE", "OPERATIONAL"), ("config:export", "OPERATIONAL", "USAGE")],
)
def test_data_is_let_out_only_with_the_permission_of_its_source(server, action, may, may_not):
    adhoc, schedules = "/dataexports/adhoc", "/dataexports/schedules"
    with server.http() as http, robot(server, action, "config:create", "config:update") as client:
        theirs = http.post(schedules, json=scheduled(may_not, f"theirs {may}")).json()
        mine = client.post(schedules, json=scheduled(may, f"mine {may}")).json()
        for answer in (
            client.post(adhoc, json=ADHOC[may_not]),
            client.post(schedules, json=scheduled(may_not, f"never {may}")),
            client.put(f"{schedules}/{theirs['id']}", json=theirs | {"enabled": True}),
            client.put(f"{schedules}/{mine['id']}", json=mine | SCHEDULED[may_not]),
        ):
            assert answer.status_code == httpx.codes.FORBIDDEN
            assert ":export on dataexport" in answer.json()["message"]
        assert client.post(adhoc, json={}).status_code == httpx.codes.BAD_REQUEST
        assert client.post(adhoc, json=ADHOC[may]).status_code == httpx.codes.OK
        renamed = client.put(f"{schedules}/{mine['id']}", json=mine | {"name": "New"})
        assert renamed.json()["name"] == "New"


def test_a_file_of_all_is_for_who_may_read_each(server):
    """What is denied singly is in no export, and in no link to one that somebody else made."""
    bills, meters = ("BILLS", "BILL_LINE_ITEMS"), ("METERS",)
    everything = {"effect": "allow", "action": ["all"], "resource": ["*"]}
    denied = {
        "effect": "deny",
        "action": ["config:retrieve"],
        "resource": ["config:bill/item/00000000-0000-4000-8000-000000000000"],
    }

    def export(types, **more):
        return ADHOC["OPERATIONAL"] | {"operationalDataTypes": list(types)} | more

    with server.http() as http:
        theirs = http.post("/dataexports/adhoc", json=export(bills)).json()["jobId"]
    with robot_with(server, everything, denied) as client:
        refused = [
            client.post("/dataexports/adhoc", json=export(bills)),
            client.post("/dataexports/adhoc", json=export(meters, focus=True)),
            client.post(
                "/dataexports/schedules",
                json=scheduled("OPERATIONAL", "b") | {"operationalDataTypes": list(bills)},
            ),
            client.get(f"/dataexports/jobs/{theirs}/getdownloadurl"),
            client.get(f"/dataexports/jobs/{theirs}/manifest"),
            client.post(f"/dataexports/jobs/{theirs}/verify"),
            client.get(f"/dataexports/jobs/{theirs}/files/bills.csv.gz/getdownloadurl"),
            client.post(f"/dataexports/jobs/{theirs}/retry"),
        ]
        taken = client.post("/dataexports/adhoc", json=export(meters))
    assert [each.status_code for each in refused] == [403] * len(refused)
    assert "on every bill" in refused[0].json()["message"]
    assert taken.status_code == httpx.codes.OK, taken.text


def test_who_may_configure_may_not_let_data_out(server):
    with robot(server, "config:create", "config:retrieve") as client:
        for source, document in ADHOC.items():
            asked = client.post("/dataexports/adhoc", json=document)
            made = client.post("/dataexports/schedules", json=scheduled(source, f"no {source}"))
            assert (asked.status_code, made.status_code) == (403, 403)
        assert client.get("/dataexports/schedules").status_code == httpx.codes.OK


def test_who_may_not_let_data_out_cannot_have_it_put_elsewhere(server, exports):
    where = {**THEIRS, "code": "outbox", "name": "Outbox", "bucketName": "abc"}
    with server.http() as http, robot(server, "config:update", "config:retrieve") as client:
        made = http.post("/dataexports/destinations", json=where).json()
        path = f"/dataexports/destinations/{made['id']}"
        free = client.put(path, json=made | {"name": "Nobody's"})
        used = scheduled("USAGE", "to outbox") | {"destinationIds": [made["id"]]}
        http.post("/dataexports/schedules", json=used).raise_for_status()
        moved = client.put(path, json=free.json() | {"bucketName": "elsewhere"})
        waits = http.post("/dataexports/destinations", json=where | {"code": "job's"}).json()
        ask(exports, destinationIds=[waits["id"]])
        of_job = client.put(f"/dataexports/destinations/{waits['id']}", json=waits)
        job_id = ask(exports)
        cancelled = client.post(f"/dataexports/jobs/{job_id}/cancel")
        again = client.post(f"/dataexports/jobs/{job_id}/retry")
        assert (free.status_code, cancelled.status_code) == (200, 200)
        assert (moved.status_code, of_job.status_code, again.status_code) == (403, 403, 403)
        assert "measurements:export on dataexport" in moved.json()["message"]
        assert "measurements:export on dataexport" in again.json()["message"]
    more = ("config:update", "config:retrieve", "measurements:export")
    with robot(server, *more) as client:
        assert client.put(path, json=free.json() | {"bucketName": "there"}).status_code == 200
        assert client.post(f"/dataexports/jobs/{job_id}/retry").status_code == 200


def test_files_are_kept_for_a_day(server, exports, monkeypatch):
    stores, job_id = server.stores, ask(exports)
    organization = stores.organization(server.org_id)
    run_export(stores, job_id)
    kept = [info.key for info in stores.objects.list("exports/") if job_id in info.key]
    forget_downloads(organization)
    assert [info.key for info in stores.objects.list("exports/") if job_id in info.key] == kept

    later = datetime.now(UTC) + timedelta(hours=24)
    monkeypatch.setattr(stores, "now", lambda: later)
    forget_downloads(organization)

    assert len(kept) == 2  # the file, and the manifest
    assert [*stores.objects.list("exports/")] == []


@pytest.mark.sees("CancelDataExportJob", "RetryDataExportJob")
def test_a_job_is_cancelled_and_run_again(server, exports):
    job_id = ask(exports)
    with server.http() as http:
        cancelled = http.post(f"/dataexports/jobs/{job_id}/cancel")
        assert cancelled.json()["status"] == "FAILED"
        assert cancelled.json()["outcome"] == "CANCELLED"
        assert "cancelled" in cancelled.json()["error"]
        for status, listed in (("CANCELLED", True), ("FAILED", True), ("PENDING", False)):
            jobs = http.get("/dataexports/jobs", params={"status": status}).json()["data"]
            assert (job_id in {each["id"] for each in jobs}) is listed
        assert http.post(f"/dataexports/jobs/{job_id}/cancel").status_code == httpx.codes.CONFLICT
        assert http.post(f"/dataexports/jobs/{job_id}/retry").json()["status"] == "PENDING"
        assert http.post(f"/dataexports/jobs/{job_id}/retry").status_code == httpx.codes.CONFLICT
    run_export(server.stores, job_id)
    assert exports.jobs.retrieve(job_id).status == "SUCCEEDED"


def test_a_job_that_runs_is_cancelled(server, exports, monkeypatch):
    job_id, ends = ask(exports), []
    busy, go_on = threading.Event(), threading.Event()

    def pause(reached):
        if reached == "export.file_staged":
            busy.set()
            go_on.wait(60)

    def work():
        with pytest.raises(Cancelled) as caught:
            run_export(server.stores, job_id)
        ends.append(caught)

    monkeypatch.setattr(failpoint, "hook", pause)
    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert busy.wait(60)
        with server.http() as http:
            asked = http.post(f"/dataexports/jobs/{job_id}/cancel").json()
    finally:
        go_on.set()
        worker.join()

    job = exports.jobs.retrieve(job_id)
    assert (asked["status"], job.status, len(ends)) == ("RUNNING", "FAILED", 1)
    assert "cancelled" in job.to_dict()["error"]
    with pytest.raises(m3ter.ConflictError):
        exports.jobs.get_download_url(job_id)
    assert [info for info in server.stores.objects.list("exports/") if job_id in info.key] == []


@pytest.mark.happens("dataexport.job.failure")
def test_a_job_that_fails_raises_an_event(server, exports):
    stores, job_id = server.stores, ask(exports)
    key = f"exports/{server.org_id}/{job_id}"
    blocked = stores.home / "objects" / key
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("a file where a folder has to be")
    stores.settings = stores.settings.model_copy(update={"export_attempts": 1})

    with pytest.raises(Invalid):
        run_export(stores, job_id)
    job = exports.jobs.retrieve(job_id)
    with server.sdk() as sdk:
        [event] = sdk.events.list(event_name="dataexport.job.failure")

    assert job.status == "FAILED"
    told = event.m3ter_event["eventData"]["newDto"]
    assert told["jobId"] == job_id
    assert told["message"] == job.to_dict()["error"]
    blocked.unlink()
    with server.http() as http:
        waits = http.post(f"/dataexports/jobs/{job_id}/retry").json()
    assert waits["status"] == "PENDING"
    assert {"startedAt", "progress", "error"}.isdisjoint(waits)


def test_exports_have_to_be_enabled(server):
    with server.http() as http:
        features = http.get("/features").json()
        http.put("/features", json=features | {"preview": False}).raise_for_status()
        try:
            for path in ("jobs", "destinations", "schedules"):
                answer = http.get(f"/dataexports/{path}")
                assert answer.status_code == httpx.codes.FORBIDDEN
                assert "preview" in answer.json()["message"]
        finally:
            now = http.get("/features").json()
            http.put("/features", json=now | {"preview": True}).raise_for_status()


@pytest.mark.sees("GetDataExportManifest", "VerifyDataExport", "GetDataExportFileUrl")
def test_the_files_of_a_job_are_listed_verified_and_downloaded_one_by_one(server, exports):
    types = ["ACCOUNTS", "METERS"]
    job_id = ask(exports, sourceType="OPERATIONAL", operationalDataTypes=types)
    run_export(server.stores, job_id)
    with server.http() as http:
        manifest = http.get(f"/dataexports/jobs/{job_id}/manifest").json()
        checked = http.post(f"/dataexports/jobs/{job_id}/verify").json()
        link = f"/dataexports/jobs/{job_id}/files/{{}}/getdownloadurl"
        names = [manifest["files"][0]["name"], manifest["manifest"]]
        urls = [http.get(link.format(name)).json()["url"] for name in names]
        unknown = http.get(link.format("other.csv.gz"))
        nowhere = http.get(f"/dataexports/jobs/{job_id}/manifest", params={"place": "elsewhere"})
    file, document = (httpx.get(url) for url in urls)

    assert {each["type"] for each in manifest["files"]} == {"account", "meter"}
    assert hashlib.sha256(file.content).hexdigest() == manifest["files"][0]["sha256"]
    assert len(file.content) == manifest["files"][0]["bytes"]
    assert document.json()["jobId"] == job_id
    assert (checked["verified"], checked["files"], checked["problems"]) == (True, 2, [])
    assert (unknown.status_code, nowhere.status_code) == (404, 404)


def test_a_job_has_no_manifest_before_it_has_succeeded(server, exports):
    with server.http() as http:
        answer = http.get(f"/dataexports/jobs/{ask(exports)}/manifest")

    assert answer.status_code == httpx.codes.CONFLICT
