"""kill -9 while bills become invoices, and are taken back: one invoice of each bill, none of a deleted one."""

import copy
import json
import shutil
from decimal import Decimal

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.pipeline.billing.bills import delete_bill
from meterlake.stages.events.integration_deliveries import BILL_DELETED
from meterlake.stores.state.billing.stored_bills import LineContent
from tests.deliveries import runs_of
from tests.doubles.receivers import running_receiver
from tests.doubles.stripe import running_stripe
from tests.e2e.crashing import zygote
from tests.homes import new_home, open_home
from tests.invoice_world import CREDENTIALS
from tests.sent_bills import account_id, create, integrate, make_runs, put_bill, send_bills

SEND, LATER = "tests.e2e.senders:send", "tests.e2e.senders:send_later"
LATEST = "tests.e2e.senders:send_much_later"
STEP = "stripe.written"
COMPLETE = {RunStatus.COMPLETE}
LINES = [LineContent("usage", {"convertedSubtotal": Decimal(7)}, {})]


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


def home_with_invoices(path, stripe):
    """Three bills: one waits to be sent, one is sent and deleted, one is sent, deleted and made again."""
    org_id = new_home(path)
    with open_home(path, org_id, stripe_url=stripe.url) as home:
        acme = account_id(home, "acme")
        names = {"externalSystem": "STRIPE_TEST", "externalTable": "Customer"}
        create(
            home,
            "externalMappings",
            **names,
            m3terEntity="Account",
            m3terId=acme,
            externalId="cus_1",
        )
        integrate(home, "STRIPE_TEST", CREDENTIALS)
        sent = [put_bill(home, acme, month, 7, LINES) for month in (1, 2)]
        make_runs(home)
        send_bills(home)
        for id_ in sent:
            delete_bill(home.stores.organization(org_id), "test", id_)
        standing = [put_bill(home, acme, month, 7, LINES) for month in (2, 3)]
        make_runs(home)
    return org_id, standing


@pytest.mark.slow
def test_whoever_dies_between_two_requests_each_bill_has_one_invoice(processes, tmp_path):
    with running_stripe() as stripe:
        org_id, standing = home_with_invoices(tmp_path / "home", stripe)
        names = ("invoices", "items", "answered")
        books = {name: copy.deepcopy(getattr(stripe, name)) for name in names}

        def live(name, *lives):
            for each, content in books.items():
                setattr(stripe, each, copy.deepcopy(content))
            shutil.copytree(tmp_path / "home", tmp_path / name)
            for work, crash_at in lives:
                done = processes.run(
                    [tmp_path / name], org_id, crash_at, work, stripe_url=stripe.url
                )
                assert done["died"] == (crash_at is not None)
            with open_home(tmp_path / name, org_id) as opened:
                assert {
                    each.status for each in runs_of(opened.stores.organization(org_id))
                } == COMPLETE
            found = [(each["metadata"]["meterlake_bill"], each["status"]) for each in stripe.live()]
            assert sorted(found) == sorted((each, "open") for each in standing)
            return done["reached"]

        reached = live("whole", (SEND, None))
        steps = [number for number, name in enumerate(reached) if name == STEP]
        assert len(steps) >= len(standing)
        for number in steps:
            live(f"died{number}", (SEND, number), (LATER, None))


@pytest.mark.slow
def test_whoever_dies_a_receiver_hears_of_a_deletion_before_the_next_bill(processes, tmp_path):
    """Also if the deletion is tried again: the receiver fails at first."""
    with running_receiver() as receiver:
        org_id = new_home(tmp_path / "home")
        local = {"webhook_allow": ("127.0.0.1",)}
        with open_home(tmp_path / "home", org_id, **local) as home:
            acme = account_id(home, "acme")
            integrate(home, "HTTP", url=receiver.url("/200"))
            first = put_bill(home, acme, 1, 7, LINES)
            make_runs(home)
            send_bills(home)
            delete_bill(home.stores.organization(org_id), "test", first)
            second = put_bill(home, acme, 1, 7, LINES)
            make_runs(home)

        def live(name, *lives):
            receiver.received.clear()
            shutil.copytree(tmp_path / "home", tmp_path / name)
            for status, work, crash_at in lives:
                receiver.answers["/200"] = status
                done = processes.run([tmp_path / name], org_id, crash_at, work, **local)
                assert done["died"] == (crash_at is not None)
            said = [json.loads(each.body) for each in receiver.received]
            told = [each.get("type") or each["id"] for each in said]
            assert set(told) == {BILL_DELETED, second}
            # From its first hearing of the new bill it hears of nothing else.
            assert set(told[told.index(second) :]) == {second}
            return done["reached"]

        for number in range(len(live("whole", (200, SEND, None)))):
            live(f"died{number}", (200, SEND, number), (200, LATER, None))
        failed = (500, SEND, None)
        for number in range(len(live("failed", failed, (200, LATER, None)))):
            live(f"failed{number}", failed, (200, LATER, number), (200, LATEST, None))
