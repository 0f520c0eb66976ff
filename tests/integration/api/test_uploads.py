"""Uploads over HTTP: through the SDK as its users do it, and everything that can go wrong."""

import gzip
import json
import logging
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import httpx
import m3ter
import pytest

from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.uploads import announce as announce_file
from meterlake.pipeline.ingest.uploads import run_upload, settle
from meterlake.stores import open_stores
from tests.homes import ACCOUNTS, EGRESS, configure, wire_row
from tests.served import served

ROWS = json.dumps([wire_row("a"), wire_row("b", gb="no number"), wire_row("a")]).encode()
TYPE = "text/json"
WAIT_S = 180


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("uploads") / "home", upload_bytes=5_000_000) as found:
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        yield found


@pytest.fixture
def uploads(server):
    with server.sdk() as sdk:
        yield sdk.usage.file_uploads


@pytest.mark.long
def test_an_organization_announces_no_more_than_may_wait(tmp_path):
    """What is announced counts until its file has come and was ingested, or can come no more."""
    most = {"upload_bytes": 1000, "upload_waiting_bytes": 3000}
    with served(tmp_path / "home", **most) as found, found.sdk() as sdk:
        other = initialize(found.settings, "Other").org_id
        files, quiet = sdk.usage.file_uploads, sdk.with_options(max_retries=0).usage.file_uploads
        for _ in range(3):
            announce(files, length=1000)
        with pytest.raises(m3ter.RateLimitError, match="3000 of them are unfinished") as caught:
            announce(quiet, length=1)
        assert caught.value.response.headers["retry-after"] == "60"
        body = {"fileName": "f", "contentType": TYPE, "contentLength": 1000}
        assert announce_file(found.stores.organization(other), "t", body, found.url)["jobId"]

        with open_stores(found.settings, lambda: datetime.now(UTC) + timedelta(hours=2)) as later:
            settle(later.organization(found.org_id))
        assert announce(files, length=1000).job_id


def announce(uploads, data=ROWS, name="f.json", length=None, kind=TYPE):
    return uploads.generate_upload_url(
        file_name=name, content_type=kind, content_length=len(data) if length is None else length
    )


def put(url, data=ROWS, **headers):
    return httpx.put(url.url, content=data, headers={**url.headers, **headers})


def work(server, *urls):
    """Run the jobs of some files; those of other tests may wait."""
    return [run_upload(server.organization, url.job_id) for url in urls]


def files(server):
    """What lies in the store, finished or not."""
    return [each.name for each in server.stores.home.glob("objects/uploads/*/*")]


def half_files(server):
    return [name for name in files(server) if name.endswith(".part")]


@pytest.mark.sees(
    "GenerateUploadUrl", "PutUploadFile", "GetUploadJobResponse", "GetJobOriginalFileDownloadUrl"
)
def test_a_file_goes_up_is_ingested_and_comes_down_again(server, uploads):
    url = announce(uploads)
    job = uploads.jobs.retrieve(url.job_id)
    assert (job.status, job.version, job.file_name, job.content_length) == (
        "notUploaded",
        1,
        "f.json",
        len(ROWS),
    )
    assert job.total_rows is None

    assert put(url).status_code == 200
    assert uploads.jobs.retrieve(url.job_id).status == "running"
    work(server, url)
    job = uploads.jobs.retrieve(url.job_id)

    assert job.status == "succeeded"
    assert (job.total_rows, job.processed_rows, job.failed_rows) == (3, 2, 1)
    assert job.to_dict()["failureReasons"] == {"InvalidNumber": 1}
    assert job.version == 3
    assert job.upload_date
    link = uploads.jobs.get_original_download_url(url.job_id)
    found = httpx.get(link.url)
    assert found.content == ROWS
    assert "f.json" in found.headers["content-disposition"]


