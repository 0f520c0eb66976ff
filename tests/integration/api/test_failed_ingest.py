"""From measurements that were refused to the file that says why: through HTTP, with the SDK."""

import time
from datetime import timedelta

import httpx
import m3ter
import pytest

from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.segments import ingest_segments
from meterlake.stores.downloads import Download, Downloads
from tests.homes import EGRESS, configure, wire_row
from tests.served import served

BAD = [
    wire_row("b1", meter="nope"),
    wire_row("b2") | {"measure": {"gb": 1, "other": 2}},
    wire_row("b3", ts="2126-01-01T00:00:00Z"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("failed") / "home", segment_seconds=0.1) as running:
        configure(running.organization, meters=[EGRESS])
        yield running


@pytest.fixture(scope="module")
def event(server):
    """The event of a batch of which three measurements are bad."""
    with server.sdk() as client:
        client.usage.submit(measurements=[wire_row("g1"), *BAD])
        give_up = time.monotonic() + 30
        while not ingest_segments(server.organization):
            assert time.monotonic() < give_up
            time.sleep(0.05)
        [found] = client.events.list(event_type="IngestValidationFailure").data
    return found


def told(event):
    return event.m3ter_event["eventData"]["newDto"]


@pytest.mark.happens("ingest.validation.failure")
def test_the_event_says_what_happened(event):
    assert event.event_name == "ingest.validation.failure"
    assert event.m3ter_event["eventType"] == "IngestValidationFailure"
    assert told(event)["failures"] == 3
    assert told(event)["accepted"] == 1
    assert sum(told(event)["reasons"].values()) == 3


@pytest.mark.parametrize("member", ["file", "getDownloadUrl"])
@pytest.mark.sees("GetValidationErrorDownloadUrl")
def test_the_link_gives_the_file_without_a_token(server, event, member):
    with server.sdk() as client:
        url = client.usage.get_failed_ingest_download_url(file=told(event)[member]).url
    answer = httpx.get(url)

    assert answer.status_code == httpx.codes.OK
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert [entry["measurement"] for entry in answer.json()] == BAD
    assert all(entry["error"]["type"] and entry["error"]["message"] for entry in answer.json())


def test_the_url_of_the_event_can_be_called_as_it_is(server, event):
    with server.http() as http:
        path = told(event)["getDownloadUrl"].removeprefix(f"/organizations/{server.org_id}")
        answer = http.get(path)

    assert httpx.get(answer.json()["url"]).json()[0]["measurement"] == BAD[0]


@pytest.mark.parametrize(
    "file",
    [
        "failed-ingest/{other}/{name}",
        "failed-ingest/{org}/../../secret.key",
        "../secret.key",
        "/etc/passwd",
        "failed-ingest/{org}/" + "0" * 64 + "-1.json",
    ],
)
def test_no_other_file_can_be_had(server, event, file):
    name = told(event)["file"].rpartition("/")[2]
    wanted = file.format(other="0" * 36, org=server.org_id, name=name)
    with server.sdk() as client, pytest.raises(m3ter.NotFoundError):
        client.usage.get_failed_ingest_download_url(file=wanted)


def test_without_a_file_or_a_token_there_is_no_link(server, event):
    with server.sdk() as client, pytest.raises(m3ter.BadRequestError, match="file"):
        client.usage.get_failed_ingest_download_url()
    with server.http("none") as http:
        path = "/measurements/failedIngest/getDownloadUrl"
        answer = http.get(path, params={"file": told(event)["file"]})
    assert answer.status_code == httpx.codes.UNAUTHORIZED


def test_another_organization_of_the_home_does_not_get_the_file(server, event):
    made = initialize(server.settings, "Other")
    changes = {"api_key": made.access_key_id, "api_secret": made.api_secret}
    with server.sdk(**changes, org_id=made.org_id) as client:
        with pytest.raises(m3ter.NotFoundError):
            client.usage.get_failed_ingest_download_url(file=told(event)["file"])
        with pytest.raises(m3ter.PermissionDeniedError):
            client.usage.get_failed_ingest_download_url(
                org_id=server.org_id, file=told(event)["file"]
            )


@pytest.mark.parametrize("change", ["", "x", "{}x", "x{}"])
def test_a_changed_link_is_refused(server, event, change):
    path = server.stores.downloads.path(Download(told(event)["file"], "a.json"), 60)
    token = path.rpartition("/")[2]
    answer = httpx.get(f"{server.url}/downloads/{change.format(token) or token[:-4]}")

    assert answer.status_code == httpx.codes.FORBIDDEN
    assert "secret" not in answer.text


def test_a_link_ends(server, event):
    before = server.stores.now() - timedelta(seconds=301)
    past = Downloads(server.stores.secrets, lambda: before)
    key = told(event)["file"]

    ended = httpx.get(server.url + past.path(Download(key, "a.json"), 300))
    open_ = httpx.get(server.url + past.path(Download(key, "a.json"), 330))
    assert (ended.status_code, open_.status_code) == (403, 200)


def test_what_else_is_encrypted_with_the_key_is_no_link(server):
    for text in ("{}", "[]", "hush", '{"for": "login"}'):
        token = server.stores.secrets.encrypt(text)
        answer = httpx.get(f"{server.url}/downloads/{token}")
        assert answer.status_code == httpx.codes.FORBIDDEN


def test_a_file_that_is_gone_is_not_found(server):
    path = server.stores.downloads.path(Download("failed-ingest/gone.json", "a.json"), 60)

    assert httpx.get(server.url + path).status_code == httpx.codes.NOT_FOUND


@pytest.mark.sees("MarkEventActioned")
def test_an_event_is_marked_actioned_once(server, event):
    path = f"/events/{event.id}/actioned"
    with server.http() as http, server.sdk() as client:
        assert http.post("/events/nothing/actioned").status_code == httpx.codes.NOT_FOUND
        assert client.events.retrieve(event.id).dt_actioned.year == 1970
        first, second = http.post(path).json(), http.post(path).json()
        open_ = client.events.list(event_type="IngestValidationFailure").data
        every = client.events.list(event_type="IngestValidationFailure", include_actioned=True).data

    assert first == second
    assert not first["dtActioned"].startswith("1970")
    assert open_ == []
    assert [each.id for each in every] == [event.id]
