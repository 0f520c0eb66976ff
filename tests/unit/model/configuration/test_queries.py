import pytest

from meterlake.model.configuration.queries import UsageSavedQuery
from meterlake.model.errors import Invalid
from tests.entity_rules import refused, required
from tests.organizations import added, after, everything

TODAY = {"timePeriod": "TODAY"}
GB = {"meterId": "egress", "fieldCode": "gb"}
REGION = {"meterId": "egress", "fieldCode": "region"}
SUM = {**GB, "fieldType": "MEASURE", "function": "SUM"}


def asked(**query):
    """The configuration with a saved query."""
    return after([*everything(), *added("usageSavedQueries", name="q", usageQuery=query)])


def test_what_is_required_is_what_the_contract_requires():
    assert required(UsageSavedQuery, {"name": "q", "usageQuery": TODAY}) == {"name", "usageQuery"}


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"timePeriod": "LAST_CENTURY"}, "timePeriod"),
        ({"limit": 0}, "limit"),
        ({"limit": 20_001}, "limit"),
        ({"meterIds": ["egress"]}, "meterIds[0]"),
        ({"dimensionFilters": [{**REGION, "values": []}]}, "dimensionFilters[0].values"),
        ({"groups": [{"groupType": "PLANET"}]}, "groups[0].groupType"),
        ({"groups": [{}]}, "groups[0].groupType"),
    ],
)
def test_a_query_that_breaks_the_contract_is_refused(query, place):
    document = {"name": "q", "usageQuery": TODAY}

    assert f"usageQuery.{place}" in refused(UsageSavedQuery, document, usageQuery=query)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({}, "usageQuery.startDate is required"),
        ({"startDate": "2026-01-01T00:00:00Z"}, "usageQuery.endDate is required"),
        (TODAY | {"endDate": "2026-01-01T00:00:00Z"}, "usageQuery.timePeriod: 'TODAY'"),
        (
            {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-01-01T00:00:00Z"},
            "usageQuery.endDate: .* after startDate",
        ),
        (TODAY | {"groups": [{"groupType": "ACCOUNT"}]}, "usageQuery.aggregations is required"),
        (TODAY | {"aggregations": [SUM | {"function": "UNIQUE"}]}, "a MEASURE has no UNIQUE"),
        (
            TODAY | {"aggregations": [SUM | REGION | {"fieldType": "DIMENSION"}]},
            r"aggregations\[0\].function: 'SUM' .* COUNT and UNIQUE",
        ),
        (TODAY | {"aggregations": [SUM | REGION]}, r"fieldCode: 'region' .* numbers for a MEASURE"),
        (TODAY | {"aggregations": [SUM | {"fieldCode": "tb"}]}, "a field of meter 'egress'"),
        (
            TODAY | {"dimensionFilters": [{**GB, "values": ["1"]}]},
            r"dimensionFilters\[0\].fieldCode: 'gb' .* texts for a DIMENSION",
        ),
        (
            TODAY | {"aggregations": [SUM], "groups": [{"groupType": "TIME"}]},
            r"groups\[0\].frequency is required",
        ),
        (
            TODAY | {"aggregations": [SUM], "groups": [{"groupType": "DIMENSION"}]},
            r"groups\[0\].meterId is required",
        ),
        (
            TODAY | {"aggregations": [SUM], "groups": [{"groupType": "DIMENSION", **GB}]},
            r"groups\[0\].fieldCode: 'gb'",
        ),
        (TODAY | {"meterIds": ["nothing"]}, "an existing Meter"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(query, sentence):
    with pytest.raises(Invalid, match=sentence):
        asked(**query)


@pytest.mark.parametrize(
    "query",
    [
        TODAY,
        {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-01-02T00:00:00Z", "limit": 20_000},
        TODAY | {"limit": 1, "meterIds": ["egress"], "accountIds": ["acme", "bolt"]},
        TODAY | {"dimensionFilters": [{**REGION, "values": ["eu", "us"]}]},
        TODAY
        | {
            "aggregations": [
                SUM,
                SUM | {"function": "COUNT"},
                {**REGION, "fieldType": "DIMENSION", "function": "UNIQUE"},
            ],
            "groups": [
                {"groupType": "ACCOUNT"},
                {"groupType": "DIMENSION", **REGION},
                {"groupType": "TIME", "frequency": "QUARTER"},
            ],
        },
    ],
)
def test_a_query_that_makes_sense_is_accepted(query):
    assert list(asked(**query).all(UsageSavedQuery))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (
            TODAY
            | {"dimensionFilters": [{"meterId": "calls", "fieldCode": "key", "values": ["1"]}]},
            r"dimensionFilters\[0\].fieldCode: 'key' .* METADATA field cannot filter",
        ),
        (TODAY | {"meterIds": ["calls"], "aggregations": [SUM]}, "one of meterIds"),
        (
            TODAY | {"meterIds": ["calls"], "dimensionFilters": [{**REGION, "values": ["eu"]}]},
            "one of meterIds",
        ),
    ],
)
def test_what_does_not_fit_the_meters_is_refused(query, sentence):
    calls = {
        "code": "calls",
        "name": "Calls",
        "dataFields": [{"category": "METADATA", "code": "key", "name": "Key"}],
        "derivedFields": [],
    }
    saved = added("usageSavedQueries", name="q", usageQuery=query)
    with pytest.raises(Invalid, match=sentence):
        after([*everything(), *added("meters", **calls), *saved])
