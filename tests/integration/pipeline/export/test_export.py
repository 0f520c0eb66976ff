import csv
import gzip
import hashlib
import io
import json
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from meterlake.model.errors import Invalid
from meterlake.model.measurements.measurement import Category, Field
from meterlake.model.values.money import exact
from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import Exported, export
from meterlake.stages.export.exported_columns import EXPORTS, Kind, exports_of
from meterlake.stages.export.manifest import ExportPart, ObjectPrefix
from meterlake.stores import open_stores
from tests.doubles.homes import FIELDS, ROWS, make_home
from tests.long_cases import long_after

pytest_plugins = ["tests.doubles.fixtures"]

OCTOBER = Month(2026, 10)
# A row whose fields are not all those of its meter names its own.
EXPECTED_CSV = (
    "meter,account,uid,ts,ets,meterFields,what.region,metadata.note,measure.bytes,cost.egress\n"
    'disk,zoë\'s,U-2,2026-09-30T22:30:00Z,,,"q""uo,te","a\nb",99999999999999999999999999.999999999999,7\n'
    "disk,acme,u-1,2026-10-01T00:00:00.000001Z,2026-10-01T01:00:00Z,measure.bytes,,,-0.000000000001,\n"
    "disk,acme,u-3,2026-10-31T23:30:00Z,,what.region measure.bytes cost.egress,eu,,1.5,0\n"
    "disk,acme,u-4,2026-10-15T12:00:00.12Z,,,ü€😀\\, ,100,20.5\n"
    "disk,acme,ü,2026-11-01T00:00:00Z,,what.region metadata.note cost.egress,=1+1,\x01,,1000000\n"
)


def usage(format: str, **rest) -> ExportRequest:
    return ExportRequest(source=Source.USAGE, format=Format(format), **rest)


def operational(format: str, **rest) -> ExportRequest:
    return ExportRequest(source=Source.OPERATIONAL, format=Format(format), **rest)


def content(exported: Exported, type: str) -> bytes:
    [file] = [file for file in exported.manifest["files"] if file["type"] == type]
    return Path(exported.url, file["key"]).read_bytes()


def lines(exported: Exported, type: str) -> list:
    text = gzip.decompress(content(exported, type)).decode()
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


def cells(exported: Exported, type: str) -> list[dict]:
    text = gzip.decompress(content(exported, type)).decode()
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.long
def test_measurements_as_csv_have_the_columns_of_the_drop_folder(home):
    organization = home.organization
    exported = export(organization, usage("csv"))

    assert gzip.decompress(content(exported, "measurements")).decode() == EXPECTED_CSV


@pytest.mark.long
def test_measurements_as_json_lines_have_the_shape_of_the_wire(home):
    organization = home.organization
    found = lines(export(organization, usage("jsonl")), "measurements")

    assert found[0] == {
        "meter": "disk",
        "account": "zoë's",
        "uid": "U-2",
        "ts": "2026-09-30T22:30:00Z",
        "what": {"region": 'q"uo,te'},
        "metadata": {"note": "a\nb"},
        "measure": {"bytes": Decimal("99999999999999999999999999.999999999999")},
        "cost": {"egress": 7},
    }
    assert found[1] == {
        "meter": "disk",
        "account": "acme",
        "uid": "u-1",
        "ts": "2026-10-01T00:00:00.000001Z",
        "ets": "2026-10-01T01:00:00Z",
        "meterFields": "measure.bytes",
        "measure": {"bytes": Decimal("-0.000000000001")},
    }
    assert found[3]["what"] == {"region": "ü€😀\\"}
    assert found[4]["metadata"] == {"note": "\x01"}


@pytest.mark.long
def test_measurements_as_parquet_keep_their_types(home):
    organization = home.organization
    table = pq.read_table(
        io.BytesIO(content(export(organization, usage("parquet")), "measurements"))
    )
    kinds = {field.name: str(field.type) for field in table.schema}

    assert kinds["measure.bytes"] == "decimal128(38, 12)"
    assert kinds["ts"] == "timestamp[us, tz=UTC]"
    assert kinds["what.region"] == "string"
    assert table.column("uid").to_pylist() == ["U-2", "u-1", "u-3", "u-4", "ü"]
    assert table.column("measure.bytes").to_pylist()[:2] == [
        Decimal("99999999999999999999999999.999999999999"),
        Decimal("-0.000000000001"),
    ]


def test_the_manifest_tells_what_was_written(home):
    organization = home.organization
    exported = export(organization, usage("csv"))
    manifest = json.loads(Path(exported.manifest_url).read_text(), parse_float=Decimal)
    measurements, quantities = manifest["files"]

    assert manifest == exported.manifest
    assert manifest["orgId"] == organization.id
    assert manifest["organization"] == "small-sohne"
    assert manifest["snapshot"] == organization.lake.snapshot()
    assert manifest["created"] == "2026-11-03T10:30:00Z"
    assert measurements["meter"] == "disk"
    assert measurements["rows"] == 5
    assert measurements["sums"] == {
        "measure.bytes": "100000000000000000000000101.499999999998",
        "cost.egress": "1000027.5",
    }
    assert quantities["sums"]["quantity"] == "0.66666666666666666667"
    assert quantities["rows"] == 1
    assert manifest["rows"] == exported.rows == 6
    for file in manifest["files"]:
        stored = Path(exported.url, file["key"]).read_bytes()
        assert file["bytes"] == len(stored)
        assert file["sha256"] == hashlib.sha256(stored).hexdigest()


