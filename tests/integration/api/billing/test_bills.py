"""Bills over HTTP: what lists and searches find, and the life of a bill from PENDING to locked."""

import csv
import io
import zipfile
from decimal import Decimal

import httpx
import m3ter
import pytest
from sqlalchemy import text

from meterlake.model.bills.response import BillResponse
from meterlake.model.catalog.plans import PlanTemplate
from meterlake.model.customers.accounts import Account
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import price_egress, subscribe
from tests.explained_trees import check_tree, walk
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served

pytestmark = pytest.mark.usefixtures("home_database")

# The bills of September are far from those of August.
JUMPED = "TotalJumped (meterlake bill review --month 2026-09)"

NOBODY = "5d9d4a3e-0000-4000-8000-000000000000"
AUGUST, SEPTEMBER = Month(2026, 8), Month(2026, 9)


def make_bills(home):
    """Acme and bolt have a bill of August and one of September each."""
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", "bolt")
    configure(
        home.organization,
        organizationConfig={
            "daysBeforeBillDue": 14,
            "currency": "USD",
            "billPrefix": "INVOICE-",
            "sequenceStartNumber": 100,
        },
    )
    rows = csv_row("1", "42.5") + csv_row("2", "200", "bolt")
    assert home.ingest("a.csv", HEADER + rows).rejected == 0
    for month in (AUGUST, SEPTEMBER):
        bill(home.organization, month)


@pytest.fixture(scope="module")
def calm(home_database, tmp_path_factory):
    """A server whose bills nobody changes."""
    with served(tmp_path_factory.mktemp(home_database) / "home", make_bills) as found:
        yield found


@pytest.fixture
def server(request, tmp_path):
    """One of the test's own, unless it asks for the one whose bills nobody changes."""
    if "calm" in request.fixturenames:
        yield request.getfixturevalue("calm")
        return
    with served(tmp_path / "home", make_bills) as found:
        yield found


@pytest.fixture
def sdk(server):
    return server.sdk()


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def accounts(sdk):
    """The ids of accounts by code."""
    return {each.code: each.id for each in sdk.accounts.list()}


def bill_of(sdk, accounts, code="acme", day="2026-10-01"):
    [found] = sdk.bills.list(account_id=accounts[code], bill_date=day)
    return found


def lock(sdk, id_):
    sdk.bills.update_status(id_, status="APPROVED")
    return sdk.bills.lock(id_)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/bills?status=DONE", "status"),
        ("/bills?billDate=yesterday", "billDate"),
        ("/bills?locked=perhaps", "locked"),
        ("/bills?pageSize=101", "pageSize"),
        ("/bills?billingFrequency=SOMETIMES", "billingFrequency"),
        ("/bills?nextToken=abc", "nextToken"),
        ("/bills/search?searchQuery=total:5", "searchQuery"),
        ("/bills/search?searchQuery=locked", "searchQuery"),
        (
            "/bills/search?searchQuery=locked:x",
            "'locked:x' is not allowed: it must be one of locked:true, locked:false",
        ),
        ("/bills/search?searchQuery=locked:True", "searchQuery: 'locked:True'"),
        ("/bills/search?searchQuery=locked>false", "searchQuery: 'locked>false'"),
        ("/bills/search?searchQuery=locked~t$id:x", "searchQuery: 'locked~t'"),
        ("/bills/search?sortBy=shoe", "sortBy"),
        ("/bills/billingperiod/2026-13-01/MONTHLY", "lastDateInBillingPeriod"),
        ("/bills/billingperiod/2026-09-30/SOMETIMES", "billingFrequency"),
        ("/lineitems?lineItemType=SHOE", "lineItemType"),
        ("/lineitems?nextToken=abc", "nextToken"),
    ],
)
@pytest.mark.usefixtures("calm")
def test_a_wrong_question_names_the_parameter(http, path, sentence):
    answer = http.get(path)
    assert (answer.status_code, sentence in answer.json()["message"]) == (400, True), answer.text


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/bills/{NOBODY}"),
        ("GET", "/bills/mine"),
        ("DELETE", f"/bills/{NOBODY}"),
        ("PUT", f"/bills/{NOBODY}/lock"),
        ("GET", f"/bills/latest/{NOBODY}"),
        ("GET", f"/bills/accountid/{NOBODY}"),
        ("GET", f"/bills/{NOBODY}/lineitems"),
        ("GET", f"/bills/{NOBODY}/lineitems/{NOBODY}"),
        ("GET", f"/bills/{NOBODY}/lineitems/{NOBODY}/usage/json"),
    ],
)
@pytest.mark.usefixtures("calm")
def test_what_is_not_there_is_not_found(http, method, path):
    assert http.request(method, path).status_code == httpx.codes.NOT_FOUND


@pytest.mark.parametrize("body", [{}, {"status": "DONE"}, {"status": 1}])
@pytest.mark.usefixtures("calm")
def test_a_status_is_one_of_two(http, sdk, accounts, body):
    found = http.put(f"/bills/{bill_of(sdk, accounts).id}/status", json=body)
    assert (found.status_code, "status" in found.json()["message"]) == (400, True)


@pytest.mark.parametrize(
    "body", [b"", b"  ", b"{}", b'{"billIds": []}', b'{"billIds": null}', b'{"billIds": ["mine"]}']
)
@pytest.mark.usefixtures("calm")
def test_an_approval_says_which_bills(http, body):
    found = http.post("/bills/approve", content=body)
    assert (found.status_code, "billIds" in found.json()["message"]) == (400, True)


