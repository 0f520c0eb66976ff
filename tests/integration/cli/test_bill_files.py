"""`meterlake bill statement` and `bill document`: printed, or written into a file."""

import csv
import io
import json
import re
import zipfile
from pathlib import Path

import pytest

from meterlake.cli import run
from tests.bills import a_home_to_bill
from tests.document_world import pages_of
from tests.statement_world import SEPTEMBER, bill_ids

NOBODY = "5d9d4a3e-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    from meterlake.pipeline.billing.jobs.jobs import bill

    with a_home_to_bill(tmp_path_factory.mktemp("statement")) as found:
        bill(found.organization, SEPTEMBER)
        yield found


@pytest.fixture
def at(home):
    return ["--home", str(home.stores.home)]


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["one"], 1, "no bill 'one'"),
        ([NOBODY], 1, f"no bill '{NOBODY}'"),
        ([NOBODY, "--format", "pdf"], 2, "format"),
        ([], 2, "BILL"),
    ],
)
def test_what_is_no_bill_or_no_format_is_refused(at, capsys, arguments, code, error):
    assert run(["bill", "statement", *arguments, *at]) == code
    captured = capsys.readouterr()
    assert error in captured.err
    assert captured.out == ""


def test_a_folder_is_no_file(home, at, tmp_path, capsys):
    bill_id = bill_ids(home)[0]
    for path in (tmp_path, tmp_path / "none" / "file"):
        assert run(["bill", "statement", bill_id, "--to", str(path), *at]) == 1
        assert "a file in a folder that exists" in capsys.readouterr().err


@pytest.mark.long
def test_a_statement_is_printed_in_both_formats_and_written_into_a_file(home, at, tmp_path, capsys):
    bill_id = bill_ids(home)[0]
    assert run(["bill", "statement", bill_id, *at]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["bill"]["id"] == bill_id

    assert run(["bill", "statement", bill_id, "--format", "csv", *at]) == 0
    printed = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert {row["billId"] for row in rows} == {bill_id}

    path = tmp_path / "file.csv"
    arguments = ["--format", "csv", "--to", str(path), "--json", *at]
    assert run(["bill", "statement", bill_id, *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == len(printed)
    assert path.read_text() == printed


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["one"], 1, "no bill 'one'"),
        ([NOBODY, "--format", "json"], 1, f"no bill '{NOBODY}'"),
        ([NOBODY, "--format", "csv"], 2, "format"),
        ([NOBODY, "--usage", "hour"], 2, "usage"),
        ([], 1, "BILL"),
    ],
)
def test_a_document_of_no_bill_or_no_format_is_refused(at, capsys, arguments, code, error):
    assert run(["bill", "document", *arguments, *at]) == code
    captured = capsys.readouterr()
    assert error in captured.err
    assert captured.out == ""


@pytest.mark.long
def test_a_document_is_printed_or_written(home, at, tmp_path, capsysbinary):
    bill_id = bill_ids(home)[0]
    assert run(["bill", "document", bill_id, "--format", "json", *at]) == 0
    document = json.loads(capsysbinary.readouterr().out)
    assert document["bill"]["id"] == bill_id
    path = tmp_path / "bill.pdf"
    assert run(["bill", "document", bill_id, "--to", str(path), "--json", *at]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert told == {
        "bill": bill_id,
        "format": "pdf",
        "file": str(path),
        "bytes": path.stat().st_size,
    }
    assert document["totals"]["total"] in pages_of(path.read_bytes())[0]


@pytest.mark.long
def test_templates_are_copied_changed_and_used(home, at, tmp_path, capsysbinary):
    bill_id, folder = bill_ids(home)[0], tmp_path / "own"
    assert run(["bill", "template", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["bill.html", "bill.typ"]
    assert run(["bill", "template", str(folder)]) == 1
    assert b"a folder without bill.html" in capsysbinary.readouterr().err
    for path, told in ((folder / "bill.typ", b"a folder, or none yet"), (Path("/proc/x"), b"disk")):
        assert run(["bill", "template", str(path)]) == 1
        assert told in capsysbinary.readouterr().err

    arguments = ["bill", "document", bill_id, "--format", "html", "--template", str(folder), *at]
    (folder / "bill.html").write_text("{{ bill.id }}")
    assert run(arguments) == 0
    assert capsysbinary.readouterr().out == bill_id.encode()


@pytest.mark.long
def test_the_documents_of_a_month_are_one_pdf_or_an_archive(home, at, tmp_path, capsys):
    pdf, archive = tmp_path / "all.pdf", tmp_path / "all.zip"
    words = ["bill", "document", "--month", str(SEPTEMBER), "--usage", "none", *at]
    assert run([*words, "--to", str(pdf)]) == 0
    assert run([*words, "--zip", "--to", str(archive)]) == 0
    capsys.readouterr()
    ids = bill_ids(home)
    with zipfile.ZipFile(archive) as found:
        files = {name: found.read(name) for name in found.namelist()}
    # By customer, as the list of the page: an archive that is unpacked sorts the same.
    assert [*files] == sorted(files) == ["acme_2026-09.pdf", "bolt_2026-09.pdf"]
    pages = [len(pages_of(data)) for data in files.values()]
    assert len(pages_of(pdf.read_bytes())) == sum(pages) >= len(ids) > 1


def test_the_invoices_for_xero_have_names_and_codes_and_no_id(at, tmp_path, capsys):
    assert run(["bill", "xero", "--month", str(SEPTEMBER), *at]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {each["*InvoiceNumber"] for each in rows} == {"acme-2026-09-30", "bolt-2026-09-30"}
    assert {each["*AccountCode"] for each in rows} == {"cloud"}
    written = tmp_path / "september.csv"
    assert run(["bill", "xero", "--month", str(SEPTEMBER), "--to", str(written), *at]) == 0
    assert not re.search("[0-9a-f]{8}-[0-9a-f]{4}-", written.read_text())
    assert len(written.read_text().splitlines()) == len(rows) + 1
    capsys.readouterr()
    for more, error in (
        (["--month", "2026-01"], "no bills of '2026-01'"),
        (["--month", "soon"], "2026-10"),
        (["--month", str(SEPTEMBER), "--to", str(tmp_path / "x.pdf")], ".csv"),
    ):
        assert run(["bill", "xero", *more, *at]) == 1
        assert error in capsys.readouterr().err


def test_the_documents_of_a_month_need_bills_and_a_file_of_their_kind(at, tmp_path, capsys):
    words = ["bill", "document", "--month"]
    for more, error in (
        (["2026-01", "--to", str(tmp_path / "x.pdf")], "no bills of '2026-01'"),
        (["2026-09", "--to", str(tmp_path / "x.zip")], "must end in .pdf"),
        (["2026-09", "--zip", "--to", str(tmp_path / "x.pdf")], "must end in .zip"),
        (["2026-09", "--zip"], "--to bills.zip"),
    ):
        assert run([*words, *more, *at]) == 1
        assert error in capsys.readouterr().err
    for more, error in ((["acme", "--month", "2026-09"], "--month"), (["acme", "--zip"], "--zip")):
        assert run(["bill", "document", *more, *at]) == 1
        assert error in capsys.readouterr().err
    assert run(["bill", "document", *at]) == 1
    assert "BILL or --month" in capsys.readouterr().err
