"""The first Data Explorer over HTTP: series, dimensions, bills, commitments, and files of them."""

import csv
import io
from decimal import Decimal

import httpx
import pytest

from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, CALLS, EGRESS, Home, configure
from tests.organizations import Clock
from tests.served import served

SEPTEMBER = {"startDate": "2026-09-01T00:00:00Z", "endDate": "2026-10-01T00:00:00Z"}
OCTOBER = {"startDate": "2026-10-01T00:00:00Z", "endDate": "2026-11-01T00:00:00Z"}
SENT = [{"name": "gb", "aggregations": ["SUM", "MEAN"]}]
SERIES = {
    **SEPTEMBER,
    "meterCodes": [],
    "aggregationFrequency": "WHOLE_PERIOD",
    "measures": SENT,
}
ROWS = (
    "meter,account,uid,ts,measure.gb,where.region\n"
    "egress,acme,1,2026-09-01T00:00:00Z,0.1,eu\n"
    "egress,acme,2,2026-09-08T10:00:00Z,0.2,us\n"
    "egress,bolt,3,2026-09-08T11:00:00Z,30,us\n"
    "egress,bolt,4,2026-10-01T00:00:00Z,1,eu\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("explorer") / "home", limit_explorer=False) as found:
        home = Home(found.stores, found.org_id, Clock())
        configure(found.organization, meters=[EGRESS, CALLS], accounts=ACCOUNTS)
        price_egress(home)
        subscribe(home, "acme")
        assert home.ingest("a.csv", ROWS).rejected == 0
        bill(found.organization, Month(2026, 9))
        configure(found.organization, commitments=[COMMITMENT])
        yield found


COMMITMENT = {
    "accountId": "bolt",
    "startDate": "2026-01-01",
    "endDate": "2027-01-01",
    "currency": "USD",
    "amount": 1200,
    "feeDates": [
        {
            "date": "2026-01-01",
            "amount": 1200,
            "servicePeriodStartDate": "2026-01-01T00:00:00Z",
            "servicePeriodEndDate": "2027-01-01T00:00:00Z",
        }
    ],
}


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


def post(http, path, body):
    answer = http.post(f"/dataexplorer/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return wire.loads(answer.content)


def refusal(http, path, body):
    answer = http.post(f"/dataexplorer/{path}", json=body)
    assert answer.status_code == 400, answer.text
    return answer.json()["message"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"meterCodes": None}, "meterCodes is required"),
        ({"startDate": None}, "startDate is required"),
        ({"endDate": SEPTEMBER["startDate"]}, "endDate"),
        ({"aggregationFrequency": "HOUR"}, "aggregationFrequency"),
        ({"measures": []}, "measures"),
        ({"measures": SENT * 31}, "measures"),
        ({"measures": [{"name": "region", "aggregations": ["COUNT"]}]}, "a numeric field"),
        ({"measures": [{"name": "gb", "aggregations": ["UNIQUE"]}]}, "SUM, MIN, MAX"),
        ({"measures": [{"name": "gb", "aggregations": ["CUSTOM_SQL"]}]}, "SUM, MIN, MAX"),
        ({"meterCodes": ["nothing"]}, "existing Meter"),
        ({"meterCodes": ["calls"]}, "a numeric field of one of the meters"),
        ({"dimensions": [{"name": "region", "filter": []}]}, "filter"),
        ({"dimensions": [{"name": "gb", "filter": ["*"]}]}, "text field"),
        ({"dimensions": [{"name": "key", "filter": ["*"]}]}, "other than METADATA"),
        ({"dimensions": [{"name": "account", "filter": ["nobody"]}]}, "existing Account"),
        (
            {"dimensions": [{"name": "account", "filter": ["*"], "attributes": ["shoe"]}]},
            "id, code or name",
        ),
        ({"limit": 5001}, "limit"),
    ],
)
def test_a_wrong_question_about_usage_is_refused(http, changes, sentence):
    assert sentence in refusal(http, "usagedata", {**SERIES, **changes})


@pytest.mark.sees("PostQueryUsageData")
def test_usage_is_folded_over_the_whole_period(http):
    assert post(http, "usagedata", SERIES) == {
        "values": [
            {
                "meterCode": "egress",
                "date": "2026-09-01T00:00:00Z",
                "dimensions": {},
                "measures": {"gb": {"SUM": Decimal("30.3"), "MEAN": Decimal("10.1")}},
            }
        ],
        "hasMoreData": False,
    }


def test_a_measure_may_be_named_twice(http):
    measures = [{"name": "gb", "aggregations": [fold]} for fold in ("SUM", "COUNT", "SUM")]
    [row] = post(http, "usagedata", {**SERIES, "measures": measures})["values"]

    assert row["measures"] == {"gb": {"SUM": Decimal("30.3"), "COUNT": 3}}


