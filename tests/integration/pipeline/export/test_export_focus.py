"""The FOCUS dataset of an organization: exported, added up, and judged by the public validator."""

import csv
import gzip
import io
import os
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.export.run import export
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stages.export.exported_columns import FOCUS, exports_of
from meterlake.stages.export.focus import FOCUS_COLUMNS
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, use
from tests.homes import ACCOUNTS, CALLS, EGRESS, configure

pytest_plugins = ["tests.doubles.fixtures"]


def exported(organization, format_, **more):
    request = ExportRequest(
        source=Source.OPERATIONAL, format=Format(format_), types=("focus",), **more
    )
    done = export(organization, request)
    [file] = done.manifest["files"]
    return Path(done.url, file["key"]).read_bytes(), file


def cells(organization, **more):
    content, _ = exported(organization, "csv", **more)
    return list(csv.DictReader(io.StringIO(gzip.decompress(content).decode())))


def totals(organization):
    with organization.reading() as reader:
        return {each.id: each.content.total for each in bills.of_period(reader)}


def billed_by_invoice(rows):
    found = defaultdict(Decimal)
    for row in rows:
        found[row["InvoiceId"]] += Decimal(row["BilledCost"])
    return dict(found)


def test_billed_costs_add_up_to_the_bills(home):
    rows = cells(home.organization)

    assert billed_by_invoice(rows) == totals(home.organization)
    assert list(rows[0]) == [column.name for column in FOCUS_COLUMNS]
    usage, standing = rows
    assert (usage["ChargeCategory"], standing["ChargeCategory"]) == ("Usage", "Purchase")
    assert usage["BillingAccountName"] == "acme, Inc."
    assert usage["ProviderName"] == "Small & Söhne"
    assert usage["SkuMeter"] == "The disk"
    assert usage["PricingQuantity"] == "0.66666666666666666667"
    assert (usage["BillingPeriodStart"], usage["ChargeClass"]) == ("2026-09-30T22:00:00Z", "")
    assert standing["PricingUnit"] == "Units"


def test_costs_are_numbers_in_parquet(home):
    content, file = exported(home.organization, "parquet")
    table = pq.read_table(io.BytesIO(content))

    assert str(table.schema.field("BilledCost").type) == "decimal128(38, 12)"
    assert sum(table.column("BilledCost").to_pylist()) == Decimal("23.47")
    assert str(table.schema.field("BillingPeriodEnd").type) == "timestamp[us, tz=UTC]"
    assert file["sums"]["BilledCost"] == {"USD": "23.47"}


def test_it_is_exported_only_where_it_is_named():
    assert FOCUS not in exports_of(Source.OPERATIONAL)
    assert exports_of(Source.OPERATIONAL, ("focus",)) == (FOCUS,)


def test_only_changed_bills_have_no_other_columns(home):
    _, file = exported(home.organization, "csv", changes_since=home.clock() + timedelta(hours=1))
    names = [column["name"] for column in file["columns"]]

    assert file["rows"] == 0
    assert names == [column.name for column in FOCUS_COLUMNS]


@pytest.fixture(scope="module")
def two_bills(every_lake, tmp_path_factory):  # noqa: ARG001
    """A home with a bill of each of two accounts, whose lines name one meter."""
    with a_home_to_bill(tmp_path_factory.mktemp("focus")) as home:
        home.clock.time = datetime.now(UTC) + timedelta(hours=1)
        bill(home.organization, Month(2026, 9))
        yield home


def renamed_meter(home):
    configure(home.organization, meters=[EGRESS | {"name": f"At {home.clock()}"}])


def renamed_account(home):
    configure(home.organization, accounts=[ACCOUNTS[0] | {"name": f"At {home.clock()}"}])


def renamed_and_back(home):
    renamed_account(home)
    home.clock.advance(hours=1)
    configure(home.organization, accounts=ACCOUNTS)