@pytest.mark.parametrize("body", [b"[]", b"null", b"{"])
@pytest.mark.usefixtures("calm")
def test_a_body_of_an_approval_is_an_object(http, accounts, body):
    found = http.post(f"/bills/approve?accountIds={accounts['acme']}", content=body)
    assert (found.status_code, "body" in found.json()["message"]) == (400, True)


@pytest.mark.sees("ListBills", "GetBill")
@pytest.mark.usefixtures("calm")
def test_a_bill_shows_what_the_contract_promises(sdk, accounts):
    found = bill_of(sdk, accounts)
    shown = sdk.bills.retrieve(found.id)

    assert str(shown.bill_date) == "2026-10-01"
    assert (str(shown.start_date), str(shown.end_date)) == ("2026-09-01", "2026-10-01")
    assert (shown.billing_frequency, shown.bill_frequency_interval) == ("MONTHLY", 1)
    assert (shown.account_id, shown.account_code) == (accounts["acme"], "acme")
    assert (shown.bill_total, shown.currency) == (73.5, "USD")
    assert (shown.status, shown.locked, shown.version) == ("PENDING", False, 1)
    assert str(shown.due_date) == "2026-10-15"
    assert str(shown.external_invoice_date) == "2026-10-01"
    assert shown.created_date == shown.last_calculated_date == shown.dt_created
    assert (shown.dt_approved, shown.dt_locked) == (None, None)
    assert (shown.csv_statement_generated, shown.statement_stale) == (False, False)
    amounts = {each.line_item_type: each.converted_subtotal for each in shown.line_items}
    assert amounts == {"USAGE": 42.5, "STANDING_CHARGE": 31}
    assert [each.sequence_number for each in shown.line_items] == [1, 2]
    assert shown.line_items == found.line_items
    assert found.bill_total is None
    [listed] = sdk.bills.list(ids=[found.id], include_bill_total=True, exclude_line_items=True)
    assert (listed.bill_total, listed.line_items) == (73.5, None)


def test_invoice_numbers_are_given_in_the_order_of_creation_and_never_twice(server, sdk, accounts):
    numbers = {each.sequential_invoice_number for each in sdk.bills.list()}
    assert numbers == {f"INVOICE-{number}" for number in (101, 102, 103, 104)}
    gone = bill_of(sdk, accounts, "bolt")
    later = {gone.sequential_invoice_number, bill_of(sdk, accounts).sequential_invoice_number}
    assert later == {"INVOICE-103", "INVOICE-104"}

    sdk.bills.delete(gone.id)
    bill(server.organization, SEPTEMBER)

    again = bill_of(sdk, accounts, "bolt")
    assert (again.sequential_invoice_number, again.version) == ("INVOICE-105", 1)
    assert again.id != gone.id


@pytest.mark.long
def test_lists_are_filtered(sdk, server, accounts):
    def count(**filters):
        return len(list(sdk.bills.list(**filters)))

    assert count() == 4
    assert count(page_size=1) == 4
    assert count(account_id=accounts["acme"]) == 2
    assert count(bill_date="2026-10-01") == 2
    assert count(bill_date_start="2026-09-01", bill_date_end="2026-10-01") == 2
    assert count(bill_date_start="2026-10-02") == 0
    assert count(external_invoice_date_start="2026-10-01") == 2
    assert count(external_invoice_date_end="2026-09-01") == 0
    assert (count(status="PENDING"), count(status="APPROVED")) == (4, 0)
    assert (count(billing_frequency="MONTHLY"), count(billing_frequency="DAILY")) == (4, 0)
    assert (count(locked=False), count(locked=True)) == (4, 4)
    one = bill_of(sdk, accounts)
    assert count(bill_job_id=one.bill_job_id) == 2
    assert count(bill_job_id=NOBODY) == 0
    assert count(ids=[one.id, NOBODY]) == 1
    lock(sdk, one.id)
    assert (count(locked=False), count(locked=True), count(status="APPROVED")) == (3, 4, 1)
    job = bill(server.organization, SEPTEMBER).job_id
    # The locked one was not calculated.
    assert count(bill_job_id=job) == 1


@pytest.mark.sees("GetAllBillsForAccount", "GetAllBillsInBillingPeriod", "GetLatestBill")
@pytest.mark.usefixtures("calm")
def test_bills_of_an_account_and_of_a_period(sdk, http, accounts):
    id_ = accounts["bolt"]
    of_account = http.get(f"/bills/accountid/{id_}", params={"pageSize": 1}).json()
    rest = http.get(f"/bills/accountid/{id_}", params={"nextToken": of_account["nextToken"]})
    of_period = http.get("/bills/billingperiod/2026-09-30/MONTHLY").json()["data"]
    latest = sdk.bills.latest_by_account(id_)

    dates = [each["billDate"] for each in (*of_account["data"], *rest.json()["data"])]
    assert dates == ["2026-10-01", "2026-09-01"]
    assert {each["accountCode"] for each in of_period} == {"acme", "bolt"}
    assert {each["endDate"] for each in of_period} == {"2026-10-01"}
    assert all(each["lineItems"] and "billTotal" in each for each in of_period)
    assert http.get("/bills/billingperiod/2026-09-30/DAILY").json() == {"data": []}
    assert (latest.account_code, str(latest.bill_date)) == ("bolt", "2026-10-01")
    assert latest.id == of_account["data"][0]["id"]