def test_usage_is_split_by_dimensions_and_weeks(http):
    dimensions = [
        {"name": "account", "filter": ["acme"], "attributes": ["name"]},
        {"name": "region", "filter": ["*"]},
    ]
    body = {**SERIES, "aggregationFrequency": "WEEK", "dimensions": dimensions}
    found = post(http, "usagedata", body)
    shown = [
        (row["date"], row["dimensions"], row["measures"]["gb"]["SUM"]) for row in found["values"]
    ]
    acme = {"account": "acme", "accountName": "Acme"}
    assert shown == [
        ("2026-08-31T00:00:00Z", {**acme, "region": "eu"}, Decimal("0.1")),
        ("2026-09-07T00:00:00Z", {**acme, "region": "us"}, Decimal("0.2")),
    ]


@pytest.mark.parametrize(
    ("frequency", "date"),
    [("MONTH", "2026-09-01"), ("QUARTER", "2026-07-01"), ("YEAR", "2026-01-01")],
)
def test_periods_are_those_of_the_calendar(http, frequency, date):
    found = post(http, "usagedata", {**SERIES, "aggregationFrequency": frequency})
    assert [row["date"] for row in found["values"]] == [f"{date}T00:00:00Z"]


def test_some_values_of_a_dimension_are_chosen(http):
    body = {**SERIES, "dimensions": [{"name": "region", "filter": ["eu", "moon"]}]}
    [row] = post(http, "usagedata", body)["values"]
    assert (row["dimensions"], row["measures"]["gb"]["SUM"]) == ({"region": "eu"}, Decimal("0.1"))


@pytest.mark.sees("PostQueryMeterDimensions", "PostQueryDimensionValues")
def test_dimensions_have_these_values(http):
    body = {**SEPTEMBER, "meterCode": "egress"}
    found = post(http, "meterdimensions", {**body, "dimensionName": "region"})
    assert found == {
        "meterCode": "egress",
        "dimensionName": "region",
        "dimensionValues": [
            {"dimensionAttribute": "region", "dimensionValue": "eu"},
            {"dimensionAttribute": "region", "dimensionValue": "us"},
        ],
    }
    account = {**body, "dimensionName": "account", "attributes": ["code", "name"], "limit": 1}
    assert post(http, "meterdimensions", account)["dimensionValues"] == [
        {"dimensionAttribute": "code", "dimensionValue": "acme"},
        {"dimensionAttribute": "name", "dimensionValue": "Acme"},
    ]
    several = post(http, "dimensionvalues", {**SEPTEMBER, "dimensionName": "account"})
    assert [each["dimensionValue"] for each in several["dimensionValues"]] == ["acme", "bolt"]
    for wrong in ({"meterCode": "nothing"}, {"dimensionName": "gb"}, {"dimensionName": "x"}):
        refusal(http, "meterdimensions", {**body, "dimensionName": "region", **wrong})


@pytest.mark.sees("PostQueryMeters")
def test_meters_with_data_are_listed(http):
    found = post(http, "meters", SEPTEMBER)
    assert found["meterCodes"] == ["egress"]
    assert [each["name"] for each in found["meters"]] == ["Egress"]
    empty = {"startDate": "2020-01-01T00:00:00Z", "endDate": "2020-02-01T00:00:00Z"}
    assert post(http, "meters", empty) == {"meterCodes": [], "meters": []}


@pytest.mark.parametrize(
    "changes",
    [
        {"lineItemTypes": []},
        {"lineItemTypes": ["PARTY"]},
        {"limit": 2001},
        {"dimensions": [{"name": "region", "filter": ["*"]}]},
        {"startDate": None},
    ],
)
def test_a_wrong_question_about_bills_is_refused(http, changes):
    refusal(http, "bills", {**OCTOBER, "lineItemTypes": ["USAGE"], **changes})


@pytest.mark.sees("PostQueryBillData")
def test_lines_of_bills_are_explored(http):
    found = post(http, "bills", {**OCTOBER, "lineItemTypes": ["USAGE", "STANDING_CHARGE"]})
    assert found["hasMoreData"] is False
    kinds = [row["dimensions"]["lineItemType"] for row in found["values"]]
    assert kinds == ["USAGE", "STANDING_CHARGE"]
    usage = found["values"][0]
    assert usage["dimensions"]["account"] == "acme"
    assert usage["dimensions"]["productName"] == "Cloud"
    assert usage["measures"]["quantity"] == Decimal("0.3")
    assert usage["measures"]["version"] == 1
    details = usage["billDetails"]
    assert (details["day"], details["year"], details["yearMonth"]) == (1, 2026, "2026-10")
    assert (details["locked"], details["status"]) == ("false", "PENDING")
    assert details["servicePeriodStartDate"] == "2026-09-01T00:00:00Z"


