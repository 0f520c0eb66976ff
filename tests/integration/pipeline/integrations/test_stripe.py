"""Bills become invoices of Stripe: exactly, once, and never without their total."""

import shutil
import subprocess
import time
from collections import Counter
from datetime import timedelta
from decimal import Decimal

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.integration_systems import SplitBy
from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.errors import Invalid
from meterlake.model.resources.events import fields_of
from meterlake.pipeline.integrations.connectors.stripe_calls import (
    invoice_items,
    minor_units,
    stripe_client,
)
from meterlake.stores.processes import free_port
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.stored_bills import LineContent
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events import events
from meterlake.stores.state.events.events import EventFilter
from tests.bills import use
from tests.doubles.stripe import KEY, StripeRefusal, running_stripe
from tests.homes import Home, open_home
from tests.long_cases import long_after
from tests.sent_bills import (
    account_id,
    all_tries,
    create,
    home_with_bills,
    integrate,
    make_bills,
    make_runs,
    put_bill,
    send_bills,
    store_key,
)

ITEM = {"customer": "cus_1", "invoice": "in_1", "currency": "usd", "amount": "1.5"}
LINES_OF_BILL = [(3100, "a"), (4250, "b"), (-50, "c")]
BILL = {
    "currency": "USD",
    "billTotal": Decimal("73.00"),
    "lineItems": [
        {"convertedSubtotal": Decimal(cents) / 100, "productId": "p", "aggregationId": name}
        for cents, name in LINES_OF_BILL
    ],
}
CREDENTIALS = {"type": "STRIPE_SIGNED_REQUEST", "apiKey": KEY}


@pytest.fixture
def stripe():
    with running_stripe() as found:
        yield found


@pytest.fixture
def home(tmp_path, stripe):
    with home_with_bills(tmp_path) as made:
        org_id, clock = made.org_id, made.clock
    with open_home(tmp_path / "home", org_id, clock, stripe_url=stripe.url) as opened:
        yield opened


def map_account(home: Home, code: str, customer: str) -> None:
    names = {"externalSystem": "STRIPE_TEST", "externalTable": "Customer"}
    facts = {"m3terEntity": "Account", "m3terId": account_id(home, code), "externalId": customer}
    create(home, "externalMappings", **names, **facts)


def integrate_stripe(home: Home, **data):
    """Only acme is sent."""
    map_account(home, "acme", "cus_1")
    allowed = [account_id(home, "acme")]
    return integrate(home, "STRIPE_TEST", CREDENTIALS, accountIds=allowed, **data)


def items_of(stripe):
    [invoice] = stripe.live()
    return sorted(each["amount"] for each in stripe.items[invoice["id"]])


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [
        ("73.50", "USD", 7350),
        ("-0.01", "EUR", -1),
        ("500", "JPY", 500),
        ("1.230", "KWD", 1230),
        ("5", "UGX", 500),
        ("7", "ISK", 700),
    ],
)
def test_amounts_are_in_the_smallest_unit(amount, currency, minor):
    assert minor_units(Decimal(amount), currency) == minor


@pytest.mark.parametrize(
    ("amount", "currency"), [("0.005", "USD"), ("1.5", "JPY"), ("1.234", "KWD"), ("1.5", "UGX")]
)
def test_what_does_not_fit_is_refused_and_not_rounded(amount, currency):
    with pytest.raises(Invalid, match=currency):
        minor_units(Decimal(amount), currency)


# Of each currency how many digits the smallest unit has that Stripe takes, and how many it is sent.
CURRENCIES = {"USD": (2, 2), "JPY": (0, 0), "KWD": (2, 3), "UGX": (0, 2)}
UNITS = st.integers(-(10**12), 10**12)
# Some lines have thousandths of a unit, which may come to whole ones.
DUST = st.sampled_from([0, 0, 0, 0, 500, -500])
LINES = st.lists(st.tuples(UNITS, DUST, st.sampled_from("abc"), st.sampled_from("xy")), max_size=20)


def lines_of(lines, digits):
    return [
        {
            "convertedSubtotal": (units + Decimal(dust) / 1000).scaleb(-digits),
            "productId": product,
            "aggregationId": about,
        }
        for units, dust, product, about in lines
    ]


def thousandths(lines, split):
    """Of each item, counted independently."""
    found = Counter({(): 0} if split is SplitBy.BILL or not lines else {})
    for units, dust, *about in lines:
        names = {SplitBy.BILL: (), SplitBy.PRODUCT: about[:1], SplitBy.AGGREGATION: about}
        found[tuple(names[split])] += units * 1000 + dust
    return found


