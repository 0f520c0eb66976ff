"""Bills by e-mail: asked for over HTTP or by command, sent once by the worker to a real mail server."""

import json
from datetime import timedelta
from email import message_from_bytes
from email.policy import default

import pytest
from aiosmtpd.controller import Controller

from meterlake.cli import run
from meterlake.model.bills.requests import BillStatus, SendBillRequest
from meterlake.model.errors import Conflict
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import set_status
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.documents.bill_emails import BILL_LETTERS, list_letters, send_bill
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.stores.processes import free_port
from meterlake.worker.flow_runs import Executor
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.sent_bills import home_with_bills
from tests.served import served
from tests.statement_world import bill_ids

NOBODY = "5d9d4a3e-0000-4000-8000-000000000000"
SENDER = "billing@meter.example"
SEPTEMBER = Month(2026, 9)


class Mailbox:
    """What a mail server took; it answers as somebody wants."""

    def __init__(self):
        self.letters, self.answer = [], "250 OK"

    async def handle_DATA(self, _server, _session, envelope):  # noqa: N802
        if self.answer.startswith("250"):
            letter = message_from_bytes(envelope.content, policy=default)
            self.letters.append((envelope.rcpt_tos[0], letter))
        return self.answer


@pytest.fixture
def mailbox():
    """A mail server of the test's own; its port is `mailbox.port`."""
    found = Mailbox()
    found.port = free_port()
    running = Controller(found, hostname="127.0.0.1", port=found.port)
    running.start()
    yield found
    running.stop()


@pytest.fixture
def server(tmp_path, mailbox):
    """A server with a mail server, where acme and bolt have a bill of September each."""
    settings = {"smtp_url": f"smtp://127.0.0.1:{mailbox.port}", "smtp_from": SENDER}
    with served(tmp_path / "home", **settings) as found:
        home = Home(found.stores, found.org_id, Clock())
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        price_egress(home)
        subscribe(home, "acme", "bolt")
        rows = csv_row("1", "42.5") + csv_row("2", "200", "bolt")
        assert home.ingest("a.csv", HEADER + rows).rejected == 0
        bill(found.organization, SEPTEMBER)
        yield found


def work(settings, organization):
    """One round of the worker."""
    list(run_round(BILL_LETTERS, Executor(settings), organization, lambda: False))


@pytest.mark.sees("SendBill", "ListBillLetters")
def test_an_approved_bill_is_sent_once_and_again_if_somebody_wants_that(server, mailbox):
    with server.http() as http:
        found = http.get("/bills", params={"excludeLineItems": True}).json()["data"]
        [bill_] = [each for each in found if each["accountCode"] == "acme"]
        url = f"/bills/{bill_['id']}"
        early = http.post(f"{url}/send", json={})
        http.put(f"{url}/status", json={"status": "APPROVED"})
        wrong = http.post(f"{url}/send", json={"to": "nobody"})
        first = http.post(f"{url}/send", json={}).json()
        waiting = http.post(f"{url}/send", json={"again": True})
        work(server.settings, server.organization)
        second = http.post(f"{url}/send", json={})
        third = http.post(f"{url}/send", json={"again": True, "to": "books@acme.example"}).json()
        work(server.settings, server.organization)
        letters = http.get(f"{url}/letters").json()
        assert http.post(f"/bills/{NOBODY}/send", json={}).status_code == 404
    assert (early.status_code, wrong.status_code) == (409, 400)
    assert "approve it first" in early.json()["message"]
    assert (waiting.status_code, second.status_code) == (409, 409)
    assert "about to be sent" in waiting.json()["message"]
    assert "with `again` true" in second.json()["message"]
    assert first["status"] == "WAITING"
    assert first["to"] == letters["to"]
    assert [each["id"] for each in letters["data"]] == [third["id"], first["id"]]
    assert [each["status"] for each in letters["data"]] == ["SENT", "SENT"]
    assert all(each["dtSent"] and each["createdBy"] for each in letters["data"])
    assert letters["available"] is True
    assert [to for to, _ in mailbox.letters] == [letters["to"], "books@acme.example"]
    _, letter = mailbox.letters[0]
    assert letter["From"] == SENDER
    [attached] = letter.iter_attachments()
    assert attached.get_content_type() == "application/pdf"
    assert attached.get_content().startswith(b"%PDF-")
    assert letter["Message-ID"].startswith(f"<{first['id']}@")
    assert "USD" in letter.get_body().get_content()


