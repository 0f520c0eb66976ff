"""Usage by question, as the SDK asks it: numbers come back as they were sent."""

import json

import m3ter
import pytest

from meterlake.stores.state import utc_now
from tests.e2e.api.asking import refusal
from tests.e2e.api.world import END, START
from tests.homes import Home


@pytest.fixture(scope="module")
def used(server, world):
    """A meter, two accounts, and what they sent."""
    accounts = [world.new_account() for _ in range(2)]
    codes = [world.sdk.accounts.retrieve(each).code for each in accounts]
    meter = world.new_meter()
    code = world.sdk.meters.retrieve(meter).code
    rows = [
        {
            "meter": code,
            "account": codes[n % 2],
            "uid": f"used-{code}-{n}",
            "ts": f"2026-03-0{n + 1}T12:00:00Z",
            "measure": {"gb": 0.1},
            "cost": {"own": 1},
            "where": {"region": "eu" if n % 3 else "us"},
            "who": {"user": f"u{n}"},
            "metadata": {"key": "k"},
        }
        for n in range(6)
    ]
    home = Home(server.stores, server.org_id, utc_now)
    text = "\n".join(map(json.dumps, rows))
    assert home.ingest("used.ndjson", text).rejected == 0
    return meter, accounts


def field(meter, code, type_, function):
    return {"meter_id": meter, "field_code": code, "field_type": type_, "function": function}


def test_usage_is_grouped_by_account_and_week(sdk, used):
    meter, accounts = used
    found = sdk.usage.query(
        start_date=START,
        end_date=END,
        meter_ids=[meter],
        aggregations=[
            field(meter, "gb", "MEASURE", "SUM"),
            field(meter, "user", "DIMENSION", "UNIQUE"),
        ],
        # Of a group the SDK types the kind alone; the rest goes out as it is.
        groups=[{"groupType": "ACCOUNT"}, {"groupType": "TIME", "frequency": "MONTH"}],
    )
    assert found.has_more_data is False
    assert {row["accountId"]: row["measure.gb.SUM"] for row in found.data} == dict.fromkeys(
        accounts, 0.3
    )
    assert {row["month"] for row in found.data} == {"2026-03-01T00:00:00Z"}
    assert [row["who.user.UNIQUE"] for row in found.data] == [3, 3]


def test_usage_comes_as_it_was_sent_the_newest_first(sdk, used):
    meter, accounts = used
    found = sdk.usage.query(
        start_date=START,
        end_date=END,
        meter_ids=[meter],
        account_ids=[accounts[0]],
        dimension_filters=[{"meter_id": meter, "field_code": "region", "values": ["eu"]}],
        limit=1,
    )
    assert found.has_more_data is True
    [row] = found.data
    assert (row["ts"], row["measure.gb"], row["where.region"]) == (
        "2026-03-05T12:00:00Z",
        0.1,
        "eu",
    )


@pytest.mark.long
def test_a_wrong_question_is_refused(sdk, used):
    meter, _ = used
    dates = {"start_date": START, "end_date": END}
    refusal(m3ter.BadRequestError, sdk.usage.query)
    refusal(m3ter.BadRequestError, sdk.usage.query, **dates, groups=[{"groupType": "ACCOUNT"}])
    filters = [{"meter_id": meter, "field_code": "key", "values": ["k"]}]
    error = refusal(m3ter.BadRequestError, sdk.usage.query, **dates, dimension_filters=filters)
    assert "METADATA" in error.body["message"]
