"""Credits and debits that people put on a bill, over HTTP."""

from decimal import Decimal

import httpx
import m3ter
import pytest

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import served

pytestmark = pytest.mark.usefixtures("home_database")

NOBODY = "5d9d4a3e-0000-4000-8000-000000000000"
SEPTEMBER = Month(2026, 9)
KINDS = ("credit", "debit")


def make_bill(home):
    """Acme has a bill of September, which comes to 73.50 USD."""
    configure(
        home.organization,
        meters=[EGRESS],
        accounts=ACCOUNTS,
        creditReasons=[
            {"code": "outage", "name": "Outage"},
            {"code": "old", "name": "Old", "archived": True},
        ],
        debitReasons=[{"code": "late", "name": "Late usage"}],
    )
    price_egress(home)
    subscribe(home, "acme")
    assert home.ingest("a.csv", HEADER + csv_row("1", "42.5")).rejected == 0
    bill(home.organization, SEPTEMBER)


@pytest.fixture(scope="module")
def calm(home_database, tmp_path_factory):
    """A server that only gets requests that it refuses."""
    with served(tmp_path_factory.mktemp(home_database) / "home", make_bill) as found:
        yield found


@pytest.fixture
def server(request, tmp_path):
    """One of the test's own, unless it asks for the one that refuses everything."""
    if "calm" in request.fixturenames:
        yield request.getfixturevalue("calm")
        return
    with served(tmp_path / "home", make_bill) as found:
        yield found


@pytest.fixture
def sdk(server):
    return server.sdk()


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def one(sdk):
    [found] = sdk.bills.list()
    return found


@pytest.fixture
def body(sdk, one):
    [product] = sdk.products.list()
    usage = next(each for each in one.line_items if each.line_item_type == "USAGE")
    return {
        "productId": product.id,
        "accountingProductId": product.id,
        "description": "Outage on 14 September",
        "amount": 12.5,
        "referencedBillId": one.id,
        "referencedLineItemId": usage.id,
        "servicePeriodStartDate": "2026-09-14T00:00:00Z",
        "servicePeriodEndDate": "2026-09-15T00:00:00Z",
    }


def post(http, one, body, kind="credit"):
    return http.post(f"/bills/{one.id}/{kind}lineitems", json=body)


def reason(sdk, code, kind="credit"):
    archived = code == "old"
    [found] = getattr(sdk, f"{kind}_reasons").list(codes=[code], archived=archived)
    return found.id


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "changes",
    [
        *(
            {name: None}
            for name in (
                *("productId", "accountingProductId", "description", "amount"),
                *("referencedBillId", "referencedLineItemId"),
                *("servicePeriodStartDate", "servicePeriodEndDate"),
            )
        ),
        {"amount": 0},
        {"amount": -1},
        {"amount": 0.001},
        {"amount": "12"},
        {"amountToApplyOnBill": 13},
        {"amountToApplyOnBill": -1},
        {"description": ""},
        {"productId": NOBODY},
        {"accountingProductId": NOBODY},
        {"referencedBillId": NOBODY},
        {"referencedLineItemId": NOBODY},
        {"servicePeriodEndDate": "2026-09-14T00:00:00Z"},
        {"lineItemType": "USAGE"},
        {"reasonId": NOBODY},
    ],
)
@pytest.mark.usefixtures("calm")
def test_a_wrong_line_is_refused_by_its_field(http, one, body, kind, changes):
    [name] = changes
    answer = post(http, one, {**body, **changes}, kind)

    assert (answer.status_code, name in answer.json()["message"]) == (400, True), answer.text
    assert http.get(f"/bills/{one.id}").json()["version"] == 1


@pytest.mark.usefixtures("calm")
def test_a_reason_is_one_of_its_own_list_and_not_archived(http, sdk, one, body):
    for changes, name in (
        ({"creditReasonId": reason(sdk, "old")}, "creditReasonId"),
        ({"creditReasonId": reason(sdk, "late", "debit")}, "creditReasonId"),
        ({"creditReasonId": NOBODY, "reasonId": reason(sdk, "outage")}, "creditReasonId"),
    ):
        answer = post(http, one, {**body, **changes})
        assert (answer.status_code, name in answer.json()["message"]) == (400, True), answer.text


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_lines_are_of_a_bill_and_of_a_kind(http, one, body, kind):
    made = post(http, one, body, kind).json()
    other = next(each for each in KINDS if each != kind)
    for path in (
        f"/bills/{NOBODY}/{kind}lineitems",
        f"/bills/{NOBODY}/{kind}lineitems/{made['id']}",
        f"/bills/{one.id}/{kind}lineitems/{NOBODY}",
        f"/bills/{one.id}/{other}lineitems/{made['id']}",
        f"/bills/{one.id}/{kind}lineitems/mine",
    ):
        assert http.get(path).status_code == httpx.codes.NOT_FOUND
    assert http.post(f"/bills/{NOBODY}/{kind}lineitems", json=body).status_code == 404


