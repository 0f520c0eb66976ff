"""What statements say, by their definitions: it agrees with the bill and with the usage."""

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from meterlake.model.bills.statements import StatementFormat
from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.statements import AggregationFrequency
from meterlake.model.errors import Invalid
from meterlake.model.values.money import exact
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.statements import usage_rows
from meterlake.pipeline.statements.files import write_format
from meterlake.stores.state.billing.bills import bills
from tests.statement_world import (
    SEPTEMBER,
    a_billed_home,
    bill_ids,
    content_of,
    define,
    document_of,
    use,
)

SCHEMA = json.loads((Path(__file__).parents[4] / "docs/statement.schema.json").read_text())
VALID = Draft202012Validator(SCHEMA)
EVERYTHING = {
    "dimensions": [
        {"name": "account", "filter": ["*"], "attributes": ["id", "name"]},
        {"name": "region", "filter": ["*"]},
        {"name": "nothing", "filter": ["x"]},
    ],
    "measures": [{"aggregations": ["SUM", "MIN", "MAX", "COUNT", "LATEST", "MEAN", "UNIQUE"]}],
    "includePricePerUnit": True,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with a_billed_home(tmp_path_factory.mktemp("statements")) as found:
        yield found


def statement(home, **definition):
    define(home, **{"aggregationFrequency": "DAY", **definition})
    [bill_id] = bill_ids(home)
    content = content_of(home, bill_id)
    document = document_of(content)
    assert list(VALID.iter_errors(document)) == []
    return document


def usages(document):
    """What each line of usage was made of, by the codes of aggregations and the segments."""
    return {
        (usage["aggregationCode"], line.get("segment", {}).get("region")): usage
        for line in document["lines"]
        for usage in line.get("usage", ())
        if "quantity" in usage
    }


def total(rows, name="quantity"):
    with exact():
        return sum((Decimal(row[name]) for row in rows if row[name] is not None), Decimal(0))


@pytest.mark.long
@pytest.mark.parametrize("more", [{}, EVERYTHING], ids=["bare", "everything"])
@pytest.mark.parametrize(
    "frequency",
    [
        AggregationFrequency.DAY,
        AggregationFrequency.WHOLE_PERIOD,
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in AggregationFrequency
            if each not in {AggregationFrequency.DAY, AggregationFrequency.WHOLE_PERIOD}
        ),
    ],
)
def test_rows_of_what_adds_up_are_the_quantity_of_the_line(home, frequency, more):
    for slim in (True, False):
        document = statement(
            home, aggregationFrequency=frequency.value, generateSlimStatements=slim, **more
        )
        found = usages(document)
        additive = [each for each in found.values() if each["additive"]]

        assert {each["aggregation"] for each in additive} == {"SUM"}
        assert len(additive) == 3
        assert [str(total(each["rows"])) for each in additive] == [
            str(Decimal(each["quantity"])) for each in additive
        ]


def test_lines_agree_with_the_bill_and_add_up_to_its_total(home):
    document = statement(home)
    with home.organization.reading() as reader:
        [stored] = bills.of_period(reader)

    assert total(document["lines"], "convertedSubtotal") == stored.content.total
    assert document["bill"]["total"] == "130.95"
    for line, shown in zip(stored.content.lines, document["lines"], strict=True):
        for name in ("quantity", "units", "subtotal", "convertedSubtotal", "conversionRate"):
            assert Decimal(shown[name]) == Decimal(line.body[name])


def test_dimensions_split_by_values_and_by_who_used(home):
    document = statement(
        home,
        aggregationFrequency="WHOLE_PERIOD",
        dimensions=[
            {"name": "account", "filter": ["*"], "attributes": ["name"]},
            {"name": "region", "filter": ["*"]},
        ],
    )

    rows = usages(document)["sent", None]["rows"]
    found = sorted((*row["dimensions"].values(), row["quantity"]) for row in rows)
    assert found == [
        ("corp", "=1+1", "eu", "12.5"),
        ("corp-a", "=1+1", "us", "0.125"),
        ("corp-b", "=1+1", "'us", "0.5"),
        ("corp-b", "=1+1", "eu", "7"),
    ]


@pytest.mark.long
def test_a_filter_leaves_out_the_rest_and_says_how_much(home):
    dimensions = [{"name": "region", "filter": ["eu"]}, {"name": "account", "filter": ["corp"]}]
    document = statement(home, aggregationFrequency="MONTH", dimensions=dimensions)

    usage = usages(document)["sent", None]
    assert [row["quantity"] for row in usage["rows"]] == ["12.5"]
    assert (usage["quantity"], usage["restQuantity"]) == ("20.125", "7.625")
    assert "restQuantity" not in usages(document)["peak", None]


