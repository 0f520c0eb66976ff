"""Events on both databases: in the transaction of what they tell of, and in its order."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select

from meterlake.model.bills.requests import BillStatus
from meterlake.model.catalog.catalog import Product
from meterlake.model.catalog.plans import BillingFrequency, Plan, PlanTemplate
from meterlake.model.configuration.organization import Currency, OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.errors import Conflict, Invalid, NotFound
from meterlake.model.resources.events import Event
from meterlake.model.values import wire
from meterlake.pipeline.config import apply_configuration
from meterlake.stores.state.billing.bills import batch as bill_batch
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.core.auto_accounts import create_auto_accounts
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events import events
from meterlake.stores.state.events.event_tables import EVENT
from meterlake.stores.state.events.events import EventFilter
from tests.organizations import changed, everything, new_organization
from tests.unit.stores.state.billing.bills.test_batch import content

ALL = EventFilter(actioned=True)


@pytest.fixture
def found(state, org):
    """What the list finds, all pages of it."""

    def finder(wanted=ALL, size=100, org_id=org):
        listed, token = [], None
        with state.reading(org_id) as reader:
            while True:
                some, token = events.page(reader, wanted, Page(size, token))
                listed += some
                assert len(some) == size or token is None
                if token is None:
                    return listed

    return finder


@pytest.fixture
def names(found):
    return lambda wanted=ALL: [each.event.name for each in found(wanted)]


@pytest.fixture
def write(state, org):
    """Do something in a transaction of its own."""

    def writer(action):
        with state.transaction(org, "USER_1") as transaction:
            return action(transaction)

    return writer


def account(code="acme", **fields):
    return Account(name="Acme", code=code, email_address="a@acme.example", **fields)


def created(code):
    return lambda transaction: transaction.create(account(code))


def test_creating_updating_and_deleting_tell_what_was_and_what_is(write, found, org, clock):
    one = write(created("acme"))
    clock.advance(minutes=1)
    two = write(lambda t: t.update(one.id, 1, account(purchase_order_number="PO-1")))
    clock.advance(minutes=1)
    write(lambda t: t.delete(Account, one.id))

    deleted, updated, made = found(EventFilter(resource_id=one.id))
    first = {**one.to_wire(), "orgId": org}
    assert [each.event.name.rpartition(".")[2] for each in (made, updated, deleted)] == [
        "created",
        "updated",
        "deleted",
    ]
    assert plain(made) == {"newDto": as_read(first)}
    second = {**two.to_wire(), "orgId": org}
    assert plain(updated) == {"newDto": as_read(second), "oldDto": as_read(first)}
    assert plain(deleted) == {"oldDto": as_read(second)}
    assert {each.event.account_id for each in (made, updated, deleted)} == {one.id}
    assert (deleted.time - made.time).total_seconds() == 120
    assert made.actioned is None


def plain(stored):
    return stored.event.data


def as_read(document):
    return wire.loads(wire.dumps(document))


def test_what_has_no_events_writes_none(write, names):
    before = names()
    write(lambda t: t.create(Currency(code="EUR", name="Euro")))

    assert names() == before


def test_a_new_organization_has_the_events_of_what_it_begins_with(names):
    assert {
        "configuration.customfield.created",
        "configuration.organizationconfig.created",
    } <= set(names())


def test_a_transaction_that_fails_leaves_no_event(write, names):
    before = names()

    def fail(transaction):
        transaction.create(account("a"))
        transaction.journal.write()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(fail)
    with pytest.raises(Invalid, match="existing Account"):
        write(lambda t: t.create(account("b", parent_account_id=str(uuid4()))))
    with pytest.raises(Conflict):
        write(lambda t: [created("c")(t), created("c")(t)])
    assert names() == before


def plans(transaction, *, first):
    """An account on a plan; the account plan is written before or after what it refers to."""
    ids = {kind: str(uuid4()) for kind in (Account, Product, PlanTemplate, Plan, AccountPlan)}
    template = PlanTemplate(
        name="T",
        code="t",
        product_id=ids[Product],
        currency="USD",
        standing_charge=Decimal(1),
        bill_frequency=BillingFrequency.MONTHLY,
    )
    entities = [
        Product(name="P", code="p"),
        account(),
        template,
        Plan(name="P", code="p", plan_template_id=ids[PlanTemplate]),
        AccountPlan(account_id=ids[Account], plan_id=ids[Plan], start_date="2026-01-01T00:00:00Z"),
    ]
    for entity in reversed(entities) if first else entities:
        transaction.create(entity, ids[type(entity)])
    return ids


@pytest.mark.parametrize("first", [False, True])
def test_what_is_computed_is_told_too_in_whatever_order_things_are_written(write, found, first):
    ids = write(lambda t: plans(t, first=first))

    [event] = found(EventFilter(names=("configuration.accountplan.created",)))
    assert plain(event)["newDto"]["productId"] == ids[Product]
    assert plain(event)["newDto"]["accountCode"] == "acme"
    assert event.event.account_id == ids[Account]


def test_what_is_computed_of_the_old_version_is_told_when_it_goes(write, found):
    ids = write(lambda t: plans(t, first=False))

    def delete_all(transaction):
        for kind in (AccountPlan, Plan, PlanTemplate, Product, Account):
            transaction.delete(kind, ids[kind])

    write(delete_all)
    [event] = found(EventFilter(names=("configuration.accountplan.deleted",)))
    assert plain(event)["oldDto"]["productId"] == ids[Product]
    gone = found(EventFilter(account_id=ids[Account], names=("configuration.account.deleted",)))
    assert len(gone) == 1


def test_what_comes_and_goes_in_one_transaction_has_both_events(write, found):
    def both(transaction):
        ids = plans(transaction, first=False)
        transaction.delete(AccountPlan, ids[AccountPlan])
        return ids

    ids = write(both)
    kinds = [each.event.name for each in found(EventFilter(resource_id=ids[AccountPlan]))]
    assert kinds == ["configuration.accountplan.deleted", "configuration.accountplan.created"]


def test_configuration_files_write_events(state, org, found):
    apply_configuration.apply(state, org, everything(), "USER_1")
    first = found()
    assert {f"configuration.{kind}.created" for kind in ("meter", "pricing", "accountplan")} <= {
        each.event.name for each in first
    }

    apply_configuration.apply(state, org, changed("accounts", name="Acme Inc."), "USER_1")
    apply_configuration.apply(state, org, changed("accounts", name="Acme Inc."), "USER_1")
    [update] = found()[: len(found()) - len(first)]
    assert update.event.name == "configuration.account.updated"
    assert (plain(update)["oldDto"]["name"], plain(update)["newDto"]["name"]) == (
        "Acme",
        "Acme Inc.",
    )


def test_a_dry_run_and_files_that_are_refused_write_no_events(state, org, names):
    before = names()
    apply_configuration.apply(
        state, org, everything(), "USER_1", apply_configuration.ApplyOptions(dry_run=True)
    )
    with pytest.raises(Invalid):
        apply_configuration.apply(state, org, changed("accounts", currency="XXX"), "USER_1")

    assert names() == before


def test_skeleton_accounts_have_their_events(state, org, found):
    ids = {f"code-{n}": str(UUID(int=n)) for n in range(1, 1001)}
    create_auto_accounts(state, org, ids)

    made = found(EventFilter(names=("configuration.account.created",)))
    assert {each.event.data["newDto"]["code"]: each.event.resource_id for each in made} == ids
    assert len({each.id for each in made}) == 1000
    with state.reading(org) as reader:
        stored = reader.get(Account, ids["code-7"]).to_wire()
    [seven] = [each for each in made if each.event.account_id == ids["code-7"]]
    assert plain(seven)["newDto"] == as_read({**stored, "orgId": org})


def shown(bill, org):
    """What events say of a bill."""
    found = {**bill.to_wire(), **bill.life_to_wire(), "orgId": org}
    return {name: value for name, value in found.items() if value is not None}


def test_a_bill_has_its_events(write, found, org):
    bill, _ = write(lambda t: bills.put(t, content(1, "1.50")))
    write(lambda t: bills.put(t, content(1, "1.50")))
    write(lambda t: bills.put(t, content(1, "2.50")))
    write(lambda t: bills.set_status(t, bill.id, BillStatus.APPROVED))
    write(lambda t: bills.lock(t, bill.id))

    *updates, made = found(EventFilter(resource_id=bill.id))
    assert [each.event.name for each in updates] == ["billing.bill.updated"] * 3
    assert made.event.name == "billing.bill.created"
    assert plain(made) == {"newDto": as_read(shown(bill, org))}
    assert plain(updates[0])["newDto"]["locked"] is True
    assert plain(updates[0])["oldDto"]["locked"] is False
    assert plain(updates[2])["oldDto"]["billTotal"] == Decimal("1.5")
    assert {each.event.account_id for each in updates} == {str(UUID(int=1))}


def test_bills_of_a_run_have_the_events_that_single_ones_have(write, found, org):
    def run(status, *amounts):
        several = [content(n, amount) for n, amount in enumerate(amounts, start=1)]
        return write(lambda t: bill_batch.put_all(t, several, status))

    first, second = run(BillStatus.PENDING, "1.50", "2.50")
    run(BillStatus.PENDING, "1.50", "3.50")
    run(BillStatus.APPROVED, "1.50", "3.50")
    run(BillStatus.APPROVED, "1.50", "3.50")

    kinds = [each.event.name for each in found(EventFilter(resource_id=second.bill_id))]
    assert kinds == [*["billing.bill.updated"] * 2, "billing.bill.created"]
    approved, made = found(EventFilter(resource_id=first.bill_id))
    assert plain(approved)["oldDto"] == plain(made)["newDto"]
    assert plain(approved)["newDto"]["status"] == "APPROVED"
    single = write(lambda t: bills.get(t, first.bill_id))
    assert plain(approved)["newDto"] == as_read(shown(single, org))
    assert plain(approved)["newDto"].keys() >= {"dtApproved", "approvedBy", "lastCalculatedDate"}


def failure(detail="no meter"):
    return Event(
        "ingest.validation.failure", "Ingest", "submission-1", {"newDto": {"message": detail}}
    )


@pytest.mark.parametrize("number", ["1E-19", "1E+25", "0.10", "123456789012345678.123456789", "-0"])
def test_numbers_are_kept_exactly(write, found, number):
    event = Event("billing.balanceamount.updated", "Balance", "b", {"newDto": Decimal(number)})
    write(lambda t: t.journal.add(event))

    [read] = found(EventFilter(resource_id="b"))
    assert read.event.data["newDto"] == Decimal(number)


def test_other_code_writes_its_own_events(write, found):
    def raised(transaction):
        arguments = transaction.org_id, transaction.now, transaction.new_id
        return events.write(transaction.connection, *arguments, failure())

    id_ = write(raised)
    [event] = found(EventFilter(names=("ingest.validation.failure",)))
    assert (event.id, event.event) == (id_, failure())


def test_pages_are_newest_first_and_stay_while_events_come(state, org, write, clock):
    ids = [write(created(f"a{n}")).id for n in range(3)]
    clock.advance(seconds=1)
    ids += [record.id for record in write(lambda t: [created(f"b{n}")(t) for n in range(3)])]
    wanted = EventFilter(names=("configuration.account.created",))
    with state.reading(org) as reader:
        one, token = events.page(reader, wanted, Page(4))
    clock.advance(seconds=1)
    write(created("later"))
    with state.reading(org) as reader:
        two, end = events.page(reader, wanted, Page(4, token))

    assert [each.event.resource_id for each in (*one, *two)] == ids[::-1]
    assert end is None


def test_a_page_that_ends_with_the_last_event_has_no_token(found, write):
    for n in range(4):
        write(created(f"a{n}"))

    assert len(found(EventFilter(names=("configuration.account.created",)), size=2)) == 4


@pytest.mark.parametrize("token", ["x", str(UUID(int=0)), "\N{SNOWMAN}"])
def test_a_token_that_no_list_gave_is_refused(state, org, token):
    with state.reading(org) as reader, pytest.raises(Invalid, match="nextToken"):
        events.page(reader, ALL, Page(10, token))


def test_filters(write, found, clock):
    one, two = write(created("one")), write(created("two"))
    [first] = found(EventFilter(account_id=one.id))
    [second] = found(EventFilter(resource_id=two.id))

    assert found(EventFilter(ids=(first.id, second.id))) == [second, first]
    assert found(EventFilter(ids=(first.id, str(uuid4())))) == [first]
    assert found(EventFilter(names=("configuration.account.deleted",))) == []
    assert found(EventFilter(since=clock.advance(seconds=1))) == []
    assert first in found(EventFilter(since=first.time))


def test_what_is_seen_to_is_listed_only_when_asked_for(write, found, clock):
    one = write(created("one"))
    [event] = found(EventFilter(account_id=one.id))
    write(lambda t: events.mark_actioned(t, event.id, clock.time))

    assert found(EventFilter(account_id=one.id)) == []
    [seen] = found(EventFilter(account_id=one.id, actioned=True))
    assert seen.actioned == clock.time


def test_events_of_a_notification(write, found):
    one, _ = write(created("one")), write(created("two"))
    [event] = found(EventFilter(account_id=one.id))
    rule = str(uuid4())
    write(lambda t: events.mark_notified(t.connection, [(event.id, rule)]))

    assert found(EventFilter(notification_ids=(rule,))) == [event]
    assert found(EventFilter(notification_ids=(str(uuid4()),))) == []


def test_what_follows_from_an_event_has_a_category(write, found):
    base = Event("dataexport.job.failure", "Job", None, {"newDto": {}})
    derived = replace(base, category="Notification", base_id="base")
    for each in (base, derived):
        write(lambda t, event=each: t.journal.add(event))
    names = ("dataexport.job.failure",)

    def categories(**criteria):
        return [each.event.category for each in found(EventFilter(**criteria))]

    assert categories(names=names) == ["Notification", None]
    assert categories(names=names, category="DataExportJobFailure") == [None]
    assert categories(category="Notification") == ["Notification"]


def test_an_event_that_is_written_late_is_listed_as_long_as_others(write, found, clock):
    day = timedelta(days=1)
    late = Event("scheduled.bill.late", "Bill", None, {"newDto": {}}, time=clock.time - 40 * day)
    write(lambda t: t.journal.add(late))
    [stored] = found(EventFilter(names=(late.name,), since=clock.time))

    assert (stored.time, stored.written, stored.event) == (late.time, clock.time, late)
    assert found(EventFilter(since=clock.time + day)) == []
    listed = found(EventFilter(since=clock.time - day), size=3)
    assert listed[-1] == stored
    assert len(listed) == len({each.id for each in listed}) > 3


def test_a_page_goes_on_behind_an_event_that_is_gone(state, org, write):
    for n in range(3):
        write(created(f"a{n}"))
    wanted = EventFilter(names=("configuration.account.created",))
    with state.reading(org) as reader:
        [first], token = events.page(reader, wanted, Page(1))
        rest, _ = events.page(reader, wanted, Page(5, token))
    with state.transaction(org, "U") as transaction:
        transaction.connection.execute(delete(EVENT).where(EVENT.c.id == first.id))

    with state.reading(org) as reader:
        assert events.page(reader, wanted, Page(5, token)) == (rest, None)


def test_an_organization_sees_its_own_events_only(state, write, found):
    other = new_organization(state, "other")
    one = write(created("one"))
    [event] = found(EventFilter(account_id=one.id))

    assert found(EventFilter(ids=(event.id,)), org_id=other) == []
    with state.transaction(other, "USER_2") as transaction:
        for attempt in (
            lambda: events.get(transaction, event.id),
            lambda: events.mark_actioned(transaction, event.id, transaction.now),
        ):
            with pytest.raises(NotFound):
                attempt()
        with pytest.raises(Invalid, match="nextToken"):
            events.page(transaction, ALL, Page(1, event.id))


def test_the_sequence_counts_up_across_organizations(state, org):
    new_organization(state, "other")
    with state.reading(org) as reader:
        rows = reader.connection.execute(select(EVENT.c.seq, EVENT.c.org).order_by(EVENT.c.seq))
        first, *rest = [row.org for row in rows]

    assert first == org
    assert rest == sorted(rest, key=lambda each: each != org)
    assert set(rest) > {org}


def test_settings_that_change_are_told(write, found):
    config = write(lambda t: t.all(OrganizationConfig)[0])
    changed_ = config.entity.model_copy(update={"days_before_bill_due": 7})
    write(lambda t: t.update(config.id, config.version, changed_))

    [event] = found(EventFilter(names=("configuration.organizationconfig.updated",)))
    assert (
        plain(event)["oldDto"]["daysBeforeBillDue"],
        plain(event)["newDto"]["daysBeforeBillDue"],
    ) == (30, 7)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("a\0b", "a\ufffdb"),
        ("c\ud800", "c\ufffd"),
        ("x" * (10 << 20), "x" * (64 << 10)),
        ("\0\udfff" * (5 << 20), "\ufffd" * (64 << 10)),
    ],
    ids=["nul", "half", "10 MB", "10 MB of both"],
)
@pytest.mark.parametrize(
    "name",
    [
        "dataexport.job.failure",
        "ingest.validation.failure",
        "integration.authentication.error",
        "integration.disabled.error",
        "integration.perform.error",
    ],
)
def test_words_of_strangers_are_told_as_text_that_every_receiver_can_read(
    write, found, name, said, told
):
    """Of stores of objects, of files, of receivers of webhooks and of integrations."""
    event = Event(name, "Job", None, {"newDto": {"message": said, "more": [said], "cents": 7}})
    write(lambda transaction: transaction.journal.add(event))

    [event] = found(EventFilter(names=(name,)))
    assert event.event.data["newDto"] == {"message": told, "more": [told], "cents": 7}
