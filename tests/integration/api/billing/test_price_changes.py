"""One price with other bands: what it would do to bills, and the price that follows it."""

from decimal import Decimal

import pytest

from meterlake.model.catalog.plans import Pricing
from meterlake.model.customers.accounts import Account
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import price_egress, subscribe, use
from tests.homes import ACCOUNTS, CALLS, EGRESS, configure
from tests.served import served

NOBODY = "00000000-0000-4000-8000-000000000000"
BANDS = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 2}]
MONTHS = {"firstMonth": "2026-08", "lastMonth": "2026-09"}


def make_bills(home):
    """Acme used 42.5 and bolt 200 in September; the bills are made."""
    configure(home.organization, meters=[EGRESS, CALLS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", "bolt")
    use(home, ("1", "acme", 40), ("2", "acme", "2.5"), ("3", "bolt", 200))
    bill(home.organization, Month(2026, 9))


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", make_bills, limit_config=False) as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def ids(server):
    with server.organization.reading() as reader:
        accounts = {each.entity.code: each.id for each in reader.all(Account)}
        [price] = reader.all(Pricing)
        return {**accounts, "price": price.id}


def post(http, path, status=200, **body):
    answer = http.post(path, content=wire.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    return wire.loads(answer.content)


@pytest.mark.sees("PreviewPriceChange")
def test_a_preview_says_what_bills_would_come_to_and_stores_nothing(http, ids):
    place = f"/pricings/{ids['price']}"
    before = http.get(place).json()
    found = post(http, f"{place}/preview", pricingBands=BANDS, accountIds=[ids["acme"]], **MONTHS)

    months = {each["month"]: each for each in found["byMonth"]}
    assert Decimal(months["2026-09"]["before"]) == Decimal("73.5")
    assert Decimal(months["2026-09"]["after"]) == Decimal(116)
    assert Decimal(months["2026-08"]["difference"]) == 0
    [change] = found["changes"]
    assert (change["account"], change["lineItemType"]) == ("acme", "USAGE")
    assert http.get(place).json() == before
    every = post(http, f"{place}/preview", pricingBands=BANDS, **MONTHS)
    assert {each["account"] for each in every["changes"]} == {"acme", "bolt"}


@pytest.mark.sees("ReplacePricing")
def test_a_price_ends_where_the_one_that_follows_begins(http, ids):
    place, start = f"/pricings/{ids['price']}/replace", "2026-10-01T00:00:00Z"
    found = post(http, place, version=1, startDate=start, pricingBands=BANDS)

    old, new = found["originalPricing"], found["newPricing"]
    assert (old["endDate"], new["startDate"]) == (start, start)
    assert (old["code"], new["code"]) == ("sent", "sent-2026-10-01")
    assert new["aggregationId"] == old["aggregationId"]
    assert Decimal(new["pricingBands"][0]["unitPrice"]) == 2
    again = post(
        http,
        f"/pricings/{new['id']}/replace",
        version=1,
        startDate=start,
        pricingBands=[{**BANDS[0], "unitPrice": 3}],
    )
    assert "originalPricing" not in again
    assert again["newPricing"]["id"] == new["id"]
    assert Decimal(again["newPricing"]["pricingBands"][0]["unitPrice"]) == 3


@pytest.mark.parametrize(
    ("verb", "changes", "status", "said"),
    [
        ("replace", {"version": 7}, 409, "version"),
        ("replace", {"version": None}, 400, "version is required"),
        (
            "replace",
            {"startDate": "2025-01-01T00:00:00Z"},
            400,
            "the replaced price must hold then",
        ),
        ("replace", {"pricingBands": []}, 400, "pricingBands"),
        ("replace", {"pricingBands": [{**BANDS[0], "lowerLimit": 5}]}, 400, "pricingBands"),
        ("preview", {"firstMonth": "soon-ly"}, 400, "it must be a year and a month"),
        ("preview", {"accountIds": [NOBODY]}, 404, "Account"),
        ("preview", {"pricingBands": [{**BANDS[0], "unitPrice": "dear"}]}, 400, "unitPrice"),
    ],
)
def test_what_is_no_change_of_a_price_is_refused(http, ids, verb, changes, status, said):
    body = {
        "replace": {"version": 1, "startDate": "2026-10-01T00:00:00Z", "pricingBands": BANDS},
        "preview": {"pricingBands": BANDS, **MONTHS},
    }[verb]
    found = post(http, f"/pricings/{ids['price']}/{verb}", status, **{**body, **changes})

    assert said in found["message"]
    assert http.get("/pricings").json()["data"][0]["version"] == 1
    missing = f"/pricings/{NOBODY}/{verb}"
    post(http, missing, 404, **body)