@pytest.mark.long
@pytest.mark.sees("SearchBills")
def test_a_search_finds_bills_by_their_fields(sdk, accounts):
    def found(query, **more):
        return [(each.account_code, str(each.bill_date)) for each in pages(query, **more)]

    def pages(query, **more):
        return sdk.bills.search(search_query=query, **more).data

    mine = f"accountId:{accounts['acme']}"
    assert found(mine) == [("acme", "2026-10-01"), ("acme", "2026-09-01")]
    assert found(f"{mine}$billDate>2026-09-15") == [("acme", "2026-10-01")]
    assert found(f"{mine}$endDate<=2026-09-01") == [("acme", "2026-09-01")]
    assert len(found("billDate:2026-09-01$billDate:2026-10-01", operator="OR")) == 4
    assert found("billDate:2026-09-01$billDate:2026-10-01") == []
    assert found(mine, sort_by="billDate", sort_order="ASC")[0] == ("acme", "2026-09-01")
    assert len(found("billingFrequency~month")) == 4
    assert len(found("dtCreated>2020-01-01T00:00:00Z")) == 4
    assert found("dtCreated<2020-01-01T00:00:00Z") == []
    assert found("locked:true") == []
    one = bill_of(sdk, accounts)
    lock(sdk, one.id)
    assert found("locked:true") == [("acme", "2026-10-01")]
    assert len(found("locked:false")) == 3
    assert found(f"ids:{one.id},{NOBODY}") == [("acme", "2026-10-01")]
    first = sdk.bills.search(page_size=3)
    assert len(first.data) == 3
    for start in (3, int(first.next_token)):
        assert len(sdk.bills.search(page_size=3, from_document=start).data) == 1


# Lists, and what is known of statements, which do not exist yet.
UNSORTED = {
    *("lineItems", "currencyConversions"),
    *("jsonStatementGenerated", "csvStatementGenerated", "statementStale"),
    "recalculationDue",
}


@pytest.mark.long
@pytest.mark.usefixtures("calm")
def test_bills_are_sorted_by_each_of_their_fields(sdk):
    names = {field.alias or name for name, field in BillResponse.model_fields.items()} - UNSORTED
    for name in names:
        rising, falling = (
            sdk.bills.search(sort_by=name, sort_order=order, page_size=4).data
            for order in ("ASC", "DESC")
        )
        assert {each.id for each in rising} == {each.id for each in falling}, name
        values = [wire_value(each, name) for each in rising]
        if None not in values:
            assert values == sorted(values), name
            assert [wire_value(each, name) for each in falling] == values[::-1], name


def wire_value(bill, name):
    return bill.to_dict().get(name)


@pytest.mark.usefixtures("calm")
def test_totals_are_sorted_as_numbers(sdk):
    found = sdk.bills.search(sort_by="billTotal", sort_order="DESC").data
    assert [each.bill_total for each in found] == [131, 73.5, 31, 31]


@pytest.mark.parametrize(
    ("query", "totals"),
    [
        ("billTotal:73.50", [Decimal("73.5")]),
        ("billTotal:73.51", []),
        ("billTotal:031", [Decimal(31), Decimal(31)]),
        ("billTotal>31$accountCode:acme", [Decimal("73.5")]),
        ("billTotal<=31.0", [Decimal(31), Decimal(31)]),
    ],
)
@pytest.mark.usefixtures("calm")
def test_a_search_finds_bills_by_what_they_come_to(sdk, query, totals):
    found = sdk.bills.search(search_query=query, sort_by="billTotal").data
    assert [Decimal(str(each.bill_total)) for each in found] == totals


@pytest.mark.parametrize("term", ["billTotal:much", "billTotal~3", "billTotal:1e9", "billTotal:"])
@pytest.mark.usefixtures("calm")
def test_a_search_by_amount_refuses_what_is_none(http, term):
    answer = http.get("/bills/search", params={"searchQuery": term})
    assert answer.status_code == 400
    assert "searchQuery" in answer.json()["message"]


@pytest.mark.usefixtures("calm")
def test_a_search_takes_all_fields_of_the_contract(sdk, accounts):
    one = bill_of(sdk, accounts)
    shown = one.to_dict(mode="json")
    for name in ("accountId", "billDate", "startDate", "endDate", "dueDate", "billingFrequency"):
        found = sdk.bills.search(search_query=f"{name}:{shown[name]}$id:{one.id}")
        assert [each.id for each in found.data] == [one.id], name
    for name in ("createdBy", "lastModifiedBy", "dtCreated"):
        found = sdk.bills.search(search_query=f"{name}:{shown[name]}$id:{one.id}")
        assert [each.id for each in found.data] == [one.id], name
        assert sdk.bills.search(search_query=f"{name}:2020$id:{one.id}").data == [], name
    assert len(sdk.bills.search(search_query=f"dueDate>{shown['dueDate']}").data) == 0
    assert len(sdk.bills.search(search_query=f"dueDate>={shown['dueDate']}").data) == 2


@pytest.mark.usefixtures("calm")
def test_parameters_without_documented_values_change_nothing(sdk, http, accounts):
    one = bill_of(sdk, accounts)
    more = {"additional": ["anything"]}
    assert sdk.bills.retrieve(one.id, **more) == sdk.bills.retrieve(one.id)
    assert sdk.bills.latest_by_account(accounts["acme"], **more).id == one.id
    assert len(list(sdk.bills.list(billing_frequency=None, **more))) == 4
    lines = list(sdk.bills.line_items.list(bill_id=one.id, **more))
    assert sdk.bills.line_items.retrieve(lines[0].id, bill_id=one.id, **more) == lines[0]
    assert len(http.get("/lineitems", params=more).json()["data"]) == 6
    of_account = http.get(f"/bills/accountid/{accounts['acme']}", params=more)
    assert len(of_account.json()["data"]) == 2


