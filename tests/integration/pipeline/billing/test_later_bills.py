"""Bills that come later draw what those before leave: they are made again with them."""

from decimal import Decimal

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, use
from tests.homes import configure

pytestmark = pytest.mark.usefixtures("home_database")

SEPTEMBER, OCTOBER = Month(2026, 9), Month(2026, 10)


@pytest.fixture
def home(tmp_path):
    """Account acme comes to 73.5 in September and 31 in October, of which 100 are committed."""
    with a_home_to_bill(tmp_path) as opened:
        commitment = {"accountId": "acme", "startDate": "2026-01-01", "endDate": "2027-01-01"}
        configure(
            opened.organization, commitments=[commitment | {"currency": "USD", "amount": 100}]
        )
        yield opened


def totals(home):
    with home.organization.reading() as reader:
        found = bills.of_period(reader)
    codes = home.account_codes()
    return {
        each.content.period: (each.content.total, each.status.value)
        for each in found
        if codes[each.content.key.account_id] == "acme"
    }


def outcomes(result):
    return {(each.account_code, str(each.bill_date)): each.stored.value for each in result.bills}


@pytest.mark.long
def test_a_later_bill_draws_less_when_one_before_draws_more(home):
    for month in (SEPTEMBER, OCTOBER):
        bill(home.organization, month, approve=True)
    assert totals(home) == {"2026-09": (0, "APPROVED"), "2026-10": (Decimal("4.5"), "APPROVED")}

    use(home, ("late", "acme", 7))
    kept = bill(home.organization, SEPTEMBER, approve=True)
    # What would change approved bills has a word of its own.
    assert totals(home) == {"2026-09": (0, "APPROVED"), "2026-10": (Decimal("4.5"), "APPROVED")}
    assert outcomes(kept)["acme", "2026-10-01"] == "kept"
    result = bill(home.organization, SEPTEMBER)

    assert totals(home) == {"2026-09": (0, "PENDING"), "2026-10": (Decimal("11.5"), "PENDING")}
    assert outcomes(result) == {
        ("acme", "2026-10-01"): "updated",
        ("bolt", "2026-10-01"): "unchanged",
        ("acme", "2026-11-01"): "updated",
    }
    assert check_ledger(home.organization).differences == ()
    again = bill(home.organization, SEPTEMBER)
    assert set(outcomes(again).values()) == {"unchanged"}


@pytest.mark.long
def test_a_later_bill_that_is_locked_stays_and_is_told(home):
    for month in (SEPTEMBER, OCTOBER):
        bill(home.organization, month, approve=True)
    with home.organization.transaction("ann") as transaction:
        [locked] = [
            each.id
            for each in bills.of_period(transaction)
            if each.content.period == "2026-10" and each.content.total == Decimal("4.5")
        ]
        bills.lock(transaction, locked)
    use(home, ("late", "acme", 7))

    result = bill(home.organization, SEPTEMBER)

    # The locked one keeps its 26.5: September draws the 73.5 that are left.
    assert totals(home)["2026-09"] == (Decimal(7), BillStatus.PENDING.value)
    assert totals(home)["2026-10"] == (Decimal("4.5"), "APPROVED")
    assert outcomes(result)["acme", "2026-10-01"] == "updated"
    assert check_ledger(home.organization).differences == ()
