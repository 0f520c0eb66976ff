"""Kinds of aggregations whose rows do not add up, and lines without any measurement."""

import pytest

from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import aggregation
from tests.homes import a_home, configure
from tests.statement_world import (
    SEPTEMBER,
    START,
    bill_ids,
    content_of,
    define,
    document_of,
    pricing,
    use,
)

KINDS = {
    "p90": {"aggregation": "PERCENTILE", "percentile": 90},
    "twa": {"aggregation": "TIME_WEIGHTED_AVERAGE"},
    "sql": {"aggregation": "CUSTOM_SQL", "customSql": "SELECT sum(gb) * 2 FROM measurements"},
    "latest": {"aggregation": "LATEST"},
    "least": {"aggregation": "MIN"},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with a_home(tmp_path_factory.mktemp("kinds")) as found:
        template = {"code": "cloud", "name": "Cloud", "productId": "cloud", "currency": "USD"}
        plan = {"planId": "basic", "startDate": START}
        default = aggregation("default", "SUM", meterId="calls", targetField="n", defaultValue=4)
        configure(
            found.organization,
            organizationConfig={"daysBeforeBillDue": 14, "currency": "USD"},
            products=[{"code": "cloud", "name": "Cloud"}],
            aggregations=[
                *({**aggregation(code, "SUM"), **more} for code, more in KINDS.items()),
                default,
            ],
            planTemplates=[{**template, "standingCharge": 1, "billFrequency": "MONTHLY"}],
            plans=[{"code": "basic", "name": "Basic", "planTemplateId": "cloud"}],
            pricings=[pricing(code, 1) for code in (*KINDS, "default")],
            accountPlans=[{"code": "acme", "accountId": "acme", **plan}],
        )
        rows = [(str(day), "acme", f"{day}.5", f"2026-09-0{day}T00:00:00Z", "eu") for day in (1, 3)]
        use(found, rows)
        assert not bill(found.organization, SEPTEMBER).failures
        yield found


def usages(home, **definition):
    define(home, generateSlimStatements=True, **definition)
    [bill_id] = bill_ids(home)
    document = document_of(content_of(home, bill_id))
    return {
        each["aggregationCode"]: each
        for line in document["lines"]
        for each in line.get("usage", ())
    }


def rows(usage):
    return [row["quantity"] for row in usage["rows"]]


def test_rows_of_days_have_their_own_values_or_none(home):
    found = usages(home, aggregationFrequency="DAY")

    assert {code: rows(found[code]) for code in KINDS} == {
        "p90": ["1.5", "3.5"],
        "twa": [None, None],
        "sql": [None, None],
        "latest": ["1.5", "3.5"],
        "least": ["1.5", "3.5"],
    }
    assert not any(found[code]["additive"] for code in KINDS)


@pytest.mark.long
def test_one_row_of_the_whole_period_has_the_quantity_of_the_line(home):
    found = usages(home, aggregationFrequency="WHOLE_PERIOD")

    assert all(rows(found[code]) == [found[code]["quantity"]] for code in KINDS)
    assert found["sql"]["quantity"] == "10"


@pytest.mark.long
def test_a_default_value_has_no_rows(home):
    found = usages(home, aggregationFrequency="DAY")

    assert (found["default"]["quantity"], found["default"]["rows"]) == ("4", [])
