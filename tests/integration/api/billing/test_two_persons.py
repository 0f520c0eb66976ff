"""Two-person approval: who calculated last or changed prices may not approve, where the organization wants that."""

import json

import pytest

from meterlake.cli import run
from meterlake.model.bills.requests import BillStatus
from meterlake.model.catalog.plans import PlanTemplate
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.errors import Forbidden
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import approve_bills, approve_filtered, set_status
from meterlake.pipeline.billing.jobs.jobs import bill, run_bill_job
from meterlake.pipeline.closing.closing_requests import (
    CLOSING_STEPS,
    ClosingAction,
    ClosingRequest,
    describe_closing,
    submit_closing,
)
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.worker.flow_runs import Executor
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, configure, csv_row
from tests.served import served

SEPTEMBER = Month(2026, 9)
OTHER = "USER_somebody-else"


def use_egress(home):
    """The organization wants two persons; acme and bolt used something in September."""
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", "bolt")
    configure(home.organization, organizationConfig={"twoPersonApproval": True})
    rows = csv_row("1", "42.5") + csv_row("2", "200", "bolt")
    assert home.ingest("a.csv", HEADER + rows).rejected == 0


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", use_egress) as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def me(http):
    """What the changes of whoever asks are called."""
    made = http.post("/picklists/creditreasons", json={"name": "Outage", "code": "outage"})
    return made.json()["createdBy"]


def bills_of(http):
    """The bills by the codes of their accounts."""
    found = http.get("/bills", params={"excludeLineItems": True}).json()["data"]
    return {each["accountCode"]: each["id"] for each in found}


def refused(answer):
    assert answer.status_code == 403, answer.text
    return answer.json()["message"]


@pytest.mark.sees("CheckBillApproval")
def test_who_had_a_bill_calculated_does_not_approve_it(server, http, me):
    bill(server.organization, SEPTEMBER, author=me)
    ids = bills_of(http)
    check = http.post("/bills/approve/check", json={"billIds": list(ids.values())}).json()
    assert {each["accountCode"] for each in check["refused"]} == {"acme", "bolt"}
    assert {each["reason"] for each in check["refused"]} == {"you had it calculated last"}
    for answer in (
        http.put(f"/bills/{ids['acme']}/status", json={"status": "APPROVED"}),
        http.post("/bills/approve", json={"billIds": list(ids.values())}),
        http.post("/bills/approve", params={"externalInvoiceDateStart": "2026-01-01"}, json={}),
        http.post("/bills/billingperiod/2026-09-30/MONTHLY/approve"),
    ):
        assert "needs another person's approval: you had it calculated last" in refused(answer)
    assert approve_bills(server.organization, OTHER, list(ids.values())) == 2
    # What is approved already is nobody's approval once more, and taking it back is nobody's harm.
    assert http.post("/bills/approve", json={"billIds": list(ids.values())}).status_code == 200
    taken = http.put(f"/bills/{ids['acme']}/status", json={"status": "PENDING"})
    assert taken.status_code == 200


def test_a_calculation_that_changes_nothing_is_the_last_one(server, http):
    bill(server.organization, SEPTEMBER, author=OTHER)
    ids = bills_of(http)
    again = http.post("/billjobs/recalculate", json={"billIds": [ids["acme"]]}).json()
    run_bill_job(server.stores, again["id"])
    assert again["id"] == http.get(f"/bills/{ids['acme']}").json()["billJobId"]
    check = http.post("/bills/approve/check", json={"billIds": list(ids.values())}).json()
    assert [each["accountCode"] for each in check["refused"]] == ["acme"]
    # One bill of theirs stops the others, too.
    for answer in (
        http.put(f"/bills/{ids['acme']}/status", json={"status": "APPROVED"}),
        http.post("/bills/approve", json={"billIds": list(ids.values())}),
        http.post("/bills/approve", params={"externalInvoiceDateStart": "2026-01-01"}, json={}),
        http.post("/bills/billingperiod/2026-09-30/MONTHLY/approve"),
    ):
        assert "needs another person's approval: you had it calculated last" in refused(answer)
    assert {each["status"] for each in http.get("/bills").json()["data"]} == {"PENDING"}
    # Who calculated before is not the last one any more.
    set_status(server.organization, OTHER, ids["acme"], BillStatus.APPROVED)
    with pytest.raises(Forbidden):
        set_status(server.organization, OTHER, ids["bolt"], BillStatus.APPROVED)
    assert http.put(f"/bills/{ids['bolt']}/status", json={"status": "APPROVED"}).status_code == 200


@pytest.mark.parametrize("nobody", [SYSTEM, "cli", "flow"])
def test_a_calculation_of_nobody_that_changes_nothing_does_not_hide_the_last_one(
    server, http, me, nobody
):
    bill(server.organization, SEPTEMBER, author=OTHER)
    bill(server.organization, SEPTEMBER, author=me)
    bill(server.organization, SEPTEMBER, author=nobody)
    assert "calculated last" in refused(
        http.post("/bills/approve", json={"billIds": list(bills_of(http).values())})
    )
    # What nobody made is nobody's work.
    assert http.delete(f"/bills/{bills_of(http)['acme']}").status_code == 200
    bill(server.organization, SEPTEMBER, author=nobody)
    check = http.post("/bills/approve/check", json={"billIds": list(bills_of(http).values())})
    assert [each["accountCode"] for each in check.json()["refused"]] == ["bolt"]


