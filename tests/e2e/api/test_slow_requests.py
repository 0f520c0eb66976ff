"""Heads and bodies over raw sockets that come slowly, never end, or are huge."""

import contextlib
import gzip
import json
import resource
import socket
import time

import httpx
import pytest

from meterlake.api.server.protocol import HEAD_MAX
from tests.served import served

SECONDS = 1
# A busy machine is no failure of the server; without a limit a minute would pass.
PATIENCE_S = 20
HOST = b"Host: localhost\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("served") / "home"
    with served(home, request_seconds=SECONDS) as running:
        yield running


@pytest.fixture
def connection(server):
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as opened:
        yield opened


@pytest.fixture
def bearer(server):
    return f"Authorization: Bearer {server.token()}\r\n".encode()


@pytest.fixture(autouse=True)
def _others_are_answered(server):
    yield
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def trickle(connection, data, pause_s=0.05):
    """Send byte by byte until the server has had enough; what it answers until it hangs up."""
    give_up = time.monotonic() + PATIENCE_S
    connection.settimeout(pause_s)
    answer, rest = b"", iter(data)
    while time.monotonic() < give_up:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.send(bytes([next(rest)]))
        try:
            received = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except ConnectionResetError:
            return answer
        if not received:
            return answer
        answer += received
    raise AssertionError(f"the server still listens; it said {answer!r}")


def rest_of(connection):
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while received := connection.recv(1 << 16):
            answer += received
    return answer


def said(answer):
    """Status and message of one whole answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\nconnection: close" in head.lower()
    return int(head.split()[1]), json.loads(body)["message"]


def post(path, headers, length=1000):
    return (
        f"POST {path} HTTP/1.1\r\n".encode()
        + HOST
        + headers
        + f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()
    )


# --- slow


@pytest.mark.parametrize(
    "start", [b"GET /healthz HTTP/1.1\r\n", b"POST /oauth/token HTTP/1.1\r\nX: "]
)
def test_a_head_that_comes_byte_by_byte_is_408(connection, start):
    connection.sendall(start)

    status, message = said(trickle(connection, b"a" * 10_000))

    assert status == 408
    assert (
        message
        == f"the head of the request did not come within {SECONDS} s; send the request again"
    )


@pytest.mark.parametrize("sent", [b"G", b"GET /healthz HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x"])
@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"])
def test_a_head_that_stops_within_its_first_packet_is_408(connection, before, sent):
    if before:
        connection.sendall(before)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
    connection.sendall(sent)

    status, message = said(rest_of(connection))

    assert status == 408
    assert (
        message
        == f"the head of the request did not come within {SECONDS} s; send the request again"
    )


def test_the_second_head_of_a_connection_has_no_more_time(connection):
    connection.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")

    status, _ = said(trickle(connection, b"GET /" + b"a" * 10_000))

    assert status == 408


def test_a_connection_on_which_nothing_comes_is_closed(connection):
    assert rest_of(connection) == b""


@pytest.mark.parametrize("path", ["/products", "/measurements", "/accounts"])
def test_a_body_that_comes_byte_by_byte_is_408_and_nothing_is_done(
    server, connection, bearer, path
):
    before = server.organization.configuration().versions()
    connection.sendall(post(f"/organizations/{server.org_id}{path}", bearer))

    status, message = said(trickle(connection, b'{"name": "Storage", "code": "storage"' * 100))

    assert status == 408
    assert (
        message
        == f"the body of the request did not come within {SECONDS:.1f} s; send the request again"
    )
    assert server.organization.configuration().versions() == before


def test_chunks_that_never_end_are_408(server, connection, bearer):
    path = f"/organizations/{server.org_id}/products"
    head = post(path, bearer).replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked")
    connection.sendall(head)

    assert said(trickle(connection, b"1\r\na\r\n" * 1000))[0] == 408


def test_a_slow_form_of_a_sign_in_is_408(connection):
    connection.sendall(post("/oauth/token", b""))

    assert said(trickle(connection, b"{" * 1000))[0] == 408


@pytest.mark.parametrize("path", ["/organizations/x/products", "/nowhere", "/uploads/x"])
def test_who_goes_on_sending_after_a_refusal_is_cut_off(connection, path):
    connection.sendall(post(path, b"", length=10_000_000))

    answer = trickle(connection, b"a" * 10_000)

    assert answer.split()[1] in {b"401", b"404", b"405"}


def test_an_answer_that_takes_longer_than_a_head_may_is_not_cut_off(server, bearer, connection):
    # The lock of a writer makes the first request wait; the second one is only half there.
    body = json.dumps({"name": "Waits", "code": "waits"}).encode()
    head = post(f"/organizations/{server.org_id}/products", bearer, len(body))
    with server.organization.transaction("test"):
        connection.sendall(head + body + b"GET /healthz HTT")
        time.sleep(2.5 * SECONDS)
    answer = rest_of(connection)

    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"code":"waits"' in answer


# --- huge


def send_all(connection, blocks):
    """Send until the server has had enough; how many bytes went, and its answer."""
    sent = 0
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for block in blocks:
            connection.sendall(block)
            sent += len(block)
    return sent, rest_of(connection)


BOMBS = {
    "one header": [b"GET / HTTP/1.1\r\nX: ", *[b"a" * 65_536] * 1000],
    "many headers": [b"GET / HTTP/1.1\r\n", *[b"X: a\r\n" * 10_000] * 1000],
    "a path": [b"GET /", *[b"a" * 65_536] * 1000],
    "a name": [b"GET / HTTP/1.1\r\n", *[b"a" * 65_536] * 1000],
    "one more byte than is read": [
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * HEAD_MAX + b"\r\n\r\n"
    ],
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_huge_head_is_431_and_kept_nowhere(connection, what):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    sent, answer = send_all(connection, BOMBS[what])

    # A socket that is closed while bytes are on their way may lose the answer.
    assert answer == b"" or said(answer)[0] == 431
    assert sent < 20_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB


def test_a_head_just_below_the_limit_is_read(connection):
    connection.sendall(
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * (HEAD_MAX - 100) + b"\r\n\r\n"
    )
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_no_http_is_refused_as_everything_else(connection):
    connection.sendall(b"\x16\x03\x01 what\r\n\r\n")

    assert said(rest_of(connection))[0] == 400


@pytest.mark.parametrize("zipped", [False, True])
def test_a_hundred_thousand_measurements_at_once_are_refused(server, zipped):
    row = {"meter": "m", "account": "a", "ts": "2026-10-01T00:00:00Z"}
    body = json.dumps({"measurements": [row] * 100_000}).encode()
    headers = {"Content-Type": "application/json"}
    if zipped:
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    with server.http() as client:
        found = client.post("/measurements", content=body, headers=headers)
    assert found.status_code == 403
    assert "under 512,000 bytes" in found.json()["message"]


@pytest.mark.long
def test_many_small_measurements_are_too_many(server):
    body = b'{"measurements":[' + b",".join([b"{}"] * 100_000) + b"]}"
    with server.http() as client:
        found = client.post(
            "/measurements", content=body, headers={"Content-Type": "application/json"}
        )
    assert found.status_code in {400, 403}


def test_an_upgrade_to_something_else_is_none(server):
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    assert httpx.get(f"{server.url}/nowhere", headers=headers).status_code == 404