@given(lines=LINES, split=st.sampled_from(SplitBy), currency=st.sampled_from(sorted(CURRENCIES)))
def test_the_items_are_the_bill_however_it_is_split(lines, split, currency):
    digits, sent = CURRENCIES[currency]
    made = lines_of(lines, digits)
    total = sum((each["convertedSubtotal"] for each in made), Decimal())
    bill = {"currency": currency, "billTotal": total, "lineItems": made}
    expected = thousandths(lines, split)
    if any(each % 1000 for each in expected.values()):
        with pytest.raises(Invalid, match="smallest unit"):
            invoice_items(bill, split)
        return

    items = invoice_items(bill, split)

    step = 10 ** (sent - digits)
    assert sorted(item.amount for item in items) == sorted(
        each // 1000 * step for each in expected.values()
    )
    assert sum(each.amount for each in items) == total.scaleb(sent)
    with pytest.raises(Invalid, match="billTotal"):
        invoice_items({**bill, "billTotal": total + Decimal(1).scaleb(-digits)}, split)


@pytest.mark.parametrize("currency", sorted(CURRENCIES))
def test_a_bill_without_lines_is_one_item_of_nothing(currency):
    [item] = invoice_items({"currency": currency, "billTotal": Decimal(0)}, SplitBy.PRODUCT)

    assert (item.amount, item.product_id) == (0, None)


@pytest.mark.parametrize("total", [0, -5])
def test_a_bill_of_nothing_and_a_credit_become_invoices_that_are_paid(home, stripe, total):
    integrate_stripe(home)
    line = LineContent("credit", {"convertedSubtotal": Decimal(total)}, {})
    put_bill(home, account_id(home, "acme"), 1, total, [line] if total else [])
    make_runs(home)

    assert [each.status for each in send_bills(home)] == [RunStatus.COMPLETE]
    [invoice] = stripe.live()
    assert (invoice["status"], invoice["total"], items_of(stripe)) == (
        "paid",
        total * 100,
        [total * 100],
    )


@pytest.mark.parametrize(
    ("credentials", "status"),
    [
        (None, RunStatus.AUTH_FAILED),
        ({**CREDENTIALS, "apiKey": "sk_test_of_somebody_else"}, RunStatus.AUTH_FAILED),
    ],
)
def test_without_the_right_key_nothing_is_made(home, stripe, credentials, status):
    map_account(home, "acme", "cus_1")
    allowed = [account_id(home, "acme")]
    integrate(home, "STRIPE_TEST", credentials, accountIds=allowed)
    make_bills(home)

    assert [each.status for each in send_bills(home)] == [status]
    assert stripe.invoices == {}


@pytest.mark.parametrize(
    ("system", "key", "said"),
    [
        (
            "STRIPE",
            "sk_test_4eC39",
            r"'sk_test_\*\*\*' .* a key for STRIPE_TEST; give one for STRIPE",
        ),
        (
            "stripe",
            "rk_test_4eC39",
            r"'rk_test_\*\*\*' .* a key for STRIPE_TEST; give one for STRIPE",
        ),
        ("STRIPE_TEST", "sk_live_4eC39", r"a key for STRIPE; give one for STRIPE_TEST"),
        ("STRIPE", "pk_live_4eC39", "a secret key"),
        ("STRIPE_TEST", "whsec_4eC39", "a secret key"),
    ],
)
def test_a_key_that_could_send_nothing_is_refused_when_it_is_saved(home, system, key, said):
    for type_ in ("STRIPE_SIGNED_REQUEST", "STATIC_API_KEY"):
        with pytest.raises(Invalid, match=said) as refused:
            integrate(home, system, {"type": type_, "apiKey": key})
        assert refused.value.args[0] == "credentials.apiKey"
        assert "4eC39" not in str(refused.value)


def test_a_key_of_the_other_mode_that_was_stored_before_sends_nothing(home, stripe):
    map_account(home, "acme", "cus_1")
    made = integrate(home, "STRIPE_TEST", CREDENTIALS, accountIds=[account_id(home, "acme")])
    store_key(home, made, "sk_live_key")
    make_bills(home)

    [run] = send_bills(home)
    assert (run.status, run.job.error) == (RunStatus.AUTH_FAILED, "it is no key of the test mode")
    # Every request names a version: Stripe was not asked, and would have taken the key.
    assert stripe.versions == set()


def events_of(home, name):
    with home.organization.reading() as reader:
        found = events.page(reader, EventFilter(names=(name,)), Page(10))[0]
    return [each.event.data["newDto"] for each in found]


