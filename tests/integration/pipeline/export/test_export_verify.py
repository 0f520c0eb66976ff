"""An export is compared with its manifest: what is well is silent, whatever is wrong is told."""

import csv
import gzip
import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meterlake.model.catalog.catalog import Product
from meterlake.model.configuration.organization import Currency
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.customers.charges import Charge
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import Exported, export
from meterlake.pipeline.export.verify import verify
from meterlake.settings import Settings
from tests.databases import copy_home
from tests.doubles.homes import FIELDS

pytest_plugins = ["tests.doubles.fixtures"]

BILLED = ("bills", "billLineItems")
PRICED = ("products", "planTemplates", "plans", "charges", "pricingBands")


@pytest.fixture(scope="module")
def exports(home_template, tmp_path_factory) -> Path:
    """One folder with an export of every source in every format."""
    from meterlake.stores import open_stores
    from tests.doubles.homes import Clock, Home

    folder = tmp_path_factory.mktemp("verified")
    copy_home(home_template, folder / "home")
    clock = Clock()
    with open_stores(Settings(home=folder / "home"), clock) as stores:
        home = Home.of(stores, clock)
        home.meter("empty", FIELDS)
        charge(home)
        kinds = {
            "usage": {"source": Source.USAGE},
            "folded": {
                "source": Source.USAGE,
                "types": ("measurements",),
                "usage": folded(home.meter_id),
            },
            "operational": {"source": Source.OPERATIONAL, "types": BILLED},
            "priced": {"source": Source.OPERATIONAL, "types": PRICED},
        }
        for name, kind in kinds.items():
            for written_as in Format:
                to = str(folder / f"{name}-{written_as}")
                export(
                    stores.organization(home.org_id),
                    ExportRequest(format=written_as, to=to, **kind),
                )
    return folder


def charge(home) -> None:
    """Amounts in two currencies; cells that are long, and that have an odd end of a line."""
    shared = {
        "accountId": home.accounts["acme"],
        "entityType": "AD_HOC",
        "lineItemType": "AD_HOC",
        "servicePeriodStartDate": "2026-01-01T00:00:00Z",
        "servicePeriodEndDate": "2026-02-01T00:00:00Z",
        "notes": "long " * 30_000,
    }
    amounts = [
        ("EUR", {"amount": 5}),
        ("USD", {"amount": 7}),
        ("USD", {"units": 2, "unitPrice": 3}),
    ]
    with home.organization.transaction("test") as transaction:
        transaction.create(Currency.from_wire({"name": "Euro", "code": "EUR"}))
        transaction.create(Product.from_wire({"name": "Two\rlines", "code": "two"}))
        for number, (currency, more) in enumerate(amounts):
            named = {"name": "Setup", "code": f"c{number}", "currency": currency}
            transaction.create(Charge.from_wire({**shared, **named, **more}))


def folded(meter_id: str) -> UsageQueryRequest:
    """Some folds of a field whose sum has more digits than a column of the lake."""
    fold = {"meterId": meter_id, "fieldCode": "bytes", "fieldType": "MEASURE"}
    text = {"meterId": meter_id, "fieldCode": "region", "fieldType": "DIMENSION"}
    return UsageQueryRequest.model_validate(
        {
            "aggregations": [
                *({**fold, "function": each} for each in ("SUM", "MEAN", "MAX", "COUNT")),
                {**text, "function": "UNIQUE"},
            ],
            "groups": [{"groupType": "ACCOUNT"}, {"groupType": "TIME", "frequency": "DAY"}],
        }
    )


@pytest.fixture
def made(exports, tmp_path) -> Callable[[str], Path]:
    """The manifest of a copy of one of them."""

    def copied(name: str) -> Path:
        shutil.copytree(exports / name, tmp_path / name)
        return manifest_of(tmp_path / name)

    return copied


def manifest_of(folder: Path) -> Path:
    [path] = folder.rglob("*_manifest.json")
    return path


def problems(manifest: Path) -> list[str]:
    return [problem.what for problem in verify(Settings(), manifest)]


