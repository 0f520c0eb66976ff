"""A parent with three children over HTTP, in the three modes: bills, previews, what a line was made of."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import httpx
import m3ter
import pytest

from meterlake.model.measurements.receipt import Delivery
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill, run_bill_job
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.usage.aggregate import aggregate
from tests.bills import price_egress
from tests.homes import EGRESS, configure, ndjson, wire_row
from tests.served import served

pytestmark = pytest.mark.usefixtures("home_database")

D = Decimal
CHILDREN = ("east", "north", "south")
# 240 GB: 100 cost 1 each, the others nothing.
ROWS = [
    wire_row("a", 24, "acme"),
    wire_row("b", 80, "east"),
    wire_row("c", 31.5, "north"),
    wire_row("d", 104.5, "south"),
]
SHARES = {"acme": "10.00", "east": "33.33", "north": "13.13", "south": "43.54"}


def sell_egress(home):
    configure(home.organization, meters=[EGRESS])
    price_egress(home)


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", sell_egress) as found:
        yield found


@pytest.fixture
def sdk(server):
    with server.sdk() as client:
        yield client


@pytest.fixture
def family(server, sdk, tmp_path):
    """The parent and its children, by code, with what they used in September."""
    named = {"email_address": "a@example.com"}
    found = {"acme": sdk.accounts.create(code="acme", name="acme", **named)}
    for code in CHILDREN:
        found[code] = sdk.accounts.create(
            code=code, name=code, parent_account_id=found["acme"].id, **named
        )
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ndjson(ROWS))
    ingest_file(server.organization, path, Delivery("d", path.name, datetime.now(UTC)))
    return found


def subscribe(sdk, account, mode=None):
    [plan] = sdk.plans.list()
    more = {} if mode is None else {"child_billing_mode": mode}
    return sdk.account_plans.create(
        account_id=account.id, plan_id=plan.id, start_date="2026-01-01T00:00:00Z", **more
    )


def make_bills(server, sdk, **more):
    job = sdk.bill_jobs.create(bill_date="2026-10-01", **more)
    return run_bill_job(server.stores, job.id)


def lines(sdk):
    """By account code: type, child, quantity and amount of the lines of its bill."""
    return {
        each.account_code: [
            (
                *(line.line_item_type, line.child_account_code, line.quantity),
                D(str(line.converted_subtotal)),
            )
            for line in each.line_items
        ]
        for each in sdk.bills.list(additional=["lineItems"])
    }


def asked_for(account):
    return {
        "accountIds": [account.id],
        "billDate": "2026-10-01",
        "billingFrequency": "MONTHLY",
        "billFrequencyInterval": 1,
    }


STANDING = ("STANDING_CHARGE", None, 1, D(31))


def test_a_grandchild_is_refused_by_its_field(sdk, family):
    with pytest.raises(m3ter.BadRequestError, match="parentAccountId"):
        sdk.accounts.create(
            code="x", name="x", email_address="a@b.c", parent_account_id=family["east"].id
        )


@pytest.mark.long
def test_a_summary_is_one_line_on_the_parents_bill(server, sdk, family):
    subscribe(sdk, family["acme"], "PARENT_SUMMARY")
    assert make_bills(server, sdk).failures == []

    assert lines(sdk) == {"acme": [("USAGE", None, 240, D(100)), STANDING]}
    assert {each.code for each in sdk.accounts.list_children(family["acme"].id)} == {*CHILDREN}


@pytest.mark.long
def test_a_breakdown_has_a_line_for_each_account(server, sdk, family):
    subscribe(sdk, family["acme"])
    make_bills(server, sdk)

    used = {row["account"]: row["measure"]["gb"] for row in ROWS}
    assert lines(sdk) == {
        "acme": [
            ("USAGE", None, 24, D("10.00")),
            *(("USAGE", code, used[code], D(SHARES[code])) for code in CHILDREN),
            STANDING,
        ]
    }


@pytest.mark.long
def test_children_have_bills_of_their_shares(server, sdk, family):
    subscribe(sdk, family["acme"], "CHILD")
    make_bills(server, sdk)

    found = lines(sdk)
    assert found.pop("acme") == [("USAGE", None, 24, D("10.00")), STANDING]
    assert {code: amount for code, [(*_, amount)] in found.items()} == {
        code: D(SHARES[code]) for code in CHILDREN
    }


@pytest.mark.long
@pytest.mark.parametrize("mode", ["PARENT_SUMMARY", "CHILD"])
def test_a_plan_of_a_child_is_rated_by_itself(server, sdk, family, mode):
    subscribe(sdk, family["acme"], "PARENT_SUMMARY")
    subscribe(sdk, family["south"], mode)
    make_bills(server, sdk)

    child = None if mode == "CHILD" else "south"
    own = [("USAGE", child, 104.5, D(100)), ("STANDING_CHARGE", child, 1, D(31))]
    pool = ("USAGE", None, 135.5, D(100))
    if mode == "CHILD":
        assert lines(sdk) == {"acme": [pool, STANDING], "south": own}
    else:
        assert lines(sdk) == {"acme": [pool, own[0], STANDING, own[1]]}


@pytest.mark.long
def test_one_chosen_account_is_billed_as_all_are(server, sdk, family):
    """A child's share needs what the others used, in a job and in a preview."""
    subscribe(sdk, family["acme"], "CHILD")
    with server.http() as http:
        preview = http.post("/bills/preview", json=asked_for(family["north"]))
    assert preview.status_code == httpx.codes.OK, preview.text
    assert preview.json()["billTotal"] == 13.13

    make_bills(server, sdk, account_ids=[family["north"].id])
    assert lines(sdk) == {"north": [("USAGE", None, 31.5, D("13.13"))]}
    make_bills(server, sdk, account_ids=[family["acme"].id])
    assert lines(sdk)["acme"][0] == ("USAGE", None, 24, D("10.00"))
    assert [each.version for each in sdk.bills.list()] == [1, 1]
    result = make_bills(server, sdk)
    assert sorted(each.account_code for each in result.bills) == ["acme", *CHILDREN]
    assert sorted(each.version for each in sdk.bills.list()) == [1, 1, 1, 1]


