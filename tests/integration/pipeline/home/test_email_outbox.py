"""Letters get from the outbox to a real mail server: at least once, and never in a request."""

import logging
import ssl
import subprocess
from contextlib import ExitStack
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from meterlake.model.errors import Invalid, Required, Unavailable
from meterlake.pipeline.home.email_outbox import send_letters, try_letters
from meterlake.settings import Settings
from meterlake.stores.mail import GIVEN_UP_AFTER, Outbox
from meterlake.stores.processes import free_port
from tests.organizations import Clock, open_new

PASSWORD = "the very password"
SENDER = "billing@meter.example"
NOW = datetime(2026, 10, 1, tzinfo=UTC)


class Mailbox:
    """What a server took; it answers as the local part of a recipient says."""

    def __init__(self):
        self.letters, self.answers, self.signed_in = [], {}, []

    async def handle_RCPT(self, _server, _session, envelope, address, _options):  # noqa: N802
        answer = self.answers.get(address, "250 OK")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, _server, session, envelope):  # noqa: N802
        letter = message_from_bytes(envelope.content, policy=default)
        self.letters.append((envelope.rcpt_tos[0], letter, session.ssl is not None))
        return "250 OK"

    def authenticate(self, *given):
        data = given[-1]
        known = data.login == b"meter" and data.password == PASSWORD.encode()
        self.signed_in.append(known)
        return AuthResult(success=known, handled=False)


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def serve(mailbox):
    """Start a mail server; it ends with the test."""
    running = []

    def start(port=None, **options):
        names = {"hostname": "127.0.0.1", "port": port or free_port()}
        running.append(Controller(mailbox, **names, **options))
        running[-1].start()
        return names["port"]

    yield start
    for each in running:
        each.stop()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    """A home whose settings name a server; another call names another one."""
    with ExitStack() as stack:
        found = []

        def open_with(url=None, sender=SENDER):
            names = {"smtp_url": url, "smtp_from": sender}
            settings = Settings(home=tmp_path / "home", _env_file=None, **names)
            if not found:
                found.append(stack.enter_context(open_new(settings, clock)))
            found[0].settings = settings
            return found[0]

        yield open_with


def write(stores, to="ada@x.test", subject="Grüße"):
    return Outbox(stores.home).put(to, subject, "Hällo\n", stores.now())


def names(stores, folder="outbox"):
    return sorted(path.name for path in (stores.home / folder).glob("*.eml"))


def test_without_a_server_letters_stay(opened):
    stores = opened()
    path = write(stores)

    assert send_letters(stores) == 0
    assert names(stores) == [path.name]


@pytest.mark.parametrize(
    "url",
    ["mail.test", "http://u:p@x.test", "smtp://", "smtp://x.test:99999", "smtp://x.test/path"],
)
def test_a_url_that_is_none_is_refused_without_its_password(opened, url, caplog):
    stores = opened(url.replace("u:p", f"meter:{PASSWORD}"))
    write(stores)

    with pytest.raises(Invalid, match=r"smtp_url: '\*\*\*'.*smtps://"):
        send_letters(stores)
    assert try_letters(stores) is False
    assert PASSWORD not in caplog.text
    assert len(names(stores)) == 1


def test_somebody_is_the_sender(opened):
    stores = opened("smtp://127.0.0.1:1", sender=None)
    write(stores)

    with pytest.raises(Required, match="smtp_from"):
        send_letters(stores)


def test_settings_do_not_show_the_password(opened):
    settings = opened(f"smtp://meter:{PASSWORD}@mail.test").settings

    assert PASSWORD not in f"{settings!r}{settings.smtp_url}"


def test_a_letter_is_sent_once_the_server_is_there(opened, serve, mailbox):
    port = free_port()
    stores = opened(f"smtp://127.0.0.1:{port}")
    path = write(stores)
    with pytest.raises(Unavailable, match=r"mail server 127\.0\.0\.1"):
        send_letters(stores)
    assert names(stores) == [path.name]

    serve(port)
    assert send_letters(stores) == 1
    [(to, letter, _)] = mailbox.letters
    assert (to, letter["From"], letter["Subject"]) == ("ada@x.test", SENDER, "Grüße")
    assert letter.get_content().strip() == "Hällo"
    assert (names(stores), send_letters(stores)) == ([], 0)


