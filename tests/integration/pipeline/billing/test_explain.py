"""Bills explained from their pins: trees add up down to the measurements, whatever happened since."""

from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from sqlalchemy import text

from meterlake.model.bills.memos import CreditLineItem
from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.catalog.plans import Pricing
from meterlake.model.errors import Conflict, Invalid, NotFound
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.explanation.explain import (
    ExplanationRequest,
    explain_bill,
    find_line,
    name_lines,
    open_explanation,
)
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.memos import MemoRef, create_memo
from meterlake.pipeline.publish.query import query
from meterlake.stages.usage.aggregate.reducers import narrow
from meterlake.stores.lake.maintenance import compact, expire_snapshots
from meterlake.stores.lake.measurements import rows as measurement_rows
from meterlake.stores.state.billing.bills import bills
from tests.bills import aggregation, price_egress, subscribe
from tests.explained_trees import as_node, check_tree, walk
from tests.homes import HEADER, a_home, configure, csv_row
from tests.organizations import new_organization

pytestmark = pytest.mark.usefixtures("home_database")

SEPTEMBER = Month(2026, 9)
ROWS = ((10, 3, "eu"), (40, 5, "us"), ("2.5", 5, "eu"), (40, 9, "ap"), (7, 20, "us"))
KINDS = ("MIN", "MAX", "COUNT", "LATEST", "MEAN", "PERCENTILE", "TIME_WEIGHTED_AVERAGE")
# What people told of each: the values of the measurements that decide; None where all of them do.
DECIDING = {
    "SUM": None,
    "COUNT": None,
    "MEAN": None,
    "TIME_WEIGHTED_AVERAGE": None,
    "CUSTOM_SQL": None,
    "MIN": ["2.5"],
    "MAX": ["40", "40"],
    "LATEST": ["7"],
    "PERCENTILE": ["10"],
    "UNIQUE": ["eu", "us", "ap"],
}


def ingest(home, *rows, name="used"):
    text = "".join(
        csv_row(f"{name}{number}", gb, ts=f"2026-09-{day:02}T1{number}:00:00Z", region=region)
        for number, (gb, day, region) in enumerate(rows)
    )
    assert home.ingest(f"{name}.csv", HEADER + text).rejected == 0


