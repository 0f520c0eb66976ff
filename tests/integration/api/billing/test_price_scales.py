"""Prices of many plans at once: proposed with their effect, applied all or none."""

from decimal import Decimal

import pytest

from meterlake.model.values import wire
from tests.bills import price_egress, subscribe
from tests.e2e.api.test_authorization import policy, service_user, token_of
from tests.homes import ACCOUNTS, EGRESS, HEADER, configure, csv_row
from tests.people import allow
from tests.served import served

SCALE = {"plans": ["basic"], "from": "2026-10-01", "by": Decimal("1.07")}


def use_egress(home):
    """Acme used 40 in September; a unit costs 1 up to 100, and nothing after that."""
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", start="2026-09-01T00:00:00Z")
    home.ingest("a.csv", HEADER + csv_row("1", 40, "acme", ts="2026-09-03T10:00:00Z"))


@pytest.fixture
def server(tmp_path):
    with served(tmp_path / "home", use_egress) as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def post(http, verb, status=200, **changes):
    body = wire.dumps({**SCALE, **changes})
    answer = http.post(f"/pricings/scale/{verb}", content=body)
    assert answer.status_code == status, answer.text
    return wire.loads(answer.content)


def unit_prices(price):
    return [each["unitPrice"] for each in price["bands"]]


def prices(http):
    found = wire.loads(http.get("/pricings").content)["data"]
    return sorted(found, key=lambda each: each["startDate"])


@pytest.mark.sees("ProposePriceScale")
def test_a_proposal_shows_old_and_new_prices_and_writes_nothing(http):
    before = prices(http)
    found = post(http, "propose")

    assert [(each["plan"], each["priced"]) for each in found["changed"]] == [("basic", "sent")]
    assert unit_prices(found["changed"][0]) == [
        {"old": 1, "new": Decimal("1.07")},
        {"old": 0, "new": 0},
    ]
    assert found["rounding"] == "half up, to two decimals more than the old price has"
    assert prices(http) == before


def test_the_effect_is_that_of_a_month_in_which_the_prices_had_held(http):
    effect = post(http, "propose", effectMonth="2026-09")["effect"]

    # 31 a month and 40 units.
    assert effect["totals"] == {"USD": {"before": "71", "after": "73.8", "difference": "2.8"}}
    assert effect["movers"]["USD"]["rising"][0]["account"] == "acme"


@pytest.mark.sees("ApplyPriceScale")
def test_applied_prices_end_on_the_day_and_begin_anew(http):
    post(http, "apply", review=post(http, "propose")["review"])
    old, new = prices(http)

    assert old["endDate"] == new["startDate"] == "2026-10-01T00:00:00Z"
    assert [each["unitPrice"] for each in old["pricingBands"]] == [1, 0]
    assert [each["unitPrice"] for each in new["pricingBands"]] == [
        Decimal("1.07"),
        0,
    ]
    assert (old["code"], new["code"]) == ("sent", "sent-2026-10-01")
    assert new.get("endDate") is None
    # Once more from the same day on: the new price itself gets new bands.
    again = post(http, "propose", by=2)
    post(http, "apply", by=2, review=again["review"])
    assert len(prices(http)) == 2
    assert prices(http)[1]["pricingBands"][0]["unitPrice"] == Decimal("2.14")


def test_prices_that_changed_meanwhile_are_looked_at_again(http):
    review = post(http, "propose")["review"]
    [price] = prices(http)
    bands = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 3}]
    body = wire.dumps({**price, "pricingBands": bands})
    assert http.put(f"/pricings/{price['id']}", content=body).status_code == 200
    refused = post(http, "apply", 409, review=review)

    assert "have changed since you looked at them" in refused["message"]
    assert len(prices(http)) == 1


def test_another_factor_than_the_one_that_was_looked_at_is_refused(http):
    review = post(http, "propose")["review"]

    post(http, "apply", 409, by=Decimal("1.7"), review=review)
    post(http, "apply", 400)
    assert len(prices(http)) == 1