@pytest.mark.usefixtures("calm")
def test_ids_of_filters_may_be_in_capital_letters(sdk, http, accounts):
    one = bill_of(sdk, accounts)
    assert len(list(sdk.bills.list(bill_job_id=one.bill_job_id.upper()))) == 2
    assert len(list(sdk.bills.list(account_id=accounts["acme"].upper()))) == 2
    assert [each.id for each in sdk.bills.list(ids=[one.id.upper()])] == [one.id]
    assert len(http.get("/lineitems", params={"billId": one.id.upper()}).json()["data"]) == 2


@pytest.mark.usefixtures("calm")
def test_a_list_leaves_out_what_is_not_asked_for(sdk):
    def shown(**more):
        return [set(each.to_dict()) & {"billTotal", "lineItems"} for each in sdk.bills.list(**more)]

    assert shown() == [{"lineItems"}] * 4
    assert shown(include_bill_total=True, exclude_line_items=True) == [{"billTotal"}] * 4
    assert shown(exclude_line_items=True) == [set()] * 4


@pytest.mark.long
def test_the_sdk_approves_by_filters_if_it_names_no_bills(sdk, accounts):
    with pytest.raises(m3ter.BadRequestError, match="billIds"):
        sdk.bills.approve(bill_ids=[])
    days = {"external_invoice_date_start": "2026-10-01", "external_invoice_date_end": "2026-10-02"}
    both = f"{accounts['acme']},{accounts['bolt']}"
    assert (
        sdk.bills.approve(bill_ids=[], account_ids=both, **days).message
        == f"2 bills were approved; open: 2 {JUMPED}"
    )
    assert {str(each.bill_date) for each in sdk.bills.list(status="APPROVED")} == {"2026-10-01"}


@pytest.mark.long
def test_bills_are_approved_by_the_query_alone(sdk, http, accounts):
    """The SDK sends an object without members if bills are omitted, other clients no body."""
    one = sdk.bills.approve(bill_ids=m3ter.omit, account_ids=accounts["acme"])
    path = f"/bills/approve?accountIds={accounts['bolt']}"
    other = http.post(path, headers={"content-type": "application/json"})

    approved = [each.account_code for each in sdk.bills.list(status="APPROVED")]
    told = f"bills were approved; open: 1 {JUMPED}"
    assert one.message == f"{approved.count('acme')} {told}"
    assert other.json()["message"] == f"{approved.count('bolt')} {told}"
    assert set(approved) == {"acme", "bolt"}


@pytest.mark.sees("UpdateBillStatus", "LockBill", "DeleteBill")
def test_the_life_of_a_bill(sdk, accounts):
    one = bill_of(sdk, accounts)
    with pytest.raises(m3ter.ConflictError) as early:
        sdk.bills.lock(one.id)
    approved = sdk.bills.update_status(one.id, status="APPROVED")
    pending = sdk.bills.update_status(one.id, status="PENDING")
    sdk.bills.update_status(one.id, status="APPROVED")
    locked = sdk.bills.lock(one.id)

    assert "only an approved bill can be locked" in early.value.body["message"]
    assert early.value.response.headers["x-should-retry"] == "false"
    assert (approved.status, approved.version, approved.locked) == ("APPROVED", 2, False)
    assert approved.approved_by == approved.last_modified_by
    assert approved.dt_approved == approved.dt_last_modified
    assert (pending.status, pending.approved_by, pending.dt_approved) == ("PENDING", None, None)
    assert (locked.locked, locked.status, locked.version) == (True, "APPROVED", 5)
    assert (locked.locked_by, locked.dt_locked) == (
        locked.last_modified_by,
        locked.dt_last_modified,
    )
    for refused in (
        lambda: sdk.bills.lock(one.id),
        lambda: sdk.bills.delete(one.id),
        lambda: sdk.bills.update_status(one.id, status="PENDING"),
    ):
        with pytest.raises(m3ter.ConflictError):
            refused()
    other = bill_of(sdk, accounts, "bolt")
    gone = sdk.bills.delete(other.id)
    assert (gone.id, gone.line_items) == (other.id, other.line_items)
    with pytest.raises(m3ter.NotFoundError):
        sdk.bills.retrieve(other.id)
    names = [each.event_name for each in sdk.events.list(resource_id=other.id)]
    assert names == ["billing.bill.deleted", "billing.bill.created"]


@pytest.mark.long
def test_what_the_lock_date_closes_is_shown_as_locked_and_stays(sdk, accounts):
    old = bill_of(sdk, accounts, day="2026-09-01")
    sdk.bills.approve(bill_ids=[each.id for each in sdk.bills.list(bill_date="2026-09-01")])
    sdk.bill_config.update(bill_lock_date="2026-08-31", version=1)

    assert sdk.bills.retrieve(old.id).locked is True
    assert [each.locked for each in sdk.bills.list(locked=False)] == [False, False]
    assert len(sdk.bills.search(search_query="locked:true").data) == 2
    with pytest.raises(m3ter.ConflictError):
        sdk.bills.delete(old.id)
    with pytest.raises(m3ter.ConflictError):
        sdk.bills.update_status(old.id, status="PENDING")
    sdk.bill_config.update(bill_lock_date="2026-08-30", version=2)
    assert sdk.bills.retrieve(old.id).locked is False
    assert sdk.bills.update_status(old.id, status="PENDING").status == "PENDING"


