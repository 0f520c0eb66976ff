"""The Data Explorer and compound aggregations as two customers' programs use them, by the SDK."""

import json

import httpx
import m3ter
import pytest

from meterlake.model.configuration.queries import TimePeriod
from meterlake.model.values.period import Month
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.pipeline.usage.explain import QuantityFilter, explain
from meterlake.stores.state import utc_now
from tests.homes import Home
from tests.served import served

YEAR = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2027-01-01T00:00:00Z"}
WIRE_YEAR = {"startDate": YEAR["start_date"], "endDate": YEAR["end_date"]}
REGIONS = ('eu,"x"', "o'neil", "a\\b", "%", "", "null", "*", "\u2603")
GB = {"category": "MEASURE", "code": "gb", "name": "Sent"}
REGION = {"category": "WHERE", "code": "region", "name": "Region"}
PLACE = {
    "category": "OTHER",
    "code": "place",
    "name": "Place",
    "calculation": 'isnull(region, "none") + "/x"',
}
MAIL = "bills@acme.example"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("explorer") / "home"
    with served(home, limit_explorer=False) as found:
        yield found


@pytest.fixture(scope="module")
def sdk(server):
    return server.sdk()


@pytest.fixture(scope="module")
def other(server):
    """Another organization of the same server, and its SDK."""
    made = initialize(server.settings, "Other")
    keys = {"api_key": made.access_key_id, "api_secret": made.api_secret}
    return made, server.sdk(org_id=made.org_id, **keys)


@pytest.fixture(scope="module")
def meter(server, sdk):
    """A meter that got its region after the first measurement; a parent and its child."""
    fields = {"code": "egress", "name": "Egress"}
    made = sdk.meters.create(**fields, data_fields=[GB], derived_fields=[])
    parent = sdk.accounts.create(code="parent", name="Parent", email_address=MAIL)
    sdk.accounts.create(code="child", name="Child", email_address=MAIL, parent_account_id=parent.id)
    use(server, server.org_id, "old.ndjson", row("before", 100))
    sdk.meters.update(
        made.id, **fields, version=made.version, data_fields=[GB, REGION], derived_fields=[PLACE]
    )
    rows = [
        row(f"u{n}", n, account=("parent", "child")[n % 2], where={"region": region})
        for n, region in enumerate(REGIONS)
    ]
    use(server, server.org_id, "new.ndjson", *rows)
    return made.id


def row(uid, gb, account="parent", **more):
    fields = {"account": account, "uid": uid, "ts": "2026-03-29T01:30:00Z"}
    return {"meter": "egress", **fields, "measure": {"gb": gb}, **more}


def use(server, org_id, name, *rows):
    home = Home(server.stores, org_id, utc_now)
    assert home.ingest(name, "\n".join(map(json.dumps, rows))).rejected == 0


def total(meter):
    return {"meter_id": meter, "field_code": "gb", "field_type": "MEASURE", "function": "SUM"}


def by(meter, field):
    return {"groupType": "DIMENSION", "meterId": meter, "fieldCode": field}


@pytest.mark.long
def test_a_filter_means_its_value_letter_for_letter(sdk, meter):
    for n, region in enumerate(REGIONS):
        for field, value in (("region", region), ("place", f"{region}/x")):
            wanted = [{"meter_id": meter, "field_code": field, "values": [value]}]
            found = sdk.usage.query(**YEAR, dimension_filters=wanted)
            assert [each["uid"] for each in found.data] == [f"u{n}"]


def test_measurements_without_a_value_are_a_group_of_their_own(sdk, meter):
    for field in ("region", "place"):
        found = sdk.usage.query(
            **YEAR, aggregations=[total(meter)], groups=[by(meter, field), {"groupType": "ACCOUNT"}]
        )
        [name] = [name for name in found.data[0] if name.endswith(f".{field}")]
        values = {each[name]: (each["account"], each["measure.gb.SUM"]) for each in found.data}
        assert len(values) == len(REGIONS) + 1
        assert values[None] == ("parent", 100)


@pytest.mark.parametrize(("limit", "rows"), [(1, 1), (8, 8), (9, 9), (20_000, 9)])
def test_a_limit_holds_to_its_edges(sdk, meter, limit, rows):
    found = sdk.usage.query(**YEAR, meter_ids=[meter], limit=limit)
    assert (len(found.data), found.has_more_data) == (rows, limit < 9)


@pytest.mark.parametrize("limit", [0, 20_001])
def test_a_limit_beyond_its_edges_is_refused(sdk, limit):
    with pytest.raises(m3ter.BadRequestError, match="limit"):
        sdk.usage.query(**YEAR, limit=limit)


@pytest.mark.long
def test_every_relative_time_can_be_saved_and_asked(server, meter):
    with server.http() as http:
        for time_period in TimePeriod:
            query = {"timePeriod": time_period, "meterIds": [meter], "limit": 1}
            saved = http.post("/usage/savedqueries", json={"name": "saved", "usageQuery": query})
            assert saved.json()["usageQuery"]["timePeriod"] == time_period
            answer = http.post(f"/usage/savedqueries/{saved.json()['id']}/query")
            assert answer.status_code == 200
            assert set(answer.json()) == {"data", "hasMoreData"}