@pytest.mark.parametrize(
    ("factors", "by", "unit_price"),
    [
        ([{"by": 2}], 3, 2),
        ([{"by": 2}, {"aggregation": "sent", "by": 4}, {"plan": "basic", "by": 5}], 3, 4),
        (
            [{"aggregation": "sent", "plan": "basic", "by": 6}, {"aggregation": "sent", "by": 4}],
            3,
            6,
        ),
        ([{"aggregation": "mean", "by": 4}], 3, 3),
    ],
)
def test_the_row_that_says_most_of_a_price_decides(http, factors, by, unit_price):
    found = post(http, "propose", factors=factors, by=by)

    assert unit_prices(found["changed"][0])[0]["new"] == unit_price


@pytest.mark.parametrize(
    ("factors", "by", "unit_prices_after"),
    [
        (
            [{"aggregation": "sent", "lowerLimit": 0, "unitPrice": Decimal("1.234567")}],
            None,
            ["1.234567", 0],
        ),
        (
            [
                {
                    "plan": "basic",
                    "aggregation": "sent",
                    "lowerLimit": 100,
                    "unitPrice": Decimal("0.5"),
                },
                {"aggregation": "sent", "lowerLimit": 0, "unitPrice": 9},
            ],
            None,
            [1, "0.5"],
        ),
        (
            [
                {"aggregation": "sent", "by": 2},
                {"aggregation": "sent", "lowerLimit": 100, "unitPrice": 7},
            ],
            3,
            [2, 7],
        ),
        ([{"aggregation": "mean", "unitPrice": 7}], 3, [3, 0]),
    ],
)
def test_a_table_of_new_prices_is_taken_as_it_is(http, factors, by, unit_prices_after):
    found = post(http, "propose", factors=factors, by=by)

    wanted = [Decimal(each) for each in unit_prices_after]
    assert [each["new"] for each in unit_prices(found["changed"][0])] == wanted


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [
        ([{"aggregation": "sent", "unitPrice": 7}], "factors[0].lowerLimit"),
        ([{"lowerLimit": 5, "unitPrice": 7}], "one of 0, 100"),
        ([{"aggregation": "sent"}], "exactly one of by and unitPrice"),
        ([{"by": 2, "unitPrice": 7}], "exactly one of by and unitPrice"),
        ([{"lowerLimit": 0, "unitPrice": -7}], "unitPrice"),
    ],
)
def test_a_new_price_names_its_band(http, factors, sentence):
    assert sentence in post(http, "propose", 400, factors=factors)["message"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"by": None}, "no factor is given for it"),
        ({"by": 1}, "nothing changes"),
        ({"from": "2025-12-01"}, "it begins later"),
    ],
)
def test_a_price_that_stays_says_why(http, changes, reason):
    found = post(http, "propose", **changes)

    assert found["changed"] == []
    assert [each["reason"] for each in found["unchanged"]] == [reason]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"plans": ["nothing"]}, "plans[0]: 'nothing' is not allowed"),
        ({"plans": []}, "plans: [] is not allowed"),
        ({"by": 0}, "by: 0 is not allowed"),
        ({"from": "soon"}, "from: 'soon' is not allowed"),
        ({"effectMonth": "2026-13"}, "month"),
    ],
)
def test_what_is_no_scale_is_refused_in_words(http, changes, sentence):
    assert sentence in post(http, "propose", 400, **changes)["message"]


def test_decimals_round_half_up(http):
    found = post(http, "propose", by=Decimal("1.005"), decimals=2)

    assert unit_prices(found["changed"][0])[0] == {"old": 1, "new": Decimal("1.01")}
    assert found["rounding"] == "half up, to 2 decimals"


def test_who_may_not_change_prices_may_only_look(server, http):
    review = post(http, "propose")["review"]
    rights = policy(http, "prices", allow("config:retrieve", "config:pricing"))
    _, key, secret = service_user(http, rights)
    with server.http(token_of(server, key, secret)) as client:
        assert post(client, "propose")["review"] == review
        assert (
            "config:retrieve on" in post(client, "propose", 403, effectMonth="2026-09")["message"]
        )
        post(client, "apply", 403, review=review)
    assert len(prices(http)) == 1
