"""Derived fields at ingest: what goes wrong stays visible, repeats leave nothing, versions are pinned."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.catalog.lookups import LookupTable, LookupTableRevision
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.errors import Invalid, StillReferenced
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.export.run import export
from meterlake.pipeline.lookups.lookups import At, delete_revision, set_status, write_data
from meterlake.pipeline.publish.views import create_views
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.lake.backends.location import open_lake
from tests.homes import HEADER, Home, a_home, configure, csv_row, ndjson, wire_row

RATE = 'gb * isnull(lookup("rates", "rate", region), 1) * customFields.account.factor'
DERIVED = [
    {"category": "MEASURE", "code": "share", "name": "Share", "calculation": "100 / gb"},
    {"category": "COST", "code": "price", "name": "Price", "calculation": RATE},
    {
        "category": "WHAT",
        "code": "place",
        "name": "ResourceRef",
        "calculation": 'account.code + "@" + region',
    },
]
EGRESS = {
    "code": "egress",
    "name": "Egress",
    "dataFields": [
        {"category": "MEASURE", "code": "gb", "name": "Sent"},
        {"category": "WHERE", "code": "region", "name": "Region"},
    ],
}
PRICE_SUM = {
    "code": "price_sum",
    "name": "Price",
    "meterId": "egress",
    "targetField": "price",
    "aggregation": "SUM",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "USD",
}


@pytest.fixture
def home(tmp_path):
    """A home whose meter has derived fields, with a published table of rates."""
    with a_home(tmp_path) as made:
        configure(
            made.organization,
            customFields={"account": {"factor": Decimal(2)}},
            lookupTables=[{"code": "rates", "name": "Rates"}],
        )
        publish(made, "first", {"eu": "0.5", "us": "0.25"})
        save(made, DERIVED)
        yield made


def save(home: Home, derived) -> None:
    """Save the meter with these derived fields."""
    configure(home.organization, meters=[EGRESS | {"derivedFields": derived}])


def table_id(home: Home) -> str:
    """The id of the table of rates."""

    with home.organization.reading() as reader:
        return reader.find(LookupTable, "rates").id


def publish(home: Home, name: str, rates: dict[str, str]) -> At:
    """Publish a revision."""

    fields = [{"name": "region", "type": "STRING"}, {"name": "rate", "type": "NUMBER"}]
    table = table_id(home)
    document = {"name": name, "fields": fields, "keys": ["region"], "lookupTableId": table}
    with home.organization.transaction("test") as transaction:
        record = transaction.create(LookupTableRevision.from_wire(document))
    at = At(table, record.id)
    items = [{"region": region, "rate": Decimal(rate)} for region, rate in rates.items()]
    write_data(home.organization, "test", at, {"items": items})
    set_status(home.organization, "test", at, {"status": "PUBLISHED"})
    return at


def stored(home: Home) -> dict[str, tuple]:
    """The derived values by uid."""
    meter = meter_id(home)
    rows = home.query(
        f'SELECT uid, "measure.share", "cost.price", "what.place" FROM lake."m_{meter}"'
    )
    return {uid: tuple(values) for uid, *values in rows}


def meter_id(home: Home) -> str:
    """The id of the meter."""
    with home.organization.reading() as reader:
        return reader.find(Meter, "egress").id


def errors(home: Home) -> list[tuple]:
    """Uid, field and detail of every calculation error."""
    return home.query("SELECT uid, field, detail FROM lake.calculation_error ORDER BY ALL")


def incomplete(home: Home) -> list[int]:
    """The counts of the ledger."""
    return [
        n for (n,) in home.query("SELECT incomplete FROM lake.source ORDER BY finished_at, name")
    ]


def test_a_measurement_that_cannot_be_calculated_stays_and_is_reported(home):
    receipt = home.ingest("a.csv", HEADER + csv_row("u1", "4") + csv_row("u2", "0"))

    assert (receipt.accepted, receipt.rejected, receipt.incomplete) == (2, 0, 1)
    assert stored(home) == {
        "u1": (Decimal(25), Decimal(4), "acme@eu"),
        "u2": (None, Decimal(0), "acme@eu"),
    }
    assert errors(home) == [("u2", "share", "division by zero")]
    (shown,) = receipt.to_wire()["incompleteSample"]
    assert shown["original"] == csv_row("u2", "0").strip()
    assert (shown["row"], shown["field"], shown["reason"]) == (3, "share", "CalculationError")
    home.check()


@pytest.mark.long
def test_the_same_arrival_answers_with_the_same_receipt(home):
    first = home.ingest("a.csv", HEADER + csv_row("u2", "0"), delivery="one")

    again = home.ingest("a.csv", HEADER + csv_row("u2", "0"), delivery="one")

    assert (again.incomplete, again.errors) == (1, first.errors)
    assert incomplete(home) == [1]


def test_repeats_and_contradictions_leave_no_calculation_errors(home):
    home.ingest("a.csv", HEADER + csv_row("u1", "0") + csv_row("u2", "0"))
    more = csv_row("u1", "0") + csv_row("u2", "0", region="us") + csv_row("u3", "0")

    receipt = home.ingest("b.csv", HEADER + more)

    assert (receipt.accepted, receipt.repeats, receipt.rejected) == (1, 1, 1)
    assert receipt.incomplete == 1
    assert [row.uid for row in receipt.errors] == ["u3"]
    assert [uid for uid, *_ in errors(home)] == ["u1", "u2", "u3"]
    only_repeats = home.ingest("c.csv", HEADER + csv_row("u1", "0") + csv_row("u3", "0") + "\n")
    assert (only_repeats.repeats, only_repeats.incomplete, only_repeats.errors) == (2, 0, ())
    assert len(errors(home)) == 3
    home.check()


@pytest.mark.long
def test_a_measurement_that_lacks_two_values_counts_once(home):
    half = DERIVED[0] | {"code": "half", "calculation": "1 / (gb * 2)"}
    save(home, [DERIVED[0], half])

    receipt = home.ingest("a.csv", HEADER + csv_row("u1", "0"))

    assert receipt.incomplete == 1
    assert [field for _, field, _ in errors(home)] == ["half", "share"]


@pytest.mark.long
def test_near_misses_of_new_accounts_leave_no_calculation_errors(home):
    rows = csv_row("u1", "0", account="new") + csv_row("u2", "0", account="NEW")

    receipt = home.ingest("a.csv", HEADER + rows)

    assert (receipt.accepted, receipt.rejected, receipt.incomplete) == (1, 1, 1)
    assert [uid for uid, *_ in errors(home)] == ["u1"]


@pytest.mark.parametrize("sent", ["cost", "what"])
def test_a_measurement_does_not_bring_derived_fields(home, sent):
    row = wire_row("u1", 4) | {sent: {"price": 1 if sent == "cost" else "1"}}

    receipt = home.ingest("a.ndjson", ndjson([row]))

    assert dict(receipt.reasons) == {"UnknownField": 1}


@pytest.mark.long
def test_an_export_s_columns_of_derived_fields_are_ignored(home):
    row = csv_row("u1", "4").strip() + ",7\n"

    receipt = home.ingest("a.csv", HEADER.strip() + ",derived.price\n" + row)

    assert receipt.accepted == 1
    assert stored(home)["u1"][1] == Decimal(4)


@pytest.mark.long
def test_derived_values_do_not_count_as_content(home):
    home.ingest("a.csv", HEADER + csv_row("u1", "4"))
    publish(home, "second", {"eu": "9"})

    receipt = home.ingest("b.csv", HEADER + csv_row("u1", "4") + csv_row("u2", "4"))

    assert (receipt.repeats, receipt.accepted) == (1, 1)
    assert {uid: price for uid, (_, price, _) in stored(home).items()} == {"u1": 4, "u2": 72}


@pytest.mark.long
def test_an_account_s_own_custom_field_wins_and_new_accounts_have_the_default(home):
    gold = {"code": "gold", "name": "G", "emailAddress": "a@b.example"}
    configure(home.organization, accounts=[gold | {"customFields": {"factor": Decimal("0.5")}}])
    rows = "".join(csv_row(a, "4", account=a) for a in ("acme", "gold", "brand-new"))

    home.ingest("a.csv", HEADER + rows)

    assert {uid: (price, place) for uid, (_, price, place) in stored(home).items()} == {
        "acme": (4, "acme@eu"),
        "gold": (1, "gold@eu"),
        "brand-new": (4, "brand-new@eu"),
    }


def test_the_ledger_pins_what_was_calculated_with(home):
    gold = {"code": "gold", "name": "G", "emailAddress": "a@b.example"}
    own = {"customFields": {"factor": Decimal("0.5")}}
    configure(home.organization, accounts=[gold | own])
    at = publish(home, "second", {"eu": "9"})
    home.ingest("a.csv", HEADER + csv_row("u1", "4", account="acme"))
    home.ingest("b.csv", HEADER + csv_row("u2", "4", account="gold"))

    first, second = (
        json.loads(found)
        for (found,) in home.query("SELECT versions FROM lake.source ORDER BY name")
    )

    account = next(key for key, code in home.account_codes().items() if code == "gold")
    with home.organization.reading() as reader:
        custom: Record[CustomFields] = reader.all(CustomFields)[0]
    assert first[custom.id] == custom.version
    assert first[at.revision_id] == 2
    assert account not in first
    assert second == first | {account: 1}


@pytest.mark.long
def test_aggregations_read_derived_fields(home):
    configure(home.organization, aggregations=[PRICE_SUM])
    home.ingest("a.csv", HEADER + csv_row("u1", "4") + csv_row("u2", "0") + csv_row("u3", "6"))

    found = aggregate(home.organization, Month.parse("2026-09"))

    assert [each.value for each in found.quantities] == [Decimal(10)]
    assert found.left_out == []


@pytest.mark.long
def test_views_show_derived_fields_and_errors(home):
    home.ingest("a.csv", HEADER + csv_row("u2", "0"))
    with home.organization.lake.reader() as connection:
        connection.execute("USE memory")
        create_views(connection, home.organization)
        assert connection.execute("SELECT price, share, place FROM egress").fetchall() == [
            (Decimal(0), None, "acme@eu")
        ]
        assert connection.execute("SELECT uid, field FROM calculation_error").fetchall() == [
            ("u2", "share")
        ]


@pytest.mark.long
def test_exports_have_derived_fields_and_can_be_dropped_again(home):
    home.ingest("a.csv", HEADER + csv_row("u1", "4") + csv_row("u2", "0"))
    # Past the day on which the home was made: exports show the configuration of their day.
    home.clock.time = datetime.now(UTC) + timedelta(days=1)
    request = ExportRequest(source=Source.USAGE, format=Format.CSV)

    exported = export(home.organization, request)

    file = next(each for each in exported.manifest["files"] if each["rows"] == 2)
    data = Path(exported.url, file["key"]).read_bytes()
    header, first, *_ = gzip.decompress(data).decode().splitlines()
    derived = {"derived.share", "derived.price", "derived.place"}
    assert set(header.split(",")[-3:]) == derived
    assert "acme@eu" in first
    assert file["sums"]["derived.price"] == "4"
    assert home.ingest("again.csv.gz", data).repeats == 2


def test_what_a_meter_looks_up_is_not_taken_away(home):
    with home.organization.reading() as reader:
        (revision,) = reader.all(LookupTableRevision)
    at = At(table_id(home), revision.id)

    with pytest.raises(
        Invalid, match=r"Meter 'egress' does not fit any more .*no published revision"
    ):
        set_status(home.organization, "t", at, {"status": "ARCHIVED"})
    with pytest.raises(
        Invalid, match=r"Meter 'egress' does not fit any more .*no published revision"
    ):
        delete_revision(home.organization, "t", at)
    place = ResourceRef(BY_ENTITY[LookupTable], {}, at.table_id)
    with pytest.raises(StillReferenced):
        entities.delete(home.organization, "t", place)


@pytest.mark.long
def test_a_lake_of_an_older_version_gets_what_it_lacks(home):
    lake = home.organization.lake
    home.ingest("a.csv", HEADER + csv_row("u1", "4"))
    with lake.lock(), lake.transaction() as connection:
        connection.execute("ALTER TABLE lake.source DROP COLUMN incomplete")
        connection.execute("DROP TABLE lake.calculation_error")

    old = open_lake(home.stores.settings, home.org_id)
    with old.reader() as reader:
        assert reader.execute("SELECT incomplete FROM lake.source").fetchall() == [(None,)]
        assert reader.execute("SELECT count(*) FROM lake.calculation_error").fetchall() == [(0,)]
    old.close()
    home.organization.lake.close()
    again = home.ingest("b.csv", HEADER + csv_row("u1", "4") + csv_row("u2", "0"))
    assert (again.repeats, again.incomplete) == (1, 1)
    assert sorted(incomplete(home), key=str) == [1, None]


def test_the_first_write_completes_an_older_lake_too(home):
    lake = home.organization.lake
    with lake.lock(), lake.transaction() as connection:
        connection.execute("ALTER TABLE lake.source DROP COLUMN incomplete")
    lake.close()

    fresh = open_lake(home.stores.settings, home.org_id)
    with fresh.lock(), fresh.transaction() as writer:
        writer.execute("SELECT incomplete FROM lake.source")
    with pytest.raises(duckdb.Error), fresh.lock(), fresh.transaction() as writer:
        writer.execute("SELECT nothing FROM lake.source")
    fresh.close()