@pytest.mark.usefixtures("meter")
def test_values_without_letters_are_values_of_a_dimension(server):
    body = {
        **WIRE_YEAR,
        "meterCodes": ["egress"],
        "aggregationFrequency": "WEEK",
        "measures": [{"name": "gb", "aggregations": ["SUM"]}],
    }
    with server.http() as http:
        for value, gb in (("", 4), ('eu,"x"', 0)):
            asked = {**body, "dimensions": [{"name": "region", "filter": [value]}]}
            [found] = http.post("/dataexplorer/usagedata", json=asked).json()["values"]
            assert (found["dimensions"], found["measures"]["gb"]["SUM"]) == ({"region": value}, gb)
            assert found["date"] == "2026-03-23T00:00:00Z"
        every = {**body, "dimensions": [{"name": "region", "filter": ["*"]}]}
        url = http.post("/dataexplorer/usagedata/download/csv", json=every).json()["downloadUrl"]
    lines = httpx.get(url).text.splitlines()
    assert 'egress,2026-03-23T00:00:00Z,"eu,""x""",0' in lines
    assert len(lines) == 1 + len(REGIONS) + 1


@pytest.mark.long
def test_organizations_see_nothing_of_each_other(server, sdk, other, meter):
    made, others = other
    own = others.meters.create(code="egress", name="E", data_fields=[GB], derived_fields=[]).id
    account = others.accounts.create(code="parent", name="Other", email_address=MAIL)
    # Uids, codes and names of files are each organization's own.
    use(server, made.org_id, "old.ndjson", row("before", 7))
    [found] = others.usage.query(**YEAR).data
    assert (found["meterId"], found["accountId"], found["measure.gb"]) == (own, account.id, 7)
    parent = next(each for each in sdk.accounts.list() if each.code == "parent")
    for query in ({"meter_ids": [meter]}, {"account_ids": [parent.id]}):
        with pytest.raises(m3ter.BadRequestError, match="existing"):
            others.usage.query(**YEAR, **query)
    mine = sdk.usage.query(**YEAR, account_ids=[parent.id])
    assert 7 not in [each["measure.gb"] for each in mine.data if each["uid"] == "before"]


def subscribe(sdk, product):
    """Put the parent on a plan under a contract, each with custom fields."""
    template = sdk.plan_templates.create(
        code="monthly",
        name="Monthly",
        product_id=product,
        currency="USD",
        standing_charge=0,
        bill_frequency="MONTHLY",
    )
    plan = sdk.plans.create(
        code="plan", name="Plan", plan_template_id=template.id, custom_fields={"included": 3}
    )
    parent = next(each for each in sdk.accounts.list() if each.code == "parent")
    contract = sdk.contracts.create(
        account_id=parent.id,
        name="Contract",
        start_date="2026-01-01",
        end_date="2027-01-01",
        custom_fields={"more": 0.5},
    )
    sdk.account_plans.create(
        account_id=parent.id,
        plan_id=plan.id,
        start_date="2026-01-01T00:00:00Z",
        contract_id=contract.id,
        custom_fields={"factor": 2},
    )


@pytest.mark.long
def test_a_compound_reads_custom_fields_of_plans(server, sdk, meter):
    defaults = sdk.custom_fields.retrieve()
    sdk.custom_fields.update(
        plan={"included": 10},
        account_plan={"factor": 1},
        contract={"more": 0},
        version=defaults.version,
    )
    product = sdk.products.create(code="cloud", name="Cloud").id
    unit = {"rounding": "NONE", "quantity_per_unit": 1, "unit": "GB"}
    sdk.aggregations.create(
        code="sent", name="Sent", meter_id=meter, target_field="gb", aggregation="SUM", **unit
    )
    calculation = (
        "aggregation.sent - customFields.plan.included * customFields.accountPlan.factor"
        " - customFields.contract.more"
    )
    over = {"name": "Over", "product_id": product, **unit}
    created = sdk.compound_aggregations.create(code="over", calculation=calculation, **over)
    read = sdk.compound_aggregations.retrieve(created.id)
    assert read.calculation == calculation
    for refused, sentence in (
        ('lookup("table", "field", 1)', "lookup is for derived fields"),
        ("customFields.planGroup.x", "not of `planGroup`"),
        ("customFields.plan.include", "did you mean customFields.plan.included"),
    ):
        with pytest.raises(m3ter.BadRequestError, match=sentence):
            sdk.compound_aggregations.create(code="bad", calculation=refused, **over)
    subscribe(sdk, product)
    with pytest.raises(m3ter.BadRequestError, match="CompoundAggregation 'over'"):
        sdk.custom_fields.update(
            plan={"included": "text"},
            account_plan={"factor": 1},
            contract={"more": 0},
            version=sdk.custom_fields.retrieve().version,
        )

    result = aggregate(server.organization, Month(2026, 3))
    assert (result.failures, result.left_out) == ([], [])
    used = sum(range(len(REGIONS)))
    [explained] = explain(server.organization, QuantityFilter("parent", "over", "2026-03"))
    shown = explained.to_wire()
    # What the child used is pooled.
    assert float(shown["quantity"]) == 100 + used - 3 * 2 - 0.5
    assert shown["parameters"] == {
        "customFields.plan.included": "3",
        "customFields.accountPlan.factor": "2",
        "customFields.contract.more": "0.5",
    }
    [part] = shown["parts"]
    assert part["quantity"] == 100 + used
    compounds = [each for each in result.rows if each.compound]
    assert len(compounds) == 2
    assert {each.quantity.aggregation_id for each in compounds} == {created.id}
