"""Bills that end after they were handed over: taken back once, by whoever has them, whatever comes between."""

import json
from collections import Counter
from datetime import timedelta
from decimal import Decimal

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.integration_systems import BILL, IntegrationSystem
from meterlake.model.configuration.integrations import ExternalMapping, IntegrationConfig, RunStatus
from meterlake.model.errors import Invalid
from meterlake.pipeline.billing.bills import delete_bill, set_status
from meterlake.pipeline.events.reader import read_log
from meterlake.pipeline.integrations.bills_elsewhere import bills_left_behind, take_back
from meterlake.pipeline.integrations.bookkeeping import Bookkeeping, WrittenRuns
from meterlake.pipeline.integrations.connectors.connector import Sent
from meterlake.pipeline.integrations.life_cycle import (
    delete_integration,
    disable_integration,
    enable_integration,
)
from meterlake.pipeline.integrations.runs import replay_run
from meterlake.pipeline.integrations.sender import connectors
from meterlake.stages.events.integration_deliveries import BILL_DELETED
from meterlake.stores.state.billing.stored_bills import LineContent
from tests.deliveries import runs_of, tries
from tests.doubles.receivers import respond, running_receiver
from tests.doubles.stripe import KEY, running_stripe
from tests.homes import open_home
from tests.sent_bills import (
    account_id,
    all_tries,
    create,
    home_with_bills,
    integrate,
    make_runs,
    put_bill,
    send_bills,
    store_key,
)

pytestmark = pytest.mark.usefixtures("home_database")

CREDENTIALS = {"type": "STRIPE_SIGNED_REQUEST", "apiKey": KEY}
DELETED = ("DELETE", RunStatus.COMPLETE)
SENT = ("SEND", RunStatus.COMPLETE)


@pytest.fixture
def stripe():
    with running_stripe() as found:
        yield found


@pytest.fixture
def receiver():
    with running_receiver() as found:
        found.answers["/bills"] = lambda handler: respond(handler, 200, b'{"id": "inv/1"}')
        yield found


@pytest.fixture
def home(tmp_path, stripe):
    with home_with_bills(tmp_path) as made:
        org_id, clock = made.org_id, made.clock
    with open_home(
        tmp_path / "home", org_id, clock, stripe_url=stripe.url, webhook_allow=("127.0.0.1",)
    ) as opened:
        yield opened


def to_stripe(home, **data):
    names = {"externalSystem": "STRIPE_TEST", "externalTable": "Customer"}
    facts = {"m3terEntity": "Account", "m3terId": account_id(home, "acme"), "externalId": "cus_1"}
    create(home, "externalMappings", **names, **facts)
    return integrate(home, "STRIPE_TEST", CREDENTIALS, **data)


def put(home, cents=700):
    amount = Decimal(cents) / 100
    lines = [LineContent("usage", {"convertedSubtotal": amount}, {})] if cents else []
    id_ = put_bill(home, account_id(home, "acme"), 1, amount, lines)
    make_runs(home)
    return id_


def delete(home, id_):
    delete_bill(home.organization, "test", id_)
    make_runs(home)


def ends(runs):
    """What runs did and how they ended, the first one first."""
    found = sorted(runs, key=lambda run: (run.created, run.content.action == "DELETE"))
    return [(each.content.action, each.status) for each in found]


def notes(home):
    return [
        tries(home.organization, each.id)[-1].request
        for each in runs_of(home.organization, entity_type="Bill")
    ]


def mapped(home):
    with home.organization.reading() as reader:
        found = [each.entity for each in reader.all(ExternalMapping)]
    return [each.external_id for each in found if each.m3ter_entity == "Bill"]


def test_a_bill_that_is_deleted_before_it_is_sent_is_sent_nowhere(home, stripe):
    to_stripe(home)
    delete(home, put(home))

    assert ends(send_bills(home)) == [SENT, DELETED]
    assert stripe.invoices == {}
    assert sorted(notes(home)) == [
        "nothing is sent: the bill is deleted",
        "nothing is sent: the bill never was",
    ]


def test_an_invoice_is_not_voided_by_a_key_of_the_other_mode(home, stripe):
    made = to_stripe(home)
    id_ = put(home)
    send_bills(home)
    store_key(home, made, "sk_live_key")
    stripe.versions.clear()
    delete(home, id_)

    assert ends(send_bills(home)) == [SENT, ("DELETE", RunStatus.AUTH_FAILED)]
    # Every request names a version: Stripe was not asked.
    assert (stripe.versions, len(stripe.live())) == (set(), 1)