@pytest.mark.long
def test_keys_follow_from_the_job(home):
    organization = home.organization
    exported = export(organization, usage("csv"))
    hour = f"orgId={organization.id}/date=2026-11-03/hour=10"
    [key] = [file["key"] for file in exported.manifest["files"] if file["type"] == "measurements"]
    unique, label, rest = key.removeprefix(f"{hour}/type=measurements/").split("_")

    assert uuid.UUID(unique).version == 5
    assert (label, rest) == ("disk", "measurements.csv.gz")
    assert exported.manifest_url.endswith(f"{hour}/{exported.job_id}_manifest.json")
    assert Path(exported.url) == organization.stores.home / "exports" / "small-sohne"


def test_names_are_safe_whatever_the_meter_is_called():
    place = ObjectPrefix("o", str(uuid.uuid4()), datetime(2026, 1, 1, tzinfo=UTC))
    keys = {
        place.file_key(ExportPart("measurements", str(number), label), Format.CSV)
        for number, label in enumerate(["../x", "a b/ü", "", "x" * 80, "..", "A", "a"])
    }
    assert len(keys) == 7
    assert all(key.count("/") == 4 and ".." not in key and key.isascii() for key in keys)


def test_hours_have_no_leading_zero_and_are_those_of_utc():
    east = timezone(timedelta(hours=1))
    place = ObjectPrefix("o", str(uuid.uuid4()), datetime(2026, 1, 1, 0, 59, tzinfo=east))

    assert place.manifest_key() == f"orgId=o/date=2025-12-31/hour=23/{place.job_id}_manifest.json"
    early = replace(place, created=datetime(2026, 1, 1, 7, tzinfo=UTC))
    assert early.manifest_key().startswith("orgId=o/date=2026-01-01/hour=7/")


@pytest.mark.long
def test_a_month_is_a_month_in_the_organizations_time_zone(home):
    organization = home.organization
    exported = export(organization, usage("jsonl", month=OCTOBER))
    found = [row["uid"] for row in lines(exported, "measurements")]

    # The hours around midnight in Berlin: U-2 is October's, u-3 and ü are November's.
    assert found == ["U-2", "u-1", "u-4"]
    assert exported.manifest["period"] == {
        "start": "2026-09-30T22:00:00Z",
        "end": "2026-10-31T23:00:00Z",
    }
    [quantity] = lines(exported, "quantities")
    assert quantity["quantity"] == Decimal("0.66666666666666666667")
    empty = export(organization, usage("csv", month=Month(2026, 12)))
    assert [file["rows"] for file in empty.manifest["files"]] == [0, 0]
    assert empty.manifest["files"][0]["sums"]["measure.bytes"] is None


@pytest.mark.long
def test_quantities_of_every_frequency_and_segment_are_told_apart(home):
    segment = '{"region":"eu"}'
    changes = (
        "'daily' AS run_id, NULL AS month, 'DAILY' AS frequency, '2026-10-02' AS period",
        f"'old' AS run_id, computed_at - INTERVAL 1 YEAR AS computed_at, '{segment}' AS segment",
        f"'new' AS run_id, computed_at + INTERVAL 1 YEAR AS computed_at, '{segment}' AS segment",
    )
    with home.lake.lock(), home.lake.transaction() as connection:
        newest = "FROM lake.quantity WHERE run_id = 'run-2'"
        for change in changes:
            query = f"SELECT * REPLACE ({change}) {newest}"
            connection.execute(f"INSERT INTO lake.quantity BY NAME {query}")
    found = lines(export(home.organization, usage("jsonl")), "quantities")
    names = ("month", "frequency", "period", "segment")

    assert [tuple(row.get(name) for name in names) for row in found] == [
        ("2026-10", "MONTHLY", "2026-10", segment),
        (None, "DAILY", "2026-10-02", None),
    ]


def test_every_kind_of_configuration_is_exported(home):
    organization = home.organization
    exported = export(organization, operational("jsonl"))
    names = [file["type"] for file in exported.manifest["files"]]

    assert names == [each.key_type for each in exports_of(Source.OPERATIONAL)]
    [plan] = lines(exported, "plan")
    [template] = lines(exported, "plantemplate")
    assert plan["productId"] == template["productId"]
    assert template["standingCharge"] == Decimal("9.9")
    assert template["dtCreated"].endswith("Z")
    assert {row["code"] for row in lines(exported, "account")} == {"acme", "zoë's"}


