"""Bills that were handed over and are deleted, as people meet it: through the SDK, before Stripe and a receiver."""

import json

import httpx
import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.integrations.sender import prepare_runs, send_due_runs
from tests.doubles.receivers import respond, running_receiver
from tests.doubles.stripe import KEY, running_stripe
from tests.served import served

STRIPE = {"destination": "STRIPE_TEST", "entity_type": "Bill", "entity_id": "*"}
CREDENTIALS = {"type": "STRIPE_SIGNED_REQUEST", "apiKey": KEY}


@pytest.fixture(scope="module")
def stripe():
    with running_stripe() as found:
        yield found


@pytest.fixture(scope="module")
def receiver():
    with running_receiver() as found:
        found.answers["/bills"] = lambda handler: respond(handler, 200, b'{"id": "inv/1"}')
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory, stripe):
    home = tmp_path_factory.mktemp("deleted") / "home"
    with served(home, stripe_url=stripe.url, webhook_allow=("127.0.0.1",)) as running:
        yield running


@pytest.fixture(scope="module")
def sdk(server):
    with server.sdk() as client:
        yield client


@pytest.fixture(scope="module")
def template(sdk):
    product = sdk.products.create(code="cloud", name="Cloud")
    return sdk.plan_templates.create(
        code="cloud",
        name="Cloud",
        product_id=product.id,
        currency="USD",
        standing_charge=310,
        bill_frequency="MONTHLY",
    )


def customer(sdk, template, code):
    """An account with a plan, which is a customer of Stripe."""
    account = sdk.accounts.create(code=code, name=code, email_address=f"bills@{code}.example")
    plan = sdk.plans.create(code=code, name=code, plan_template_id=template.id)
    start = "2024-06-01T00:00:00Z"
    sdk.account_plans.create(account_id=account.id, plan_id=plan.id, start_date=start)
    sdk.external_mappings.create(
        m3ter_entity="Account",
        m3ter_id=account.id,
        external_system="STRIPE_TEST",
        external_table="Customer",
        external_id="cus_1",
    )
    return account


def integrate(server, account, destination, credentials=None, **data):
    """Through the plain API: the SDK's type of credentials has no key."""
    document = {"entityType": "Bill", "destination": destination}
    document["configData"] = {"accountIds": [account.id], **data}
    if credentials:
        document["credentials"] = credentials
    with server.http() as client:
        made = client.post("/integrationconfigs", json=document)
    assert made.status_code == httpx.codes.OK, made.text
    return made.json()["id"]


def make_bill(server, sdk, account):
    bill(server.organization, Month(2025, 1), accounts=[account.code])
    [made] = sdk.bills.list(account_id=account.id)
    return made


def deliver(server, bill_id):
    """Hand over what is due; the runs of a bill, the newest first."""
    prepare_runs(server.organization)
    send_due_runs(server.stores)
    with server.http() as client:
        return client.get(f"/integrationruns/Bill/{bill_id}").json()["data"]


@pytest.mark.long
@pytest.mark.parametrize("on_approval", [False, True], ids=["each version", "on approval"])
def test_a_deleted_bill_is_void_at_stripe_and_billed_again_is_charged_once(
    server, sdk, stripe, template, on_approval
):
    account = customer(sdk, template, f"acme{on_approval:d}")
    integrate(server, account, "STRIPE_TEST", CREDENTIALS, sendBillsOnApproval=on_approval)
    first = make_bill(server, sdk, account)
    sdk.bills.update_status(first.id, status="APPROVED")
    deliver(server, first.id)
    [(invoice, total)] = [(each["id"], each["total"]) for each in issued(stripe, first.id)]
    assert total == 31000

    sdk.bills.delete(first.id)
    gone = deliver(server, first.id)[0]

    assert (gone["action"], gone["status"], gone["externalId"]) == ("DELETE", "COMPLETE", invoice)
    assert stripe.invoices[invoice]["status"] == "void"
    second = make_bill(server, sdk, account)
    assert second.id != first.id
    sdk.bills.update_status(second.id, status="APPROVED")
    deliver(server, second.id)
    assert [each["total"] for each in issued(stripe, first.id, second.id)] == [31000]


def issued(stripe, *bill_ids):
    """The invoices of bills that are open or paid."""
    return [
        each
        for each in stripe.live()
        if each["metadata"]["meterlake_bill"] in bill_ids and each["status"] != "draft"
    ]


@pytest.mark.long
def test_a_paid_invoice_of_a_deleted_bill_is_refused_by_its_name(server, sdk, stripe, template):
    account = customer(sdk, template, "paid")
    integrate(server, account, "STRIPE_TEST", CREDENTIALS)
    made = make_bill(server, sdk, account)
    deliver(server, made.id)
    [invoice] = issued(stripe, made.id)
    invoice["status"] = "paid"

    sdk.bills.delete(made.id)
    run = deliver(server, made.id)[0]

    assert (run["action"], run["status"]) == ("DELETE", RunStatus.INVOICE_ALREADY_PAID.value)
    assert run["error"].startswith(f"invoice {invoice['id']} is paid, and the bill is deleted")
    [event] = sdk.events.list(event_name="integration.perform.error", resource_id=run["id"])
    assert run["error"] in str(event.m3ter_event)
    again = make_bill(server, sdk, account)
    [run] = deliver(server, again.id)
    # The customer has paid for the very same: there is nothing to charge.
    assert (run["status"], run["externalId"]) == ("COMPLETE", invoice["id"])
    assert [each["id"] for each in issued(stripe, made.id, again.id)] == [invoice["id"]]


def test_a_receiver_is_told_once_of_a_bill_that_it_took(server, sdk, receiver, template):
    account = customer(sdk, template, "told")
    integrate(server, account, "HTTP", url=receiver.url("/bills"), idPath="id")
    made = make_bill(server, sdk, account)
    deliver(server, made.id)
    sdk.bills.delete(made.id)
    deliver(server, made.id)
    runs = deliver(server, made.id)

    assert [(each["action"], each["status"]) for each in runs] == [
        ("DELETE", "COMPLETE"),
        ("SEND", "COMPLETE"),
    ]
    sent, told = (json.loads(each.body) for each in receiver.of("/bills"))
    assert (sent["id"], sent["billTotal"]) == (made.id, 310)
    assert (told["type"], told["externalId"]) == ("billing.bill.deleted", "inv/1")
    assert (told["bill"]["id"], told["bill"]["billTotal"]) == (made.id, 310)
    keys = [each.headers["idempotency-key"] for each in receiver.of("/bills")]
    assert len(set(keys)) == 2
