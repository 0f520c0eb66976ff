"""Operational exports beside the API's own answers, asked for with the SDK."""

import csv
import gzip
import io
import json
import zipfile
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from meterlake.model.configuration.exports import OperationalDataType
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.config import apply_configuration
from meterlake.pipeline.export.run import export, run_export
from meterlake.stages.config.describe import describe_all
from meterlake.stages.export.column_kinds import cell, flat
from meterlake.stages.export.exported_columns import exports_of, operational
from tests.e2e.api.bodies import BY_API
from tests.e2e.api.world import MIDDLE, START, World
from tests.served import served

# Where the SDK lists what the API calls so; bills and their lines it does not answer yet.
LISTED = {
    "ACCOUNTS": "accounts",
    "ACCOUNT_PLANS": "account_plans",
    "AGGREGATIONS": "aggregations",
    "BALANCES": "balances",
    "CHARGES": "charges",
    "COMMITMENTS": "commitments",
    "COMPOUND_AGGREGATIONS": "compound_aggregations",
    "CONTRACTS": "contracts",
    "METERS": "meters",
    "PLANS": "plans",
    "PLAN_GROUPS": "plan_groups",
    "PLAN_GROUP_LINKS": "plan_group_links",
    "PLAN_TEMPLATES": "plan_templates",
    "PRICING": "pricings",
    "PRODUCTS": "products",
    "TRANSACTION_TYPES": "transaction_types",
}
ALL = [kind.value for kind in OperationalDataType]
# Of the other kinds of configuration those that have members which nobody writes.
MORE = (
    "balances.charge_schedules",
    "balances.transaction_schedules",
    "integration_configurations",
    "lookup_tables.lookup_table_revisions",
    "webhooks",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("operational") / "home") as found:
        yield found


@pytest.fixture(scope="module")
def sdk(server):
    with server.sdk(_strict_response_validation=False) as client:
        furnish(client)
        yield client


def furnish(sdk):
    """One entity of every kind that is exported, with every member that it can have."""
    world = World(sdk)
    world.allow_custom_fields()
    for name in (*LISTED.values(), *MORE):
        row = BY_API[name]
        create(sdk, row, {**row.path(world), **row.least(world), **row.more(world)})
    sdk.pricings.create(
        plan_id=world.plan,
        aggregation_id=world.segmented_aggregation,
        segment={"region": "eu"},
        start_date=START,
        pricing_bands=[
            {"lower_limit": 0, "fixed_price": 0, "unit_price": 0.25},
            {"lower_limit": 100, "fixed_price": 1.5, "unit_price": 0.125},
        ],
    )
    for amount in (100, -0.5):
        sdk.balances.transactions.create(
            world.balance,
            amount=amount,
            description="Top-up",
            transaction_type_id=world.transaction_type,
            applied_date=MIDDLE,
        )


def create(sdk, row, body):
    api = sdk
    for step in row.api.split("."):
        api = getattr(api, step)
    return api.create(**body)


def answers(api, *path):
    """Everything that a list of the SDK answers, as it is on the wire."""
    found, token = [], None
    while True:
        more = {} if token is None else {"next_token": token}
        page = json.loads(
            api.with_raw_response.list(*path, page_size=2, **more).text(), parse_float=Decimal
        )
        found += page["data"]
        token = page.get("nextToken")
        if not token:
            return found


def exported(server, sdk, format_, types, **more):
    """The files of an export by the type in their names."""
    job_id = sdk.data_exports.create_adhoc(
        source_type="OPERATIONAL",
        operational_data_types=types,
        extra_body={"exportFileFormat": format_, **more},
    ).job_id
    run_export(server.stores, job_id)
    content = httpx.get(sdk.data_exports.jobs.get_download_url(job_id).url).content
    if len(types) == 1:
        return {operational(OperationalDataType(types[0])).key_type: gzip.decompress(content)}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {
            name.split("_")[-1].split(".")[0]: gzip.decompress(archive.read(name))
            for name in archive.namelist()
            if name != "manifest.json"
        }


def rows_of(content):
    return [json.loads(line, parse_float=Decimal) for line in content.decode().splitlines()]


def ordered(rows):
    return sorted(rows, key=lambda each: each["id"])


@dataclass(frozen=True)
class Shown:
    """The same entities as rows, as cells, and as the API answers them by the SDK's names."""

    files: dict
    cells: dict
    answers: dict

    def rows(self, kind):
        return rows_of(self.files[operational(OperationalDataType(kind)).key_type])


@pytest.fixture(scope="module")
def shown(server, sdk):
    balances = answers(sdk.balances)
    return Shown(
        exported(server, sdk, "JSONL", ALL),
        exported(server, sdk, "CSV", ALL),
        {name: answers(getattr(sdk, name)) for name in LISTED.values()}
        | {
            "transactions": [
                {"balanceId": balance["id"], **each}
                for balance in balances
                for each in answers(sdk.balances.transactions, balance["id"])
            ]
        },
    )


def test_there_is_one_file_for_each_of_the_twenty_types(shown):
    assert set(shown.files) == {operational(kind).key_type for kind in OperationalDataType}
    assert len(shown.files) == len(ALL) == 20


