"""A bill beside the one before it: what each thing costs on both, and why it is another amount."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.errors import NotFound
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import list_bills
from meterlake.pipeline.billing.comparison import _compared, compare_bills
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.stores.state.core.pages import Page
from tests.bill_diffs import make_bills
from tests.bills import a_home_to_bill
from tests.homes import HEADER, configure, csv_row

AMOUNTS = st.decimals(-(10**9), 10**9, places=2)
UNITS = st.decimals(0, 10**9, places=4)


@pytest.fixture
def home(tmp_path):
    """Acme used 42.5 in September for 1 each."""
    with a_home_to_bill(tmp_path) as home:
        home.september = make_bills(home)["acme"]
        yield home


def make_october(home, gb):
    home.clock.time = datetime(2026, 11, 2, tzinfo=UTC)
    rows = csv_row("o1", gb, ts="2026-10-05T10:00:00Z") if gb else ""
    home.ingest("october.csv", HEADER + rows)
    return make_bills(home, Month(2026, 10))["acme"]


def test_there_may_be_no_bill_before(home):
    with pytest.raises(NotFound, match="bill before"):
        compare_bills(home.organization, home.september)


def test_usage_and_price_have_their_parts_and_what_is_the_same_has_none(home):
    october = make_october(home, 150)
    found = compare_bills(home.organization, october)
    usage, standing = found["lines"]

    assert found["formerBillId"] == home.september
    assert found["before"] == Decimal("73.50")
    assert (standing["before"], standing["after"], standing["difference"]) == (31, 31, 0)
    assert "byPrice" not in standing
    assert (usage["unitsBefore"], usage["unitsAfter"]) == (Decimal("42.5"), 150)
    # 107.5 more at 1 each; above 100 a unit costs less.
    assert usage["byQuantity"] == Decimal("107.50")
    assert usage["byPrice"] == usage["after"] - Decimal("42.5") - Decimal("107.5")
    assert usage["byPrice"] < 0


def test_what_stands_on_one_bill_alone_has_zero_on_the_other(home):
    october = make_october(home, None)
    found = compare_bills(home.organization, october)
    [usage] = [each for each in found["lines"] if each["lineItemType"] == "USAGE"]

    assert (usage["before"], usage["after"], usage["difference"]) == (
        Decimal("42.5"),
        0,
        Decimal("-42.5"),
    )
    reverse = compare_bills(home.organization, home.september, october)
    assert reverse["difference"] == -found["difference"]


def test_the_bill_before_has_the_same_frequency(home):
    template = {"code": "weekly", "name": "Weekly", "productId": "weekly", "currency": "USD"}
    attached = {"code": "w", "accountId": "acme", "planId": "weekly"}
    configure(
        home.organization,
        products=[{"code": "weekly", "name": "Weekly"}],
        planTemplates=[{**template, "standingCharge": 1, "billFrequency": "WEEKLY"}],
        plans=[{"code": "weekly", "name": "Weekly", "planTemplateId": "weekly"}],
        accountPlans=[{**attached, "startDate": "2026-10-01T00:00:00Z"}],
    )
    make_october(home, None)
    page = list_bills(home.organization, BillFilters(), Page(50))
    acme = [each for each in page["data"] if each["accountCode"] == "acme"]
    [october] = [each["id"] for each in acme if str(each["billDate"]) == "2026-11-01"]
    assert {each["billingFrequency"] for each in acme} == {"MONTHLY", "WEEKLY"}

    assert compare_bills(home.organization, october)["formerBillId"] == home.september


def test_a_higher_price_alone_is_all_price(home):
    october = make_october(home, "42.5")
    configure(
        home.organization,
        pricings=[
            {
                "code": "sent",
                "planId": "basic",
                "aggregationId": "sent",
                "startDate": "2026-01-01T00:00:00Z",
                "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 2}],
            }
        ],
    )
    again = make_october(home, None)
    assert again == october
    [usage, *_] = compare_bills(home.organization, october)["lines"]

    assert (usage["byQuantity"], usage["byPrice"]) == (0, Decimal("42.5"))


@given(AMOUNTS, AMOUNTS, UNITS, UNITS)
def test_the_parts_are_the_change_exactly(before, after, units_before, units_after):
    line = {"aggregationId": "a", "lineItemType": "USAGE"}
    found = _compared(
        {"line": line, "amount": before, "units": units_before},
        {"line": line, "amount": after, "units": units_after},
    )

    assert found["difference"] == after - before
    if units_before:
        assert found["byQuantity"] + found["byPrice"] == found["difference"]
        if units_before == units_after:
            assert found["byQuantity"] == 0
    else:
        assert "byQuantity" not in found