@pytest.mark.long
@pytest.mark.sees("ApproveBills", "ApproveAllBillsInBillingPeriod")
def test_many_bills_are_approved_at_once(sdk, http, accounts):
    def approved():
        return sorted((b.account_code, str(b.bill_date)) for b in sdk.bills.list(status="APPROVED"))

    acme, bolt = (bill_of(sdk, accounts, code) for code in ("acme", "bolt"))
    with pytest.raises(m3ter.NotFoundError):
        sdk.bills.approve(bill_ids=[acme.id, NOBODY])
    assert approved() == []
    first = sdk.bills.approve(bill_ids=[acme.id, acme.id], account_ids=accounts["bolt"])
    assert first.message == f"1 bill was approved; open: 1 {JUMPED}"
    assert approved() == [("acme", "2026-10-01")]

    query = {"accountIds": f"{accounts['acme']},{accounts['bolt']}"}
    days = {"externalInvoiceDateStart": "2026-10-01", "externalInvoiceDateEnd": "2026-10-02"}
    second = http.post("/bills/approve", params={**query, **days}, json={})
    assert second.json() == {"message": f"1 bill was approved; open: 1 {JUMPED}"}
    assert approved() == [("acme", "2026-10-01"), ("bolt", "2026-10-01")]
    shown = sdk.bills.retrieve(bolt.id)
    assert (shown.version, shown.approved_by) == (2, shown.last_modified_by)
    [event] = [
        each for each in sdk.events.list(resource_id=bolt.id) if each.event_name.endswith("updated")
    ]
    assert event.m3ter_event["eventData"]["newDto"]["status"] == "APPROVED"

    third = http.post("/bills/billingperiod/2026-08-31/MONTHLY/approve")
    assert third.json() == {"message": "2 bills were approved"}
    again = http.post("/bills/billingperiod/2026-08-31/MONTHLY/approve")
    assert again.json() == {"message": "0 bills were approved"}
    assert len(approved()) == 4


@pytest.mark.long
@pytest.mark.sees("ListBillLineItems", "GetBillLineItem", "ListLineItems")
def test_lines_have_ids_that_survive_a_calculation(server, sdk, http, accounts):
    one = bill_of(sdk, accounts)
    before = list(sdk.bills.line_items.list(bill_id=one.id, page_size=1))
    [listed] = [each for each in before if each.line_item_type == "USAGE"]
    usage = sdk.bills.line_items.retrieve(listed.id, bill_id=one.id)

    assert [each.id for each in before] == [each.id for each in one.line_items]
    assert usage == listed
    assert (usage.bill_id, usage.line_item_type, usage.version) == (one.id, "USAGE", 1)
    [band] = usage.band_usage
    assert (band.band_units, band.unit_price, band.band_subtotal) == (42.5, 1, 42.5)
    all_lines = http.get("/lineitems").json()["data"]
    assert len(all_lines) == len({each["id"] for each in all_lines}) == 6
    pages, token = [], None
    while token is not None or not pages:
        params = {"pageSize": 3, **({"nextToken": token} if token else {})}
        found = http.get("/lineitems", params=params).json()
        pages.append(found["data"])
        token = found.get("nextToken")
    assert [each for page in pages for each in page] == all_lines
    charges = http.get("/lineitems?lineItemType=STANDING_CHARGE").json()["data"]
    assert {each["lineItemType"] for each in charges} == {"STANDING_CHARGE"}
    assert len(charges) == 4
    assert http.get(f"/lineitems?commitmentId={NOBODY}").json() == {"data": []}
    assert http.get("/lineitems", params={"billId": one.id}).json()["data"] == all_lines_of(
        all_lines, one.id
    )

    home = Home(server.stores, server.org_id, Clock())
    assert home.ingest("b.csv", HEADER + csv_row("3", "7.5")).rejected == 0
    bill(server.organization, SEPTEMBER)

    after = sdk.bills.retrieve(one.id)
    assert (after.version, after.bill_total) == (2, 81)
    assert [each.id for each in after.line_items] == [each.id for each in before]


@pytest.mark.usefixtures("calm")
def test_the_data_explorer_names_lines_by_their_ids(sdk, http, accounts):
    one = bill_of(sdk, accounts)
    question = {
        "startDate": "2026-10-01T00:00:00Z",
        "endDate": "2026-10-02T00:00:00Z",
        "lineItemTypes": ["USAGE"],
        "dimensions": [{"name": "account", "filter": ["acme"]}],
    }
    [row] = http.post("/dataexplorer/bills", json=question).json()["values"]
    assert row["dimensions"]["billId"] == one.id
    assert row["dimensions"]["billLineItemId"] in {each.id for each in one.line_items}


@pytest.mark.usefixtures("calm")
def test_who_may_not_see_a_bill_sees_none_of_its_lines(server, http, sdk, accounts):
    hidden = bill_of(sdk, accounts)
    with limited(server, http, hidden.id) as client:
        bills = client.get("/bills").json()["data"]
        lines = client.get("/lineitems").json()["data"]
        refused = (
            client.get(f"/bills/{hidden.id}/lineitems"),
            client.get(f"/bills/{hidden.id}/lineitems/{hidden.line_items[0].id}"),
            client.get(f"/bills/latest/{accounts['acme']}"),
            client.post("/bills/approve", json={"billIds": [hidden.id]}),
            client.post("/bills/approve", params={"accountIds": accounts["acme"]}, json={}),
            client.post("/bills/billingperiod/2026-09-30/MONTHLY/approve"),
            client.post("/bills/download/csv/url", json=DAYS),
        )
        latest = client.get(f"/bills/latest/{accounts['bolt']}")

    assert len(bills) == 3
    assert hidden.id not in {each["id"] for each in bills}
    assert {each["billId"] for each in lines} == {each["id"] for each in bills}
    assert [each.status_code for each in refused] == [403] * len(refused)
    assert latest.status_code == httpx.codes.OK