def test_an_upload_is_one_more_door_to_the_same_measurements(server, uploads):
    data = json.dumps([wire_row("door-1"), wire_row("door-2")]).encode()
    urls = [announce(uploads, data + b" " * n) for n in range(2)]
    for n, url in enumerate(urls):
        assert put(url, data + b" " * n).status_code == 200
    work(server, *urls)
    first, second = (uploads.jobs.retrieve(url.job_id).to_dict() for url in urls)

    assert (first["repeatedRows"], second["repeatedRows"]) == (0, 2)
    assert first["processedRows"] == second["processedRows"] == 2


@pytest.mark.parametrize(
    ("wrong", "value"),
    [
        ("file_name", ""),
        ("file_name", "x" * 101),
        ("content_type", ""),
        ("content_type", "x" * 101),
        ("content_type", "text/json\r\nX-Evil: 1"),
        ("content_type", " text/json"),
        ("content_type", "text/jsön"),
        ("content_length", 0),
        ("content_length", -1),
        ("content_length", 5_000_001),
        ("content_length", 1.5),
    ],
)
def test_what_cannot_be_announced(server, wrong, value):
    asked = {"file_name": "f.json", "content_type": TYPE, "content_length": 10} | {wrong: value}
    names = {"file_name": "fileName", "content_type": "contentType", "content_length": None}
    body = {names[key] or "contentLength": each for key, each in asked.items()}
    with server.http() as http:
        found = http.post("/fileuploads/measurements/generateUploadUrl", json=body)

    assert found.status_code == 400
    assert (names[wrong] or "contentLength") in found.json()["message"]
    assert ("the file is empty; write its rows into it" in found.json()["message"]) is (value == 0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x", "a/b"),
        ("ü" * 100, "x" * 100),
        ("../../etc/passwd", "a/b"),
        ('a"b;c.json', 'multipart/x; boundary="a b"'),
    ],
)
def test_any_name_and_type_within_the_limits_will_do(uploads, name, kind):
    url = announce(uploads, name=name, kind=kind)

    assert put(url).status_code == 200
    assert uploads.jobs.retrieve(url.job_id).file_name == name
    assert httpx.get(uploads.jobs.get_original_download_url(url.job_id).url).content == ROWS


# --- a PUT that is not as announced ------------------------------------------------------------


def test_another_length_is_refused(server, uploads):
    url = announce(uploads)
    for data in (ROWS[:-1], ROWS + b" ", b""):
        answer = httpx.put(url.url, content=data, headers={"Content-Type": TYPE})
        assert answer.status_code == 400
        assert "content-length" in answer.json()["message"]

    assert half_files(server) == []
    assert put(url).status_code == 200


@pytest.mark.parametrize(("data", "status"), [(ROWS[:-1], 400), (ROWS + b" ", 413)])
def test_another_length_without_a_word_is_refused_too(server, uploads, data, status):
    url = announce(uploads)
    answer = httpx.put(url.url, content=iter([data]), headers={"Content-Type": TYPE})

    assert answer.status_code == status
    assert half_files(server) == []
    # In pieces, without its length, it may come as well.
    again = httpx.put(url.url, content=iter([ROWS[:7], ROWS[7:]]), headers={"Content-Type": TYPE})
    assert again.status_code == 200


@pytest.mark.parametrize(
    "headers", [{"Content-Type": "text/csv"}, {"Content-Type": ""}, {"Content-Encoding": "gzip"}]
)
def test_another_type_or_encoding_is_refused(uploads, headers):
    url = announce(uploads)

    assert put(url, **headers).status_code == 415
    assert put(url).status_code == 200


def test_a_url_that_was_changed_is_refused(server, uploads):
    url = announce(uploads)
    stolen = uploads.jobs.get_original_download_url(_done(uploads))
    token = url.url.rpartition("/")[2]
    changed = token[:60] + ("A" if token[60] != "A" else "B") + token[61:]
    forged = [changed, "x", token[:-8], stolen.url.rpartition("/")[2]]
    for each in forged:
        answer = httpx.put(f"{server.url}/uploads/{each}", content=ROWS, headers=url.headers)
        assert answer.status_code == 403, each
        assert answer.json()["message"]
    assert httpx.get(url.url).status_code == 405