def changed(manifest: Path, change: Callable[[dict], object]) -> None:
    document = json.loads(manifest.read_text())
    change(document)
    manifest.write_text(json.dumps(document))


def file_of(manifest: Path, type: str) -> Path:
    """The file of a type; its root is four folders above the manifest."""
    [path] = manifest.parent.glob(f"type={type}/*")
    return path


def rewritten(manifest: Path, type: str, content: bytes) -> None:
    """Another content, which the manifest says all the same to be the right one."""
    path = file_of(manifest, type)
    path.write_bytes(content)

    def fits(document):
        [entry] = [file for file in document["files"] if file["key"].endswith(path.name)]
        document["bytes"] += len(content) - entry["bytes"]
        entry["bytes"] = len(content)
        entry["sha256"] = hashlib.sha256(content).hexdigest()

    changed(manifest, fits)


@pytest.mark.parametrize("written_as", list(Format))
@pytest.mark.parametrize("source", ["usage", "folded", "operational"])
def test_what_was_exported_is_as_its_manifest_says(exports, source, written_as):
    manifest = manifest_of(exports / f"{source}-{written_as}")

    assert verify(Settings(), str(manifest)) == []
    assert all(len(file["sums"]) > 0 for file in json.loads(manifest.read_text())["files"])


def test_columns_have_types_and_money_is_summed_for_each_currency(exports):
    manifest = json.loads(manifest_of(exports / "operational-csv").read_text())
    bill, line = manifest["files"]
    columns = {column["name"]: column for column in line["columns"]}

    assert bill["sums"] == {"billTotal": {"USD": "23.47"}}
    assert line["sums"]["subtotal"] == {"EUR": "12.34", "USD": "9.9"}
    assert line["sums"]["convertedSubtotal"] == {"USD": "23.47"}
    assert line["sums"]["quantity"] == "1.66666666666666666667"
    assert columns["subtotal"] == {"name": "subtotal", "type": "number", "currency": "currency"}
    assert columns["servicePeriodEndDate"]["type"] == "instant"
    assert columns["bandUsage"]["type"] == "json"
    assert manifest["configurationTime"] == manifest["created"] == "2026-11-03T10:30:00Z"


def test_money_of_several_currencies_is_never_one_sum(exports):
    manifest = json.loads(manifest_of(exports / "priced-csv").read_text())
    files = {file["type"]: file for file in manifest["files"]}
    columns = {column["name"]: column for column in files["plan"]["columns"]}

    assert files["charge"]["sums"] == {
        "amount": {"EUR": "5", "USD": "7"},
        "units": "2",
        "unitPrice": {"USD": "3"},
    }
    assert files["plantemplate"]["sums"]["standingCharge"] == {"USD": "9.9"}
    # The currency of a plan is its template's, and that of a band its plan's: no row has it.
    assert files["plan"]["sums"] == {}
    assert columns["standingCharge"] == {
        "name": "standingCharge",
        "type": "exact",
        "currency": None,
    }
    assert files["pricingband"]["sums"] == {"lowerLimit": "0"}


@pytest.mark.parametrize("written_as", list(Format))
def test_counts_are_summed_and_versions_are_not(exports, written_as):
    [file] = json.loads(manifest_of(exports / f"folded-{written_as}").read_text())["files"]
    usage = json.loads(manifest_of(exports / f"usage-{written_as}").read_text())
    quantities = usage["files"][-1]

    assert file["sums"]["measure.bytes.COUNT"] == file["sums"]["what.region.UNIQUE"] == "4"
    types = {
        column["name"]: column["type"] for column in [*file["columns"], *quantities["columns"]]
    }
    assert types["measure.bytes.COUNT"] == types["measurements"] == "count"
    assert quantities["sums"] == {
        "quantity": "0.66666666666666666667",
        "units": "0.66666666666666666667",
        "measurements": "3",
    }


@pytest.mark.long
@pytest.mark.parametrize("written_as", list(Format))
def test_long_cells_and_odd_ends_of_lines_are_no_damage(exports, written_as):
    usual = csv.field_size_limit(131_072)  # as where nobody has raised it
    try:
        assert problems(manifest_of(exports / f"priced-{written_as}")) == []
    finally:
        csv.field_size_limit(usual)


