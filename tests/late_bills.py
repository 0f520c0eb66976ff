"""Late usage of a home of which September is billed: what is done there, and what comes of it."""

from contextlib import contextmanager
from datetime import UTC, datetime

from meterlake.model.bills.jobs import NO_DAYS, BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline.backfill import lifecycle
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.jobs.schedule import order_of_run
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.late_usage.lists import list_late_usage
from meterlake.stores.state.core.pages import Page
from tests.bills import a_home_to_bill
from tests.homes import configure

SEPTEMBER, OCTOBER, NOVEMBER = "2026-10-01", "2026-11-01", "2026-12-01"


@contextmanager
def closed_september(tmp_path):
    """A home in which September is billed, and closed, and October is open: it is 2 October."""
    with a_home_to_bill(tmp_path, schedule) as home:
        home.clock.time = datetime(2026, 10, 2, tzinfo=UTC)
        yield home


def choose(home, policy):
    configure(home.organization, organizationConfig={"daysBeforeBillDue": 14, "lateUsage": policy})


def schedule(home):
    """What scheduled billing does, a minute later."""
    home.clock.advance(minutes=1)
    with home.organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)
    return bill_order(home.organization, order_of_run(record.entity, home.clock()))


def stored(home):
    with home.organization.reading() as reader:
        found = bills.of_period(reader)
    return {
        (each.content.body["accountCode"], str(each.content.key.bill_date)): each for each in found
    }


def totals(home, account="acme"):
    return {
        day: each.content.total for (code, day), each in stored(home).items() if code == account
    }


def memos(home, day, account="acme"):
    """The memos on a bill: type, amount, and whether they name the line that they are about."""
    found = []
    for line in stored(home)[account, day].content.lines:
        if line.body["lineItemType"].endswith("MEMO"):
            about = line.body.get("referencedLineItemId") is not None
            found.append((line.body["lineItemType"], line.body["convertedSubtotal"], about))
    return found


def lates(home):
    with home.organization.reading() as reader:
        found, _ = list_late_usage(reader, Page(100))
    return found


def decided(home):
    """What became of late usage, the oldest first: account, period, status, difference."""
    return [
        (each.account_code, each.period, each.status.value, each.difference)
        for each in reversed(lates(home))
    ]


def lock(home, account, day):
    with home.organization.transaction("ann") as transaction:
        id_ = stored(home)[account, day].id
        bills.set_status(transaction, id_, BillStatus.APPROVED)
        bills.lock(transaction, id_)


def retract(home, name):
    """Withdraw a file; what the backfill is called."""
    [(identity,)] = home.query(f"SELECT identity FROM lake.source WHERE name = '{name}'")
    spec = BackfillSpec(Mode.RETRACT, reason="a test", source=identity)
    made = lifecycle.start(home.organization, lifecycle.Order(spec, "ann"))
    lifecycle.apply(home.organization, made.id, "ann")
    return made.id


def revert(home, backfill_id):
    lifecycle.revert(home.organization, backfill_id, "ann")


def remove(home, account, day):
    with home.organization.transaction("ann") as transaction:
        bills.remove(transaction, stored(home)[account, day].id)


def apply_now(home):
    """A job that does nothing but apply the policy."""
    bill_order(home.organization, BillOrder(days=NO_DAYS, late_usage=True))