def test_lines_of_bills_are_chosen(http):
    asked = {**OCTOBER, "lineItemTypes": ["USAGE"]}
    assert len(post(http, "bills", asked)["values"]) == 1
    assert post(http, "bills", {**asked, **SEPTEMBER})["values"] == []
    late = {"startDate": "2026-10-01T00:00:01Z"}
    assert post(http, "bills", {**asked, **late})["values"] == []
    for name, value, count in (
        ("account", "acme", 1),
        ("account", "bolt", 0),
        ("product name", "Cloud", 1),
        ("product name", "*", 1),
    ):
        dimensions = [{"name": name, "filter": [value]}]
        assert len(post(http, "bills", {**asked, "dimensions": dimensions})["values"]) == count
    both = {**OCTOBER, "lineItemTypes": ["USAGE", "STANDING_CHARGE"], "limit": 1}
    cut = post(http, "bills", both)
    assert (len(cut["values"]), cut["hasMoreData"]) == (1, True)


@pytest.mark.sees("ListExploredBillAccounts", "ListExploredBillProducts")
def test_who_and_what_was_billed_is_listed(http):
    accounts = http.get("/dataexplorer/bills/accounts").json()
    assert accounts == {"accountCodes": ["acme"], "accounts": [{"code": "acme", "name": "Acme"}]}
    products = http.get("/dataexplorer/bills/products").json()
    assert products["productNames"] == ["Cloud"]
    assert http.get("/dataexplorer/bills/accounts", params={"limit": 0}).status_code == 400


@pytest.mark.sees(
    "PostQueryCommitments",
    "ListExploredCommitmentAccounts",
    "PostQueryRemainingCommitments",
)
def test_commitments_are_explored_as_far_as_there_are_any(http):
    accounts = http.get("/dataexplorer/commitments/accounts").json()
    assert accounts["accountCodes"] == ["bolt"]
    [found] = post(http, "commitments", OCTOBER)["values"]
    assert found["dimensions"]["account"] == "bolt"
    assert found["measures"] == {"amount": 1200, "amountSpent": 0, "amountRemaining": 1200}
    remaining = post(http, "commitments/remaining", {**OCTOBER, "limit": 1})
    assert (len(remaining["values"]), remaining["hasMoreData"]) == (1, False)
    before = {"startDate": "2025-01-01T00:00:00Z", "endDate": "2026-01-01T00:00:00Z"}
    assert post(http, "commitments", before)["values"] == []
    assert post(http, "commitments/lineitems", OCTOBER) == {"values": [], "hasMoreData": False}
    owed = [{"dateMonth": "2026-10", "obligations": {"USD": 1200}}]
    assert post(http, "commitments/obligations", OCTOBER) == owed
    wrong = {**OCTOBER, "dimensions": [{"name": "product name", "filter": ["*"]}]}
    for path in ("commitments", "commitments/lineitems", "commitments/obligations"):
        assert "account" in refusal(http, path, wrong)


@pytest.mark.parametrize(
    ("path", "body", "column"),
    [
        pytest.param(
            *("usagedata", SERIES, "measures.gb.SUM"),
            marks=pytest.mark.sees(
                "PostQueryUsageDataDownloadCsv", "PostQueryUsageDataDownloadJson"
            ),
        ),
        pytest.param(
            *("bills", {**OCTOBER, "lineItemTypes": ["USAGE"]}, "dimensions.account"),
            marks=pytest.mark.sees("PostQueryBillDataDownloadCsv", "PostQueryBillDataDownloadJson"),
        ),
        pytest.param(
            *("commitments", OCTOBER, "measures.amount"),
            marks=pytest.mark.sees(
                "PostQueryCommitmentsDownloadCsv", "PostQueryCommitmentsDownloadJson"
            ),
        ),
    ],
)
def test_answers_are_downloaded(http, path, body, column):
    urls = [post(http, f"{path}/download/{kind}", body)["downloadUrl"] for kind in ("csv", "json")]
    text, other = [httpx.get(url) for url in urls]
    assert text.headers["content-type"].startswith("text/csv")
    assert column in next(csv.reader(io.StringIO(text.text)))
    values = post(http, path, body)["values"]
    assert wire.loads(other.content) == values
    assert len(text.text.splitlines()) == 1 + len(values)


def test_an_empty_answer_is_an_empty_file(http):
    before = {"startDate": "2025-01-01T00:00:00Z", "endDate": "2026-01-01T00:00:00Z"}
    url = post(http, "commitments/obligations/download/json", before)["downloadUrl"]
    assert httpx.get(url).json() == []


def test_files_whose_links_have_ended_go(http, server):
    post(http, "usagedata/download/csv", SERIES)
    folder = f"explorer/{server.org_id}/"
    old = f"{folder}20200101T000000Z-old.csv"
    server.stores.objects.put_bytes(old, b"old")
    post(http, "usagedata/download/csv", SERIES)
    keys = [info.key for info in server.stores.objects.list(folder)]
    assert old not in keys
    assert len(keys) >= 2