def prepare_trouble(home, stripe, cause):
    key = KEY
    match cause:
        case "authentication":
            key = "sk_test_of_somebody_else"
        case "perform":
            stripe.customers.clear()
    if cause != "missingaccountmapping":
        map_account(home, "acme", "cus_1")
    credentials = {**CREDENTIALS, "apiKey": key}
    allowed = [account_id(home, "acme")]
    return integrate(home, "STRIPE_TEST", credentials, accountIds=allowed)


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(
            "authentication", marks=pytest.mark.happens("integration.authentication.error")
        ),
        pytest.param(
            "missingaccountmapping",
            marks=pytest.mark.happens("integration.missingaccountmapping.error"),
        ),
        pytest.param("perform", marks=pytest.mark.happens("integration.perform.error")),
    ],
)
def test_the_end_of_a_run_without_success_is_an_event(home, stripe, cause):
    config = prepare_trouble(home, stripe, cause)
    make_bills(home)
    [run] = send_bills(home)

    [event] = events_of(home, f"integration.{cause}.error")
    fields = {f"new.{name}" for name in event}
    assert fields <= set(fields_of(f"integration.{cause}.error"))
    assert event["message"] == run.job.error
    assert (event["integrationConfigId"], event["integrationRunId"]) == (config["id"], run.id)
    assert (event["accountId"], event["entityType"]) == (account_id(home, "acme"), "Bill")
    assert event.get("externalTable") == ("Customer" if "mapping" in cause else None)


@pytest.fixture
def local_stripe():
    """A process beside, by its licence."""
    program = shutil.which("localstripe")
    if program is None:
        pytest.skip("the program localstripe is not installed: it is no dependency")
    port = free_port()
    with subprocess.Popen([program, "--port", str(port), "--from-scratch"]) as process:
        try:
            yield f"http://127.0.0.1:{port}", first_customer(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


@pytest.mark.long
def test_the_stand_in_of_others_makes_no_invoice_and_nothing_counts(tmp_path, local_stripe):
    """It takes no currency of an invoice, and answers 500."""
    url, customer = local_stripe
    with home_with_bills(tmp_path) as made:
        org_id, clock = made.org_id, made.clock
    with open_home(tmp_path / "home", org_id, clock, stripe_url=url) as home:
        map_account(home, "acme", customer)
        allowed = [account_id(home, "acme")]
        integrate(home, "STRIPE_TEST", CREDENTIALS, accountIds=allowed)
        make_bills(home)
        assert [each.status for each in send_bills(home)] == [RunStatus.AWAITING_RETRY]


@pytest.mark.long
def test_the_stand_in_of_others_comes_to_the_total_of_the_bill(local_stripe):
    """By its older dialect: items that wait, taken by the invoice of a customer who subscribes."""
    import stripe

    url, customer = local_stripe
    client = stripe_client(KEY, url)
    subscribe_for_nothing(url, customer)
    for item in invoice_items(BILL, SplitBy.AGGREGATION):
        facts = {"customer": customer, "amount": item.amount, "currency": "usd"}
        client.v1.invoice_items.create({**facts, "description": item.description})
    made = client.v1.invoices.create({"customer": customer})

    found = client.v1.invoices.retrieve(made.id)
    lines = client.v1.invoices.line_items.list(made.id, {"limit": 100})
    amounts = [each.amount for each in lines.auto_paging_iter() if each.amount]
    assert (sorted(amounts), found.total, found.status) == ([-50, 3100, 4250], 7300, "draft")
    client.v1.invoices.delete(made.id)
    with pytest.raises(stripe.InvalidRequestError) as missing:
        client.v1.invoices.retrieve(made.id)
    assert missing.value.http_status == 404
    with pytest.raises(stripe.AuthenticationError):
        stripe_client("rk_of_nobody", url).v1.customers.list()


def subscribe_for_nothing(url, customer):
    """It makes invoices only of customers with a subscription."""
    plan = {"id": "free", "amount": 0, "currency": "usd", "interval": "month", "name": "Free"}
    subscription = {"customer": customer, "items[0][plan]": "free"}
    for path, form in (("plans", plan), ("subscriptions", subscription)):
        found = httpx.post(f"{url}/v1/{path}", data=form, auth=(KEY, ""))
        assert found.status_code == 200, found.text


def first_customer(url):
    give_up = time.monotonic() + 20
    while True:
        try:
            form = {"name": "Acme", "email": "a@acme.test"}
            found = httpx.post(f"{url}/v1/customers", data=form, auth=(KEY, ""))
        except httpx.ConnectError:
            assert time.monotonic() < give_up
            time.sleep(0.1)
        else:
            return found.json()["id"]


@pytest.mark.long
def test_requests_name_the_version_of_the_api_that_the_package_speaks(home, stripe):
    from stripe import api_version

    integrate_stripe(home)
    make_bills(home)
    send_bills(home)

    assert stripe.versions == {api_version}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"key": None}, "without an Idempotency-Key"),
        ({"key": "x" * 256}, "too long"),
        ({"form": {"customer": "cus_2"}}, "other parameters"),
        ({"form": {"collection": "x"}, "key": "new"}, "unknown parameters"),
        ({"form": {"days_until_due": "3"}, "key": "new"}, "days_until_due"),
        ({"form": {"customer": "cus_9"}, "key": "new"}, "No such customer"),
        ({"path": "/v1/invoiceitems", "form": ITEM, "key": "new"}, "no whole number"),
        ({"path": "/v1/invoices/in_9", "key": "new"}, "no such thing"),
    ],
)
def test_our_own_stand_in_refuses_what_stripe_refuses(stripe, changes, said):
    def post(path="/v1/invoices", form=None, key="first"):
        facts = {"customer": "cus_1", "currency": "usd", "auto_advance": "false"}
        given = form if path.endswith("items") else {**facts, **(form or {})}
        return stripe.answer("POST", path, given, key)

    assert post() == {**post(), "id": "in_1"}
    with pytest.raises(StripeRefusal) as refusal:
        post(**changes)
    assert said in refusal.value.error["message"]