def test_a_bill_that_is_made_and_deleted_in_one_reading_of_the_log_is_the_same(home, stripe):
    to_stripe(home)
    id_ = put_bill(home, account_id(home, "acme"), 1, 0)
    delete(home, id_)

    assert ends(send_bills(home)) == [SENT, DELETED]
    assert stripe.invoices == {}


def test_a_deletion_waits_for_the_run_that_is_sending_the_bill(home, stripe):
    """Whoever sends it dies; its invoice is found all the same, by what it carries."""
    to_stripe(home)
    id_ = put(home)
    books = Bookkeeping(home.stores, connectors(), timedelta())
    [claimed] = books.turn(WrittenRuns(), lambda due, *_: dict.fromkeys(due, 9))
    facts = {"customer": "cus_1", "currency": "usd", "auto_advance": "false"}
    stripe.answer("POST", "/v1/invoices", {**facts, "metadata[meterlake_bill]": id_}, "unheard")
    delete(home, id_)
    assert {each.status for each in send_bills(home)} == {RunStatus.STARTED, RunStatus.WAITING}

    home.clock.time += timedelta(minutes=2)
    assert ends(send_bills(home)) == [SENT, DELETED]
    assert claimed.run.content.entity_id == id_
    assert stripe.live() == []


@pytest.mark.parametrize("change", [{"accountIds": ["bolt"]}, {"restrictedAccountIds": ["acme"]}])
def test_whoever_has_a_bill_takes_it_back_whatever_it_takes_by_now(home, stripe, change):
    config = to_stripe(home)
    id_ = put(home)
    send_bills(home)
    data = {name: [account_id(home, each) for each in codes] for name, codes in change.items()}
    with home.organization.transaction("test") as transaction:
        before = transaction.get(IntegrationConfig, config["id"])
        changed = before.entity.model_copy(update={"config_data": data})
        transaction.update(config["id"], before.version, changed)
    delete(home, id_)

    assert ends(send_bills(home)) == [SENT, DELETED]
    assert stripe.live() == []
    assert mapped(home) == []


def test_who_was_disabled_takes_back_when_it_is_enabled_once(home, stripe):
    config = to_stripe(home)
    id_ = put(home)
    send_bills(home)
    disable_integration(home.organization, "test", config["id"])
    delete(home, id_)
    assert ends(send_bills(home)) == [SENT, ("DELETE", RunStatus.DISABLED)]
    assert len(stripe.live()) == 1

    for _ in range(2):
        home.clock.time += timedelta(minutes=1)
        enable_integration(home.organization, "test", config["id"])
        assert ends(send_bills(home)) == [SENT, ("DELETE", RunStatus.DISABLED), DELETED]
    assert stripe.live() == []


def test_an_integration_that_follows_another_takes_its_bills_back(home, stripe):
    """The one that sent it is deleted, and left what the bill is called there to all of the system."""
    config = to_stripe(home)
    id_ = put(home)
    send_bills(home)
    delete_integration(home.organization, "test", config["id"])
    integrate(home, "STRIPE_TEST", CREDENTIALS)
    delete(home, id_)

    assert ends(send_bills(home)) == [SENT, DELETED]
    assert (stripe.live(), mapped(home)) == ([], [])


def test_a_bill_of_nothing_that_comes_to_something_is_charged(home, stripe):
    """Its invoice of nothing was paid from the beginning."""
    to_stripe(home)
    put(home, 0)
    send_bills(home)
    put(home, 700)
    runs = send_bills(home)

    assert {each.status for each in runs} == {RunStatus.COMPLETE}
    assert [(each["status"], each["total"]) for each in stripe.live()] == [
        ("paid", 0),
        ("open", 700),
    ]


@pytest.mark.long
def test_a_draft_that_nobody_heard_of_beside_an_invoice_of_nothing_goes(home, stripe):
    to_stripe(home)
    put(home, 0)
    send_bills(home)
    put(home, 700)
    stripe.broken = 1
    send_bills(home)
    put(home, 1300)
    home.clock.time += timedelta(hours=1)
    send_bills(home)

    assert [(each["status"], each["total"]) for each in stripe.live()] == [
        ("paid", 0),
        ("open", 1300),
    ]


def test_a_bill_that_comes_to_nothing_owes_nothing(home, stripe):
    to_stripe(home)
    put(home, 700)
    send_bills(home)
    put(home, 0)
    send_bills(home)

    assert [(each["status"], each["total"]) for each in stripe.live()] == [("paid", 0)]


