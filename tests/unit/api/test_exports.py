"""Exports over HTTP: asked for with the SDK, run, and downloaded."""

import gzip
import io
import json
import zipfile
from datetime import UTC, datetime, timedelta

import httpx
import m3ter
import pytest

from meterlake.model.errors import Invalid
from meterlake.model.receipt import Delivery
from meterlake.pipeline.export import run_export
from meterlake.pipeline.export_jobs import forget_downloads
from meterlake.pipeline.ingest import ingest_file
from tests.homes import ACCOUNTS, EGRESS, configure, ndjson, wire_row
from tests.served import served

PERIOD = {"startDate": "2026-09-01T00:00:00Z", "endDate": "2026-10-01T00:00:00Z"}
NO_ID = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("exports") / "home"
    with served(home) as found:
        configure(found.stores, found.org_id, meters=[EGRESS], accounts=ACCOUNTS)
        path = home / "rows.ndjson"
        path.write_bytes(ndjson([wire_row("a", 1.5), wire_row("b", 2)]))
        ingest_file(found.stores, found.org_id, path, Delivery("d", path.name, datetime.now(UTC)))
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


def downloaded(exports, job_id):
    return httpx.get(exports.jobs.get_download_url(job_id).url)


def lines(content):
    return [json.loads(line) for line in gzip.decompress(content).decode().splitlines()]


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
        ({"meterIds": [NO_ID]}, "meterIds"),
        ({"accountIds": [NO_ID]}, "accountIds"),
        ({"destinationIds": [NO_ID]}, "destinationIds"),
        ({"exportFileFormat": "XLSX"}, "exportFileFormat"),
        ({"groups": [{"groupType": "ACCOUNT"}]}, "aggregations"),
        ({"sourceType": "OPERATIONAL"}, "operationalDataTypes"),
        ({"sourceType": "OPERATIONAL", "operationalDataTypes": ["SECRETS"]}, "operationalData"),
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


def test_files_are_kept_for_a_day(server, exports, monkeypatch):
    stores, job_id = server.stores, ask(exports)
    run_export(stores, job_id)
    kept = [info.key for info in stores.objects.list("exports/") if job_id in info.key]
    forget_downloads(stores, server.org_id)
    assert [info.key for info in stores.objects.list("exports/") if job_id in info.key] == kept

    later = datetime.now(UTC) + timedelta(hours=24)
    monkeypatch.setattr(stores, "now", lambda: later)
    forget_downloads(stores, server.org_id)

    assert len(kept) == 2  # the file, and the manifest
    assert [*stores.objects.list("exports/")] == []


def test_a_job_is_cancelled_and_run_again(server, exports):
    job_id = ask(exports)
    with server.http() as http:
        cancelled = http.post(f"/dataexports/jobs/{job_id}/cancel")
        assert cancelled.json()["status"] == "FAILED"
        assert http.post(f"/dataexports/jobs/{job_id}/cancel").status_code == httpx.codes.CONFLICT
        assert http.post(f"/dataexports/jobs/{job_id}/retry").json()["status"] == "PENDING"
        assert http.post(f"/dataexports/jobs/{job_id}/retry").status_code == httpx.codes.CONFLICT
    run_export(server.stores, job_id)
    assert exports.jobs.retrieve(job_id).status == "SUCCEEDED"


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