def test_who_may_lock_a_bill_and_not_read_it_sees_nothing_of_it(server, http, sdk, accounts):
    hidden = bill_of(sdk, accounts)
    with limited(server, http, hidden.id, "config:retrieve") as client:
        approved = client.put(f"/bills/{hidden.id}/status", json={"status": "APPROVED"})
        named = client.post("/bills/approve", json={"billIds": [hidden.id]})
        locked = client.put(f"/bills/{hidden.id}/lock")
        read = client.get(f"/bills/{hidden.id}")

    assert read.status_code == httpx.codes.FORBIDDEN
    assert approved.json() == {"id": hidden.id, "version": 2, "status": "APPROVED"}
    assert named.json() == {"message": "0 bills were approved"}
    assert locked.json() == {"id": hidden.id, "version": 3}
    assert sdk.bills.retrieve(hidden.id).locked


def limited(server, http, hidden, action="all"):
    """A client of a service user who may do everything but something with one bill."""

    def created(path, body):
        answer = http.post(path, json=body)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    statements = [
        {"effect": "allow", "action": ["all"], "resource": ["*"]},
        {"effect": "deny", "action": [action], "resource": [f"config:bill/item/{hidden}"]},
    ]
    policy = created("/permissionpolicies", {"name": "p", "permissionPolicy": statements})
    user = created("/serviceusers", {"name": "robot"})
    grant = f"/permissionpolicies/{policy['id']}/addtoserviceuser"
    created(grant, {"principalId": user["id"]})
    key = created(f"/serviceusers/{user['id']}/accesskeys", {})
    token = httpx.post(
        f"{server.url}/oauth/token",
        json={"grant_type": "client_credentials"},
        auth=(key["id"], key["apiSecret"]),
    ).json()["access_token"]
    return server.http(token)


def all_lines_of(lines, bill_id):
    return [each for each in lines if each["billId"] == bill_id]


@pytest.mark.sees("GetBillLineItemJsonUsage")
@pytest.mark.usefixtures("calm")
def test_the_usage_of_a_line_is_a_file(sdk, http, accounts):
    one = bill_of(sdk, accounts)
    files = {
        each.line_item_type: wire.loads(
            fetch(http.get(f"/bills/{one.id}/lineitems/{each.id}/usage/json")).content
        )
        for each in one.line_items
    }
    usage = files["USAGE"]

    assert usage["lineItem"]["id"] in {each.id for each in one.line_items}
    assert [each["uid"] for each in usage["data"]] == ["1"]
    assert usage["hasMoreData"] is False
    assert files["STANDING_CHARGE"]["data"] == []


def fetch(answer):
    assert answer.status_code == httpx.codes.OK, answer.text
    file = httpx.get(answer.json()["downloadUrl"])
    assert file.status_code == httpx.codes.OK, file.text
    return file


DAYS = {"startDate": "2026-10-01T00:00:00Z", "endDate": "2026-11-01T00:00:00Z"}
INVOICED = {
    "externalInvoiceDateStart": "2026-10-01T00:00:00Z",
    "externalInvoiceDateEnd": "2026-10-02T00:00:00Z",
}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({}, "startDate"),
        ({"startDate": DAYS["startDate"]}, "endDate"),
        ({**INVOICED, "startDate": DAYS["startDate"]}, "startDate"),
        ({**DAYS, "endDate": DAYS["startDate"]}, "endDate"),
        ({**DAYS, "endDate": "2026-11-01T00:00:01Z"}, "endDate"),
        ({**DAYS, "startDate": "soon"}, "startDate"),
        ({**DAYS, "externalSystem": "SAGE"}, "externalSystem"),
    ],
)
@pytest.mark.usefixtures("calm")
def test_a_file_of_bills_is_of_few_days_of_one_kind(http, body, name):
    found = http.post("/bills/download/csv/url", json=body)
    assert (found.status_code, name in found.json()["message"]) == (400, True), found.text


@pytest.mark.sees("DownloadBillsCsvUrl", "DownloadBillsCsv")
@pytest.mark.usefixtures("calm")
def test_bills_are_downloaded_as_csv(sdk, http, accounts):
    def rows(body):
        file = fetch(http.post("/bills/download/csv/url", json=body))
        assert file.headers["content-type"].startswith("text/csv")
        return list(csv.DictReader(io.StringIO(file.text)))

    one = bill_of(sdk, accounts)
    ours = [each for each in rows(DAYS) if each["billId"] == one.id]
    assert len(rows(DAYS)) == 4
    assert [each["lineItemId"] for each in ours] == [each.id for each in one.line_items]
    assert sorted(each["convertedSubtotal"] for each in ours) == ["31", "42.5"]
    assert {each["billTotal"] for each in ours} == {"73.5"}
    assert {each["sequentialInvoiceNumber"] for each in ours} == {one.sequential_invoice_number}
    assert rows({**INVOICED, "externalSystem": "STANDARD"}) == rows(DAYS)
    assert rows({"startDate": "2026-10-02", "endDate": "2026-10-03"}) == []

    at_once = http.post("/bills/download/csv", json=DAYS)
    assert at_once.headers["content-type"].startswith("text/csv")
    assert at_once.text == fetch(http.post("/bills/download/csv/url", json=DAYS)).text
    assert http.post("/bills/download/csv", json={}).status_code == httpx.codes.BAD_REQUEST

    [usage] = [
        each
        for each in rows({**DAYS, "externalSystem": "XERO"})
        if each["*InvoiceNumber"] == one.sequential_invoice_number and each["*UnitAmount"] != "31"
    ]
    assert (usage["*ContactName"], usage["EmailAddress"]) == ("Acme", "bills@acme.example")
    assert (usage["*Quantity"], usage["*UnitAmount"], usage["Currency"]) == ("1", "42.5", "USD")
    assert (usage["*InvoiceDate"], usage["*DueDate"]) == ("2026-10-01", "2026-10-15")
    assert usage["*AccountCode"] == "cloud"


