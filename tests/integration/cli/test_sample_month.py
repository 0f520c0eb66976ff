"""The sample month through the commands, compared with the books that were kept in plain Python."""

import contextlib
import io
import json
import shutil
from collections import defaultdict
from decimal import Decimal

import pytest

import sample_data
from meterlake.cli import run
from meterlake.model.bills.document import DocumentFormat
from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.customers.balances import Balance
from meterlake.pipeline.billing.balances.balances import create_transaction
from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.documents.content import read_document
from meterlake.pipeline.documents.render import RenderOptions, render_document
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.state.billing.bills import bills
from tests.beancount import PROGRAM, bean_check
from tests.pdf_layout import faults_of_layout


@pytest.fixture(scope="module")
def books():
    return json.loads(sample_data.EXPECTED.read_text("utf-8"), parse_float=Decimal)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The home that a demo left, and the JSON lines that it printed, by step."""
    home = tmp_path_factory.mktemp("month") / "Übung eins"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(["demo", "--home", str(home), "--json"]) == 0
    steps = defaultdict(list)
    for line in out.getvalue().splitlines():
        told = json.loads(line, parse_float=Decimal)
        steps[told["step"]].append(told)
    return home, steps


def test_files_come_out_as_in_the_books(played, books):
    names = ("name", "received", "accepted", "repeats", "rejected", "reasons")

    found = [{name: receipt[name] for name in names} for receipt in played[1]["ingest"]]

    assert found == books["files"]


def test_the_demo_shows_an_invoice_and_where_one_of_its_numbers_comes_from(played):
    [bill], [explained] = played[1]["invoice"], played[1]["explanation"]

    assert bill["accountCode"] == "meridian-health"
    assert len(bill["lineItems"]) > 10
    assert explained["bill"]["id"] == bill["id"]


@pytest.mark.slow
def test_the_demo_ends_with_three_commands(capsys):
    assert run(["demo"]) == 0

    end = capsys.readouterr().out.partition("What to do next:")[2]
    commands = [line.strip() for line in end.splitlines() if line.startswith("  meterlake ")]
    assert commands == [
        "meterlake demo --console",
        'meterlake init --name "Your company"',
        "meterlake serve",
    ]


def test_quantities_come_out_as_in_the_books(played, books):
    names = ("account", "aggregation", "quantity", "units", "measurements")

    found = [tuple(line[name] for name in names) for line in played[1]["aggregate"]]

    assert found == [
        (
            q["account"],
            q["aggregation"],
            Decimal(q["quantity"]),
            Decimal(q["units"]),
            q["measurements"],
        )
        for q in books["quantities"]
    ]


def test_bills_come_out_as_in_the_books(played, books):
    printed = played[1]["bill"]
    totals = {line["account"]: line["total"] for line in printed if line["type"] == "bill"}
    unpriced = {line["accountCode"] for line in printed if line["type"] == "unpriced"}

    assert totals == {bill["account"]: Decimal(bill["total"]) for bill in books["bills"]}
    assert {"quietfox-labs", "sierra-media"} <= unpriced
    assert _bill_lines(played[0]) == {bill["account"]: _amounts(bill) for bill in books["bills"]}


@pytest.mark.long
def test_billing_again_changes_nothing(played, capsys):
    assert run(["bill", "--month", sample_data.MONTH, "--home", str(played[0]), "--json"]) == 0

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["outcome"] for line in lines if line["type"] == "bill"} == {"unchanged"}


@pytest.mark.long
def test_the_demo_tells_its_story_to_people(played, capsys):
    at = ["--home", str(played[0])]
    month = ["--month", sample_data.MONTH]

    assert run(["aggregate", *month, *at]) == 0
    assert run(["bill", *month, *at]) == 0
    assert run(["status", *at]) == 0

    out = capsys.readouterr().out
    assert "336 quantities unchanged" in out
    assert "40 bills (40 unchanged), 19,374.03 EUR, 4,074.96 USD" in out
    assert "17,537 received = 17,192 accepted + 322 repeats + 23 rejected" in out


def test_a_home_in_use_is_not_played_in(played, capsys):
    assert run(["demo", "--home", str(played[0])]) == 1

    assert "is not empty" in capsys.readouterr().err


def _amounts(bill):
    """Units, subtotal and converted subtotal of every line, in no order."""
    return sorted(tuple(Decimal(text) for text in line[1:]) for line in bill["lines"])


def _bill_lines(home):
    with open_stores(Settings(home=home)) as stores:
        organization = stores.find_organization()
        with organization.reading() as reader:
            found = bills.of_period(reader, sample_data.MONTH)
    names = ("units", "subtotal", "convertedSubtotal")
    return {
        bill.content.body["accountCode"]: sorted(
            tuple(Decimal(line.body[name]) for name in names) for line in bill.content.lines
        )
        for bill in found
    }


@pytest.mark.long
def test_exports_and_the_published_file_hold_everything(played, books):
    home, steps = played
    usage, operational = steps["export"]
    [published] = steps["publish"]

    accepted = books["totals"]["accepted"]
    measured = [file["rows"] for file in usage["files"] if file["type"] == "measurements"]
    # Two conversations belong to November in Berlin.
    assert sum(measured) == accepted - 2
    assert {"bill", "billlineitem"} <= {file["type"] for file in operational["files"]}
    assert published["rows"]["llm_tokens"] == 10_249
    assert published["attach"].startswith("LOAD ")
    assert (home / "published" / "halvorsen-cloud" / "warehouse.duckdb").is_file()


@pytest.mark.long
def test_a_month_is_exported_to_a_folder(played, tmp_path, capsys):
    home, _ = played
    to = ["--to", str(tmp_path / "out"), "--home", str(home)]

    assert run(["export", "operational", "--format", "jsonl", "--type", "bills", *to]) == 0

    assert "40 rows in 1 file" in capsys.readouterr().out
    assert len(list((tmp_path / "out").rglob("*.jsonl.gz"))) == 1


PREPAID = """
balances:
  - {code: nordwind-prepaid, name: Prepaid, accountId: nordwind-logistics, currency: EUR, startDate: "2026-01-01T00:00:00Z",
     endDate: "2026-10-15T22:00:00Z", rolloverEndDate: "2026-12-31T23:00:00Z", rolloverAmount: 100}
  - {code: harborline-prepaid, name: Prepaid, accountId: harborline-shipping, currency: EUR, startDate: "2026-01-01T00:00:00Z",
     endDate: "2027-01-01T00:00:00Z", overageSurchargePercent: 10}
