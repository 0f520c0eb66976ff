"""Late usage over HTTP: the policy is set with the SDK, usage comes late, and the next bill has the memo."""

from datetime import UTC, datetime

import pytest

from meterlake.model.bills.jobs import NO_DAYS, BillOrder
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill, bill_order
from meterlake.pipeline.events.reader import read_log
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served

DECISION = "bills.lateusage.decision"
JULY, AUGUST = Month(2026, 7), Month(2026, 8)
SETTINGS = {
    "currency": "USD",
    "day_epoch": "2022-01-01",
    "month_epoch": "2022-01-01",
    "week_epoch": "2022-01-04",
    "year_epoch": "2022-01-01",
    "timezone": "UTC",
    "days_before_bill_due": 14,
}


@pytest.fixture
def server(tmp_path):
    """A server where acme has a bill of July and one of August."""
    with served(tmp_path / "home") as found:
        home = Home(found.stores, found.org_id, Clock())
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        price_egress(home)
        subscribe(home, "acme", start="2026-07-01T00:00:00Z")
        ingest(found, "july.csv", csv_row("1", "42.5", "acme", ts="2026-07-03T00:00:00Z"))
        for month in (JULY, AUGUST):
            bill(found.organization, month)
        yield found


def ingest(server, name, rows):
    Home(server.stores, server.org_id, Clock()).ingest(name, HEADER + rows)


def apply_policy(server):
    """What scheduled billing does about late usage."""
    order = BillOrder(days=NO_DAYS, late_usage=True)
    bill_order(server.organization, order)


def choose(sdk, **more):
    version = sdk.organization_config.retrieve().version
    return sdk.organization_config.update(**SETTINGS, version=version, **more)


def choose_carrying(server, sdk):
    """Carry late usage forward; what is no policy is refused."""
    choose(sdk, extra_body={"lateUsage": "CARRY_FORWARD"})
    # An update of a client that does not know the policy leaves it alone.
    assert choose(sdk).to_dict()["lateUsage"] == "CARRY_FORWARD"
    with server.http() as http:
        refused = http.put(
            "/organizationconfig", json={**wire(SETTINGS), "version": 2, "lateUsage": "FORGET"}
        )
        assert refused.status_code == 400
        assert "lateUsage" in refused.json()["message"]


@pytest.mark.long
@pytest.mark.sees("ListLateUsage")
def test_the_next_bill_carries_late_usage_with_both_references(server):
    sdk = server.sdk()
    choose_carrying(server, sdk)
    late = csv_row("2", "7.5", "acme", ts="2026-07-04T00:00:00Z")
    ingest(server, "late.csv", late)
    apply_policy(server)

    accounts = {each.code: each.id for each in sdk.accounts.list()}
    july, august = (
        sdk.bills.retrieve(
            next(iter(sdk.bills.list(account_id=accounts["acme"], bill_date=day))).id
        )
        for day in ("2026-08-01", "2026-09-01")
    )
    [usage] = [each for each in july.line_items if each.line_item_type == "USAGE"]
    [memo] = [each for each in august.line_items if each.line_item_type == "DEBIT_MEMO"]
    assert (july.bill_total, august.bill_total) == (73.5, 38.5)
    assert memo.converted_subtotal == 7.5
    assert (memo.referenced_bill_id, memo.referenced_line_item_id) == (july.id, usage.id)
    [entered] = list(sdk.bills.debit_line_items.list(august.id))
    assert (entered.id, entered.amount) == (memo.id, 7.5)

    with server.http() as http:
        [found] = http.get("/lateusage", params={"status": "CARRIED"}).json()["data"]
        assert http.get("/lateusage", params={"status": "OPEN"}).json()["data"] == []
        assert http.get("/lateusage", params={"period": "2026-08"}).json()["data"] == []
        assert http.get("/lateusage", params={"status": "LOST"}).status_code == 400
        refused = http.get("/lateusage", params={"period": "2026-13"})
        assert (refused.status_code, refused.json()["message"]) == (
            400,
            "period: '2026-13' is not allowed: it must be a year and a month such as 2026-10",
        )
    assert (found["accountCode"], found["period"], found["difference"]) == ("acme", "2026-07", 7.5)
    assert (found["billId"], found["measurements"]) == (july.id, 1)
    [source] = found["sources"]
    assert (source["kind"], source["name"]) == ("source", "late.csv")
    [line] = found["lineItems"]
    assert (line["lineItemId"], line["memoBillId"]) == (usage.id, august.id)
    assert line["memoLineItemId"] == memo.id
    assert datetime.fromisoformat(source["firstReceived"]) < datetime.now(UTC)


@pytest.mark.long
def test_of_a_bill_that_is_deleted_nothing_is_carried(server):
    sdk = server.sdk()
    choose_carrying(server, sdk)
    ingest(server, "late.csv", csv_row("2", "7.5", "acme", ts="2026-07-04T00:00:00Z"))
    apply_policy(server)
    [account] = [each.id for each in sdk.accounts.list() if each.code == "acme"]
    [july] = sdk.bills.list(account_id=account, bill_date="2026-08-01")
    [august] = sdk.bills.list(account_id=account, bill_date="2026-09-01")
    assert sdk.bills.retrieve(august.id).bill_total == 38.5

    sdk.bills.delete(july.id)

    left = sdk.bills.retrieve(august.id)
    memos = {each.line_item_type: each.converted_subtotal for each in left.line_items}
    assert (left.bill_total, memos["DEBIT_MEMO"], memos["CREDIT_MEMO"]) == (31, 7.5, -7.5)


def wire(settings):
    """The settings as a body has them."""
    camel = {
        name: "".join([name.split("_")[0], *(each.title() for each in name.split("_")[1:])])
        for name in settings
    }
    return {camel[name]: value for name, value in settings.items()}


@pytest.mark.slow
def test_what_was_decided_of_late_usage_is_an_event_that_makes_notifications_go_out(server):
    sdk = server.sdk()
    sdk.notification_configurations.create(
        code="late",
        name="Late",
        description="Late usage on no bill",
        event_name=DECISION,
        calculation='(new.status == "REPORTED") OR (new.status == "FAILED")',
        active=True,
    )
    ingest(server, "late.csv", csv_row("2", "7.5", "acme", ts="2026-07-04T00:00:00Z"))
    apply_policy(server)
    apply_policy(server)
    [reported] = sdk.events.list(event_name=DECISION)
    shown = reported.m3ter_event["eventData"]["newDto"]
    with server.http() as http:
        [listed] = http.get("/lateusage").json()["data"]
    assert shown == {k: v for k, v in listed.items() if k not in {"sources", "lineItems"}}
    assert (shown["status"], shown["difference"], shown["accountCode"]) == ("REPORTED", 7.5, "acme")
    [fields] = sdk.events.get_fields(event_name=DECISION).events.values()
    assert {f"new.{name}" for name in shown} <= set(fields)

    choose_carrying(server, sdk)
    apply_policy(server)
    carried, _ = sdk.events.list(event_name=DECISION)
    assert carried.m3ter_event["eventData"]["newDto"]["status"] == "CARRIED"
    read_log(server.organization)
    [notified] = sdk.events.list(event_type="Notification")
    assert notified.m3ter_event["baseEventId"] == reported.id
