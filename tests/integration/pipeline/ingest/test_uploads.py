"""The jobs of uploads: leases, several workers, files in other stores, and what goes wrong there."""

import contextlib
import itertools
import json
import re
import threading
import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from filelock import FileLock

from meterlake.model.errors import Busy, Forbidden, Invalid, NotFound, StaleVersion, Unavailable
from meterlake.pipeline.events.events import get_event
from meterlake.pipeline.home.alerts import check_alerts
from meterlake.pipeline.ingest.reader_crashes import reading_alone
from meterlake.pipeline.ingest.receiving import receiving
from meterlake.pipeline.ingest.uploads import (
    announce,
    get_job,
    ingest_uploads,
    original,
    run_upload,
    settle,
)
from meterlake.pipeline.jobs.attempt import running
from meterlake.pipeline.jobs.file_jobs import Work
from meterlake.stores import open_stores
from meterlake.stores.state import JobStatus
from meterlake.stores.state.ingest import uploads as jobs
from meterlake.worker.rounds import UPLOADS
from tests.databases import need_folder
from tests.doubles.faults import FaultyNetwork
from tests.doubles.gcs import service_account
from tests.homes import a_home, open_home, settings, wire_row
from tests.rounds import go_round

pytest_plugins = ["tests.doubles.fixtures"]

TYPE = "text/json"
DATA = json.dumps([wire_row("a"), wire_row("b")]).encode()


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as made:
        yield made


def announced(home, data=DATA, name="f.json"):
    body = {"fileName": name, "contentType": TYPE, "contentLength": len(data)}
    return announce(home.organization, "test", body, "https://here.example")


def send(home, made, data=DATA):
    headers = {key.lower(): value for key, value in made["headers"].items()}
    with receiving(home.stores, made["url"].rpartition("/")[2], headers) as file:
        file.write(data)
        file.finish()


def uploaded(home, data=DATA):
    made = announced(home, data)
    send(home, made, data)
    return made["jobId"]


def job(home, id_):
    return get_job(home.organization, id_)


def alerts(home):
    """What the open alerts of uploads say, by their jobs."""
    events = (
        get_event(home.organization, each.event_id)["m3terEvent"]["eventData"]["newDto"]
        for each in check_alerts(home.organization)
    )
    return {each["jobId"]: each["message"] for each in events}


def taken(home, id_):
    with home.stores.state.writing_home() as connection:
        return jobs.take(connection, home.org_id, id_, home.stores.now())


def finish(home, upload, status=JobStatus.COMPLETE):
    with home.stores.state.writing_home() as connection:
        upload.job.lease.finish(connection, home.stores.now(), status)


def work(home):
    return list(ingest_uploads(home.organization))


def test_there_is_nothing_to_do_where_nothing_was_uploaded(home):
    assert work(home) == []
    announced(home)
    assert work(home) == []


@pytest.mark.long
def test_the_delivery_of_an_upload_is_its_job(home):
    id_ = uploaded(home)
    [receipt] = work(home)

    assert (receipt.delivery.id, receipt.delivery.name, receipt.accepted) == (id_, "f.json", 2)
    with pytest.raises(Busy, match="it has succeeded"):
        run_upload(home.organization, id_)
    home.check()


def test_a_job_of_another_organization_is_not_there(home):
    id_ = uploaded(home)
    for act in (get_job, original, run_upload):
        with pytest.raises(NotFound):
            act(home.stores.organization("another"), id_)


# --- leases -------------------------------------------------------------------------------------


def test_a_job_that_is_run_is_not_taken_until_its_lease_ends(home):
    id_ = uploaded(home)
    first = taken(home, id_)

    assert taken(home, id_) is None
    assert work(home) == []
    home.clock.advance(seconds=59)
    assert taken(home, id_) is None
    home.clock.advance(seconds=1)
    assert taken(home, id_).job.attempt == first.job.attempt + 1


def test_the_late_end_of_a_dead_attempt_is_refused(home):
    id_ = uploaded(home)
    first = taken(home, id_)
    home.clock.advance(minutes=1)
    second = taken(home, id_)

    with pytest.raises(StaleVersion):
        finish(home, first, JobStatus.FAILED)
    with pytest.raises(StaleVersion), home.stores.state.writing_home() as connection:
        first.job.lease.renew(connection, home.stores.now())
    finish(home, second)
    with pytest.raises(StaleVersion):
        finish(home, second, JobStatus.FAILED)
    assert job(home, id_)["status"] == "succeeded"


