"""History priced anew: what a change would come to is what it comes to once it is made."""

import random
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from sqlalchemy import text

from meterlake.model.catalog.plans import Pricing
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources import resource_of
from meterlake.model.resources.proposal import Document
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.what_if import WhatIfChoice, compare_history
from meterlake.pipeline.config.apply_configuration import ApplyOptions, apply, export
from meterlake.stores.state.billing.bills import bills
from tests.billing_oracle.worlds import FEATURES, random_world
from tests.bills import a_home_to_bill, use
from tests.changed_worlds import raise_a_number
from tests.compared_bills import KINDS
from tests.homes import configure
from tests.integration.pipeline.billing.test_kept_bills import SOURCES, bill_world
from tests.integration.pipeline.billing.test_late_usage import schedule
from tests.stored_worlds import MONTHS, store_world

NOW = datetime(2022, 12, 2, tzinfo=UTC)


def compared(world, *documents, first=MONTHS[0], last=MONTHS[-1], **choice):
    """The changes of months, and the summary."""
    with compare_history(
        world.organization, WhatIfChoice(first, last, as_documents(documents), **choice)
    ) as found:
        return list(found.changes()), found.summary


def as_documents(documents):
    return [Document(f"{number}", each) for number, each in enumerate(documents)]


def contents(world):
    """All that State has, table by table."""
    with world.stores.state.reading_home() as connection:
        if connection.dialect.name == "sqlite":
            query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        else:
            query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        names = sorted(connection.execute(text(query)).scalars())
        return {
            name: sorted(map(repr, connection.execute(text(f'SELECT * FROM "{name}"'))))
            for name in names
        }


def stored_sums(world):
    """What the lines of stored bills come to, by month, account, product, type and currency."""
    sums = defaultdict(Decimal)
    with world.organization.reading() as reader:
        codes = {each.id: each.entity.code for each in reader.all(Account)}
        for month in MONTHS:
            for stored in bills.of_period(reader, str(month)):
                content = stored.content
                for line in content.lines:
                    key = (
                        *(str(month), codes[content.key.account_id]),
                        *(line.body.get("productCode", ""), line.body["lineItemType"]),
                        content.currency,
                    )
                    sums[key] += Decimal(line.body["convertedSubtotal"])
    return {key: amount for key, amount in sums.items() if amount}


def sums_of(changes, side):
    """The same of a comparison by month."""
    found = {
        (
            *(each.key.month, each.key.account, each.key.product),
            *(each.key.line_item_type, each.key.currency),
        ): getattr(each, side)
        for each in changes
    }
    return {key: amount for key, amount in found.items() if amount}


def without(sums, left_out):
    return {key: amount for key, amount in sums.items() if key[:2] not in left_out}


def changed_documents(world, rng):
    """Files with some numbers of the configuration raised: of a price, and of other entities."""
    with world.organization.reading() as reader:
        records = [each for kind in KINDS.values() for each in reader.all(kind)]
    mixed = rng.sample(records, len(records))
    mixed.sort(key=lambda each: not isinstance(each.entity, Pricing))
    found = []
    for record in [*mixed[:1], *rng.sample(mixed[1:], len(mixed) - 1)]:
        raised = raise_a_number(record.entity.to_wire(), rng)
        document = raised and {resource_of(record.entity).name: [{"id": record.id, **raised}]}
        # Some charges of a world are for balances that there are not.
        if document and len(found) < 3 and is_valid(world, document):
            found.append(document)
    return found


def is_valid(world, document):
    try:
        apply_all(world, [document], dry_run=True)
    except Invalid:
        return False
    return True


def apply_all(world, documents, *, dry_run=False):
    options = ApplyOptions(dry_run=dry_run)
    apply(world.stores.state, world.org_id, as_documents(documents), "test", options)