def test_a_manifest_that_was_taken_elsewhere_with_its_files_is_enough(exports, tmp_path):
    for path in (exports / "operational-parquet").rglob("*.*"):
        shutil.copy(path, tmp_path / path.name)
    manifest = manifest_of(tmp_path).rename(tmp_path / "manifest.json")

    assert problems(manifest) == []
    next(tmp_path.glob("*_bill.parquet")).unlink()
    assert problems(manifest) == ["it is not there"]


@pytest.mark.parametrize("name", [f"operational-{each}" for each in Format])
def test_a_file_that_is_gone_or_cut_off_or_changed_is_told(made, name):
    manifest = made(name)
    bill, line = file_of(manifest, "bill"), file_of(manifest, "billlineitem")
    bill.unlink()
    whole = line.read_bytes()
    line.write_bytes(whole[:-9])
    gone, unreadable, size = verify(Settings(), manifest)

    assert (gone.what, gone.file.rpartition("/")[2]) == ("it is not there", bill.name)
    assert unreadable.what.startswith("its content cannot be read: ")
    assert size.what == f"it has {len(whole) - 9:,} bytes, not {len(whole):,}"
    assert size.file.endswith(line.name)

    line.write_bytes(whole[:9] + bytes([whole[9] ^ 1]) + whole[10:])
    assert problems(manifest)[-1].startswith("its SHA-256 is ")


@pytest.mark.parametrize("written_as", ["csv", "jsonl"])
def test_another_content_is_told_though_its_checksum_is_right(made, written_as):
    manifest = made(f"operational-{written_as}")
    lines = gzip.decompress(file_of(manifest, "billlineitem").read_bytes()).splitlines(True)
    lines = [line.replace(b"12.34", b"12.35") for line in [*lines, lines[-1]]]
    rewritten(manifest, "billlineitem", gzip.compress(b"".join(lines)))

    assert problems(manifest) == [
        "it has 3 rows, not 2",
        "the sum of averageUnitPrice is 18.51 EUR, 19.8 USD, not 18.51 EUR, 9.9 USD",
        "the sum of conversionRate is 3.1, not 2.1",
        "the sum of convertedSubtotal is 33.37 USD, not 23.47 USD",
        "the sum of quantity is 2.66666666666666666667, not 1.66666666666666666667",
        "the sum of subtotal is 12.35 EUR, 19.8 USD, not 12.34 EUR, 9.9 USD",
        "the sum of units is 2.66666666666666666667, not 1.66666666666666666667",
    ]


def test_another_content_of_parquet_is_told(made):
    manifest = made("usage-parquet")
    [path] = manifest.parent.glob("type=measurements/*_disk_*")
    table = pq.read_table(path).slice(1)
    pq.write_table(table, path)

    assert problems(manifest)[:3] == [
        "it has 4 rows, not 5",
        "the sum of cost.egress is 1000020.5, not 1000027.5",
        "the sum of measure.bytes is 101.499999999999, not 100000000000000000000000101.499999999998",
    ]
    pq.write_table(table.rename_columns([f"x{n}" for n in range(table.num_columns)]), path)
    assert "columns" in problems(manifest)[0]
    pq.write_table(pa.table({}), path)
    assert "columns" in problems(manifest)[0]


def test_a_column_of_another_type_is_told_though_its_sum_is_right(made):
    manifest = made("operational-parquet")
    table = pq.read_table(file_of(manifest, "bill"))
    place = table.column_names.index("billTotal")
    content = io.BytesIO()
    pq.write_table(
        table.set_column(place, "billTotal", table.column(place).cast(pa.string())), content
    )
    rewritten(manifest, "bill", content.getvalue())

    [wrong] = problems(manifest)
    assert "billTotal string" in wrong
    assert "decimal128(38, 12)" in wrong