def test_a_file_at_which_two_processes_died_fails_by_name(home):
    id_ = uploaded(home)
    for deaths in range(2):
        assert taken(home, id_).job.deaths == deaths
        home.clock.advance(minutes=1)
    [receipt] = work(home)

    assert (receipt.status, receipt.reason) == ("failed", "TooLarge")
    assert job(home, id_)["status"] == "failed"
    assert "the process that read it died 2 times" in job(home, id_)["failureReason"]


def test_a_file_that_is_given_back_killed_nobody(home):
    id_ = uploaded(home)
    for _ in range(3):
        home.stores.state.jobs.release(taken(home, id_).job)
    [receipt] = work(home)

    assert (receipt.status, job(home, id_)["status"]) == ("done", "succeeded")


@pytest.mark.long
def test_files_at_which_somebody_died_are_read_one_at_a_time_and_no_other_waits(home):
    killers, modest = [uploaded(home) for _ in range(2)], uploaded(home)
    for id_ in killers:
        taken(home, id_)
    home.clock.advance(minutes=1)
    with reading_alone(home.stores.home, "another", died=True):
        for id_ in killers:
            with pytest.raises(Busy, match="read alone"):
                run_upload(home.organization, id_)
        assert run_upload(home.organization, modest).status == "done"
    # Who waited for its turn had no lease of the job, and could not die at it.
    found = [home.stores.state.jobs.get(id_) for id_ in killers]
    assert [(each.attempt, each.deaths) for each in found] == [(1, 0), (1, 0)]
    assert {each.status for each in work(home)} == {"done"}


def test_a_renewed_lease_lasts_longer(home):
    id_ = uploaded(home)
    first = taken(home, id_)
    home.clock.advance(seconds=50)
    with home.stores.state.writing_home() as connection:
        first.job.lease.renew(connection, home.stores.now())
    home.clock.advance(seconds=50)

    assert taken(home, id_) is None


def test_an_attempt_that_lost_its_job_stops_before_the_next_row(home, tmp_path):
    id_ = uploaded(home)
    first = taken(home, id_)
    with running(home.stores.state.jobs, first.job) as attempt:
        work_of_first = Work(home.stores, first, tmp_path, attempt)
        work_of_first.go_on(1)
        home.clock.advance(minutes=1)
        taken(home, id_)
        attempt.renew()

        with pytest.raises(StaleVersion):
            work_of_first.go_on(1)


def test_an_attempt_that_fails_for_now_is_repeated_at_once(home):
    id_ = uploaded(home)
    lake = home.organization.lake_folder / "staging"
    lake.rename(lake.with_name("away"))
    lake.write_text("in the way")
    with pytest.raises(Unavailable):
        work(home)
    assert job(home, id_)["status"] == "running"
    lake.unlink()
    lake.with_name("away").rename(lake)

    assert [receipt.accepted for receipt in work(home)] == [2]


@pytest.mark.long
def test_many_workers_run_a_job_once(home):
    ids = [uploaded(home, json.dumps([wire_row(f"u{n}")]).encode()) for n in range(3)]
    found = []

    def one():
        options = settings(home.stores.home)
        with open_stores(options, now=home.clock) as stores:
            found.extend(ingest_uploads(stores.organization(home.org_id)))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sorted(receipt.delivery.id for receipt in found) == sorted(ids)
    assert [row[1] for row in home.ledger()] == [1, 1, 1]
    home.check()


def test_an_attempt_that_was_silent_keeps_its_successor_of_the_same_home_away(home):
    id_ = uploaded(home)
    folder = home.stores.home / "uploads" / home.org_id / id_
    folder.mkdir(parents=True)
    with FileLock(folder / "lock"):
        with pytest.raises(Busy):
            run_upload(home.organization, id_)
        assert work(home) == []

    assert len(work(home)) == 1
    assert not folder.exists()


# --- files that come, do not come, or go ---------------------------------------------------------


def test_a_file_whose_arrival_nobody_wrote_down_is_noticed(home):
    made = announced(home)
    home.stores.objects.put_bytes(f"uploads/{home.org_id}/{made['jobId']}", DATA)
    home.clock.advance(hours=1)

    assert [receipt.accepted for receipt in work(home)] == [2]
    assert job(home, made["jobId"])["status"] == "succeeded"


def test_a_url_that_was_never_used_fails_its_job(home):
    made = announced(home)
    home.clock.advance(seconds=60)
    settle(home.organization)
    assert job(home, made["jobId"])["status"] == "notUploaded"
    home.clock.advance(seconds=1)
    settle(home.organization)
    found = job(home, made["jobId"])

    assert (found["status"], found["version"]) == ("failed", 2)
    assert found["failureReason"].startswith("NotUploaded: ")
    settle(home.organization)
    said = "f.json: no file came before the upload URL ended"
    assert alerts(home) == {made["jobId"]: said}
    with pytest.raises(Forbidden, match="has ended"):
        send(home, made)
    with pytest.raises(NotFound):
        original(home.organization, made["jobId"])
    assert list(home.stores.objects.list()) == []


