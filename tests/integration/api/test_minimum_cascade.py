"""When minimums of pricings are billed, through the official SDK: what the pricing does not say, others say."""

import pytest

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home") as running:
        configure(running.organization, meters=[EGRESS], accounts=ACCOUNTS)
        home = Home(running.stores, running.org_id, Clock())
        price_egress(home)
        subscribe(home, "acme")
        assert home.ingest("a.csv", HEADER + csv_row("1", "40")).rejected == 0
        yield running


def put(sdk, pricing, **changes):
    """Write a pricing back with changes; None leaves a member out."""
    found = pricing.to_dict(mode="json", use_api_names=False)
    names = (
        "start_date",
        "pricing_bands",
        "plan_id",
        "plan_template_id",
        "aggregation_id",
        "version",
    )
    body = {name: found[name] for name in names if found.get(name) is not None} | changes
    return sdk.pricings.update(pricing.id, **body)


def minimums(server, sdk):
    """The lines about minimums of the bill of September."""
    bill(server.organization, Month(2026, 9))
    [found] = sdk.bills.list(additional=["lineItems"])
    lines = found.to_dict(mode="json")["lineItems"]
    return sorted(
        (each["lineItemType"], each["subtotal"], each["servicePeriodStartDate"][:7])
        for each in lines
        if each["lineItemType"].startswith("MINIMUM")
    )


@pytest.mark.long
def test_an_unset_flag_of_a_pricing_is_that_of_the_plan_or_the_organization(server):
    sdk = server.sdk()
    [pricing] = sdk.pricings.list()
    pricing = put(sdk, pricing, minimum_spend=100)
    assert pricing.minimum_spend_bill_in_advance is None
    arrears = [("MINIMUM_SPEND", 60, "2026-09")]
    assert minimums(server, sdk) == arrears

    with server.http() as http:
        settings = http.get("/organizationconfig").json()
        flag = {"minimumSpendBillInAdvance": True}
        http.put("/organizationconfig", json=settings | flag).raise_for_status()
    advance = minimums(server, sdk)
    assert ("MINIMUM_SPEND", 100, "2026-10") in advance
    assert ("MINIMUM_SPEND_REFUND", -40, "2026-09") in advance

    pricing = put(sdk, pricing, minimum_spend=100, minimum_spend_bill_in_advance=False)
    assert minimums(server, sdk) == arrears
    put(sdk, pricing, minimum_spend=100)
    assert minimums(server, sdk) == advance


@pytest.mark.long
def test_a_pricing_of_before_says_in_arrears_and_its_bill_stays(server):
    """Until now the flag was stored as false where nobody had set it."""
    sdk = server.sdk()
    [pricing] = sdk.pricings.list()
    put(sdk, pricing, minimum_spend=100, minimum_spend_bill_in_advance=False)
    before = minimums(server, sdk)
    [found] = sdk.bills.list()

    with server.http() as http:
        settings = http.get("/organizationconfig").json()
        flag = {"minimumSpendBillInAdvance": True}
        http.put("/organizationconfig", json=settings | flag).raise_for_status()
        assert http.get(f"/bills/{found.id}/verify").json()["same"] is True
    assert minimums(server, sdk) == before