@pytest.mark.parametrize(
    ("source", "type", "change", "told"),
    [
        ("operational", "bill", (b'"timezone"', b'"timeZone"'), "'timeZone'"),
        ("priced", "charge", (b'"name"', b'"more":{"x":{"y":null,"z":1}},"name"'), "'more.x.z'"),
        ("priced", "charge", (b'"name"', b'"more":{"x":{"y":null}},"name"'), ""),
        ("operational", "billlineitem", (b'"madeFrom":{', b'"madeFrom":{"x":1,'), ""),
    ],
)
def test_a_member_that_is_no_column_is_told(made, source, type, change, told):
    manifest = made(f"{source}-jsonl")
    lines = gzip.decompress(file_of(manifest, type).read_bytes())
    assert change[0] in lines
    rewritten(manifest, type, gzip.compress(lines.replace(*change)))

    assert [told in each for each in problems(manifest)] == [True] * bool(told)


def test_a_header_with_other_columns_and_rows_of_other_lengths_are_told(made):
    manifest = made("operational-csv")
    lines = gzip.decompress(file_of(manifest, "bill").read_bytes()).splitlines(True)
    rewritten(manifest, "bill", gzip.compress(lines[0].replace(b"billTotal", b"x") + lines[1]))
    [wrong] = problems(manifest)
    assert "columns" in wrong

    rewritten(manifest, "bill", gzip.compress(lines[0] + b"1,2\n"))
    [wrong] = problems(manifest)
    assert "cells" in wrong


def test_a_manifest_that_contradicts_itself_is_told(made):
    manifest = made("operational-csv")
    changed(manifest, lambda document: document.update(rows=9))
    assert problems(manifest) == ["its files have 3 rows together, not 9"]

    changed(manifest, lambda document: document.update(rows=4, bytes=0))
    changed(manifest, lambda document: document["files"].append(document["files"][0]))
    [total, twice] = verify(Settings(), manifest)
    assert total.what.endswith("bytes together, not 0")
    assert twice.to_wire() == {"file": "manifest", "problem": "a file is in it twice"}


@pytest.mark.parametrize("key", [5, None, [], {}])
def test_a_key_that_is_no_text_is_refused(made, key):
    manifest = made("operational-csv")
    changed(manifest, lambda document: document["files"][0].update(key=key))

    with pytest.raises(
        Invalid, match=r"_manifest.json: files\[0\]\.key: .* is not allowed: it must be text"
    ):
        problems(manifest)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"format": "xml"},
            "format: 'xml' is not allowed: it must be one of 'csv', 'jsonl' or 'parquet'",
        ),
        ({"rows": "three"}, "rows: 'three' is not allowed: "),
        ({"bytes": -1}, "bytes: -1 is not allowed: "),
        ({"files": {}}, "files: {} is not allowed: it must be a list"),
        ({"files": [5]}, "files\\[0\\]: 5 is not allowed: it must be a map"),
    ],
)
def test_what_is_wrong_in_a_manifest_is_named(made, change, sentence):
    manifest = made("operational-csv")
    changed(manifest, lambda document: document.update(change))

    with pytest.raises(Invalid, match=f"^manifest .*_manifest.json: {sentence}"):
        problems(manifest)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rows": None}, "files\\[0\\]\\.rows: null"),
        ({"sha256": "abc"}, "files\\[0\\]\\.sha256: 'abc'"),
        ({"sums": []}, "files\\[0\\]\\.sums: \\[\\] is not allowed: it must be a map"),
        (
            {"sums": {"x": "1,5"}},
            "files\\[0\\]\\.sums\\.x: '1,5' is not allowed: it must be sums as text",
        ),
        ({"sums": {"x": "1e999999999"}}, "files\\[0\\]\\.sums\\.x: '1e999999999' is not allowed"),
        (
            {"sums": {"x": {"EUR": "NaN"}}},
            "files\\[0\\]\\.sums\\.x: .* is not allowed: it must be sums as",
        ),
        (
            {"columns": [{"name": "x", "type": "money"}]},
            "columns\\[0\\]: .* is not allowed: it must be a column",
        ),
        (
            {"columns": [5]},
            "columns\\[0\\]: 5 is not allowed: it must be a column: its name, and its type",
        ),
    ],
)
def test_what_is_wrong_with_a_file_of_a_manifest_is_named(made, change, sentence):
    manifest = made("operational-csv")
    changed(manifest, lambda document: document["files"][0].update(change))

    with pytest.raises(Invalid, match=sentence):
        problems(manifest)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "JSON: "),
        ("{", "JSON: "),
        ("[]", r"\[\] is not allowed: it must be a JSON object"),
        ("null", "null is not allowed: it must be a JSON object"),
        ("{}", "format is required; "),
    ],
)
def test_what_is_no_manifest_is_told_by_its_name(tmp_path, content, sentence):
    path = tmp_path / "manifest.json"
    path.write_text(content)

    with pytest.raises(Invalid, match=f"manifest.*{path}.*{sentence}"):
        verify(Settings(), path)