@pytest.mark.long
def test_the_command_sends_several_bills_and_says_which_are_refused(
    server, mailbox, capsys, monkeypatch
):
    monkeypatch.setenv("METERLAKE_SMTP_URL", f"smtp://127.0.0.1:{mailbox.port}")
    monkeypatch.setenv("METERLAKE_SMTP_FROM", SENDER)
    home = ["--home", str(server.stores.home), "--json"]
    assert run(["bill", "approve", "acme/2026-09", *home]) == 0
    capsys.readouterr()

    assert run(["bill", "send", "acme/2026-09", "bolt/2026-09", *home]) == 1
    shown = capsys.readouterr()
    rows = [json.loads(line) for line in shown.out.splitlines()]
    assert [each["status"] for each in rows] == ["WAITING", "REFUSED"]
    assert "approve it first" in shown.err
    work(server.settings, server.organization)
    assert len(mailbox.letters) == 1

    assert run(["bill", "send", "acme/2026-09", *home]) == 1
    assert run(["bill", "send", "acme/2026-09", "--again", *home]) == 0
    monkeypatch.delenv("METERLAKE_SMTP_URL")
    monkeypatch.delenv("METERLAKE_SMTP_FROM")
    capsys.readouterr()
    assert run(["bill", "send", "acme/2026-09", "--again", *home]) == 1
    assert "METERLAKE_SMTP_URL" in capsys.readouterr().err


@pytest.fixture
def posted(tmp_path, mailbox):
    """A home whose clock the test sets, with an approved bill."""
    with home_with_bills(tmp_path) as home:
        bill(home.organization, SEPTEMBER)
        [bill_id, *_] = bill_ids(home)
        set_status(home.organization, "finance", bill_id, BillStatus.APPROVED)
        changes = {"smtp_url": f"smtp://127.0.0.1:{mailbox.port}", "smtp_from": SENDER}
        home.stores.settings = type(home.stores.settings)(
            **{**home.stores.settings.model_dump(exclude_unset=True), **changes}
        )
        yield home, bill_id


def status(home, bill_id):
    [letter] = list_letters(home.organization, bill_id)["data"]
    return letter["status"], letter.get("error", "")


@pytest.mark.long
def test_the_worker_tries_again_while_the_mail_server_takes_nothing(posted, mailbox):
    home, bill_id = posted
    mailbox.answer = "451 come back later"
    send_bill(home.organization, "finance", bill_id, SendBillRequest())
    work(home.stores.settings, home.organization)
    assert mailbox.letters == []
    found, error = status(home, bill_id)
    assert found == "WAITING"
    assert "come back later" in error

    mailbox.answer = "250 OK"
    work(home.stores.settings, home.organization)
    assert mailbox.letters == []
    home.clock.time += timedelta(minutes=16)
    work(home.stores.settings, home.organization)
    assert status(home, bill_id) == ("SENT", "")
    assert len(mailbox.letters) == 1


@pytest.mark.long
def test_a_letter_that_is_refused_or_no_longer_approved_fails_and_may_be_sent_anew(posted, mailbox):
    home, bill_id = posted
    mailbox.answer = "550 no such box"
    send_bill(home.organization, "finance", bill_id, SendBillRequest())
    work(home.stores.settings, home.organization)
    found, error = status(home, bill_id)
    assert found == "FAILED"
    assert "550 no such box" in error

    mailbox.answer = "250 OK"
    send_bill(home.organization, "finance", bill_id, SendBillRequest())
    set_status(home.organization, "finance", bill_id, BillStatus.PENDING)
    work(home.stores.settings, home.organization)
    newest = list_letters(home.organization, bill_id)["data"][0]
    assert newest["status"] == "FAILED"
    assert "is PENDING again" in newest["error"]
    assert mailbox.letters == []