@pytest.mark.parametrize("kind", LISTED)
def test_rows_are_what_the_list_of_the_api_answers(shown, kind):
    answered = shown.answers[LISTED[kind]]

    assert answered
    assert ordered(shown.rows(kind)) == ordered(answered)


def test_transactions_are_those_of_every_balance(shown):
    answered = shown.answers["transactions"]

    assert len(answered) == 2
    assert ordered(shown.rows("BALANCE_TRANSACTIONS")) == ordered(answered)


def test_every_band_of_a_pricing_is_a_row(shown):
    rows = shown.rows("PRICING_BANDS")
    of_pricings = [
        (pricing, number, overage, band)
        for pricing in shown.answers["pricings"]
        for overage, name in ((False, "pricingBands"), (True, "overagePricingBands"))
        for number, band in enumerate(pricing.get(name, []), start=1)
    ]
    by_key = {(row["pricingId"], row["overage"], row["sequenceNumber"]): row for row in rows}

    assert len(by_key) == len(rows) == len(of_pricings)
    assert any(overage for _, _, overage, _ in of_pricings)
    for pricing, number, overage, band in of_pricings:
        row = by_key[pricing["id"], overage, number]
        same = {"version", "aggregationId", "startDate", "dtLastModified"} & pricing.keys()
        assert band.items() <= row.items()
        assert all(row[name] == pricing[name] for name in same)


def test_cells_are_the_values_of_the_rows(shown):
    """A nested value has a column for each member; lists and maps of unknown keys are JSON."""
    for each in map(operational, OperationalDataType):
        rows = rows_of(shown.files[each.key_type])
        expected = [
            {column.name: cell(flat(row, (column,))[column.name], column.kind)}
            for row in rows
            for column in each.columns
        ]
        found = list(csv.DictReader(io.StringIO(shown.cells[each.key_type].decode())))
        assert [{name: value} for row in found for name, value in row.items()] == expected


def test_no_value_of_a_row_is_without_a_column(shown):
    for each in map(operational, OperationalDataType):
        names = {column.name for column in each.columns}
        for row in rows_of(shown.files[each.key_type]):
            assert set(leaves(row, names)) <= names, each.name


def leaves(value, names, prefix=""):
    for name, inner in value.items():
        whole = f"{prefix}{name}"
        if isinstance(inner, dict) and whole not in names:
            yield from leaves(inner, names, f"{whole}.")
        else:
            yield whole


def test_rows_hold_all_that_config_export_says(server, shown):
    """Entities that are read from the rows again are described as those of the organization."""
    del shown  # made by then
    request = ExportRequest(source=Source.OPERATIONAL, format=Format.JSONL)
    done = export(server.organization, request)
    files = {file["type"]: Path(done.url, file["key"]) for file in done.manifest["files"]}
    records = []
    for each in exports_of(Source.OPERATIONAL):
        names = {column.name for column in each.columns}
        for row in rows_of(gzip.decompress(files[each.key_type].read_bytes())):
            assert set(leaves(row, names)) <= names, each.name
            if each.entity is not None:
                records.append(read_back(each.entity, row))
    described = apply_configuration.export(server.stores.state, server.org_id)

    assert describe_all(Configuration(records)) == described
    assert len(described) > len(LISTED)


def read_back(kind, row):
    instants = (datetime.fromisoformat(row[name]) for name in ("dtCreated", "dtLastModified"))
    created, modified = instants
    people = row["createdBy"], row["lastModifiedBy"]
    entity = kind.from_wire(row)
    return Record(row["id"], row["version"], entity, created, people[0], modified, people[1])


@pytest.mark.long
@pytest.mark.usefixtures("shown")  # before anything changes
def test_what_changed_since_then_is_exported_alone(server, sdk):
    world = World(sdk)
    world.code = iter(f"d{number}" for number in range(100)).__next__
    kept, changed, gone = (world.new_product() for _ in range(3))
    balance = world.new_balance(world.new_account())
    since = wire.to_plain(server.stores.now())

    before = sdk.products.retrieve(changed)
    sdk.products.update(changed, name="New", code=before.code, version=before.version)
    unseen, fresh = world.new_product(), world.new_product()
    for each in (gone, unseen):
        sdk.products.delete(each)
    booked = sdk.balances.transactions.create(balance, amount=7)
    kinds = ["PRODUCTS", "BALANCES", "BALANCE_TRANSACTIONS", "ACCOUNTS"]
    found = exported(server, sdk, "JSONL", kinds, startDate=since)
    products = {row["id"]: row for row in rows_of(found["product"])}

    assert kept not in products
    assert products.keys() == {changed, gone, unseen, fresh}
    assert products[changed]["name"] == "New"
    assert "deleted" not in products[changed]
    for each in (gone, unseen):
        assert since <= products[each]["deleted"] == products[each]["dtLastModified"]
        assert products[each]["version"] == 2
        assert len(products[each]) == 5
    assert rows_of(found["account"]) == []
    assert [row["id"] for row in rows_of(found["balancetransaction"])] == [booked.id]
    # What a balance holds is part of the answer, although nobody wrote the balance.
    [moved] = rows_of(found["balance"])
    assert (moved["id"], moved["amount"]) == (balance, 7)

    table = exported(server, sdk, "CSV", ["PRODUCTS"], startDate=since)["product"].decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    assert {row["id"] for row in rows if row["deleted"]} == {gone, unseen}