@pytest.mark.parametrize(
    ("written_as", "change", "told"),
    [
        (
            "csv",
            (b"12.34", b"twelve"),
            "row 1: subtotal: 'twelve' is not allowed: it must be a number",
        ),
        ("jsonl", (b"12.34", b'"twelve"'), "row 1: subtotal: 'twelve' is not allowed"),
        (
            "csv",
            (b"12.34", b"1e99999999"),
            "row 1: subtotal: '1e99999999' is not allowed: it must be a number",
        ),
        ("jsonl", (b"12.34", b"{}"), "row 1: subtotal: {} is not allowed: it must be a number"),
        ("jsonl", (b"\n", b"\n[1]\n"), "row 2: [1] is not allowed: it must be a JSON object"),
        ("jsonl", (b"\n", b"\n{\n"), "row 2: '{\\n' is not allowed: it must be JSON: "),
        ("csv", (b"\n", b"\n1,2\n"), "cells, not 2"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(made, written_as, change, told):
    manifest = made(f"operational-{written_as}")
    content = gzip.decompress(file_of(manifest, "billlineitem").read_bytes())
    assert change[0] in content
    rewritten(manifest, "billlineitem", gzip.compress(content.replace(*change, 1)))

    [wrong] = problems(manifest)
    assert wrong.startswith("its content cannot be read: row ")
    assert told in wrong


@pytest.mark.parametrize("url", ["s3://bucket", "gs://bucket"])
def test_a_url_without_a_key_is_no_manifest(url):
    with pytest.raises(Invalid, match="a scheme, a bucket and a key"):
        verify(Settings(), url)


def test_a_key_that_leads_elsewhere_is_not_followed(made):
    manifest = made("operational-csv")
    changed(manifest, lambda document: document["files"][0].update(key="../../etc/passwd"))

    assert "object key" in problems(manifest)[0]


@pytest.mark.parametrize("written_as", list(Format))
def test_a_manifest_of_an_older_version_is_read(made, written_as):
    manifest = made(f"usage-{written_as}")

    def older(document):
        for file in document["files"]:
            file["columns"] = [column["name"] for column in file["columns"]]

    changed(manifest, older)
    assert problems(manifest) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"files": [{}]}', '{"files": 1}', "null"])
def test_what_is_no_manifest_is_refused(tmp_path, content):
    path = tmp_path / "manifest.json"
    path.write_text(content)

    with pytest.raises(Invalid):
        verify(Settings(), path)
    with pytest.raises(NotFound):
        verify(Settings(), tmp_path / "none.json")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["moto", pytest.param("gs", marks=pytest.mark.slow)])
def test_exports_in_buckets_are_verified(home, new_place, kind):
    place = new_place(kind)
    endpoints = place.settings.model_dump(
        include={"s3_endpoint", "gcs_endpoint"}, exclude_none=True
    )
    home.stores.settings = home.stores.settings.model_copy(update=endpoints)
    request = ExportRequest(source=Source.USAGE, format=Format.PARQUET, to=place.url)
    exported: Exported = export(home.organization, request)

    assert verify(place.settings, exported.manifest_url) == []
    gone = exported.manifest["files"][0]["key"]
    place.open().delete(gone)
    [problem] = verify(place.settings, exported.manifest_url)
    assert (problem.file, problem.what) == (gone, "it is not there")