def calculated_again(home):
    use(home, (f"at {home.clock()}", "bolt", 1))
    aggregate(home.organization, Month(2026, 9))
    bill(home.organization, Month(2026, 9))


def what_no_row_shows(home):
    """An address, the name of a field, and that of a meter of which nothing is billed."""
    with home.organization.transaction("test") as t:
        acme, egress = t.find(Account, "acme"), t.find(Meter, "egress")
        address = {"emailAddress": f"{home.clock():%d%H}@acme.example"}
        fields = {
            "dataFields": [each | {"name": f"{home.clock()}"} for each in EGRESS["dataFields"]]
        }
        for each, changes in ((acme, address), (egress, fields)):
            document = each.entity.to_wire() | changes
            t.update(each.id, each.version, type(each.entity).from_wire(document))
    configure(home.organization, meters=[CALLS | {"name": f"At {home.clock()}"}])


@pytest.mark.parametrize(
    ("change", "billed"),
    [
        (renamed_meter, {"acme", "bolt"}),
        (renamed_account, {"acme"}),
        (renamed_and_back, {"acme"}),
        (calculated_again, {"bolt"}),
        (what_no_row_shows, set()),
    ],
)
def test_the_full_export_of_then_and_the_changes_are_the_full_export_of_now(
    two_bills, change, billed
):
    home, codes = two_bills, two_bills.account_codes()
    home.clock.advance(hours=1)
    since = home.clock()
    before = by_line(cells(home.organization))
    home.clock.advance(hours=1)
    change(home)
    home.clock.advance(hours=1)
    changes = by_line(cells(home.organization, changes_since=since))
    now = by_line(cells(home.organization))

    assert before | changes == now
    assert (before != now) or change in {renamed_and_back, what_no_row_shows}
    assert {codes[row["BillingAccountId"]] for row in changes.values()} == billed
    # A bill comes with all its lines, also those that name no meter.
    invoices = {row["InvoiceId"] for row in changes.values()}
    assert changes == {id_: row for id_, row in now.items() if row["InvoiceId"] in invoices}
    assert by_line(cells(home.organization, changes_since=home.clock())) == {}
    month = Month(2026, 8)
    assert cells(home.organization, changes_since=since, month=month) == []


def by_line(rows):
    return {row["x_BillLineItemId"]: row for row in rows}


# The validator calls some columns as FOCUS did before its version 1.0, and looks for another one.
OLD_NAMES = {
    "InvoiceIssuerName": "InvoiceIssuer",
    "ProviderName": "Provider",
    "PublisherName": "Publisher",
    "ResourceId": "ResourceID",
}
VALIDATOR = ("focus-validator==1.0.0", "multimethod<2", "setuptools<80")


@pytest.fixture(scope="module")
def validator():
    """The folder of an environment with the validator; made once on a machine."""
    folder = Path(tempfile.gettempdir(), "meterlake-focus-validator")
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "-q", *VALIDATOR]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"the validator cannot be installed: {done.stderr.strip()[-300:]}")
        (folder / "made").touch()
    return folder


@pytest.mark.slow
def test_the_public_validator_finds_no_fault(validator, tmp_path):
    with a_home_to_bill(tmp_path) as home:
        for month in (8, 9):
            bill(home.organization, Month(2026, month))
        rows = cells(home.organization)
        assert billed_by_invoice(rows) == totals(home.organization)
    path, report = tmp_path / "focus.csv", tmp_path / "report.xml"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(OLD_NAMES.get(name, name) for name in rows[0]), "ChargeType"])
        writer.writerows([*row.values(), row["ChargeCategory"]] for row in rows)

    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    done = subprocess.run(
        [
            validator / "bin" / "focus-validator",
            *("--data-file", path, "--validate-version", "1.0"),
            *("--output-type", "unittest", "--output-destination", report),
        ],
        # Where it looks for its list of currencies.
        cwd=validator / "lib" / version / "site-packages",
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = report.read_text()
    assert "<failure" not in found, found
    assert found.count("<testcase") > 100
