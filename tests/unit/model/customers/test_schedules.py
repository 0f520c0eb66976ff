from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.calendar.recurrence import ScheduleFrequency
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransactionSchedule,
)
from meterlake.model.customers.schedules import charges, transactions
from meterlake.model.rules.balances import charge_schedule_runs, charged_parts
from meterlake.model.values.entity import Configuration, Record
from tests.billing_world import instant

ID, OTHER = "1" * 8 + "-0000-4000-8000-" + "0" * 12, "2" * 8 + "-0000-4000-8000-" + "0" * 12
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = OrganizationConfig(days_before_bill_due=30, timezone="Europe/Berlin")
BALANCE = Balance.from_wire(
    {
        "code": "prepaid",
        "name": "Prepaid",
        "accountId": OTHER,
        "startDate": "2026-01-01T00:00:00Z",
        "endDate": "2027-01-01T00:00:00Z",
        "currency": "USD",
    }
)
SCHEDULE = {
    "balanceId": ID,
    "name": "Fee",
    "code": "fee",
    "currency": "USD",
    "servicePeriodStartDate": "2025-12-31T23:00:00Z",
    "servicePeriodEndDate": "2026-03-14T23:00:00Z",
    "billFrequency": "MONTHLY",
    "billFrequencyInterval": 1,
    "billInAdvance": True,
    "chargeDescription": "Monthly fee",
    "amount": 10,
}


def made(**changes):
    schedule = BalanceChargeSchedule.from_wire({**SCHEDULE, **changes})
    return list(charges(schedule, BALANCE, CONFIG))


def bill_dates(**changes):
    return [str(charge.bill_date) for charge in made(**changes)]


def test_in_advance_charges_are_billed_when_their_stretch_begins():
    assert bill_dates() == ["2026-01-01", "2026-02-01", "2026-03-01"]


def test_in_arrears_charges_are_billed_when_their_stretch_ends():
    assert bill_dates(billInAdvance=False) == ["2026-02-01", "2026-03-01", "2026-03-15"]


def test_bill_dates_are_counted_from_the_epoch_of_the_schedule():
    assert bill_dates(billEpoch="2025-01-15") == ["2026-01-01", "2026-01-15", "2026-02-15"]
    assert bill_dates(billFrequencyInterval=2) == ["2026-01-01", "2026-03-01"]


def test_no_charge_is_billed_before_the_epoch_of_the_schedule():
    early = ["2026-02-15", "2026-02-15", "2026-02-15"]
    assert bill_dates(billEpoch="2026-02-15") == early
    assert bill_dates(billEpoch="2026-02-15", billInAdvance=False) == [*early[:2], "2026-03-15"]
    # Each has its own stretch and its whole amount.
    starts = [each.service_period_start_date for each in made(billEpoch="2026-02-15")]
    assert [f"{each:%m-%d}" for each in starts] == ["12-31", "01-14", "02-14"]


def test_a_schedule_runs_next_when_its_first_charge_is_billed():
    around = Configuration([Record(ID, 1, CONFIG, NOW, "", NOW, "")])

    def next_run(**changes):
        schedule = BalanceChargeSchedule.from_wire({**SCHEDULE, **changes})
        return charge_schedule_runs(Record(OTHER, 1, schedule, NOW, "", NOW, ""), around)["nextRun"]

    assert next_run() == instant("2025-12-31T23:00:00Z")
    assert next_run(billInAdvance=False) == instant("2026-01-31T23:00:00Z")
    assert next_run(billEpoch="2026-02-15") == instant("2026-02-14T23:00:00Z")
    assert next_run(billEpoch="2025-01-15") == instant("2025-12-31T23:00:00Z")
    assert next_run(billEpoch="0001-01-01") == instant("2025-12-31T23:00:00Z")


def test_a_charge_is_for_the_balance_and_its_account():
    [first, *_] = made(amount=None, units=3, unitPrice=Decimal("1.5"))

    assert first.to_wire() == {
        "name": "Fee",
        "code": "fee-1",
        "accountId": OTHER,
        "currency": "USD",
        "entityType": "BALANCE",
        "entityId": ID,
        "lineItemType": "BALANCE_FEE",
        "servicePeriodStartDate": datetime(2025, 12, 31, 23, tzinfo=UTC),
        "servicePeriodEndDate": datetime(2026, 1, 31, 23, tzinfo=UTC),
        "billDate": first.bill_date,
        "units": 3,
        "unitPrice": Decimal("1.5"),
        "description": "Monthly fee",
    }


def test_the_code_of_a_charge_is_never_too_long():
    assert made(code="c" * 80)[0].code == "c" * 78 + "-1"


def test_transactions_have_what_the_schedule_says():
    schedule = BalanceTransactionSchedule.from_wire(
        {
            "balanceId": ID,
            "name": "Top up",
            "code": "top",
            "amount": Decimal("12.50"),
            "transactionDescription": "Weekly",
            "transactionTypeId": OTHER,
            "startDate": "2026-01-01T00:00:00Z",
            "endDate": "2026-01-15T00:00:00Z",
            "frequency": "WEEKLY",
            "frequencyInterval": 1,
        }
    )

    first, second = transactions(schedule, CONFIG)

    assert first["appliedDate"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert second["appliedDate"] == second["transactionDate"] == datetime(2026, 1, 8, tzinfo=UTC)
    assert (second["amount"], second["description"]) == (Decimal("12.50"), "Weekly")
    assert (second["transactionTypeId"], second["entityType"]) == (OTHER, "SCHEDULER")
    assert list(transactions(schedule, CONFIG, 1)) == [second]


@given(
    st.sampled_from(list(ScheduleFrequency)),
    st.integers(1, 3),
    st.integers(0, 24 * 90),
    st.none() | st.integers(-24 * 5, 24 * 80),
    st.booleans(),
)
def test_parts_after_a_time_are_those_of_all_that_begin_then_or_later(
    frequency, interval, hours, until, has_epoch
):
    start = datetime(2026, 1, 3, 7, tzinfo=UTC)
    schedule = BalanceChargeSchedule.from_wire(
        SCHEDULE
        | {
            "servicePeriodStartDate": start.isoformat(),
            "servicePeriodEndDate": (start + timedelta(hours=hours + 1)).isoformat(),
            "billFrequency": frequency.value,
            "billFrequencyInterval": interval,
            **({"billEpoch": "2026-01-20"} if has_epoch else {}),
        }
    )
    then = None if until is None else start + timedelta(hours=until)

    whole = list(charged_parts(schedule, CONFIG))
    found = list(charged_parts(schedule, CONFIG, then))

    assert found == [each for each in whole if then is None or each[1].start >= then]
    assert [number for number, _ in whole] == list(range(len(whole)))
    for until_end in (part.end for _, part in whole):
        rest = [part for _, part in charged_parts(schedule, CONFIG, until_end)]
        assert rest == [part for _, part in whole if part.start >= until_end]