def check_world(folder, seed, features):
    """What a change would come to is what it comes to, for all months and accounts."""
    rng, described = random.Random(seed), random_world(seed, features)
    with store_world(described, folder) as world:
        world.clock.time = NOW
        bill_world(world)
        before = stored_sums(world)
        documents = changed_documents(world, rng)
        found = contents(world)
        changes, summary = compared(world, *documents, by_month=True)
        assert contents(world) == found
        left_out = {(each.month, each.account) for each in summary.not_priced}
        assert sums_of(changes, "before") == without(before, left_out), seed
        assert (summary.stored.differing, summary.stored.missing) == (0, 0), seed
        apply_all(world, documents)
        bill_world(world)
        assert sums_of(changes, "after") == without(stored_sums(world), left_out), seed
    return [each for each in changes if each.difference]


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, pytest.param(4, marks=pytest.mark.slow)])
def test_what_a_change_would_come_to_is_what_it_comes_to(tmp_path, seed):
    assert check_world(tmp_path, seed, SOURCES if seed == 4 else sorted(FEATURES))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(5))
def test_very_many_changes_come_to_what_they_would_come_to(tmp_path, chunk):
    count = 0
    for seed in range(100 + chunk * 6, 106 + chunk * 6):
        features = random.Random(seed).sample(sorted(FEATURES), 8) if seed % 3 else sorted(FEATURES)
        folder = tmp_path / str(seed)
        folder.mkdir()
        count += len(check_world(folder, seed, features))
    assert count > 10


SEPTEMBER = Month(2026, 9)
PRICE = {
    "code": "sent",
    "planId": "basic",
    "aggregationId": "sent",
    "startDate": "2026-01-01T00:00:00Z",
    "cumulative": True,
    "pricingBands": [
        {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 2},
        {"lowerLimit": 100, "fixedPrice": 0, "unitPrice": 0},
    ],
}
# What may concern everybody, and changes no amount.
RENAMED = {"products": [{"code": "cloud", "name": "Clouds"}]}


@pytest.fixture
def home(tmp_path):
    """A home in which acme used 42.5 and bolt 200 at 1 each up to 100, beside 31 a month."""
    with a_home_to_bill(tmp_path) as home:
        yield home


def differences(changes):
    return {
        (each.key.account, each.key.line_item_type): each.difference
        for each in changes
        if each.difference
    }


def files_of(home):
    """Every file of a home but those that readers of SQLite write, too, with its content."""
    return {
        str(path): path.read_bytes()
        for path in home.stores.home.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal", ".lock"))
    }


@pytest.mark.long
def test_nothing_changes_where_nothing_is_changed(home):
    exported = export(home.stores.state, home.org_id)
    for document in (exported, RENAMED):
        changes, summary = compared(home, document, first=Month(2026, 7), last=SEPTEMBER)
        assert len(changes) == 4
        assert differences(changes) == {}
        assert summary.totals["USD"].before == summary.totals["USD"].after == 3 * 2 * 31 + 142.5
    assert summary.changed == 1


def test_a_comparison_needs_no_lock_and_leaves_no_trace(home):
    bill(home.organization, SEPTEMBER)
    before, found = files_of(home), contents(home)
    with home.stores.state.writing_home():
        # A writer is at work: whoever had to write would wait for it, and give up.
        changes, _ = compared(home, {"pricings": [PRICE]}, first=SEPTEMBER, last=SEPTEMBER)
    with compare_history(
        home.organization, WhatIfChoice(SEPTEMBER, SEPTEMBER, as_documents([{"pricings": [PRICE]}]))
    ) as given_up:
        next(given_up.changes())

    assert differences(changes) == {("acme", "USAGE"): Decimal("42.5"), ("bolt", "USAGE"): 100}
    assert contents(home) == found
    assert files_of(home) == before


@pytest.mark.long
def test_what_concerns_one_account_is_calculated_for_it_alone(home):
    ended = {
        "code": "acme-basic",
        "accountId": "acme",
        "planId": "basic",
        "startDate": "2026-01-01T00:00:00Z",
        "endDate": "2026-09-16T00:00:00Z",
    }
    new = {
        "accounts": [{"code": "crow", "name": "Crow", "emailAddress": "c@crow.example"}],
        "accountPlans": [ended, {**ended, "code": "crow", "accountId": "crow"}],
    }
    changes, summary = compared(home, new, first=SEPTEMBER, last=SEPTEMBER)

    # 15 of 30 days.
    assert differences(changes) == {
        ("acme", "STANDING_CHARGE"): Decimal("-15.5"),
        ("crow", "STANDING_CHARGE"): Decimal("15.5"),
    }
    assert (summary.accounts, summary.changed) == (3, 3)
    chosen, summary = compared(
        home, new, first=SEPTEMBER, last=SEPTEMBER, accounts=("crow",), by_month=True
    )
    assert [(each.key.account, each.key.month) for each in chosen] == [("crow", "2026-09")]
    assert (summary.added_accounts, summary.accounts) == ((), 1)


