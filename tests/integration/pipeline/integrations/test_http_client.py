"""Requests to others: the address is checked when it is called, and the connection goes there."""

import asyncio
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from meterlake.model.configuration.network_addresses import PUBLIC_ONLY, AddressPolicy
from meterlake.model.errors import Invalid, Unavailable
from meterlake.pipeline.integrations import http_client
from meterlake.pipeline.integrations.http_client import BODY_MAX, HttpClient
from tests.doubles.receivers import respond, running_receiver

NAME = "hooks.example.com"
HERE = AddressPolicy.of(["127.0.0.1"])


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


def resolver(*answers):
    """A resolver that gives one answer after the other, and what it was asked."""
    left = list(answers)
    asked = []

    async def resolve(host, port):
        asked.append((host, port))
        found = left.pop(0) if len(left) > 1 else left[0]
        return [ip_address(each) for each in found]

    resolve.asked = asked
    return resolve


def post(client, url, body=b"{}", times=1):
    async def work():
        try:
            for _ in range(times):
                answer = await client.request("POST", url, [("X-Own", "1")], body)
            return answer
        finally:
            await client.close()

    return asyncio.run(work())


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["10.0.0.1"],
        ["93.184.216.34", "127.0.0.1"],
        ["::ffff:127.0.0.1"],
        ["fd00:ec2::254"],
        ["64:ff9b::7f00:1"],
        ["0.0.0.0"],
    ],
)
def test_a_name_that_leads_inside_when_it_is_called_is_not_called(receiver, addresses):
    resolve = resolver(addresses)

    with pytest.raises(Invalid, match=r"hooks\.example\.com"):
        post(HttpClient(PUBLIC_ONLY, resolve), f"https://{NAME}:{receiver.port}/200")

    assert resolve.asked == [(NAME, receiver.port)]
    assert receiver.received == []


def test_the_connection_goes_to_the_address_that_was_checked(receiver):
    """Whoever asked again would get another one."""
    resolve = resolver(["127.0.0.1"], ["10.255.255.1"])
    policy = AddressPolicy.of([NAME])

    answer = post(HttpClient(policy, resolve), f"http://{NAME}:{receiver.port}/200", b'{"a":1}')

    [got] = receiver.received
    assert answer.status == 200
    assert (got.headers["host"], got.body) == (f"{NAME}:{receiver.port}", b'{"a":1}')
    assert len(resolve.asked) == 1


def test_the_next_address_of_a_host_is_tried_if_one_does_not_answer(receiver):
    resolve = resolver(["127.0.0.2", "127.0.0.1"])

    url = f"http://{NAME}:{receiver.port}/200"
    assert post(HttpClient(AddressPolicy.of([NAME]), resolve), url).status == 200


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "https://10.0.0.1/", "https://[::1]/"])
def test_an_address_inside_is_not_even_resolved(url):
    resolve = resolver(["93.184.216.34"])

    with pytest.raises(Invalid, match="url"):
        post(HttpClient(PUBLIC_ONLY, resolve), url)
    assert resolve.asked == []


def test_a_redirect_is_an_answer(receiver):
    receiver.answers["/301"] = lambda handler: respond(
        handler, 302, Location="http://169.254.169.254/latest/meta-data"
    )

    assert post(HttpClient(HERE), receiver.url("/301")).status == 302
    assert len(receiver.received) == 1


def test_a_proxy_of_the_environment_sees_nothing(receiver, monkeypatch):
    with running_receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert post(HttpClient(HERE), receiver.url()).status == 200
        assert proxy.received == []


def test_what_is_compressed_stays_so(receiver):
    """Nobody unpacks a bomb."""
    receiver.answers["/200"] = lambda handler: respond(
        handler, 200, b"\x1f\x8b not unpacked", Content_Encoding="gzip"
    )

    assert post(HttpClient(HERE), receiver.url()).body == b"\x1f\x8b not unpacked"


def test_a_body_is_read_to_its_limit(receiver):
    receiver.answers["/200"] = lambda handler: respond(handler, 200, b"x" * (BODY_MAX + 1))

    answer = post(HttpClient(HERE), receiver.url())

    assert (len(answer.body), answer.is_whole) == (BODY_MAX, False)


def test_a_connection_serves_several_requests(receiver):
    resolve = resolver(["127.0.0.1"])

    url = f"http://{NAME}:{receiver.port}/200"
    post(HttpClient(AddressPolicy.of([NAME]), resolve), url, times=5)

    assert len(receiver.received) == 5
    assert len(resolve.asked) == 1


def test_connections_that_end_while_others_are_used_disturb_nobody(receiver, monkeypatch):
    monkeypatch.setattr(http_client, "_IDLE_S", 0.05)

    async def work():
        client = HttpClient(HERE)
        for _ in range(10):
            calls = (client.request("POST", receiver.url(), []) for _ in range(10))
            assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
            await asyncio.sleep(0.1)
        await client.close()

    asyncio.run(work())
    assert len(receiver.received) == 100


def test_a_body_where_none_may_be_spoils_no_other_answer(receiver):
    receiver.answers["/204"] = lambda handler: respond(handler, 204, b'{"done": true}')

    assert post(HttpClient(HERE), receiver.url("/204"), times=4).status == 204
    assert len(receiver.received) == 4


@pytest.mark.parametrize("value", ["k\r\nX-Evil: 1", "k\n", "k ", "k\0"])
def test_a_header_that_http_cannot_carry_is_not_shown(receiver, value):
    async def work():
        client = HttpClient(HERE)
        await client.request("POST", receiver.url(), [("Authorization", f"Bearer{value}")])

    with pytest.raises(Invalid) as refused:
        asyncio.run(work())
    assert "Bearer" not in str(refused.value)
    assert receiver.received == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://127.0.0.1:1/", "127.0.0.1"), ("http://nobody.invalid/", "nobody.invalid")],
)
def test_what_does_not_answer_is_unavailable(url, reason):
    policy = AddressPolicy.of(["127.0.0.1", "nobody.invalid"])

    with pytest.raises(Unavailable, match=reason):
        post(HttpClient(policy), url)


def _certificate(name, folder):
    """A certificate of a host that signs itself, with its key, in a file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    file = folder / f"{name}.pem"
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + made.public_bytes(pem)
    )
    return file


@contextmanager
def serving_tls(file):
    """A server with a certificate; the names that clients want to speak to."""
    names = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            names.append(self.headers["Host"])
            respond(self, 200)

        def log_message(self, *_):
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.sni_callback = lambda _, name, __: names.append(name)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_address[1], names
    finally:
        server.shutdown()
        server.server_close()


def test_tls_and_the_host_have_the_name_though_the_connection_goes_to_an_address(
    tmp_path, monkeypatch
):
    file = _certificate(NAME, tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    client = HttpClient(AddressPolicy.of([NAME]), resolver(["127.0.0.1"]))

    with serving_tls(file) as (port, names):
        assert post(client, f"https://{NAME}:{port}/").status == 200

    assert names == [NAME, f"{NAME}:{port}"]


def test_the_certificate_of_another_host_is_refused(tmp_path, monkeypatch):
    file = _certificate("other.example.com", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    client = HttpClient(AddressPolicy.of([NAME]), resolver(["127.0.0.1"]))

    with serving_tls(file) as (port, names), pytest.raises(Unavailable, match="certificate"):
        post(client, f"https://{NAME}:{port}/")

    assert NAME in names
    assert f"{NAME}:{port}" not in names
