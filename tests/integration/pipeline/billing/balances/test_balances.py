"""Transactions of balances, what balances hold, and previews of their schedules."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.configuration.organization import TransactionType
from meterlake.model.customers.balances import Balance, BalanceChargeSchedule, EntityType
from meterlake.model.errors import Invalid, InvalidConfiguration, NotFound, StillReferenced
from meterlake.model.resources import BY_ENTITY
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.model.values.ids import derived_id
from meterlake.pipeline.billing.balances import balances
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.apply_configuration import ApplyOptions, apply
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.settings import Settings
from meterlake.stores.state.billing.credits.balances import BalanceFilters
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events.events import EventFilter, page
from tests.databases import state_of
from tests.organizations import Clock, new_organization, open_new

YEAR = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2027-01-01T00:00:00Z"}
BALANCE = {"code": "prepaid", "name": "Prepaid", "accountId": "acme", "currency": "USD", **YEAR}
ROLLED = {
    "code": "rolled",
    "startDate": "2025-01-01T00:00:00Z",
    "endDate": "2026-03-01T00:00:00Z",
    "rolloverEndDate": "2026-12-01T00:00:00Z",
    "rolloverAmount": 800,
    "contractId": "acme-1",
}
DOCUMENT = {
    "accounts": [{"code": "acme", "name": "Acme", "emailAddress": "bills@acme.example"}],
    "contracts": [
        {
            "code": "acme-1",
            "name": "Acme",
            "accountId": "acme",
            "startDate": "2026-01-01",
            "endDate": "2027-01-01",
        }
    ],
    "transactionTypes": [
        {"code": "top_up", "name": "Top up"},
        {"code": "old", "name": "Old", "archived": True},
    ],
    "balances": [BALANCE, {**BALANCE, **ROLLED}],
}
FEE = {
    "name": "Fee",
    "code": "fee",
    "currency": "USD",
    "servicePeriodStartDate": "2026-01-01T00:00:00Z",
    "servicePeriodEndDate": "2026-04-01T00:00:00Z",
    "billFrequency": "MONTHLY",
    "billFrequencyInterval": 1,
    "billInAdvance": True,
    "chargeDescription": "Fee",
    "amount": 10,
}


class World:
    """An organization with two balances, and a short way to work with them."""

    def __init__(self, stores, org, clock):
        self.stores, self.org, self.clock = stores, org, clock
        apply(stores.state, org, [Document("a", DOCUMENT)], "USER_1")
        self.configuration = stores.state.configuration(org)
        self.balance = self.id(Balance, "prepaid")

    @property
    def organization(self):
        return self.stores.organization(self.org)

    def id(self, kind, code):
        return self.configuration.find(kind, code).id

    def book(self, amount, balance=None, **fields):
        principal = Principal(PrincipalType.SERVICEUSER, "7", self.org, "key")
        return balances.create_transaction(
            self.organization,
            principal.author,
            balance or self.balance,
            {"amount": amount, **fields},
        )

    def page(self, size=200, token=None, **wanted):
        page = Page(size, token)
        return balances.list_transactions(self.organization, self.balance, wanted, page)

    def listed(self, **filters):
        found = balances.list_page(self.organization, BalanceFilters(**filters), Page(100))
        return {each["code"]: each["amount"] for each in found["data"]}

    def summary(self, balance=None):
        return balances.summarize_transactions(self.organization, balance or self.balance)

    def preview(self, preview=balances.preview_charges, size=200, token=None, **changes):
        document = {key: value for key, value in {**FEE, **changes}.items() if value is not None}
        return preview(self.organization, self.balance, document, Page(size, token))


@pytest.fixture
def world(home_database, tmp_path):
    clock, home = Clock(), tmp_path / home_database
    settings = Settings(home=home, _env_file=None, **state_of(home))
    with open_new(settings, clock) as stores:
        yield World(stores, new_organization(stores.state), clock)


def test_a_transaction_is_shown_with_its_cause(world):
    made = world.book(
        Decimal("12.50"),
        description="Paid by card",
        paid=11,
        currencyPaid="USD",
        transactionTypeId=world.id(TransactionType, "top_up"),
        transactionDate="2026-09-30T00:00:00Z",
    )

    assert made == {
        "id": made["id"],
        "version": 1,
        "amount": Decimal("12.5"),
        "description": "Paid by card",
        "paid": 11,
        "currencyPaid": "USD",
        "transactionTypeId": world.id(TransactionType, "top_up"),
        "appliedDate": world.clock.time,
        "transactionDate": datetime(2026, 9, 30, tzinfo=UTC),
        "entityType": "SERVICE_USER",
        "entityId": "7",
        "createdBy": "SERVICE_USER_7",
        "dtCreated": world.clock.time,
        "lastModifiedBy": "SERVICE_USER_7",
        "dtLastModified": world.clock.time,
    }


def test_amounts_keep_every_digit(world):
    world.book(Decimal("0.10"))
    world.book(Decimal("12345678901234567890.12345678901234567890"))

    assert world.listed()["prepaid"] == Decimal("12345678901234567890.2234567890123456789")


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"amount": "1"}, "amount"),
        ({"amount": None}, "amount is required"),
        (
            {"currencyPaid": "EUR"},
            "currencyPaid: 'EUR' is not allowed: it must be the code of an existing",
        ),
        ({"transactionTypeId": "no id"}, "transactionTypeId"),
        ({"transactionTypeId": derived_id("x")}, "the id of an existing TransactionType"),
        ({"appliedDate": "today"}, "appliedDate"),
        ({"amount": -1}, "amount: -1 is not allowed: it must be at most what the balance holds"),
    ],
)
def test_what_breaks_a_rule_is_refused_and_leaves_nothing(world, fields, place):
    with pytest.raises(Invalid, match=place):
        world.book(**{"amount": 1, **fields})

    assert world.page() == {"data": []}


def test_an_archived_type_is_not_picked(world):
    with pytest.raises(Invalid, match="a transaction type that is not archived"):
        world.book(1, transactionTypeId=world.id(TransactionType, "old"))


@pytest.mark.parametrize(
    ("balance", "organization", "allowed"),
    [(None, False, False), (None, True, True), (False, True, False), (True, False, True)],
)
def test_a_balance_is_overdrawn_only_where_that_is_allowed(world, balance, organization, allowed):
    changes = {} if balance is None else {"allowOverdraft": balance}
    config = {"daysBeforeBillDue": 30, "allowNegativeBalances": organization}
    content = {"balances": [{**BALANCE, **changes}], "organizationConfig": config}
    apply(world.stores.state, world.org, [Document("b", content)], "USER_1")
    world.book(10)

    if allowed:
        world.book(-11)
        assert world.listed()["prepaid"] == -1
    else:
        with pytest.raises(Invalid, match="allowOverdraft"):
            world.book(-11)
    world.book(1)


def test_a_balance_holds_what_has_been_applied(world):
    world.book(100, appliedDate="2026-09-01T00:00:00Z")
    world.book(50, appliedDate="2026-11-01T00:00:00Z")

    assert world.listed() == {"prepaid": 100, "rolled": 0}
    world.clock.advance(days=31)
    shown = {"id": world.balance, "code": "prepaid"}
    assert balances.with_amount(world.organization, shown) == {**shown, "amount": 150}


def test_transactions_are_listed_newest_first_in_pages_that_stay(world):
    for amount in (1, 2, 3):
        world.book(amount)
    first = world.page(size=2)
    world.book(4)
    second = world.page(size=2, token=first["nextToken"])

    assert [each["amount"] for each in first["data"]] == [3, 2]
    assert [each["amount"] for each in second["data"]] == [1]
    assert "nextToken" not in second


def test_transactions_are_listed_by_type_and_cause(world):
    top_up = world.id(TransactionType, "top_up")
    world.book(1, transactionTypeId=top_up)
    world.book(2)

    assert len(world.page(transactionTypeId=top_up)["data"]) == 1
    assert len(world.page(entityType="SERVICE_USER", entityId="7")["data"]) == 2
    assert world.page(entityType="BILL") == world.page(entityId="8") == {"data": []}


@pytest.mark.parametrize("token", ["x", "!", "LTE", "é", "A" * 40])
def test_a_token_of_nobody_is_refused(world, token):
    with pytest.raises(Invalid, match="nextToken"):
        world.page(token=token)


def test_a_balance_that_is_not_there_has_nothing(world):
    for ask in (world.summary, lambda balance: world.book(1, balance)):
        with pytest.raises(NotFound, match="no Balance"):
            ask(derived_id("nobody"))
    world.balance = derived_id("nobody")
    for listing in (world.page, world.preview):
        with pytest.raises(NotFound, match="no Balance"):
            listing()


def test_what_is_left_at_the_end_beyond_the_rollover_has_expired(world):
    rolled = world.id(Balance, "rolled")
    world.book(1000, rolled, appliedDate="2025-01-01T00:00:00Z")

    assert world.summary(rolled) == {
        "totalCreditAmount": 1000,
        "totalDebitAmount": 0,
        "initialCreditAmount": 1000,
        "expiredBalanceAmount": 200,
        "balanceConsumed": 0,
        "rolloverConsumed": 0,
    }


@pytest.mark.parametrize(
    ("filters", "codes"),
    [
        ({"account_id": derived_id("nobody")}, set()),
        ({"contract_id": ""}, {"prepaid"}),
        ({"contract_id": derived_id("nobody")}, set()),
        ({"ends_from": datetime(2026, 12, 1, tzinfo=UTC)}, {"prepaid", "rolled"}),
        ({"ends_from": datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC)}, {"prepaid"}),
        ({"ends_before": datetime(2026, 12, 1, tzinfo=UTC)}, set()),
        ({"ends_before": datetime(2027, 1, 1, tzinfo=UTC)}, {"rolled"}),
        ({"ids": (derived_id("nobody"),)}, set()),
    ],
)
def test_balances_are_found_by_what_they_are(world, filters, codes):
    assert set(world.listed(**filters)) == codes


def test_balances_are_found_by_account_and_contract(world):
    balance = world.configuration.find(Balance, "rolled")

    assert set(world.listed(account_id=balance.entity.account_id)) == {"prepaid", "rolled"}
    assert set(world.listed(contract_id=balance.entity.contract_id)) == {"rolled"}
    assert set(world.listed(ids=(balance.id,))) == {"rolled"}


def test_what_transactions_name_is_not_deleted(world):
    top_up = world.id(TransactionType, "top_up")
    world.book(1, transactionTypeId=top_up)
    used = [
        ResourceRef(BY_ENTITY[Balance], {}, world.balance),
        ResourceRef(BY_ENTITY[TransactionType], {}, top_up),
    ]
    for place in used:
        with pytest.raises(StillReferenced, match="still referenced by transaction"):
            entities.delete(world.organization, "USER_1", place)
    documents = [Document("a", {"balances": [], "transactionTypes": []})]
    with pytest.raises(InvalidConfiguration) as caught:
        apply(world.stores.state, world.org, documents, "USER_1", ApplyOptions(prune=True))
    assert [str(each).partition(" by ")[0] for each in caught.value.problems] == [
        "TransactionType 'top_up' is still referenced",
        "Balance 'prepaid' is still referenced",
    ]

    free = ResourceRef(BY_ENTITY[Balance], {}, world.id(Balance, "rolled"))
    gone = entities.delete(world.organization, "USER_1", free)
    assert gone["code"] == "rolled"
    with pytest.raises(NotFound):
        entities.retrieve(world.organization, free)


def test_a_transaction_is_an_event_of_the_amount(world):
    world.book(10)
    world.clock.advance(hours=1)
    world.book(-4)

    with world.organization.reading() as reader:
        wanted = EventFilter(resource_id=world.balance)
        found = [each.event for each in page(reader, wanted, Page(10))[0]]
    amounts = [each for each in found if each.name.startswith("billing.balanceamount.")]
    assert [each.name.rpartition(".")[2] for each in amounts] == ["updated", "created"]
    assert [amounts[0].data[side]["amount"] for side in ("newDto", "oldDto")] == [6, 10]
    assert amounts[1].data["newDto"]["accountCode"] == "acme"


def test_a_preview_is_the_schedule_and_its_charges(world):
    found = world.preview()

    assert found["chargeDescription"] == "Fee"
    assert found["balanceId"] == world.balance
    assert found["nextRun"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert "dtCreated" not in found
    assert "nextToken" not in found
    assert [str(each["billDate"]) for each in found["data"]] == [
        "2026-01-01",
        "2026-02-01",
        "2026-03-01",
    ]
    assert {each["scheduleId"] for each in found["data"]} == {found["id"]}
    assert world.preview() == found
    place = ResourceRef(BY_ENTITY[BalanceChargeSchedule], {}, found["id"])
    with pytest.raises(NotFound):
        entities.retrieve(world.organization, place)


def test_a_preview_goes_on_where_its_token_says(world):
    first = world.preview(size=2)
    second = world.preview(size=2, token=first["nextToken"])

    assert first["data"] + second["data"] == world.preview()["data"]
    assert "nextToken" not in second
    assert world.preview(size=3) == world.preview()


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"units": 1}, "amount"),
        ({"currency": "EUR"}, "currency"),
        ({"billFrequencyInterval": 0}, "billFrequencyInterval"),
        ({"servicePeriodEndDate": "2025-01-01T00:00:00Z"}, "servicePeriodEndDate"),
        ({"name": None}, "name is required"),
        ({"token": "x"}, "nextToken"),
    ],
)
def test_a_preview_is_refused_as_the_schedule_would_be(world, changes, place):
    with pytest.raises(Invalid, match=place):
        world.preview(**changes)


def test_a_preview_of_transactions_has_what_a_scheduler_would_book(world):
    schedule = {
        "transactionDescription": "Top up",
        "transactionTypeId": world.id(TransactionType, "top_up"),
        "startDate": "2026-01-31T00:00:00Z",
        "endDate": "2026-04-01T00:00:00Z",
        "frequency": "MONTHLY",
        "frequencyInterval": 1,
    }

    found = world.preview(balances.preview_transactions, **schedule)

    assert found["transactionDescription"] == "Top up"
    assert [wire.to_plain(each["appliedDate"]) for each in found["data"]] == [
        "2026-01-31T00:00:00Z",
        "2026-02-28T00:00:00Z",
        "2026-03-31T00:00:00Z",
    ]
    assert {(each["entityType"], each["entityId"]) for each in found["data"]} == {
        (EntityType.SCHEDULER, found["id"])
    }
    schedule["transactionTypeId"] = world.id(TransactionType, "old")
    with pytest.raises(Invalid, match="not archived"):
        world.preview(balances.preview_transactions, **schedule)


def test_people_and_programs_are_causes():
    causes = [balances.cause_of(each) for each in ("USER_1", "SERVICE_USER_2", "cli")]

    assert [(each.type, each.id) for each in causes] == [
        (EntityType.USER, "1"),
        (EntityType.SERVICE_USER, "2"),
        (EntityType.USER, "cli"),
    ]
