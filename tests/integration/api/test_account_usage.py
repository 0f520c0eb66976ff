"""What an account used by day: of its priced aggregations, in days of the organization."""

from decimal import Decimal

import pytest

from meterlake.model.customers.accounts import Account
from meterlake.model.values import wire
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, CALLS, EGRESS, HEADER, Home, configure
from tests.organizations import Clock
from tests.served import served

ROWS = HEADER + (
    "egress,acme,1,2026-09-01T00:00:00Z,0.1,eu\n"
    "egress,acme,2,2026-09-01T22:30:00Z,0.2,us\n"
    "egress,acme,3,2026-08-31T22:00:00Z,5,us\n"
    "egress,acme,4,2026-09-30T22:00:00Z,7,us\n"
    "egress,bolt,5,2026-09-01T12:00:00Z,100,us\n"
)
NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("usage") / "home", limit_explorer=False) as found:
        home = Home(found.stores, found.org_id, Clock())
        configure(
            found.organization,
            organizationConfig={"timezone": "Europe/Berlin", "currency": "USD"},
            meters=[EGRESS, CALLS],
            accounts=ACCOUNTS,
        )
        price_egress(home)
        subscribe(home, "acme", start="2026-09-01T00:00:00Z")
        home.ingest("a.csv", ROWS)
        yield found


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture(scope="module")
def ids(server):
    with server.organization.reading() as reader:
        return {each.entity.code: each.id for each in reader.all(Account)}


def usage(http, id_, **query):
    answer = http.get(f"/accounts/{id_}/usage", params=query)
    assert answer.status_code == 200, answer.text
    return wire.loads(answer.content)


@pytest.mark.sees("GetAccountUsage")
def test_usage_is_that_of_the_days_of_the_organization(http, ids):
    found = usage(http, ids["acme"], month="2026-09")

    [sent] = found["aggregations"]
    assert (found["startDate"], found["endDate"]) == ("2026-09-01", "2026-10-01")
    assert (sent["code"], sent["meterCode"], sent["unit"]) == ("sent", "egress", "GB")
    # 22:00Z is the midnight of Berlin.
    assert {each["date"]: Decimal(each["quantity"]) for each in sent["days"]} == {
        "2026-09-01": Decimal("5.1"),
        "2026-09-02": Decimal("0.2"),
    }
    assert Decimal(sent["quantity"]) == Decimal("5.3")
    [later] = usage(http, ids["acme"], month="2026-10")["aggregations"]
    assert [each["date"] for each in later["days"]] == ["2026-10-01"]


def test_what_no_plan_prices_then_is_left_out(http, ids):
    assert usage(http, ids["bolt"], month="2026-09")["aggregations"] == []
    assert usage(http, ids["acme"], month="2026-07")["aggregations"] == []
    [empty] = usage(http, ids["acme"], month="2026-12")["aggregations"]
    assert "quantity" not in empty
    assert empty["days"] == []


@pytest.mark.parametrize(
    ("id_", "month", "status", "said"),
    [
        (NOWHERE, "2026-09", 404, "Account"),
        ("nobody", "2026-09", 404, "Account"),
        ("acme", "soon", 400, "it must be a year and a month such as 2026-10"),
    ],
)
def test_usage_of_nobody_and_of_no_month_is_refused(http, ids, id_, month, status, said):
    answer = http.get(f"/accounts/{ids.get(id_, id_)}/usage", params={"month": month})

    assert answer.status_code == status
    assert said in answer.json()["message"]