commitments:
  - {accountId: meridian-health, currency: USD, amount: 400, startDate: "2026-10-01", endDate: "2027-01-01",
     billingPlanId: platform-enterprise, overageSurchargePercent: 5}
  - {accountId: nordwind-logistics, currency: EUR, amount: 90, startDate: "2026-10-01", endDate: "2026-11-01",
     productIds: [platform], feeDates: [{date: "2026-11-01", amount: 90, servicePeriodStartDate: "2026-10-01T00:00:00Z",
     servicePeriodEndDate: "2026-11-01T00:00:00Z"}]}
"""
PAID = {"nordwind-prepaid": Decimal("1250.55"), "harborline-prepaid": Decimal(300)}


def pay_in(home):
    """Book money that came before the month."""
    with open_stores(Settings(home=home)) as stores:
        organization = stores.find_organization()
        configuration = organization.configuration()
        who = Principal(PrincipalType.SERVICEUSER, "7", organization.id, "key")
        for code, amount in PAID.items():
            document = {"amount": amount, "appliedDate": "2026-09-30T00:00:00Z"}
            balance_id = configuration.find(Balance, code).id
            create_transaction(organization, who.author, balance_id, document)
        settle_ended_balances(organization)


@pytest.mark.slow
def test_another_program_agrees_with_the_ledger_of_the_month(played, tmp_path, capsys):
    home, ledger = shutil.copytree(played[0], tmp_path / "home"), tmp_path / "ledger.beancount"
    at = ["--home", str(home), "--json"]
    (tmp_path / "prepaid.yaml").write_text(PREPAID)
    assert run(["config", "apply", str(tmp_path / "prepaid.yaml"), *at]) == 0
    pay_in(home)
    codes = ["nordwind-logistics", "harborline-shipping", "meridian-health"]
    accounts = [word for code in codes for word in ("--account", code)]
    books = []
    for _ in range(2):
        assert run(["bill", "--month", sample_data.MONTH, *accounts, *at]) == 0
        capsys.readouterr()
        assert run(["check", "books", *at, "--beancount", str(ledger)]) == 0
        books.append(json.loads(capsys.readouterr().out, parse_float=Decimal))

    drawn = [each for each in books[0]["accounts"] if each["account"] == "revenue"]
    assert {each["currency"] for each in drawn} == {"EUR", "USD"}
    assert all(each["amount"] > 0 for each in drawn)
    assert books[1] == books[0]
    assert PROGRAM is None or bean_check(ledger) == ""


def documents_of(home, count):
    """The documents of the sample's bills with most bands, and the numbers of their lines."""
    with open_stores(Settings(home=home)) as stores:
        organization = stores.state.organizations()[0]
        with stores.state.reading(organization.id) as reader:
            found = bills.of_period(reader, "2026-10")
        documents = [read_document(stores.organization(organization.id), each.id) for each in found]
    documents.sort(key=lambda each: -sum(len(one["bands"]) for one in lines_of(each)))
    return documents[:count]


def lines_of(document):
    return [each for section in document["sections"] for each in section["lines"]]


def check_layout(home, count):
    found = documents_of(home, count)
    for document in found:
        numbers = [each["amount"] for each in lines_of(document)]
        shown = [f"{Decimal(each):,}" for each in numbers]
        data = render_document(document, DocumentFormat.PDF, RenderOptions())
        assert not faults_of_layout(data, shown), document["customer"]["code"]
    return len(found)


@pytest.mark.long
def test_no_number_of_an_invoice_is_printed_over_another(played):
    assert check_layout(played[0], 3) == 3


@pytest.mark.slow
def test_no_number_of_any_invoice_is_printed_over_another(played):
    assert check_layout(played[0], 100) >= 40
