"""The story of derived fields: configured and fed with the SDK, aggregated, checked by plain Python."""

import time
from collections import defaultdict
from decimal import Decimal

import m3ter
import pytest

from meterlake.model.values.period import Month
from meterlake.pipeline.ingest.segments import ingest_segments
from meterlake.pipeline.usage.aggregate import aggregate
from tests.served import served

DISCOUNTS = {"US": 10, "DE": 25, "FR": 0}
MEASUREMENTS = [
    # account, GiB, seconds, country
    *(("acme", 12.5, 60, "US"), ("acme", 3, 30, "DE"), ("gold", 8.25, 3, "US")),
    *(("gold", 100, 0, "FR"), ("acme", 7, 7, "CH"), ("newcomer", 0.125, 8, "DE")),
]
FIELDS = [
    {"category": "MEASURE", "code": "gib", "name": "Uploaded", "unit": "GiBy"},
    {"category": "MEASURE", "code": "seconds", "name": "Took", "unit": "s"},
    {"category": "WHERE", "code": "country", "name": "Country"},
]
CHARGE = (
    "gib * customFields.meter.price * customFields.account.factor"
    ' * (1 - isnull(lookup("discounts", "percent", country), 0) / 100)'
)
DERIVED = [
    {"category": "COST", "code": "charge", "name": "Charge", "calculation": CHARGE, "unit": "USD"},
    {"category": "MEASURE", "code": "speed", "name": "Speed", "calculation": "gib / seconds"},
    {
        "category": "WHAT",
        "code": "size",
        "name": "Size",
        "calculation": 'gib >= 10 ? "large" : "small"',
    },
]


@pytest.mark.long
def test_derived_fields_from_the_meter_to_the_quantity(tmp_path):
    with served(tmp_path / "home") as server:
        sdk = server.sdk()
        meter = configured(sdk)

        sdk.usage.submit(measurements=[measurement(n, *row) for n, row in enumerate(MEASUREMENTS)])
        received(server)

        found = aggregate(server.organization, Month.parse("2026-09"))
        codes = account_codes(server)
        charges = {codes[each.account_id]: each.value for each in found.quantities}
        assert charges == expected()
        with server.organization.lake.reader() as lake:
            table = f'lake."m_{meter}"'
            sizes = lake.execute(f'SELECT uid, "what.size" FROM {table} ORDER BY uid').fetchall()
            errors = lake.execute("SELECT uid, field, detail FROM lake.calculation_error")
            assert errors.fetchall() == [("u3", "speed", "division by zero")]
            speed = lake.execute(f"""SELECT "measure.speed" FROM {table} WHERE uid = 'u3'""")
            assert speed.fetchall() == [(None,)]
            counts = lake.execute("SELECT sum(accepted), sum(incomplete) FROM lake.source")
            assert counts.fetchall() == [(6, 1)]
        assert [size for _, size in sizes] == ["large", "small", "small", "large", "small", "small"]


def test_a_wrong_calculation_is_refused_with_its_place_and_a_suggestion(tmp_path):
    with served(tmp_path / "home") as server:
        sdk = server.sdk()
        wrong = DERIVED[1] | {"calculation": "gib / second"}
        with pytest.raises(m3ter.BadRequestError) as refused:
            sdk.meters.create(
                code="m", name="M", data_fields=FIELDS, derived_fields=[DERIVED[2], wrong]
            )
        said = refused.value.response.json()["message"]
        assert "derivedFields[1].calculation" in said
        assert "column 7: unknown name `second`; did you mean seconds?" in said


def configured(sdk):
    """Custom fields, a published table and the meter; the id of the meter."""
    custom = sdk.custom_fields.retrieve()
    sdk.custom_fields.update(version=custom.version, account={"factor": 1}, meter={"price": 1})
    table = sdk.lookup_tables.create(code="discounts", name="Discounts")
    revision = sdk.lookup_tables.lookup_table_revisions.create(
        lookup_table_id=table.id,
        name="2026",
        fields=[{"name": "country", "type": "STRING"}, {"name": "percent", "type": "NUMBER"}],
        keys=["country"],
    )
    sdk.lookup_tables.lookup_table_revision_data.update(
        lookup_table_revision_id=revision.id,
        lookup_table_id=table.id,
        items=[{"country": name, "percent": percent} for name, percent in DISCOUNTS.items()],
    )
    sdk.lookup_tables.lookup_table_revisions.update_status(
        id=revision.id, lookup_table_id=table.id, status="PUBLISHED"
    )
    for code, fields in (("acme", {}), ("gold", {"factor": 0.5})):
        sdk.accounts.create(
            code=code, name=code, email_address=f"a@{code}.example", custom_fields=fields
        )
    meter = sdk.meters.create(
        code="uploads",
        name="Uploads",
        data_fields=FIELDS,
        derived_fields=DERIVED,
        custom_fields={"price": 0.09},
    )
    sdk.aggregations.create(
        code="charges",
        name="Charges",
        meter_id=meter.id,
        target_field="charge",
        aggregation="SUM",
        rounding="NONE",
        quantity_per_unit=1,
        unit="USD",
    )
    return meter.id


def measurement(number, account, gib, seconds, country):
    """One measurement of the wire."""
    return {
        "uid": f"u{number}",
        "meter": "uploads",
        "account": account,
        "ts": "2026-09-03T10:00:00Z",
        "measure": {"gib": gib, "seconds": seconds},
        "where": {"country": country},
    }


def expected():
    """The charges by account, in plain Python."""
    charges = defaultdict(Decimal)
    for account, gib, _, country in MEASUREMENTS:
        factor = Decimal("0.5") if account == "gold" else Decimal(1)
        left = 1 - Decimal(DISCOUNTS.get(country, 0)) / 100
        charges[account] += Decimal(str(gib)) * Decimal("0.09") * factor * left
    return charges


def account_codes(server):
    """The codes of accounts by id."""
    return {account.id: account.code for account in server.sdk().accounts.list()}


def received(server):
    """Ingest what was submitted, as soon as its segment is closed."""
    give_up = time.monotonic() + 30
    while not ingest_segments(server.organization):
        assert time.monotonic() < give_up
        time.sleep(0.05)