def test_a_letter_that_comes_twice_has_one_id(opened, serve, mailbox):
    stores = opened(f"smtp://127.0.0.1:{serve()}")
    path = write(stores)
    content = path.read_bytes()
    send_letters(stores)
    # As if whoever sent it had died before it was taken out.
    path.write_bytes(content)
    send_letters(stores)

    first, second = (letter["Message-ID"] for _, letter, _ in mailbox.letters)
    assert first == second
    assert path.stem in first


def test_a_recipient_who_is_refused_holds_up_nobody(opened, serve, mailbox, caplog):
    mailbox.answers = {"gone@x.test": "550 no such user"}
    stores = opened(f"smtp://127.0.0.1:{serve()}")
    for to in ("gone@x.test", "ada@x.test"):
        write(stores, to)

    assert send_letters(stores) == 1
    assert [to for to, *_ in mailbox.letters] == ["ada@x.test"]
    assert names(stores) == []
    assert len(names(stores, "outbox/refused")) == 1
    assert "550 no such user" in caplog.text


def test_a_letter_that_cannot_be_read_holds_up_nobody(opened, serve, mailbox):
    stores = opened(f"smtp://127.0.0.1:{serve()}")
    write(stores).write_bytes(b"To: \xff\r\nFrom: <\0>\r\nSubject: =?utf-8?q?=00?=\r\n\r\n\0\xff")
    write(stores, "bob@x.test")
    for _ in range(2):
        try_letters(stores)

    assert [to for to, *_ in mailbox.letters if to == "bob@x.test"] == ["bob@x.test"]
    assert names(stores) == []


def test_a_recipient_who_is_busy_is_tried_again_and_given_up_in_the_end(
    opened, serve, mailbox, clock
):
    mailbox.answers = {"busy@x.test": "450 later"}
    stores = opened(f"smtp://127.0.0.1:{serve()}")
    write(stores, "busy@x.test")
    assert (send_letters(stores), len(names(stores))) == (0, 1)
    [first] = names(stores)
    assert first.endswith("~1~20261001T000100.eml")
    send_letters(stores)
    assert names(stores) == [first]

    clock.advance(minutes=1)
    send_letters(stores)
    assert names(stores)[0].endswith("~2~20261001T000300.eml")
    clock.time = NOW + GIVEN_UP_AFTER
    send_letters(stores)
    assert (names(stores), len(names(stores, "outbox/refused"))) == ([], 1)


def test_a_busy_recipient_gets_the_letter_in_the_end(opened, serve, mailbox, clock):
    mailbox.answers = {"busy@x.test": "450 later"}
    stores = opened(f"smtp://127.0.0.1:{serve()}")
    write(stores, "busy@x.test")
    send_letters(stores)
    mailbox.answers = {}
    clock.advance(hours=1)

    assert (send_letters(stores), names(stores)) == (1, [])


@pytest.fixture
def tls(tmp_path, monkeypatch):
    """A certificate of this machine that this machine trusts."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9000"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made, *files, *subject], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


@pytest.mark.long
def test_letters_and_passwords_go_over_starttls(opened, serve, mailbox, tls, caplog):
    signed = {"authenticator": mailbox.authenticate, "auth_required": True}
    port = serve(tls_context=tls, require_starttls=True, **signed)
    user = f"meter:{PASSWORD.replace(' ', '%20')}"
    wrong = opened(f"smtp+starttls://meter:wrong@127.0.0.1:{port}")
    write(wrong)
    with caplog.at_level(logging.DEBUG):
        assert try_letters(wrong) is False
        stores = opened(f"smtp+starttls://{user}@127.0.0.1:{port}")
        assert send_letters(stores) == 1

    assert "535" in caplog.text
    assert (mailbox.signed_in.count(True), mailbox.signed_in[-1]) == (1, True)
    assert mailbox.letters[0][2] is True
    assert PASSWORD not in caplog.text


def test_a_server_without_tls_gets_nothing_where_it_must_have_it(opened, serve, mailbox):
    stores = opened(f"smtp+starttls://127.0.0.1:{serve()}")
    write(stores)

    with pytest.raises(Unavailable, match="no TLS"):
        send_letters(stores)
    assert (mailbox.letters, len(names(stores))) == ([], 1)


def test_a_server_that_nobody_vouches_for_gets_nothing(opened, serve, mailbox, tls, monkeypatch):
    port = serve(tls_context=tls)
    stores = opened(f"smtp://127.0.0.1:{port}")
    write(stores)
    monkeypatch.delenv("SSL_CERT_FILE")

    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        send_letters(stores)
    assert mailbox.letters == []