def test_a_file_that_is_gone_fails_its_job_and_holds_up_no_other(home):
    first, second = uploaded(home), uploaded(home, DATA + b" ")
    home.stores.objects.delete(f"uploads/{home.org_id}/{first}")

    assert [receipt.delivery.id for receipt in work(home)] == [second]
    assert job(home, first)["status"] == "failed"
    assert job(home, first)["failureReason"].startswith("FileGone: ")
    assert list(alerts(home)) == [first]


def test_an_upload_outlives_a_move_of_the_home(home, tmp_path):
    need_folder()
    id_ = uploaded(home)
    home.stores.close()
    moved = tmp_path / "elsewhere"
    home.stores.home.rename(moved)
    with open_home(moved, home.org_id) as again:
        assert [receipt.delivery.id for receipt in work(again)] == [id_]


# --- other object stores ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def account(tmp_path_factory):
    """The key file of a service account, which can sign."""
    with service_account() as content:
        file = tmp_path_factory.mktemp("account") / "key.json"
        file.write_text(json.dumps(content))
        yield str(file)


@pytest.fixture(params=["moto", "gs", pytest.param("radosgw", marks=pytest.mark.slow)])
def remote(request, new_place, tmp_path, monkeypatch):
    """A home whose uploads lie in another store."""
    place = new_place(request.param)
    if request.param == "gs":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", request.getfixturevalue("account"))
    endpoint = "gcs_endpoint" if request.param == "gs" else "s3_endpoint"
    with a_home(tmp_path, objects=place.url, **{endpoint: place.server}) as made:
        yield made


def put(made, data=DATA, **headers):
    return httpx.put(made["url"], content=data, headers={**made["headers"], **headers})


def test_a_file_in_another_store_is_noticed_and_ingested(remote):
    made = announced(remote)
    settle(remote.organization)
    assert job(remote, made["jobId"])["status"] == "notUploaded"
    assert put(made).status_code == 200

    assert [receipt.accepted for receipt in work(remote)] == [2]
    found = job(remote, made["jobId"])
    assert (found["status"], found["totalRows"]) == ("succeeded", 2)
    download = original(remote.organization, made["jobId"])
    assert remote.stores.objects.get(download.key) == DATA
    assert list((remote.stores.home / "uploads" / remote.org_id).iterdir()) == []


@pytest.mark.parametrize(
    "number", [3, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2))]
)
def test_a_store_whose_nth_answer_is_lost_costs_a_try_and_nothing_else(
    number, new_place, tmp_path, monkeypatch
):
    monkeypatch.setattr("meterlake.stores.objects.s3.ATTEMPTS", 1)
    place = new_place("moto")
    with a_home(tmp_path, objects=place.url, s3_endpoint=place.server) as home:
        made = announced(home)
        assert put(made).status_code == 200
    with FaultyNetwork(place.server) as network:
        answers = itertools.count(1)
        monkeypatch.setattr(
            network, "_take", lambda counter: counter == "lose_answers" and next(answers) == number
        )
        changes = {"objects": place.url, "s3_endpoint": network.url}
        with open_home(home.stores.home, home.org_id, **changes) as again:
            for _ in range(3):
                with contextlib.suppress(Unavailable):
                    work(again)
                again.clock.advance(minutes=2)

            assert next(answers) > number
            assert job(again, made["jobId"])["status"] == "succeeded"
            assert [accepted for *_, accepted, _, _ in again.ledger()] == [2]
            again.check()


@pytest.mark.long
def test_a_url_of_another_store_signs_what_was_announced(remote):
    made = announced(remote)
    query = parse_qs(urlsplit(made["url"]).query)
    [signed] = query.get("X-Amz-SignedHeaders") or query["X-Goog-SignedHeaders"]

    once = {"content-length", "if-none-match"}
    if "x-goog" in signed:
        once = {"x-goog-content-length-range", "x-goog-if-generation-match"}
    assert {"content-type", *once} <= set(signed.split(";"))
    assert {*once, "content-length"} <= {name.lower() for name in made["headers"]}
    assert (query.get("X-Amz-Expires") or query["X-Goog-Expires"]) == ["60"]