@pytest.mark.long
@pytest.mark.sees(
    "ListCreditLineItems",
    "PostCreditLineItem",
    "GetCreditLineItem",
    "ListDebitLineItems",
    "PostDebitLineItem",
    "GetDebitLineItem",
)
def test_lines_change_what_a_bill_comes_to(sdk, one, body):
    named = {snake(name): value for name, value in body.items()}
    credits_, debits = sdk.bills.credit_line_items, sdk.bills.debit_line_items
    sdk.bills.update_status(one.id, status="APPROVED")

    credit = credits_.create(bill_id=one.id, credit_reason_id=reason(sdk, "outage"), **named)
    debit = debits.create(bill_id=one.id, **{**named, "amount": 4})

    assert (credit.version, credit.amount, credit.line_item_type) == (1, 12.5, "CREDIT_MEMO")
    assert debit.line_item_type == "DEBIT_MEMO"
    assert credits_.retrieve(credit.id, bill_id=one.id) == credit
    assert debits.retrieve(debit.id, bill_id=one.id) == debit
    assert list(credits_.list(bill_id=one.id)) == [credit]
    assert list(debits.list(bill_id=one.id)) == [debit]
    shown = sdk.bills.retrieve(one.id)
    assert (shown.bill_total, shown.status, shown.version) == (65, "PENDING", 4)
    assert shown.approved_by is None
    lowered, raised = shown.line_items[-2:]
    assert (lowered.id, lowered.converted_subtotal, lowered.sequence_number) == (
        credit.id,
        -12.5,
        3,
    )
    assert (raised.id, raised.converted_subtotal, raised.sequence_number) == (debit.id, 4, 4)
    assert lowered.reason_id == reason(sdk, "outage")
    assert lowered.referenced_line_item_id == body["referencedLineItemId"]
    assert (lowered.product_name, lowered.quantity, lowered.units) == ("Cloud", 1, 1)
    alone = sdk.bills.line_items.retrieve(credit.id, bill_id=one.id)
    assert (alone.line_item_type, alone.subtotal) == ("CREDIT_MEMO", -12.5)


@pytest.mark.long
@pytest.mark.sees(
    "PutCreditLineItem", "DeleteCreditLineItem", "PutDebitLineItem", "DeleteDebitLineItem"
)
def test_lines_are_changed_and_taken_away(sdk, one, body):
    named = {snake(name): value for name, value in body.items()}
    credits_, debits = sdk.bills.credit_line_items, sdk.bills.debit_line_items
    credit = credits_.create(bill_id=one.id, **named)
    debit = debits.create(bill_id=one.id, **{**named, "amount": 4})
    changes = {**named, "amount": 3.5, "line_item_type": "MANUAL_ADJUSTMENT"}

    with pytest.raises(m3ter.BadRequestError):
        credits_.update(credit.id, bill_id=one.id, **changes)
    changed = credits_.update(credit.id, bill_id=one.id, **changes, version=1)
    with pytest.raises(m3ter.ConflictError):
        credits_.update(credit.id, bill_id=one.id, **changes, version=1)
    raised = debits.update(debit.id, bill_id=one.id, **{**named, "amount": 6}, version=1)

    assert (changed.id, changed.version, changed.amount) == (credit.id, 2, 3.5)
    shown = sdk.bills.retrieve(one.id)
    assert (shown.bill_total, shown.version) == (76, 5)
    lines = [(each.id, each.line_item_type, each.converted_subtotal) for each in shown.line_items]
    assert lines[-2:] == [
        (credit.id, "MANUAL_ADJUSTMENT", -3.5),
        (debit.id, "DEBIT_MEMO", 6),
    ]
    assert credits_.delete(credit.id, bill_id=one.id) == changed
    assert debits.delete(debit.id, bill_id=one.id) == raised
    shown = sdk.bills.retrieve(one.id)
    assert (shown.bill_total, shown.line_items) == (73.5, one.line_items)
    assert list(debits.list(bill_id=one.id)) == []


def snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


@pytest.mark.long
def test_lines_survive_calculations(server, http, sdk, one, body):
    credit = post(http, one, body).json()
    debit = post(http, one, {**body, "amount": 4, "amountToApplyOnBill": 1.5}, "debit").json()
    before = sdk.bills.retrieve(one.id)
    assert before.bill_total == 62.5

    result = bill(server.organization, SEPTEMBER)

    same = sdk.bills.retrieve(one.id)
    assert [(str(each.stored), each.total, each.lines) for each in result.bills] == [
        ("unchanged", Decimal("62.5"), 4)
    ]
    assert (same.version, same.bill_total, same.line_items) == (3, 62.5, before.line_items)
    assert same.last_calculated_date > before.last_calculated_date
    home = Home(server.stores, server.org_id, Clock())
    assert home.ingest("b.csv", HEADER + csv_row("2", "7.5")).rejected == 0
    bill(server.organization, SEPTEMBER, approve=True)
    after = sdk.bills.retrieve(one.id)
    assert (after.version, after.bill_total, after.status) == (4, 70, "APPROVED")
    assert [each.id for each in after.line_items[-2:]] == [credit["id"], debit["id"]]
    assert after.approved_by is not None


@pytest.mark.long
def test_a_locked_bill_takes_no_line_and_loses_none(http, sdk, one, body):
    made = post(http, one, body).json()
    sdk.bills.update_status(one.id, status="APPROVED")
    sdk.bills.lock(one.id)
    path = f"/bills/{one.id}/creditlineitems"

    answers = (
        http.post(path, json=body),
        http.put(f"{path}/{made['id']}", json={**body, "version": 1}),
        http.delete(f"{path}/{made['id']}"),
    )

    assert [each.status_code for each in answers] == [409] * 3
    assert sdk.bills.retrieve(one.id).bill_total == 61


@pytest.mark.long
def test_a_reason_in_use_is_kept(http, sdk, one, body):
    reason_id = reason(sdk, "outage")
    made = post(http, one, {**body, "reasonId": reason_id}).json()
    with pytest.raises(m3ter.ConflictError) as refused:
        sdk.credit_reasons.delete(reason_id)
    assert made["id"] in refused.value.body["message"]
    sdk.credit_reasons.update(reason_id, name="Outage", code="outage", archived=True, version=1)
    path = f"/bills/{one.id}/creditlineitems/{made['id']}"
    kept = http.put(path, json={**body, "reasonId": reason_id, "version": 1})
    assert kept.status_code == httpx.codes.OK, kept.text
    http.delete(path)
    assert sdk.credit_reasons.delete(reason_id).id == reason_id


@pytest.mark.long
def test_a_line_may_refer_to_one_that_is_gone_by_now(http, sdk, one, body):
    debit = post(http, one, body, "debit").json()
    about = {**body, "referencedLineItemId": debit["id"]}
    credit = post(http, one, about).json()
    own = {**about, "referencedLineItemId": credit["id"], "version": 1}
    refused = http.put(f"/bills/{one.id}/creditlineitems/{credit['id']}", json=own)
    assert (refused.status_code, "another line" in refused.text) == (400, True)

    http.delete(f"/bills/{one.id}/debitlineitems/{debit['id']}")
    kept = http.put(
        f"/bills/{one.id}/creditlineitems/{credit['id']}",
        json={**about, "amount": 1, "version": 1},
    )

    assert kept.status_code == httpx.codes.OK, kept.text
    assert sdk.bills.retrieve(one.id).bill_total == 72.5


@pytest.mark.long
def test_a_deleted_bill_takes_its_lines_along(server, http, sdk, one, body):
    post(http, one, body)
    sdk.bills.delete(one.id)
    bill(server.organization, SEPTEMBER)
    [again] = sdk.bills.list(include_bill_total=True)
    assert (again.bill_total, len(again.line_items)) == (73.5, 2)
    assert http.get(f"/bills/{again.id}/creditlineitems").json() == {"data": []}