@pytest.mark.long
@pytest.mark.sees("VerifyBill")
def test_a_bill_is_verified_and_a_tampered_line_is_named(server, sdk):
    [bill_] = sdk.bills.list(account_id=account_of(server, "acme"), bill_date="2026-10-01").data
    url = f"/bills/{bill_.id}/verify"
    with server.http() as http:
        assert http.get(url).json() == {
            "verified": 1,
            "unpinned": [],
            "otherCode": 0,
            "same": True,
            "differences": [],
        }
        change = text("UPDATE bill_line SET body = replace(body, '42.5', '43') WHERE bill_id = :id")
        with server.stores.state.writing_home() as connection:
            assert connection.execute(change, {"id": bill_.id}).rowcount >= 1
        found = http.get(url).json()
        assert http.get(f"/bills/{NOBODY}/verify").status_code == 404
    assert found["same"] is False
    assert {each["subject"] for each in found["differences"]} == {"line"}
    assert {each["lineItemId"] for each in found["differences"]} <= {
        each.id for each in sdk.bills.line_items.list(bill_.id).data
    }
    assert (43, 42.5) in [(each["stored"], each["calculated"]) for each in found["differences"]]


@pytest.mark.sees("TotalBills", "SearchBills")
def test_found_bills_are_added_up_by_currency(calm):
    with calm.http() as http:
        query = {"searchQuery": "billDate:2026-10-01$status:PENDING", "excludeLineItems": "true"}
        found = http.get("/bills/search", params=query).json()["data"]
        [total] = http.get("/bills/totals", params=query).json()["data"]
        nothing = http.get("/bills/totals", params={"searchQuery": "status:APPROVED"}).json()
        wrong = http.get("/bills/totals", params={"searchQuery": "colour:red"})
    assert not any("lineItems" in each for each in found)
    assert total == {
        "currency": "USD",
        "bills": len(found),
        "total": sum(each["billTotal"] for each in found),
        "pending": len(found),
        "approved": 0,
        "locked": 0,
    }
    assert nothing == {"data": []}
    assert wrong.status_code == 400


@pytest.mark.long
@pytest.mark.sees("DownloadBillDocuments")
def test_documents_of_bills_come_as_one_file(calm):
    with calm.http() as http:
        listed = http.get("/bills", params={"billDate": "2026-10-01"}).json()["data"]
        ids = [each["id"] for each in listed]
        url = "/bills/download/documents"
        archive = http.post(url, json={"month": "2026-09", "format": "zip", "usage": "none"})
        pdf = http.post(url, json={"billIds": ids[:1], "usage": "none"})
        for wrong, words in (
            ({}, "billIds is required"),
            ({"billIds": ids, "month": "2026-09"}, "leave it out"),
            ({"billIds": [ids[0]] * 201}, "at most 200"),
            ({"month": "never"}, "2026-10"),
            ({"billIds": ids, "format": "doc"}, "format"),
        ):
            found = http.post(url, json=wrong)
            assert found.status_code == 400, wrong
            assert words in found.json()["message"]
        assert http.post(url, json={"billIds": [NOBODY]}).status_code == 404
        assert http.post(url, json={"month": "2020-01"}).status_code == 404
    assert archive.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(archive.content)) as files:
        assert sorted(files.namelist()) == sorted(
            f"{each['accountCode']}_2026-09_{each['sequentialInvoiceNumber']}.pdf"
            for each in listed
        )
    assert pdf.headers["content-type"] == "application/pdf"
    assert pdf.content.startswith(b"%PDF-")


@pytest.mark.long
@pytest.mark.sees("DiffBill")
def test_versions_of_a_bill_are_compared_by_causes(server, sdk):
    [bill_] = sdk.bills.list(account_id=account_of(server, "acme"), bill_date="2026-10-01").data
    url = f"/bills/{bill_.id}/diff"
    with server.http() as http:
        same = http.get(url, params={"to": "now"}).json()
        assert (same["same"], same["differences"], same["to"]["version"]) == (True, [], "now")
        with server.organization.transaction("ann") as transaction:
            record = transaction.find(PlanTemplate, "cloud")
            dearer = record.entity.model_copy(update={"standing_charge": Decimal(40)})
            transaction.update(record.id, record.version, dearer)
        found = http.get(url, params={"from": "1", "to": "now"}).json()
        for query, status in (
            ({"from": "0"}, 400),
            ({"from": "x"}, 400),
            ({"to": "then"}, 400),
            ({"from": "9"}, 404),
            ({"to": "1"}, 400),
        ):
            assert http.get(url, params=query).status_code == status, query
        assert http.get(f"/bills/{NOBODY}/diff").status_code == 404
    [total] = found["totals"]
    [part] = found["differences"]
    assert total["difference"] == part["amount"] == part["ifUndone"] == 9
    assert (part["cause"], part["name"], part["author"]) == ("entity", "PlanTemplate cloud", "ann")
    [line] = part["lines"]
    assert line["lineItemId"] in {each.id for each in sdk.bills.line_items.list(bill_.id).data}
    assert (line["from"], line["to"]) == (31, 40)