def price(*codes, **more):
    band = {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": Decimal("0.1")}
    return [
        {
            "code": f"price-{code}",
            "planId": "basic",
            "aggregationId": code,
            "startDate": "2026-01-01T00:00:00Z",
            "cumulative": True,
            "pricingBands": [band],
            **more,
        }
        for code in codes
    ]


def price_all_kinds(home):
    """A price for every kind of aggregation, and for a compound one."""
    more = {"PERCENTILE": {"percentile": 50}}
    made = [aggregation(kind.lower(), kind, **more.get(kind, {})) for kind in KINDS]
    made += [
        aggregation("unique", "UNIQUE", targetField="region"),
        aggregation("busiest", "CUSTOM_SQL", customSql="SELECT max(gb) FROM measurements"),
    ]
    configure(
        home.organization,
        aggregations=made,
        compoundAggregations=[
            {
                "code": "each",
                "name": "Each",
                "calculation": "aggregation.sent / aggregation.count",
                "rounding": "UP",
                "quantityPerUnit": 10,
                "unit": "10 GB",
            }
        ],
        pricings=[
            *price(*(each["code"] for each in made)),
            *price("each", aggregationId=None, compoundAggregationId="each"),
        ],
    )


@pytest.fixture
def home(tmp_path):
    """A home in which acme used something in September, which is billed."""
    with a_home(tmp_path) as opened:
        price_egress(opened)
        subscribe(opened, "acme")
        ingest(opened, *ROWS)
        yield opened


def bill_home(home):
    """The id of the bill of September."""
    result = bill(home.organization, SEPTEMBER)
    assert result.failures == []
    [found] = result.bills
    return found.bill_id


def explain(home, bill_id, *line, **more):
    request = ExplanationRequest(bill_id, *line, **more)
    return explain_bill(home.organization, request)


def stored(home, bill_id):
    with home.organization.reading() as reader:
        return bills.get(reader, bill_id)


def check(home, found, bill_id):
    """The tree adds up to the stored bill, which is what comes out."""
    tree = as_node(found.root)
    check_tree(tree)
    content = stored(home, bill_id).content
    assert found.differences == []
    assert Decimal(tree["value"]) == content.total
    assert [Decimal(each["value"]) for each in tree["children"]] == [
        Decimal(each.body["convertedSubtotal"]) for each in content.lines
    ]
    return tree


def measured(tree):
    return [each for each in walk(tree) if "statement" in each.get("facts", {})]


def answer_of(home, node):
    """What the SQL of a quantity gives."""
    with query(home.organization, node["facts"]["statement"]) as found:
        [row] = found.rows
    return row


@pytest.mark.slow
def test_quantities_of_all_kinds_have_their_sql_and_what_decides(home):
    price_all_kinds(home)
    id_ = bill_home(home)

    tree = check(home, explain(home, id_), id_)

    found = {each["facts"]["kind"]: each for each in measured(tree)}
    assert found.keys() == DECIDING.keys()
    for kind, node in found.items():
        row = answer_of(home, node)
        if kind == "TIME_WEIGHTED_AVERAGE":
            sums = row[0]
            assert [narrow(sums["sum"]), sums["count"]] == [
                Decimal(each["value"]) for each in node["children"]
            ]
        elif kind == "MEAN":
            assert list(row[:2]) == [Decimal(each["value"]) for each in node["children"]]
        else:
            assert row[0] == Decimal(node["value"]), (kind, row)
        uids = [each["uid"] for each in node["measurements"]]
        assert uids == [f"used{number}" for number in (0, 1, 2, 3, 4)]
        decides = node["facts"]["decides"]
        shown = [str(each["value"]) for each in decides.get("measurements", ())]
        assert shown == (DECIDING[kind] or []), kind
    [mean] = [each for each in measured(tree) if each["facts"]["kind"] == "MEAN"]
    assert [each["value"] for each in mean["children"]] == ["99.5", "5"]
    average = found["TIME_WEIGHTED_AVERAGE"]
    held = [each["microseconds"] for each in average["measurements"]]
    assert str(sum(held)) == average["children"][1]["value"]
    [each] = [node for node in walk(tree) if node["rule"] == "calculation"]
    assert each["options"]["formula"] == "aggregation.sent / aggregation.count"
    assert [part["value"] for part in each["children"]] == ["99.5", "5"]


@pytest.mark.long
def test_measurements_of_a_line_are_in_pages_and_sum_up_to_its_quantity(home, monkeypatch):
    id_ = bill_home(home)
    [node] = measured(as_node(explain(home, id_, "1", rows=2).root))

    assert [(each["file"], each["row"]) for each in node["measurements"]] == [
        ("used.csv", 2),
        ("used.csv", 3),
    ]
    assert node["more"] is True
    request = ExplanationRequest(id_, "1", rows=0)
    with open_explanation(home.organization, request) as found:
        values = [each["value"] for each in found.stream()]
    assert sum(values) == Decimal(node["value"]) == Decimal("99.5")
    [none] = measured(as_node(explain(home, id_, "1", rows=0).root))
    assert "measurements" not in none
    # Of very many, those that stand first in their files.
    monkeypatch.setattr(measurement_rows, "_MANY", 1)
    monkeypatch.setattr(measurement_rows, "_FIRST_ROWS", (1, 3))
    for rows in (1, 2, 20):
        [many] = measured(as_node(explain(home, id_, "1", rows=rows).root))
        assert [each["row"] for each in many["measurements"]] == [2, 3, 4, 5, 6][:rows]


@pytest.mark.long
def test_a_line_is_named_in_many_ways_and_a_wrong_one_lists_them(home):
    id_ = bill_home(home)
    whole = as_node(explain(home, id_).root)
    line = whole["children"][0]

    names = "1", line["facts"]["id"], "usage", "Sent", "USAGE Sent", line["facts"]["lineKey"]
    lines = name_lines(id_, stored(home, id_).content.lines)
    assert {find_line(lines, name).number for name in names} == {1}
    found = as_node(explain(home, id_, "Sent").root)
    assert found["children"][0] == line
    assert "children" not in found["children"][1]
    assert found["children"][1]["value"] == whole["children"][1]["value"]
    check_tree(found)
    for wrong in ("3", "0", "another", str(uuid4())):
        with pytest.raises(Invalid, match=r"1 \(USAGE Sent\), 2 \(STANDING_CHARGE Standing"):
            find_line(lines, wrong)
    with pytest.raises(Invalid, match="no lines"):
        find_line([], "1")


@pytest.mark.long
def test_later_usage_changes_nothing(home):
    id_ = bill_home(home)
    before = explain(home, id_).to_wire()
    ingest(home, (1000, 4, "eu"), name="later")
    assert explain(home, id_).to_wire() == before


@pytest.mark.slow
def test_what_comes_later_changes_no_version(home):
    id_ = bill_home(home)
    before = explain(home, id_).to_wire()

    ingest(home, (1000, 4, "eu"), name="later")
    with home.organization.transaction("test") as transaction:
        [record] = transaction.all(Pricing)
        document = record.entity.to_wire()
        document["pricingBands"][0]["unitPrice"] = 7
        transaction.update(record.id, record.version, Pricing.from_wire(document))
    compact(home.organization.lake)
    assert explain(home, id_).to_wire() == before

    assert bill_home(home) == id_
    now = explain(home, id_)
    check(home, now, id_)
    assert (now.bill["version"], now.root.value != before["tree"]["value"]) == (2, True)
    first = explain(home, id_, version=1).to_wire()
    assert (first["tree"], first["same"]) == (before["tree"], True)
    with pytest.raises(NotFound):
        explain(home, id_, version=3)


@pytest.mark.slow
def test_a_version_whose_snapshot_is_gone_is_refused(home):
    id_ = bill_home(home)
    ingest(home, (1000, 4, "eu"), name="later")
    bill_home(home)
    expire_snapshots(home.organization.lake, timedelta(0), ())

    with pytest.raises(Conflict, match=r"version 1 of bill .* snapshot \d+ .* is not kept"):
        explain(home, id_, version=1)
    check(home, explain(home, id_), id_)


@pytest.mark.long
def test_a_bill_whose_measurements_are_lost_names_the_file(home):
    lake = home.organization.lake
    with lake.lock():
        compact(lake)
    id_ = bill_home(home)
    files = home.organization.lake.files
    lost = [each for each in files.names() if each.startswith("main/m_")]
    for name in lost:
        files.objects.delete(name)
    # What was read before is no longer in memory.
    home.organization.lake.close()

    with pytest.raises(Conflict) as refused:
        explain(home, id_)
    assert all(f"{name} is gone" in str(refused.value) for name in lost)
    assert lost


@pytest.mark.long
def test_what_is_stored_and_does_not_come_out_is_named(home):
    id_ = bill_home(home)
    change = text("UPDATE bill_line SET body = replace(body, '99.5', '98') WHERE bill_id = :id")
    with home.stores.state.writing_home() as connection:
        assert connection.execute(change, {"id": id_}).rowcount >= 1

    found = explain(home, id_).to_wire()

    assert found["same"] is False
    assert {each["subject"] for each in found["differences"]} == {"line"}
    assert ("convertedSubtotal", 98) in [
        (each["field"], each["stored"]) for each in found["differences"]
    ]
    assert found["tree"]["children"][0]["value"] == "99.5"


@pytest.mark.slow
def test_bills_that_nobody_can_calculate_again_are_refused(home):
    id_ = bill_home(home)
    with home.stores.state.writing_home() as connection:
        connection.execute(text("UPDATE bill SET calculation_id = NULL"))

    with pytest.raises(Conflict, match="an older version of meterlake made it"):
        explain(home, id_)


def test_bills_of_others_are_not_found(home):
    id_ = bill_home(home)
    with pytest.raises(NotFound, match=f"no bill '{id_}'"):
        explain_bill(
            home.stores.organization(new_organization(home.stores.state)), ExplanationRequest(id_)
        )
    with pytest.raises(NotFound):
        explain(home, str(uuid4()))


@pytest.mark.long
def test_a_line_of_a_person_is_a_number_with_its_references(home):
    id_ = bill_home(home)
    [usage, _] = as_node(explain(home, id_).root)["children"]
    document = {
        "amount": Decimal("12.25"),
        "accountingProductId": stored(home, id_).content.lines[0].body["accountingProductId"],
        "productId": stored(home, id_).content.lines[0].body["productId"],
        "lineItemType": "CREDIT_MEMO",
        "description": "Sorry",
        "servicePeriodStartDate": "2026-09-01T00:00:00Z",
        "servicePeriodEndDate": "2026-10-01T00:00:00Z",
        "referencedBillId": id_,
        "referencedLineItemId": usage["facts"]["id"],
    }
    create_memo(home.organization, "test", MemoRef(CreditLineItem, id_), document)

    found = explain(home, id_)

    tree = check(home, found, id_)
    memo = tree["children"][2]
    assert (memo["value"], memo["rule"], memo["facts"]["number"]) == ("-12.25", "given", 3)
    assert memo["facts"]["referencedLineItemId"] == usage["facts"]["id"]
    assert as_node(explain(home, id_, "Sorry").root)["children"][2] == memo


@pytest.mark.slow
def test_versions_of_entities_are_those_that_the_bill_pins(home):
    id_ = bill_home(home)
    with home.organization.transaction("test") as transaction:
        record = transaction.find(Aggregation, "sent")
        document = record.entity.to_wire() | {"name": "Other"}
        transaction.update(record.id, record.version, Aggregation.from_wire(document))

    [node] = measured(as_node(explain(home, id_).root))

    pinned = stored(home, id_).content.pins["versions"]
    assert node["facts"]["aggregation"]["version"] == pinned[record.id] == 1