def test_an_account_without_a_customer_is_an_error_with_its_name(home, stripe):
    integrate(home, "STRIPE_TEST", CREDENTIALS, accountIds=[account_id(home, "acme")])
    make_bills(home)
    [run] = send_bills(home)

    assert (run.status, run.job.error) == (
        RunStatus.ERROR,
        "account acme is mapped to no customer",
    )
    assert stripe.invoices == {}


def test_a_customer_that_is_not_there_is_an_error(home, stripe):
    stripe.customers.clear()
    integrate_stripe(home)
    make_bills(home)
    [run] = send_bills(home)

    assert run.status is RunStatus.ERROR
    assert "No such customer: 'cus_1'" in run.job.error


@pytest.mark.parametrize(
    ("split", "items"), [("BILL", [7350]), ("PRODUCT", [7350]), ("AGGREGATION", [3100, 4250])]
)
def test_a_bill_becomes_an_invoice_with_items(home, stripe, split, items):
    integrate_stripe(home, splitBy=split)
    make_bills(home)
    [run] = send_bills(home)

    [invoice] = stripe.live()
    assert (run.status, run.external_id) == (RunStatus.COMPLETE, invoice["id"])
    assert run.url == "https://pay.test/in_1"
    assert (invoice["status"], invoice["total"], invoice["customer"]) == ("open", 7350, "cus_1")
    assert items_of(stripe) == items
    assert KEY not in all_tries(home)


def test_a_bill_of_more_items_than_an_invoice_may_have_is_refused_whole(home, stripe):
    integrate_stripe(home)
    bodies = [{"convertedSubtotal": Decimal(1), "aggregationId": f"a{n}"} for n in range(251)]
    lines = [LineContent(each["aggregationId"], each, {}) for each in bodies]
    put_bill(home, account_id(home, "acme"), 8, 251, lines)
    make_runs(home)

    [run] = send_bills(home)
    assert (run.status, stripe.invoices) == (RunStatus.ERROR, {})
    assert run.job.error == "251 items are more than the 250 of an invoice: see splitBy"


@pytest.mark.long
def test_runs_of_a_bill_that_are_due_at_the_same_time_make_one_invoice(home, stripe):
    integrate_stripe(home)
    make_bills(home, with_runs=False)
    use(home, ("more", "acme", 1))
    make_bills(home)

    runs = send_bills(home)

    assert [each.status for each in runs] == [RunStatus.COMPLETE] * 2
    assert {each.external_id for each in runs} == set(stripe.invoices) == {"in_1"}


@pytest.mark.long
def test_an_invoice_stays_a_draft_where_the_configuration_says_so(home, stripe):
    integrate_stripe(home, finalize=False, daysUntilDue=30)
    make_bills(home)
    send_bills(home)

    assert [each["status"] for each in stripe.live()] == ["draft"]