def test_a_bill_that_changes_after_its_approval_is_not_sent_unapproved(home, stripe):
    to_stripe(home, sendBillsOnApproval=True)
    id_ = put(home)
    set_status(home.organization, "test", id_, BillStatus.APPROVED)
    put(home, 900)

    assert ends(send_bills(home)) == [SENT]
    assert stripe.invoices == {}
    assert notes(home) == ["nothing is sent: the bill waits for another approval"]
    set_status(home.organization, "test", id_, BillStatus.APPROVED)
    make_runs(home)
    send_bills(home)
    assert [each["total"] for each in stripe.live()] == [900]


def test_an_invoice_that_is_paid_while_it_is_voided_is_refused_by_its_name(home, stripe):
    to_stripe(home)
    id_ = put(home)
    send_bills(home)
    real = stripe.answer

    def answer(method, path, form, key):
        if path.endswith("/void"):
            stripe.invoices["in_1"]["status"] = "paid"
        return real(method, path, form, key)

    stripe.answer = answer
    delete(home, id_)

    assert ends(send_bills(home)) == [SENT, ("DELETE", RunStatus.INVOICE_ALREADY_PAID)]


def test_a_paid_invoice_that_the_same_bill_took_over_is_no_more_the_deleted_one_s(home, stripe):
    to_stripe(home)
    id_ = put(home)
    send_bills(home)
    stripe.invoices["in_1"]["status"] = "paid"
    delete(home, id_)
    [refused] = [each for each in send_bills(home) if each.content.action == "DELETE"]
    assert refused.status is RunStatus.INVOICE_ALREADY_PAID
    put(home)
    send_bills(home)
    replay_run(home.organization, "someone", refused.id)

    assert Counter(ends(send_bills(home))) == {
        SENT: 2,
        ("DELETE", RunStatus.INVOICE_ALREADY_PAID): 1,
        DELETED: 1,
    }
    assert (mapped(home), len(stripe.live())) == (["in_1"], 1)


def test_an_invoice_that_was_voided_by_hand_is_taken_back_already(home, stripe):
    to_stripe(home)
    id_ = put(home)
    send_bills(home)
    stripe.invoices["in_1"]["status"] = "void"
    delete(home, id_)

    assert ends(send_bills(home)) == [SENT, DELETED]


def test_a_receiver_of_which_nobody_asked_anything_is_told_nothing(home, receiver):
    integrate(home, "HTTP", url=receiver.url("/bills"))
    delete(home, put(home))

    assert ends(send_bills(home)) == [SENT, DELETED]
    assert receiver.received == []


def test_a_receiver_that_did_not_answer_is_told(home, receiver):
    """Nobody knows whether it has the bill."""
    integrate(home, "HTTP", url=receiver.url("/bills"))
    receiver.answers["/bills"] = 500
    id_ = put(home)
    send_bills(home)
    receiver.answers["/bills"] = 200
    delete(home, id_)
    home.clock.time += timedelta(hours=1)

    assert ends(send_bills(home)) == [SENT, DELETED]
    said = [json.loads(each.body).get("type") for each in receiver.received]
    assert said == [None, "billing.bill.deleted"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [(200, RunStatus.COMPLETE), (404, RunStatus.COMPLETE), (410, RunStatus.COMPLETE)],
)
def test_an_address_of_its_own_takes_a_bill_back(home, receiver, answer, status):
    url = receiver.url("/bills/{externalId}?bill={billId}")
    integrate(home, "HTTP", url=receiver.url("/bills"), idPath="id", deleteUrl=url)
    id_ = put(home)
    send_bills(home)
    path = f"/bills/inv%2F1?bill={id_}"
    receiver.answers[path] = answer
    delete(home, id_)

    assert ends(send_bills(home))[-1] == ("DELETE", status)
    assert [each.method for each in receiver.of(path)] == ["DELETE"]
    assert mapped(home) == []


def test_an_address_without_a_place_for_ids_answers_for_itself(home, receiver):
    """Where bills are sent to, 404 does not say that the bill is gone."""
    integrate(home, "HTTP", url=receiver.url("/bills"), deleteMethod="PUT")
    id_ = put(home)
    send_bills(home)
    receiver.answers["/bills"] = 404
    delete(home, id_)

    assert ends(send_bills(home))[-1] == ("DELETE", RunStatus.AWAITING_RETRY)
    assert receiver.received[-1].method == "PUT"


def test_a_body_of_its_own_tells_of_a_deletion(home, receiver):
    template = '{"void": {{ externalId | tojson }}, "of": {{ account.code | tojson }}}'
    integrate(home, "HTTP", url=receiver.url("/bills"), idPath="id", deleteTemplate=template)
    id_ = put(home)
    send_bills(home)
    delete(home, id_)
    send_bills(home)

    assert json.loads(receiver.received[-1].body) == {"void": "inv/1", "of": "acme"}