def test_without_a_mail_server_nothing_is_written_down(tmp_path):
    with home_with_bills(tmp_path) as home:
        bill(home.organization, SEPTEMBER)
        [bill_id, *_] = bill_ids(home)
        set_status(home.organization, "finance", bill_id, BillStatus.APPROVED)
        with pytest.raises(Conflict, match="METERLAKE_SMTP_URL"):
            send_bill(home.organization, "finance", bill_id, SendBillRequest())
        found = list_letters(home.organization, bill_id)
    assert (found["data"], found["available"]) == ([], False)


@pytest.mark.sees("PreviewBillLetter")
def test_an_organization_sets_the_words_of_its_letters(server, mailbox, capsys):
    with server.http() as http:
        found = http.get("/bills", params={"excludeLineItems": True}).json()["data"]
        [bill_] = [each for each in found if each["accountCode"] == "acme"]
        url = f"/bills/{bill_['id']}"
        own = http.post(f"{url}/letters/preview", json={}).json()
        assert own["subject"].startswith("Invoice of ")
        assert "you find attached invoice of" in own["text"]
        tried = http.post(
            f"{url}/letters/preview",
            json={"subject": "{period}: {total} {currency}", "text": "{{Hello}} {customer}"},
        ).json()
        assert tried["subject"] == "2026-09-01 to 2026-09-30: 73.50 USD"
        assert tried["text"] == "{Hello} Acme\n"
        name = "Juniper Pharma A/S"
        customer = http.get(f"/accounts/{bill_['accountId']}").json()
        renamed = http.put(f"/accounts/{customer['id']}", json=customer | {"name": name})
        assert renamed.status_code == 200, renamed.text
        bill(server.organization, SEPTEMBER, accounts=["acme"])
        named = http.post(
            f"{url}/letters/preview", json={"subject": "{customer}", "text": "Dear {customer},"}
        ).json()
        assert (named["subject"], named["text"]) == (name, f"Dear {name},\n")
        http.put(f"/accounts/{customer['id']}", json=renamed.json() | {"name": "Acme"})
        bill(server.organization, SEPTEMBER, accounts=["acme"])
        for wrong in ("{price}", "{customer", "{customer!r}", "{customer.name}", "{0}", "{}"):
            answer = http.post(f"{url}/letters/preview", json={"text": wrong})
            assert answer.status_code == 400, wrong
        assert (
            "{customer}, {seller}, {invoice}"
            in http.post(f"{url}/letters/preview", json={"text": "{price}"}).json()["message"]
        )
        assert http.post(f"/bills/{NOBODY}/letters/preview", json={}).status_code == 404

        settings = http.get("/organizationconfig").json()
        words = {"billLetterSubject": "Bill for {customer}", "billLetterText": "Due: {due}\n"}
        assert http.put("/organizationconfig", json=settings | words).status_code == 200
        broken = settings | {"version": settings["version"] + 1, "billLetterSubject": "{nobody}"}
        assert http.put("/organizationconfig", json=broken).status_code == 400
        http.put(f"{url}/status", json={"status": "APPROVED"})
        http.post(f"{url}/send", json={})
    work(server.settings, server.organization)
    [(_, letter)] = mailbox.letters
    assert letter["Subject"] == "Bill for Acme"
    assert letter.get_body().get_content().strip() == f"Due: {bill_['dueDate']}"

    home = str(server.stores.home)
    assert run(["bill", "send", "acme/2026-09", "--dry-run", "--home", home]) == 0
    shown = capsys.readouterr().out
    assert "Bill for Acme" in shown
    assert "nothing was sent" in shown
    assert len(mailbox.letters) == 1