def _done(uploads):
    url = announce(uploads)
    put(url)
    return url.job_id


@pytest.mark.long
def test_a_url_works_once(server, uploads):
    url = announce(uploads)
    assert put(url).status_code == 200
    again = put(url)
    assert again.status_code == 409
    assert again.json()["message"].endswith(
        "is there already: its URL works once; begin another upload"
    )
    work(server, url)
    assert put(url, b"x" * len(ROWS)).status_code == 409
    assert uploads.jobs.retrieve(url.job_id).status == "succeeded"


def test_a_store_that_cannot_be_written_is_no_fault_of_the_sender(server, uploads, caplog):
    url = announce(uploads)
    folder = server.stores.objects.path(f"uploads/{server.org_id}")
    aside = folder.with_name("aside")
    folder.mkdir(parents=True, exist_ok=True)
    folder.rename(aside)
    folder.write_text("in the way")
    refused = put(url)
    folder.unlink()
    aside.rename(folder)

    assert refused.status_code == 503
    assert str(server.settings.home) not in refused.text  # but in the log
    assert "the store of uploads is unavailable" in caplog.text
    assert put(url).status_code == 200


def test_the_log_keeps_signed_urls_to_itself(uploads, caplog):
    url = announce(uploads)
    with caplog.at_level(logging.INFO, "meterlake.access"):
        put(url)
        link = uploads.jobs.get_original_download_url(url.job_id).url
        httpx.get(link)
        eventually(lambda: sum(each.name == "meterlake.access" for each in caplog.records) >= 2)

    assert "PutUploadFile" in caplog.text
    assert url.url.rpartition("/")[2] not in caplog.text
    assert link.rpartition("/")[2] not in caplog.text


# --- a raw connection: what no client library would do ------------------------------------------


def begin(url, sent, length=None):
    """A PUT that has begun: its head and some bytes are sent."""
    parts = urlsplit(url.url)
    connection = socket.create_connection((parts.hostname, parts.port))
    connection.sendall(
        f"PUT {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: {TYPE}\r\n"
        f"Content-Length: {len(ROWS) if length is None else length}\r\n\r\n".encode()
        + sent
    )
    return connection


def eventually(condition):
    give_up = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_a_put_that_broke_off_leaves_nothing_and_may_be_repeated(server, uploads):
    url = announce(uploads)
    connection = begin(url, ROWS[:10])
    eventually(lambda: half_files(server))
    connection.close()
    eventually(lambda: not half_files(server))

    assert uploads.jobs.retrieve(url.job_id).status == "notUploaded"
    assert put(url).status_code == 200


def test_of_two_clients_at_once_the_first_one_wins(server, uploads):
    url = announce(uploads)
    connection = begin(url, ROWS[:10])
    eventually(lambda: half_files(server))
    second = put(url)
    connection.sendall(ROWS[10:])

    assert b"200 OK" in connection.recv(1000)
    connection.close()
    assert second.status_code == 409
    told = f"upload job '{url.job_id}' is busy: another client sends its file; try again later"
    assert second.json()["message"] == told
    work(server, url)
    assert uploads.jobs.retrieve(url.job_id).status == "succeeded"