@pytest.mark.parametrize(
    "url",
    [
        "https://{externalId}.x.test/",
        "{externalId}",
        "https://x.test/{other}",
        "https://x.test/{externalId",
        "ftp://x.test/{billId}",
        "http://169.254.169.254/{billId}",
    ],
)
def test_an_address_that_an_answer_could_choose_is_refused(home, url):
    with pytest.raises(Invalid, match=r"configData\.deleteUrl"):
        integrate(home, "HTTP", url="https://x.test", deleteUrl=url)


def told(receiver):
    """What a receiver was told, one after the other: the id of a bill, or that it is deleted."""
    bodies = [json.loads(each.body) for each in receiver.received]
    return [each.get("id") or (each["type"], each["bill"]["id"]) for each in bodies]


def put_again(home):
    home.clock.time += timedelta(seconds=1)
    return put(home)


def test_the_next_bill_waits_while_the_deletion_is_tried_again(home, receiver):
    """Else the receiver would have both, and then be told to remove one."""
    integrate(home, "HTTP", url=receiver.url("/bills"))
    first = put(home)
    send_bills(home)
    receiver.answers["/bills"] = 500
    delete(home, first)
    send_bills(home)
    second = put_again(home)
    receiver.answers["/bills"] = 200

    assert ends(send_bills(home)) == [
        SENT,
        ("DELETE", RunStatus.AWAITING_RETRY),
        ("SEND", RunStatus.WAITING),
    ]
    home.clock.time += timedelta(hours=1)
    assert ends(send_bills(home)) == [SENT, DELETED, SENT]
    gone = (BILL_DELETED, first)
    assert told(receiver) == [first, gone, gone, second]


def test_the_next_bill_waits_for_a_deletion_whose_sender_died(home, receiver):
    """It died before or after the receiver heard of it: nobody knows, so it is told again first."""
    integrate(home, "HTTP", url=receiver.url("/bills"))
    first = put(home)
    send_bills(home)
    delete(home, first)
    books = Bookkeeping(home.stores, connectors(), timedelta())
    assert books.turn(WrittenRuns(), lambda due, *_: dict.fromkeys(due, 9))
    second = put_again(home)
    home.clock.time += timedelta(seconds=5)
    send_bills(home)
    assert told(receiver) == [first]

    home.clock.time += timedelta(minutes=2)
    assert ends(send_bills(home)) == [SENT, DELETED, SENT]
    assert told(receiver) == [first, (BILL_DELETED, first), second]


def test_the_next_bill_waits_no_longer_for_a_deletion_that_is_given_up(home, receiver):
    """It cannot be told of the deletion, and has both: the run and its event say so."""
    url = receiver.url("/bills/{externalId}")
    integrate(home, "HTTP", url=receiver.url("/bills"), deleteUrl=url)
    first = put(home)
    send_bills(home)
    delete(home, first)
    second = put_again(home)

    assert ends(send_bills(home)) == [SENT, ("DELETE", RunStatus.ERROR), SENT]
    assert told(receiver) == [first, second]


@pytest.mark.long
def test_a_bill_that_is_deleted_and_made_again_twice_is_told_in_order(home, receiver):
    """A later deletion comes due before an earlier one that is tried again."""
    integrate(home, "HTTP", url=receiver.url("/bills"))
    first = put(home)
    send_bills(home)
    receiver.answers["/bills"] = 500
    delete(home, first)
    send_bills(home)
    second = put_again(home)
    delete(home, second)
    third = put_again(home)
    receiver.answers["/bills"] = 200
    for _ in range(3):
        runs = send_bills(home)
        home.clock.time += timedelta(minutes=10)

    assert {each.status for each in runs} == {RunStatus.COMPLETE}
    gone = (BILL_DELETED, first)
    assert told(receiver) == [first, gone, gone, third]


def test_the_next_bill_waits_for_no_other_one(home, receiver):
    integrate(home, "HTTP", url=receiver.url("/bills"))
    first = put(home)
    send_bills(home)
    receiver.answers["/bills"] = 500
    delete(home, first)
    send_bills(home)
    receiver.answers["/bills"] = 200
    other = put_bill(home, account_id(home, "acme"), 2, 7)
    make_runs(home)
    send_bills(home)

    assert told(receiver)[-1] == other