@pytest.mark.long
def test_a_preview_says_whose_bill_has_what_a_child_used(server, sdk, family):
    subscribe(sdk, family["acme"], "PARENT_SUMMARY")
    with server.http() as http:
        preview = http.post("/bills/preview", json=asked_for(family["north"]))
    assert preview.status_code == httpx.codes.CONFLICT
    assert "a plan of its parent 'acme' charges for it" in preview.text


@pytest.mark.long
def test_bills_of_stored_quantities_are_the_same(server, sdk, family):
    subscribe(sdk, family["acme"], "CHILD")
    make_bills(server, sdk)
    before = lines(sdk)
    aggregate(server.organization, Month(2026, 9))
    result = make_bills(server, sdk)

    assert lines(sdk) == before
    assert {each.version for each in sdk.bills.list()} == {1}
    assert result.unpriced == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "account", "used"),
    [
        ("PARENT_SUMMARY", "acme", [24, 31.5, 80, 104.5]),
        ("PARENT_BREAKDOWN", "acme", [24]),
        ("CHILD", "east", [80]),
    ],
)
def test_the_usage_of_a_line_is_that_of_its_accounts(server, sdk, family, mode, account, used):
    subscribe(sdk, family["acme"], mode)
    make_bills(server, sdk)
    [found] = sdk.bills.list(account_id=family[account].id, additional=["lineItems"])
    line = next(each for each in found.line_items if each.line_item_type == "USAGE")

    with server.http() as http:
        answer = http.get(f"/bills/{found.id}/lineitems/{line.id}/usage/json").json()
    data = json.loads(httpx.get(answer["downloadUrl"]).content)["data"]
    assert sorted(row["measure.gb"] for row in data) == used


@pytest.mark.long
def test_usage_of_a_child_without_any_plan_is_reported_once(server, sdk, family):
    subscribe(sdk, family["east"], "CHILD")
    result = bill(server.organization, Month(2026, 9))
    found = {each.account_code: (each.reason.value, each.quantity) for each in result.unpriced}
    assert found == {
        "acme": ("NoAccountPlan", 24),
        "north": ("NoAccountPlan", D("31.5")),
        "south": ("NoAccountPlan", D("104.5")),
    }