def test_a_google_store_without_an_account_cannot_sign(new_place, tmp_path):
    place = new_place("gs")
    with (
        a_home(tmp_path, objects=place.url, gcs_endpoint=place.server) as home,
        pytest.raises(Invalid, match="signing needs a service account"),
    ):
        announced(home)


def test_another_length_in_another_store_fails_the_job(remote):
    made = announced(remote)
    remote.stores.objects.put_bytes(f"uploads/{remote.org_id}/{made['jobId']}", DATA + b" ")

    assert work(remote) == []
    assert job(remote, made["jobId"])["failureReason"].startswith("WrongLength: ")
    assert "bytes came" in alerts(remote)[made["jobId"]]


def test_a_url_of_another_store_is_waited_for_longer(remote):
    made = announced(remote)
    remote.clock.advance(seconds=3600)
    settle(remote.organization)
    assert job(remote, made["jobId"])["status"] == "notUploaded"
    remote.clock.advance(seconds=61)
    settle(remote.organization)
    assert job(remote, made["jobId"])["failureReason"].startswith("NotUploaded: ")


@pytest.mark.long
def test_a_store_that_checks_signatures_takes_what_was_announced_once(new_place, tmp_path):
    place = new_place("radosgw")
    with a_home(tmp_path, objects=place.url, s3_endpoint=place.server) as home:
        made = announced(home)
        assert put(made, **{"Content-Type": "text/csv"}).status_code == 403
        assert put(made, DATA + b" ", **{"Content-Length": str(len(DATA) + 1)}).status_code == 403
        assert httpx.put(made["url"], content=DATA).status_code == 403
        assert put(made).status_code == 200
        assert put(made, b"x" * len(DATA)).status_code == 412
        assert [receipt.accepted for receipt in work(home)] == [2]


@pytest.mark.long
def test_a_url_that_a_store_signed_opens_one_key_to_one_method_for_its_time(new_place, tmp_path):
    place = new_place("radosgw")
    with a_home(tmp_path, objects=place.url, s3_endpoint=place.server, upload_seconds=2) as home:
        made, late = announced(home), announced(home)
        path, _, query = made["url"].partition("?")
        headers = dict(made["headers"])

        def asked(method, url, **changes):
            # Length and type are signed, so every method has to send the announced file.
            sent = headers | changes
            return httpx.request(method, url, headers=sent, content=DATA).status_code

        other_key = f"{path.rpartition('/')[0]}/another?{query}"
        above = f"{path.rpartition('/')[0]}?{query}"
        assert asked("PUT", other_key) == 403
        assert asked("PUT", f"{path}x?{query}") == 403
        assert asked("GET", above) == 403
        for method in ("GET", "DELETE", "POST", "HEAD"):
            assert asked(method, made["url"]) in {403, 405}, method
        assert asked("PUT", made["url"], **{"Content-Type": "text/html"}) == 403
        longer = re.sub(r"X-Amz-Expires=\d+", "X-Amz-Expires=9999", made["url"])
        assert longer != made["url"]
        assert asked("PUT", longer) == 403
        signature = re.search(r"X-Amz-Signature=([0-9a-f]+)", made["url"])[1]
        assert asked("PUT", made["url"].replace(signature, "0" * len(signature))) == 403
        assert list(home.stores.objects.list("")) == []
        time.sleep(3)
        assert asked("PUT", late["url"]) == 403
        assert list(home.stores.objects.list("")) == []


def test_the_worker_runs_jobs_until_it_is_stopped(home):
    id_ = uploaded(home)
    rounds = iter(range(10_000))

    def stop():
        return job(home, id_)["status"] != "running" or next(rounds, None) is None

    go_round(UPLOADS, home.stores, stop, every=0)

    assert job(home, id_)["status"] == "succeeded"


@pytest.mark.long
def test_an_upload_of_which_every_row_was_rejected_has_not_succeeded(home):
    rows = [wire_row("u1", "x"), wire_row("u2", "y"), wire_row("u3", meter="nothing")]
    wrong = uploaded(home, json.dumps(rows).encode())
    some = uploaded(home, json.dumps([*rows, wire_row("u4")]).encode())
    known = uploaded(home, json.dumps([wire_row("u4"), rows[0]]).encode())

    assert len(work(home)) == 3

    found = job(home, wrong)
    assert (found["status"], found["totalRows"], found["failedRows"]) == ("failed", 3, 3)
    assert found["failureReason"] == (
        "AllRowsRejected: none of 3 rows came in (InvalidNumber 2, UndefinedMeter 1)"
    )
    assert job(home, some)["status"] == "succeeded"
    # Its row came in before.
    assert (job(home, known)["status"], job(home, known)["processedRows"]) == ("succeeded", 1)