def test_a_dimension_of_another_meter_changes_nothing(home):
    calls = next(each for each in _meters(home) if each.entity.code == "calls")
    dimensions = [{"name": "region", "filter": ["eu"], "meterId": calls.id}]
    measures = [{"meterId": calls.id, "name": "n", "aggregations": ["SUM"]}]
    more = {"dimensions": dimensions, "measures": measures}
    document = statement(home, generateSlimStatements=True, **more)

    rows = usages(document)["sent", None]["rows"]
    assert [row["quantity"] for row in rows] == ["12.625", "7.5"]
    assert all(row["dimensions"] == {} and "measures" not in row for row in rows)


def _meters(home):
    with home.organization.reading() as reader:
        return reader.all(Meter)


def test_measures_have_the_aggregations_that_are_asked_for(home):
    measures = [
        {"name": "gb", "aggregations": ["SUM", "MEAN", "LATEST", "MIN", "CUSTOM_SQL"]},
        {"name": "region", "aggregations": ["UNIQUE", "SUM"]},
    ]
    document = statement(home, aggregationFrequency="MONTH", measures=measures)

    [row] = usages(document)["peak", None]["rows"]
    assert row["measures"] == {
        "gb": {"SUM": "20.125", "MEAN": "5.03125", "LATEST": "7", "MIN": "0.125"},
        "region": {"UNIQUE": "3"},
    }


@pytest.mark.long
def test_prices_are_left_out_unless_they_are_asked_for(home):
    without, prices = statement(home), statement(home, includePricePerUnit=True)

    assert not any("pricePerUnit" in line for line in without["lines"])
    assert not any(
        "unitPrice" in band for line in without["lines"] for band in line.get("bands", ())
    )
    assert all("pricePerUnit" in line for line in prices["lines"])


@pytest.mark.long
def test_slim_statements_leave_out_days_without_usage(home):
    slim = usages(statement(home, generateSlimStatements=True))["sent", None]["rows"]
    whole = usages(statement(home))["sent", None]["rows"]

    assert [row["measurements"] for row in slim] == [2, 2]
    assert len(whole) == 30
    assert [row["quantity"] for row in whole[:3]] == ["12.625", "0", "0"]


def test_a_statement_with_too_many_rows_is_refused(home, monkeypatch):
    monkeypatch.setattr(usage_rows, "ROWS_MAX", 3)
    define(home, aggregationFrequency="DAY")
    [bill_id] = bill_ids(home)

    with pytest.raises(Invalid, match="statement rows: 'more than 3'"):
        content_of(home, bill_id)


@pytest.mark.long
def test_csv_and_json_say_the_same(home):
    define(home, **{"aggregationFrequency": "DAY", **EVERYTHING})
    [bill_id] = bill_ids(home)
    content = content_of(home, bill_id)
    document = document_of(content)

    text = write_format(content, StatementFormat.CSV).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert "'=1+1" in text
    by_type = {
        kind: [row for row in rows if row["rowType"] == kind] for kind in ("LINE", "USAGE", "BAND")
    }
    assert [row["convertedSubtotal"] for row in by_type["LINE"]] == [
        line["convertedSubtotal"] for line in document["lines"]
    ]
    shown = [
        row for line in document["lines"] for each in line.get("usage", ()) for row in each["rows"]
    ]
    assert [row["quantity"] for row in by_type["USAGE"]] == [
        each["quantity"] or "" for each in shown
    ]
    assert [json.loads(row["dimensions"]) for row in by_type["USAGE"]] == [
        each["dimensions"] for each in shown
    ]
    assert len(by_type["BAND"]) == sum(len(line.get("bands", ())) for line in document["lines"])


@pytest.mark.long
def test_what_came_after_the_bill_is_not_in_its_statement(tmp_path):
    with a_billed_home(tmp_path) as home:
        [bill_id] = bill_ids(home)
        before = document_of(content_of(home, bill_id))
        use(home, [("late", "corp", "100", "2026-09-05T10:00:00Z", "eu")])
        assert document_of(content_of(home, bill_id)) == before

        bill(home.organization, SEPTEMBER)
        after = document_of(content_of(home, bill_id))
        assert usages(after)["sent", None]["quantity"] == "120.125"

        define(home, aggregationFrequency="DAY")
        own = define(home, account="corp", aggregationFrequency="YEAR", name="theirs")
        definition = document_of(content_of(home, bill_id))["definition"]
        assert (definition["id"], definition["aggregationFrequency"]) == (own, "YEAR")


@pytest.mark.parametrize(
    "change",
    [
        {"layout": "meterlake.statement.0"},
        {"lines": [{}]},
        {"more": 1},
        {"omitted": {"lines": 0, "convertedSubtotal": "0"}},
    ],
)
def test_the_schema_refuses_what_is_no_statement(home, change):
    document = statement(home)

    assert list(VALID.iter_errors({**document, **change}))