@pytest.mark.long
@pytest.mark.sees("GetBillDocument")
def test_a_bill_is_a_document_in_each_format(server, sdk):
    [bill_] = sdk.bills.list(account_id=account_of(server, "acme"), bill_date="2026-10-01").data
    url = f"/bills/{bill_.id}/document"
    with server.http() as http:
        pdf, page = http.get(url), http.get(url, params={"format": "html", "usage": "none"})
        document = http.get(url, params={"format": "json"}).json()
        wrong = [http.get(url, params=each) for each in ({"format": "doc"}, {"usage": "hour"})]
        assert http.get(f"/bills/{NOBODY}/document").status_code == 404
    assert [each.status_code for each in wrong] == [400, 400]
    assert (pdf.headers["content-type"], pdf.content[:5]) == ("application/pdf", b"%PDF-")
    name = f"acme_2026-09_{bill_.sequential_invoice_number}.pdf"
    assert pdf.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in page.headers["content-security-policy"]
    assert "Usage by day" not in page.text
    assert document["bill"]["id"] == bill_.id
    amount = sum(each.converted_subtotal for each in bill_.line_items)
    assert document["totals"]["total"] == f"{amount:.2f}"


@pytest.mark.long
@pytest.mark.sees("ExplainBill")
def test_a_bill_is_explained_down_to_its_measurements(server, sdk):
    [bill_] = sdk.bills.list(account_id=account_of(server, "acme"), bill_date="2026-10-01").data
    url = f"/bills/{bill_.id}/explain"
    with server.http() as http:
        found = http.get(url).json()
        one = http.get(url, params={"line": "1", "rows": 1}).json()
        assert http.get(f"/bills/{NOBODY}/explain").status_code == 404
        for wrong in ({"line": "9"}, {"rows": 1001}, {"rows": "many"}, {"version": 0}):
            assert http.get(url, params=wrong).status_code == 400, wrong
        assert http.get(url, params={"version": 99}).status_code == 404
    assert found["same"] is True
    assert check_tree(found["tree"]) > 10
    assert Decimal(found["tree"]["value"]) == Decimal(str(sdk.bills.retrieve(bill_.id).bill_total))
    ids = [each["facts"]["id"] for each in found["tree"]["children"]]
    assert sorted(ids) == sorted(each.id for each in sdk.bills.line_items.list(bill_.id).data)
    measured = [each for each in walk(one["tree"]) if "measurements" in each]
    assert [len(each["measurements"]) for each in measured] == [1]


def test_an_explained_quantity_has_its_days_and_its_newest_measurements(calm):
    with calm.http() as http:
        account = account_of(calm, "acme")
        listed = http.get("/bills", params={"accountId": account, "billDate": "2026-10-01"})
        url = f"/bills/{listed.json()['data'][0]['id']}/explain"
        oldest = http.get(url, params={"line": "1"}).json()
        found = http.get(url, params={"line": "1", "days": "true", "newest": "true"}).json()
    [before], [measured] = (
        [each for each in walk(tree["tree"]) if "measurements" in each] for tree in (oldest, found)
    )
    assert "days" not in before
    assert [each["day"] for each in measured["days"]] == [
        f"2026-09-{day:02}" for day in range(1, 31)
    ]
    quantities = [Decimal(each["quantity"]) for each in measured["days"]]
    assert sum(quantities) == Decimal(measured["value"]) > 0
    counts = [each["measurements"] for each in measured["days"]]
    assert sum(counts) == len(measured["measurements"])
    assert measured["measurements"] == before["measurements"][::-1]


@pytest.mark.sees("CompareBill")
def test_a_bill_is_compared_with_another_one_in_its_currency(server, sdk):
    acme, bolt = (
        sdk.bills.list(account_id=account_of(server, code), bill_date="2026-10-01").data[0]
        for code in ("acme", "bolt")
    )
    with server.http() as http:
        found = http.get(f"/bills/{acme.id}/comparison", params={"with": bolt.id}).json()
        assert http.get(f"/bills/{NOBODY}/comparison").status_code == 404
        wrong = http.get(f"/bills/{acme.id}/comparison", params={"with": NOBODY})
    assert wrong.status_code == 404
    assert (found["billId"], found["formerBillId"]) == (acme.id, bolt.id)
    assert found["difference"] == found["after"] - found["before"]
    assert sum(each["difference"] for each in found["lines"]) == found["difference"]


@pytest.mark.sees("ListBillVersions")
def test_the_versions_of_a_bill_say_what_it_came_to_and_who_made_them(server):
    with server.http() as http:
        account = account_of(server, "bolt")
        [listed] = http.get(
            "/bills", params={"accountId": account, "billDate": "2026-10-01"}
        ).json()["data"]
        url = f"/bills/{listed['id']}"
        line = http.get(url).json()["lineItems"][0]
        body = {
            "amount": 5,
            "productId": line["productId"],
            "accountingProductId": line["productId"],
            "referencedBillId": listed["id"],
            "referencedLineItemId": line["id"],
            "description": "late",
            "servicePeriodStartDate": "2026-09-01T00:00:00Z",
            "servicePeriodEndDate": "2026-10-01T00:00:00Z",
        }
        made = http.post(f"{url}/debitlineitems", json=body)
        assert made.status_code == 200, made.text
        found = http.get(f"{url}/versions").json()["data"]
        changed = http.get(url).json()
        assert http.get(f"/bills/{NOBODY}/versions").status_code == 404
    assert [each["version"] for each in found] == [changed["version"], listed["version"]]
    assert found[0]["billTotal"] == changed["billTotal"] == found[1]["billTotal"] + 5
    assert found[0]["lastModifiedBy"] == found[1]["replacedBy"] == changed["lastModifiedBy"]
    assert "dtReplaced" not in found[0]


def account_of(server, code):
    with server.organization.reading() as reader:
        return reader.find(Account, code).id