def test_the_command_that_approves_a_month_refuses_who_calculated_last(server, http, capsys):
    bill(server.organization, SEPTEMBER, author=OTHER)
    home = ["--home", str(server.stores.home)]
    user = http.get("/serviceusers").json()["data"][0]
    month = ["bill", "--month", "2026-09", *home, "--as", user["name"]]
    assert run(month) == 0
    capsys.readouterr()
    assert run([*month, "--approve"]) == 1
    assert "you had it calculated last" in capsys.readouterr().err
    one = ["bill", "approve", "acme/2026-09", *home, "--as", user["name"]]
    assert run(one) == 1
    assert "you had it calculated last" in capsys.readouterr().err
    assert {each["status"] for each in http.get("/bills").json()["data"]} == {"PENDING"}


def test_who_set_a_price_or_put_a_line_on_a_bill_does_not_approve_it(server, http, me):
    bill(server.organization, SEPTEMBER)
    ids = bills_of(http)
    free = http.post("/bills/approve/check", json={"billIds": list(ids.values())}).json()
    assert free["refused"] == []
    line = next(
        each
        for each in http.get(f"/bills/{ids['bolt']}").json()["lineItems"]
        if each.get("productId")
    )
    memo = {
        "amount": 1,
        "description": "sorry",
        "productId": line["productId"],
        "accountingProductId": line["productId"],
        "referencedBillId": ids["bolt"],
        "referencedLineItemId": line["id"],
        "servicePeriodStartDate": "2026-09-01T00:00:00Z",
        "servicePeriodEndDate": "2026-10-01T00:00:00Z",
    }
    assert http.post(f"/bills/{ids['bolt']}/creditlineitems", json=memo).status_code == 200
    check = http.post("/bills/approve/check", json={"billIds": list(ids.values())}).json()
    assert [(each["accountCode"], each["reason"]) for each in check["refused"]] == [
        ("bolt", "you put a credit or a debit on it")
    ]

    with server.organization.transaction(me) as transaction:
        record = transaction.find(PlanTemplate, "cloud")
        dearer = record.entity.model_copy(update={"name": "Cloud, dearer"})
        transaction.update(record.id, record.version, dearer)
    answer = http.put(f"/bills/{ids['acme']}/status", json={"status": "APPROVED"})
    assert "you changed a price of it since its period began" in refused(answer)
    set_status(server.organization, OTHER, ids["acme"], BillStatus.APPROVED)


@pytest.mark.parametrize(
    ("end", "is_own"), [("2026-12-01", False), ("2026-10-01", False), ("2026-09-15", True)]
)
def test_a_price_that_ends_after_the_period_is_no_change_of_the_bill(server, http, end, is_own):
    bill(server.organization, SEPTEMBER)
    ids = bills_of(http)
    [price] = http.get("/pricings").json()["data"]
    changed = http.put(f"/pricings/{price['id']}", json=price | {"endDate": f"{end}T00:00:00Z"})
    assert changed.status_code == 200, changed.text

    answer = http.put(f"/bills/{ids['acme']}/status", json={"status": "APPROVED"})
    assert (answer.status_code == 403) is is_own, answer.text


def test_an_update_that_does_not_name_the_setting_leaves_it_on(http):
    settings = http.get("/organizationconfig").json()
    del settings["twoPersonApproval"]
    assert http.put("/organizationconfig", json=settings).json()["twoPersonApproval"] is True


def test_the_worker_and_who_does_not_mind_approve_as_before(server, http, me):
    bill(server.organization, SEPTEMBER, author=me)
    assert approve_filtered(server.organization, SYSTEM, BillFilters()) == 2
    configure(server.organization, organizationConfig={"twoPersonApproval": False})
    ids = bills_of(http)
    http.put(f"/bills/{ids['acme']}/status", json={"status": "PENDING"})
    assert http.put(f"/bills/{ids['acme']}/status", json={"status": "APPROVED"}).status_code == 200


@pytest.mark.long
def test_a_closing_is_approved_by_another_person_than_made_it_ready(server):
    organization, executor = server.organization, Executor(server.settings)
    review = ClosingRequest(ClosingAction.REVIEW)
    submit_closing(organization, SEPTEMBER, review, "USER_first")
    list(run_round(CLOSING_STEPS, executor, organization, lambda: False))
    shown = describe_closing(organization, SEPTEMBER)["review"]
    approve = ClosingRequest(ClosingAction.APPROVE, review=shown)
    with pytest.raises(Forbidden, match="you had it calculated last"):
        submit_closing(organization, SEPTEMBER, approve, "USER_first")
    submit_closing(organization, SEPTEMBER, approve, OTHER)
    list(run_round(CLOSING_STEPS, executor, organization, lambda: False))
    found = describe_closing(organization, SEPTEMBER)
    assert found["status"] == "CLOSED"
    by = {each["step"]: each["author"] for each in found["steps"]}
    assert (by["bill"], by["review"]) == ("USER_first", OTHER)


def test_a_command_without_a_name_approves_nothing(server, http, capsys):
    bill(server.organization, SEPTEMBER)
    home = ["--home", str(server.stores.home)]
    assert run(["bill", "approve", "acme/2026-09", *home]) == 1
    shown = capsys.readouterr()
    assert "--as" in shown.err
    assert json.dumps(sorted(bills_of(http))) == '["acme", "bolt"]'