def test_parents_are_calculated_with_their_children(home):
    """What a child uses is on the bill of its parent: the parent is calculated with it."""
    configure(
        home.organization,
        accounts=[
            {
                "code": "child",
                "name": "Child",
                "emailAddress": "c@child.example",
                "parentAccountId": "acme",
            }
        ],
    )
    use(home, ("of-child", "child", 5))
    prices = {"pricings": [PRICE]}
    changes, summary = compared(home, prices, first=SEPTEMBER, last=SEPTEMBER, accounts=("child",))

    assert summary.added_accounts == ("acme",)
    assert differences(changes) == {("acme", "USAGE"): Decimal("47.5")}


@pytest.mark.long
def test_a_balance_that_pays_more_is_empty_earlier(home):
    """Each side has its own ledger: what one month draws is gone for the next one."""
    use(home, ("7", "acme", 1))
    charged = {"commitments": [commitment(100)]}
    configure(home.organization, **charged)
    changes, _ = compared(
        home, {"pricings": [PRICE]}, first=SEPTEMBER, last=Month(2026, 11), by_month=True
    )
    drawn = {
        each.key.month: (each.before, each.after)
        for each in changes
        if each.key.line_item_type == "COMMITMENT_CONSUMED"
    }
    # 31 + 43.5 and 31 + 87 in September, then 31 a month.
    assert drawn == {"2026-09": (Decimal("-74.5"), -100), "2026-10": (Decimal("-25.5"), 0)}
    with pytest.raises(NotFound):
        compared(home, charged, first=SEPTEMBER, last=SEPTEMBER, accounts=("nobody",))


def commitment(amount):
    return {
        "accountId": "acme",
        "startDate": "2026-09-01",
        "endDate": "2027-01-01",
        "currency": "USD",
        "amount": amount,
    }


@pytest.mark.long
def test_locked_history_is_priced_anew_and_locks_stay(home):
    bill(home.organization, SEPTEMBER, approve=True)
    with home.organization.transaction("ann") as transaction:
        for each in bills.of_period(transaction, str(SEPTEMBER)):
            bills.lock(transaction, each.id)
    configure(home.organization, billConfig={"billLockDate": "2026-09-30"})
    found = contents(home)
    changes, summary = compared(home, {"pricings": [PRICE]}, first=SEPTEMBER, last=SEPTEMBER)

    assert differences(changes) == {("acme", "USAGE"): Decimal("42.5"), ("bolt", "USAGE"): 100}
    assert summary.stored.same == 2
    assert contents(home) == found


@pytest.mark.slow
def test_late_usage_that_was_carried_forward_stands_in_its_own_month(home):
    """History priced anew has late usage where it belongs: its memo would count it twice."""
    schedule(home)
    home.clock.time = datetime(2026, 10, 2, tzinfo=UTC)
    config = {"daysBeforeBillDue": 14, "lateUsage": "CARRY_FORWARD"}
    configure(home.organization, organizationConfig=config)
    use(home, ("late", "acme", 1))
    schedule(home)

    changes, _ = compared(
        home, {"pricings": [PRICE]}, first=SEPTEMBER, last=Month(2026, 10), by_month=True
    )
    usage = [each for each in changes if each.key.line_item_type == "USAGE"]
    assert {each.key.account: (each.before, each.after) for each in usage} == {
        "acme": (Decimal("43.5"), 87),
        "bolt": (100, 200),
    }
    assert "DEBIT_MEMO" not in {each.key.line_item_type for each in changes}
    # The memo stays where only its own month is priced anew.
    later, _ = compared(home, RENAMED, first=Month(2026, 10), last=Month(2026, 10))
    assert [each.after for each in later if each.key.line_item_type == "DEBIT_MEMO"] == [1]
