"""What a process does that applies a policy for late usage, and what must be the same afterwards."""

from datetime import UTC, datetime
from typing import Any

from meterlake.model.bills.jobs import KIND
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline.backfill import lifecycle
from meterlake.pipeline.billing import run as billing
from meterlake.pipeline.billing.jobs.jobs import bill, bill_order, run_bill_job, submit_order
from meterlake.pipeline.billing.jobs.schedule import order_of_run
from meterlake.pipeline.billing.late_usage.lists import list_late
from meterlake.stores.state.billing.bills import bills
from tests.bills import price_egress, subscribe, use
from tests.homes import HEADER, Home, configure, csv_row

AUTHOR = "a test"
_DAY = datetime(2026, 10, 2, tzinfo=UTC)


def prepared(home: Home, policy: str) -> None:
    """Bills of September, and usage of it that came, and went, after they were made."""
    price_egress(home)
    subscribe(home, "acme", "bolt")
    use(home, ("1", "acme", 40), ("2", "bolt", "2.5"))
    use(home, ("3", "acme", 7))
    bill(home.organization, Month(2026, 9))
    home.clock.time = _DAY
    settings = {"daysBeforeBillDue": 14, "lateUsage": policy}
    configure(home.organization, organizationConfig=settings)
    use(home, ("4", "acme", 1), ("5", "bolt", 5))
    home.ingest("october.csv", HEADER + csv_row("6", 3, ts="2026-10-01T10:00:00Z"))
    _retract(home, "3.csv")


def _retract(home: Home, name: str) -> None:
    [(identity,)] = home.query(f"SELECT identity FROM lake.source WHERE name = '{name}'")
    spec = BackfillSpec(Mode.RETRACT, reason="a test", source=identity)
    made = lifecycle.start(home.organization, lifecycle.Order(spec, AUTHOR))
    lifecycle.apply(home.organization, made.id, AUTHOR)


def carrying(home: Home) -> None:
    """The same with the policy to carry forward."""
    prepared(home, "CARRY_FORWARD")


def recalculating(home: Home) -> None:
    """The same with the policy to make bills again."""
    prepared(home, "RECALCULATE")


def changing_policy(home: Home) -> None:
    """What was carried of a bill that is made again by another policy, with more that came late."""
    carrying(home)
    with home.organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)
    bill_order(home.organization, order_of_run(record.entity, _DAY))
    settings = {"daysBeforeBillDue": 14, "lateUsage": "RECALCULATE"}
    configure(home.organization, organizationConfig=settings)
    use(home, ("7", "acme", 2))


def scheduled(home: Home) -> dict[str, Any]:
    """Two jobs of a schedule, one after the other, each bill in a transaction of its own."""
    organization = home.organization
    billing.BATCH = 1  # type: ignore[misc]
    for number in (1, 2):
        known = organization.state.jobs.recent(organization.id, KIND)
        # Later than whoever died over a job: its lease has ended.
        home.clock.time = _DAY
        home.clock.advance(days=number + sum(job.attempt for job in known))
        if len([job for job in known if job.author == AUTHOR]) < number:
            with organization.transaction(AUTHOR) as transaction:
                [record] = transaction.all(OrganizationConfig)
                submit_order(transaction, order_of_run(record.entity, _DAY))
        for job in organization.state.jobs.waiting(organization.id, KIND):
            run_bill_job(organization.stores, job.id)
    return {"lines": lines_of(home), "late": late_of(home)}


def lines_of(home: Home) -> list[Any]:
    """Every line of every bill: its account, bill date, type and amount."""
    with home.organization.reading() as reader:
        found = bills.of_period(reader)
    return sorted(
        [
            *(each.content.body["accountCode"], str(each.content.key.bill_date)),
            *(line.body["lineItemType"], str(line.body["convertedSubtotal"])),
        ]
        for each in found
        for line in each.content.lines
    )


def late_of(home: Home) -> list[Any]:
    """What became of late usage: the account, the status, the difference and the memos."""
    return sorted(
        [each.account_code, each.status.value, str(each.difference), len(each.lines)]
        for each in list_late(home.organization)
    )
