"""An aggregation is tried before it is saved."""

from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.values import wire
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure
from tests.organizations import Clock
from tests.served import served

ROWS = HEADER + (
    "egress,acme,1,2026-09-01T00:00:00Z,0.5,eu\n"
    "egress,acme,2,2026-09-02T00:00:00Z,2,us\n"
    "egress,bolt,3,2026-09-30T12:00:00Z,7,us\n"
    "egress,bolt,4,2026-10-01T00:00:00Z,1,eu\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("trials") / "home", limit_explorer=False) as found:
        configure(found.organization, meters=[EGRESS], accounts=ACCOUNTS)
        Home(found.stores, found.org_id, Clock()).ingest("a.csv", ROWS)
        yield found


@pytest.fixture
def attempt(server):
    """Try an aggregation of `gb` in September; the answer."""
    with server.organization.reading() as reader:
        meter_id = reader.find(Meter, "egress").id
    entity = {
        "name": "Sent",
        "meterId": meter_id,
        "targetField": "gb",
        "aggregation": "SUM",
        "rounding": "UP",
        "quantityPerUnit": 2,
        "unit": "2 GB",
    }

    def attempt_it(status=200, month="2026-09", accounts=(), **changes):
        body = {"aggregation": {**entity, **changes}, "month": month, "accounts": accounts}
        with server.http() as client:
            answer = client.post("/aggregations/try", content=wire.dumps(body))
        assert answer.status_code == status, answer.text
        return wire.loads(answer.content)

    return attempt_it


def values(found):
    return [(each["account"], each["value"], each["units"]) for each in found["data"]]


@pytest.mark.sees("TryAggregation")
def test_an_aggregation_gives_its_quantities_and_is_not_kept(server, attempt):
    assert values(attempt()) == [("acme", Decimal("2.5"), 2), ("bolt", 7, 4)]
    assert values(attempt(aggregation="MAX")) == [("acme", 2, 1), ("bolt", 7, 4)]
    with server.organization.reading() as reader:
        assert reader.all(Aggregation) == []


def test_an_aggregation_is_tried_for_some_customers(attempt):
    assert values(attempt(accounts=["bolt"])) == [("bolt", 7, 4)]
    assert attempt(month="2026-08")["data"] == []


def test_segments_count_and_what_fits_none_is_told(attempt):
    found = attempt(segmentedFields=["region"], segments=[{"region": "eu"}])["data"]

    assert [(each["account"], each.get("segment"), each.get("unmatched")) for each in found] == [
        ("acme", None, True),
        ("acme", {"region": "eu"}, None),
        ("bolt", None, True),
    ]


def test_sql_is_tried_and_its_failures_are_told(attempt):
    counted = attempt(aggregation="CUSTOM_SQL", customSql="SELECT count(*) FROM measurements")
    failed = attempt(aggregation="CUSTOM_SQL", customSql="SELECT gb FROM measurements")

    assert [each["value"] for each in counted["data"]] == [2, 1]
    assert "several rows" in failed["data"][0]["error"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"targetField": "nothing"}, "targetField"),
        ({"aggregation": "MOST"}, "aggregation.aggregation"),
        ({"meterId": "00000000-0000-4000-8000-000000000000"}, "meterId"),
        ({"accounts": ["nobody"]}, "accounts[0]: 'nobody' is not allowed"),
        ({"month": "soon"}, "month"),
        ({"aggregation": "CUSTOM_SQL", "customSql": "SELECT getenv('HOME')"}, "not allowed"),
    ],
)
def test_what_could_not_be_saved_is_not_tried(attempt, changes, sentence):
    assert sentence in attempt(400, **changes)["message"]