@pytest.mark.parametrize("is_heard", [True, False], ids=["known", "unheard of"])
def test_what_stands_of_a_former_bill_goes_although_its_deletion_failed(home, stripe, is_heard):
    """Stripe is asked by the ids that the bill had before, and by those that invoices carry."""
    config = to_stripe(home)
    first = put(home)
    send_bills(home)
    if not is_heard:
        with home.organization.transaction("test") as transaction:
            [of_bill] = [
                each for each in transaction.all(ExternalMapping) if each.entity.m3ter_id == first
            ]
            transaction.delete(ExternalMapping, of_bill.id)
    stripe.faults = [400]
    delete(home, first)
    assert ends(send_bills(home)) == [SENT, ("DELETE", RunStatus.ERROR)]
    assert len(stripe.live()) == 1

    second = put_again(home)
    assert {each.status for each in send_bills(home) if each.content.entity_id == second} == {
        RunStatus.COMPLETE
    }
    assert [each["metadata"]["meterlake_bill"] for each in stripe.live()] == [second]
    assert mapped(home) == [each["id"] for each in stripe.live()]
    assert config["enabled"]


def delete_silently(home, id_):
    """As an older version did: nobody is told."""
    delete_bill(home.organization, "test", id_)
    read_log(home.organization)


def test_what_was_deleted_before_deletions_were_handed_over_is_named_and_taken_back(home, stripe):
    config = to_stripe(home)
    first = put(home)
    send_bills(home)
    assert bills_left_behind(home.organization) == []
    delete_silently(home, first)
    put_bill(home, account_id(home, "acme"), 2, 5)

    [left] = bills_left_behind(home.organization)
    assert (left.bill_id, left.account, left.external_id) == (first, "acme", "in_1")
    assert (left.config_id, left.tried, str(left.key.bill_date)) == (
        config["id"],
        None,
        "2026-01-28",
    )

    assert len(take_back(home.organization, "test")) == 1
    # It waits: to ask again changes nothing.
    assert take_back(home.organization, "test") == []
    send_bills(home)
    assert stripe.live() == []
    assert bills_left_behind(home.organization) == []


def test_what_could_not_be_taken_back_is_named_with_its_reason_and_tried_again(home, stripe):
    to_stripe(home)
    first = put(home)
    send_bills(home)
    stripe.invoices["in_1"]["status"] = "paid"
    delete(home, first)
    send_bills(home)

    [left] = bills_left_behind(home.organization)
    assert left.tried is RunStatus.INVOICE_ALREADY_PAID
    assert left.error.startswith("invoice in_1 is paid")
    stripe.invoices["in_1"]["status"] = "open"  # Its payment was refunded there.
    [again] = take_back(home.organization, "test")
    assert {each.id: each.status for each in send_bills(home)}[again] is RunStatus.COMPLETE
    assert stripe.live() == []


def test_a_bill_of_which_nothing_is_left_is_named_although_nobody_can_take_it_back(home):
    to_stripe(home)
    create(
        home,
        "externalMappings",
        m3terEntity="Bill",
        m3terId="2f6a5e0c-3b3d-4a61-9c3c-7f9a6a0f9d11",
        externalSystem="STRIPE_TEST",
        externalTable="Invoice",
        externalId="in_9",
    )

    [left] = bills_left_behind(home.organization)
    assert (left.external_id, left.key) == ("in_9", None)
    assert take_back(home.organization, "test") == []


def test_the_run_of_a_deleted_bill_takes_it_back_if_it_is_sent_once_more(home, stripe):
    to_stripe(home)
    first = put(home)
    [sent] = send_bills(home)
    delete_silently(home, first)

    replayed = replay_run(home.organization, "test", sent.id)

    assert replayed["action"] == "DELETE"
    send_bills(home)
    assert (stripe.live(), mapped(home)) == ([], [])


class Ledger:
    """A connector of somebody else, which knows nothing of deletions."""

    declaration = IntegrationSystem(name="HTTP", display_name="Their Ledger", entity_types=(BILL,))
    concurrency = 1

    async def send(self, _):
        return Sent()


def test_a_connector_that_takes_nothing_back_says_so_by_name(home, receiver):
    integrate(home, "HTTP", url=receiver.url("/bills"))
    id_ = put(home)
    send_bills(home, known={"HTTP": Ledger()})
    delete(home, id_)

    [run] = [
        each for each in send_bills(home, known={"HTTP": Ledger()}) if each.content.is_deletion
    ]
    assert (run.status, run.job.error) == (
        RunStatus.ERROR,
        f"Their Ledger takes nothing back: remove bill {id_} there by hand",
    )
    assert id_ in all_tries(home)