def test_nested_values_are_flat_in_csv(home):
    organization = home.organization
    exported = export(organization, operational("csv"))
    account = cells(exported, "account")[0]
    [pricing] = cells(exported, "pricing")
    [plan] = cells(exported, "plan")

    assert account["address.addressLine1"] == 'Street "1"'
    assert account["address.country"] == "DE"
    assert account["address.region"] == ""
    assert account["customFields"] == "{}"
    assert (
        json.loads(pricing["pricingBands"], parse_float=str)[0]["unitPrice"]
        == "0.00000000000000000001"
    )
    assert pricing["cumulative"] == "false"
    assert pricing["startDate"] == "2026-01-01T00:00:00Z"
    assert plan["productId"]  # computed, not written by a caller


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_bills_and_lines_are_exact(home, format):
    organization = home.organization
    exported = export(organization, operational(format, types=("bills", "billLineItems")))
    bill_file, line_file = exported.manifest["files"]

    assert bill_file["sums"] == {"billTotal": {"USD": "23.47"}}
    assert line_file["sums"]["convertedSubtotal"] == {"USD": "23.47"}
    assert line_file["sums"]["quantity"] == "1.66666666666666666667"
    if format == "parquet":
        [bill] = pq.read_table(io.BytesIO(content(exported, "bill"))).to_pylist()
        assert bill["billTotal"] == Decimal("23.47")
        assert bill["billDate"] == date(2026, 11, 1)
        assert bill["startDateTimeUTC"] == datetime(2026, 9, 30, 22, tzinfo=UTC)
        usage_line, _ = pq.read_table(io.BytesIO(content(exported, "billlineitem"))).to_pylist()
        assert usage_line["quantity"] == "0.66666666666666666667"
        assert json.loads(usage_line["bandUsage"]) == [{"lowerLimit": 0, "unitPrice": 18.51}]
    else:
        [bill] = (lines if format == "jsonl" else cells)(exported, "bill")
        assert str(bill["billTotal"]) == "23.47"
        assert bill["endDateTimeUTC"] == "2026-10-31T23:00:00Z"


@pytest.mark.long
def test_an_organization_without_anything_has_an_export(tmp_path):
    made, clock = make_home(tmp_path / "home")
    with open_stores(made, clock) as stores:
        organization = stores.find_organization()
        for written_as in Format:
            assert [
                file["rows"] for file in export(organization, usage(written_as)).manifest["files"]
            ] == [0]
            assert export(organization, operational(written_as)).rows > 0


def test_what_cannot_be_exported_is_named(home):
    organization = home.organization
    with pytest.raises(Invalid, match="export type: 'nothing'"):
        export(organization, usage("csv", types=("nothing",)))
    with pytest.raises(Invalid, match="object store"):
        export(organization, usage("csv", to="ftp://x/y"))
    assert organization.state.jobs.recent(organization.id) == []


def test_all_columns_of_operational_types_are_unlike():
    for each in exports_of(Source.OPERATIONAL):
        names = [column.name.casefold() for column in each.columns]
        assert len(set(names)) == len(names)
        assert all(isinstance(column.kind, Kind) for column in each.columns)


# Numbers that are no money.
NO_MONEY = {
    "CommitmentDiscountQuantity",
    "ConsumedQuantity",
    "PricingQuantity",
    "conversionRate",
    "defaultValue",
    "lowerLimit",
    "overageSurchargePercent",
    "percentile",
    "quantity",
    "quantityPerUnit",
    "reviewTotalPercent",
    "scheduledBillInterval",
    "units",
    "x_ConversionRate",
    "x_Quantity",
}


def test_of_every_number_it_is_known_whether_it_is_money():
    for each in EXPORTS:
        names = {column.name for column in each.columns}
        for column in each.columns:
            if column.kind in {Kind.NUMBER, Kind.EXACT} and column.currency == "":
                assert column.name.rpartition(".")[2] in NO_MONEY, each.name
            assert not column.currency or column.currency in names


@pytest.mark.long
def test_measurements_of_a_deleted_field_are_still_exported(home):
    organization = home.organization
    meter = home.meter("changing", (Field(Category.WHAT, "old"),))
    home.store(meter, [("c-1", "acme", "2026-10-01 00:00:00", None, "x")])
    snapshot = home.lake.snapshot()
    home.store(meter.__class__(meter.id, 2, "changing", FIELDS), [("c-2", *ROWS[0][1:])])
    exported = export(organization, usage("jsonl"))
    [file] = [each for each in exported.manifest["files"] if each.get("meter") == "changing"]

    assert [column["name"] for column in file["columns"][5:]] == [
        "meterFields",
        "what.old",
        "what.region",
        "metadata.note",
        "measure.bytes",
        "cost.egress",
    ]
    assert file["rows"] == 2
    assert exported.manifest["snapshot"] == snapshot + 1


@pytest.mark.parametrize("count", long_after(2, [2, 40, 1, 11]))
def test_sums_are_exact_where_they_need_more_than_38_digits(home, count):
    meter = home.meter("huge", FIELDS[:1])
    huge = Decimal("99999999999999999999999999.999999999999")
    home.store(meter, [(f"h-{n}", "acme", "2026-10-02 00:00:00", None, huge) for n in range(count)])
    exported = export(home.organization, usage("parquet"))
    [file] = [each for each in exported.manifest["files"] if each.get("meter") == "huge"]

    with exact():
        assert Decimal(file["sums"]["measure.bytes"]) == huge * count