@pytest.mark.long
@pytest.mark.parametrize("number", range(4))
def test_an_answer_that_is_lost_makes_nothing_twice(home, stripe, number):
    """Of the writes the invoice, an item, the other item, and the end: each is done unheard."""
    integrate_stripe(home)
    make_bills(home)
    real, count = stripe.answer, iter(range(100))

    def answer(method, *rest):
        found = real(method, *rest)
        if method == "POST" and next(count) == number:
            stripe.lost = 1
        return found

    stripe.answer = answer
    [run] = send_bills(home)
    assert run.status is RunStatus.AWAITING_RETRY
    home.clock.time += timedelta(hours=1)
    [run] = send_bills(home)

    assert run.status is RunStatus.COMPLETE
    assert (len(stripe.invoices), items_of(stripe)) == (1, [3100, 4250])


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (500, RunStatus.AWAITING_RETRY),
        (429, RunStatus.RATE_LIMIT_RETRY),
        pytest.param(409, RunStatus.AWAITING_RETRY, marks=pytest.mark.long),
    ],
)
def test_a_fault_is_tried_again(home, stripe, fault, status):
    integrate_stripe(home)
    make_bills(home)
    stripe.faults.append(fault)
    assert [each.status for each in send_bills(home)] == [status]
    home.clock.time += timedelta(hours=1)

    assert [each.status for each in send_bills(home)] == [RunStatus.COMPLETE]
    assert items_of(stripe) == [3100, 4250]


@pytest.mark.parametrize(
    ("number", "is_done"),
    long_after(2, [(0, False), (2, True), (0, True), (1, False), (3, True)]),
)
def test_an_error_that_stripe_repeats_is_left_behind_by_another_key(home, stripe, number, is_done):
    """Stripe keeps what it answered to a key for a day, also an error, whatever it had done."""
    integrate_stripe(home)
    make_bills(home)
    real, count = stripe.answer, iter(range(100))

    def answer(method, *rest):
        if method == "POST" and next(count) == number:
            stripe.broken, stripe.faults = int(is_done), [] if is_done else [500]
        return real(method, *rest)

    stripe.answer = answer
    assert [each.status for each in send_bills(home)] == [RunStatus.AWAITING_RETRY]
    home.clock.time += timedelta(hours=1)

    assert [each.status for each in send_bills(home)] == [RunStatus.COMPLETE]
    assert (len(stripe.invoices), items_of(stripe)) == (1, [3100, 4250])


def approve(home):
    with home.organization.transaction("someone") as transaction:
        for each in bills.of_period(transaction, "2026-09"):
            bills.set_status(transaction, each.id, BillStatus.APPROVED)
    make_runs(home)


@pytest.mark.long
def test_a_bill_that_changes_gets_a_new_invoice(home, stripe):
    integrate_stripe(home)
    make_bills(home)
    send_bills(home)
    use(home, ("9", "acme", 1))
    make_bills(home)
    runs = send_bills(home)

    assert [each["status"] for each in stripe.invoices.values()] == ["void", "open"]
    assert items_of(stripe) == [3100, 4350]
    assert {each.external_id for each in runs} == {"in_1", "in_2"}


def test_a_paid_invoice_does_not_change(home, stripe):
    integrate_stripe(home)
    make_bills(home)
    send_bills(home)
    stripe.invoices["in_1"]["status"] = "paid"
    use(home, ("9", "acme", 1))
    make_bills(home)
    runs = send_bills(home)

    assert {each.status for each in runs} == {RunStatus.INVOICE_ALREADY_PAID, RunStatus.COMPLETE}
    assert len(stripe.invoices) == 1


@pytest.mark.long
def test_an_approval_alone_makes_no_other_invoice(home, stripe):
    integrate_stripe(home)
    make_bills(home)
    send_bills(home)
    approve(home)

    assert {each.external_id for each in send_bills(home)} == {"in_1"}
    assert len(stripe.invoices) == 1


def test_bills_wait_for_their_approval_where_the_configuration_says_so(home, stripe):
    integrate_stripe(home, sendBillsOnApproval=True)
    make_bills(home)
    assert send_bills(home) == []
    approve(home)

    assert [each.status for each in send_bills(home)] == [RunStatus.COMPLETE]
    assert len(stripe.invoices) == 1


def test_a_total_that_differs_is_no_success(home, stripe):
    integrate_stripe(home)
    make_bills(home)
    real = stripe.answer

    def answer(method, path, form, key):
        if path == "/v1/invoiceitems":
            form = {**form, "amount": str(int(form["amount"]) + 1)}
        return real(method, path, form, key)

    stripe.answer = answer
    [run] = send_bills(home)
    assert (run.status, [each["status"] for each in stripe.live()]) == (RunStatus.ERROR, ["draft"])
    assert "7352 instead of 7350" in run.job.error