def test_many_clients_at_once_put_one_file(uploads):
    url, answers = announce(uploads), []
    clients = [threading.Thread(target=lambda: answers.append(put(url))) for _ in range(8)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()

    assert sorted(each.status_code for each in answers) == [200] + [409] * 7


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_late_put_is_refused_and_its_job_fails(tmp_path):
    with served(tmp_path / "home", upload_seconds=1) as server, server.sdk() as sdk:
        uploads = sdk.usage.file_uploads
        late, slow = announce(uploads), announce(uploads)
        connection = begin(slow, ROWS[:10])
        eventually(lambda: half_files(server))
        eventually(lambda: put(late, ROWS[:-1] + b"!").status_code == 403 or _forget(uploads, late))
        eventually(lambda: _settled(server, uploads, late))
        job = uploads.jobs.retrieve(late.job_id)

        # What began in time may take longer.
        assert uploads.jobs.retrieve(slow.job_id).status == "notUploaded"
        connection.sendall(ROWS[10:])
        assert b"200 OK" in connection.recv(1000)
        connection.close()
        assert uploads.jobs.retrieve(slow.job_id).status == "running"
        assert job.status == "failed"
        assert job.to_dict()["failureReason"].startswith("NotUploaded: ")
        assert put(late).status_code == 403
        with server.http() as http:
            answer = http.get(f"/fileuploads/measurements/jobs/{late.job_id}/original")
        assert answer.status_code == 404


def _forget(uploads, url):
    # The PUT came in time: announce another one.
    new = announce(uploads)
    url.url, url.job_id = new.url, new.job_id
    time.sleep(1.1)


def _settled(server, uploads, url):
    settle(server.organization)
    return uploads.jobs.retrieve(url.job_id).status == "failed"


# --- jobs -----------------------------------------------------------------------------------------


@pytest.mark.sees("ListJobs")
def test_jobs_are_listed_newest_first_by_pages_and_by_time(uploads):
    made = [announce(uploads).job_id for _ in range(3)]
    jobs = list(uploads.jobs.list(page_size=1))

    assert [job.id for job in jobs[:3]] == made[::-1]
    times = [job.to_dict()["dtCreated"] for job in jobs[:3]]
    since = list(uploads.jobs.list(date_created_start=times[1]))
    assert [job.id for job in since] == made[:0:-1]
    between = list(uploads.jobs.list(date_created_start=times[2], date_created_end=times[0]))
    assert [job.id for job in between] == made[1::-1]


@pytest.mark.parametrize(
    "query", ["dateCreatedStart=yesterday", "pageSize=101", "pageSize=0", "nextToken=x"]
)
def test_a_list_that_is_asked_for_wrongly(server, query):
    with server.http() as http:
        assert http.get(f"/fileuploads/measurements/jobs?{query}").status_code == 400


@pytest.mark.parametrize("id_", ["00000000-0000-4000-8000-000000000000", "x", "..%2f"])
def test_a_job_that_is_not_there(server, id_):
    with server.http() as http:
        for path in ("", "/original"):
            assert http.get(f"/fileuploads/measurements/jobs/{id_}{path}").status_code == 404


def test_a_file_that_cannot_be_read_fails_its_job(server, uploads):
    url = announce(uploads, b"no format at all", name="x.bin")
    put(url, b"no format at all")
    work(server, url)
    job = uploads.jobs.retrieve(url.job_id).to_dict()

    assert job["status"] == "failed"
    assert job["failureReason"].startswith("UnknownFormat: ")
    assert (job["totalRows"], job["processedRows"], job["failedRows"]) == (0, 0, 0)


@pytest.mark.long
def test_the_name_says_the_format_or_else_the_first_bytes(server, uploads):
    data = gzip.compress(ROWS, mtime=0)
    url = announce(uploads, data, name="some file", kind="application/octet-stream")
    assert put(url, data).status_code == 200
    work(server, url)

    assert uploads.jobs.retrieve(url.job_id).total_rows == 3


@pytest.mark.long
def test_a_larger_file_comes_in_whole(server, uploads):
    rows = [wire_row(f"large-{number}") for number in range(20_000)]
    data = json.dumps(rows).encode()
    url = announce(uploads, data, name="large.json")
    assert put(url, data).status_code == 200
    work(server, url)

    assert uploads.jobs.retrieve(url.job_id).processed_rows == 20_000
