from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import BillConfig
from meterlake.model.errors import Locked
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import BillOutcome, put_all
from meterlake.stores.state.billing.bills.bills import PutOutcome
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey

CONTENT = BillContent(
    key=BillKey("2054cfc5-18df-47ce-926c-5817033073b4", date(2026, 11, 1), "MONTHLY", 1),
    period="2026-10",
    currency="USD",
    total=Decimal("14.10"),
    body={"endDate": date(2026, 11, 1)},
    pins={},
    lines=(),
)
OTHER = replace(CONTENT, total=Decimal(15))


@pytest.fixture
def write(state, org):
    """Call a function with a transaction of its own."""

    def writer(function, *arguments):
        with state.transaction(org, "USER_1") as transaction:
            return function(transaction, *arguments)

    return writer


@pytest.fixture
def lock(write):
    """Set the lock date."""

    def set_date(transaction, day):
        [config] = transaction.all(BillConfig)
        transaction.update(config.id, config.version, BillConfig(bill_lock_date=day))

    return lambda day: write(set_date, day)


@pytest.mark.parametrize(
    ("day", "found"), [(date(2026, 10, 30), False), (date(2026, 10, 31), True)]
)
def test_a_pending_bill_is_found_by_the_day_on_which_it_ends(write, day, found):
    stored, _ = write(bills.put, CONTENT)

    assert write(bills.pending_until, day) == (stored.id if found else None)
    write(bills.set_status, stored.id, BillStatus.APPROVED)
    assert write(bills.pending_until, day) is None


def test_a_closed_bill_stays_as_it_is_until_the_date_moves_back(write, lock):
    stored, _ = write(bills.put, CONTENT)
    lock(date(2026, 10, 31))

    for function, arguments in (
        (bills.put, (OTHER,)),
        (bills.set_status, (stored.id, BillStatus.APPROVED)),
        (bills.lock, (stored.id,)),
    ):
        with pytest.raises(Locked):
            write(function, *arguments)
    assert write(bills.put, CONTENT) == (stored, PutOutcome.UNCHANGED)
    [outcome] = write(put_all, [OTHER], BillStatus.PENDING)
    assert (outcome.bill_id, outcome.stored) == (stored.id, BillOutcome.LOCKED)
    lock(date(2026, 10, 30))
    assert write(bills.put, OTHER)[1] is PutOutcome.RECALCULATED


def test_no_bill_is_made_in_closed_time(write, lock):
    lock(date(2026, 10, 31))

    with pytest.raises(Locked, match="'2026-10' is locked"):
        write(bills.put, CONTENT)
    [outcome] = write(put_all, [CONTENT], BillStatus.APPROVED)
    assert (outcome.bill_id, outcome.stored) == (None, BillOutcome.LOCKED)
