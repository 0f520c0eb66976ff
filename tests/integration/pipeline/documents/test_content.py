"""The document of a stored bill: its parties, its usage, what it refuses."""

import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import text

from meterlake.model.bills.document import AppendixDetail, DocumentFormat
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.customers.accounts import Account, Address
from meterlake.model.errors import NotFound, UnbalancedBill
from meterlake.pipeline.billing import bills as billing
from meterlake.pipeline.documents import content
from meterlake.pipeline.documents.content import read_document, read_documents
from meterlake.pipeline.documents.render import make_document
from meterlake.pipeline.statements import usage_rows
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill
from tests.statement_world import SEPTEMBER, a_billed_home, bill_ids, name_ids, use

GOLDEN = Path(__file__).parents[3] / "golden" / "documents"
NOBODY = "5d9d4a3e-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def home(lake_location, tmp_path_factory):
    del lake_location  # It is made again where the lakes are elsewhere.
    with a_billed_home(tmp_path_factory.mktemp("documents")) as found:
        yield found


@pytest.fixture(scope="module")
def a_home(lake_location, tmp_path_factory):
    from meterlake.pipeline.billing.jobs.jobs import bill

    del lake_location
    with a_home_to_bill(tmp_path_factory.mktemp("to_bill")) as found:
        found.clock.time = datetime.now(UTC)
        bill(found.organization, SEPTEMBER)
        yield found


def lines_of(document):
    return [each for section in document["sections"] for each in section["lines"]]


@pytest.mark.parametrize("format_", [DocumentFormat.HTML, DocumentFormat.JSON])
def test_a_document_of_all_kinds_of_lines(home, format_):
    """Byte for byte; `ACCEPT_GOLDEN=1` writes it anew."""
    [bill_id] = bill_ids(home)
    data = make(home, bill_id, format_)
    found = name_ids(data.decode())
    path = GOLDEN / f"everything.{format_}"
    if os.environ.get("ACCEPT_GOLDEN"):
        path.write_text(found, "utf-8")

    assert data == make(home, bill_id, format_)
    assert found == path.read_text("utf-8")


def test_nobody_has_no_document(home):
    with pytest.raises(NotFound):
        read_document(home.organization, NOBODY)


def test_a_document_has_the_lines_of_its_bill(home):
    [bill_id] = bill_ids(home)
    found = read_document(home.organization, bill_id)
    with home.organization.reading() as reader:
        stored = bills.get(reader, bill_id)
    assert [Decimal(each["amount"]) for each in lines_of(found)] == [
        Decimal(each.body["convertedSubtotal"]) for each in stored.content.lines
    ]
    assert Decimal(found["totals"]["total"]) == stored.content.total
    assert found["bill"]["number"] == stored.invoice_number
    days = (found["bill"]["firstDay"], found["bill"]["lastDay"], found["bill"]["timezone"])
    assert days == ("2026-09-01", "2026-09-30", "Europe/Berlin")


@pytest.mark.parametrize(
    ("detail", "days"),
    [
        (AppendixDetail.DAY, ["2026-09-01", "2026-09-30"]),
        pytest.param(AppendixDetail.WEEK, ["2026-09-01", "2026-09-28"], marks=pytest.mark.slow),
        pytest.param(AppendixDetail.MONTH, ["2026-09-01"], marks=pytest.mark.slow),
        (AppendixDetail.TOTAL, ["2026-09-01"]),
        (AppendixDetail.NONE, []),
    ],
)
def test_usage_is_as_fine_as_it_is_asked_for(home, detail, days):
    [bill_id] = bill_ids(home)
    found = read_document(home.organization, bill_id, detail)
    rows = [
        row
        for each in found["usage"]["lines"]
        for usage in each["usages"]
        if each["description"] == "Sent"
        for row in usage["rows"]
    ]
    assert [row["firstDay"] for row in rows] == days
    assert sum(Decimal(row["quantity"]) for row in rows) == (Decimal("20.125") if days else 0)


@pytest.mark.parametrize(("most", "chosen"), [(6, "none"), (7, "day")])
def test_long_bills_have_no_appendix_unless_it_is_asked_for(home, monkeypatch, most, chosen):
    monkeypatch.setattr(content, "DAYS_MAX", most)
    [bill_id] = bill_ids(home)
    found = read_document(home.organization, bill_id)
    assert (found["usage"]["detail"], found["usage"]["lines"] != []) == (chosen, chosen == "day")


@pytest.mark.parametrize(("lines", "most"), [(1, 100_000), (1, 0), (100, 100_000)])
def test_usage_is_the_same_read_where_it_is_and_read_from_copies(
    home, a_home, monkeypatch, lines, most
):
    for world in (home, a_home):
        ids = bill_ids(world)
        alone = [read_document(world.organization, each) for each in ids]
        monkeypatch.setattr(usage_rows, "LINES_MIN", lines)
        monkeypatch.setattr(usage_rows, "MEASUREMENTS_MAX", most)

        assert read_documents(world.organization, ids) == alone
        assert sum(len(each["usage"]["lines"]) for each in alone) > 1
        monkeypatch.undo()


def make(home, bill_id, format_=DocumentFormat.JSON):
    return make_document(home.organization, bill_id, format_).data


@pytest.mark.long
def test_an_approved_bill_keeps_its_parties_and_usage_and_a_draft_has_todays_parties(a_home):
    first, second = bill_ids(a_home)[:2]
    describe(a_home, "Old name", "1 Old Street")
    billing.set_status(a_home.organization, "test", first, BillStatus.APPROVED)
    approved = make(a_home, first)
    assert "Old name" in approved.decode()
    describe(a_home, "New name", "2 New Street")
    use(a_home, [("late", "acme", "1000", "2026-09-05T00:00:00Z", "eu")])
    assert make(a_home, first) == approved
    found = read_document(a_home.organization, second)
    assert found["bill"]["draft"]
    assert (found["seller"]["name"], found["seller"]["address"]) == (
        "New name",
        ["2 New Street", "Town"],
    )
    assert found["seller"]["taxId"] == "DE 1"
    assert found["customer"]["name"].startswith("New name of")
    assert found["customer"]["address"] == ["2 New Street", "123 Town", "Land"]


def describe(home, name, street):
    """Name the organization and its accounts, and say where they are."""
    home.clock.advance(seconds=1)
    with home.organization.transaction("test") as transaction:
        [fields] = transaction.all(CustomFields)
        own = {"sellerName": name, "sellerAddress": f"{street}\n\nTown", "sellerTaxId": "DE 1"}
        entity = fields.entity.model_copy(update={"organization": own})
        transaction.update(fields.id, fields.version, entity)
        address = Address(address_line1=street, post_code="123", locality="Town", country="Land")
        for each in list(transaction.all(Account)):
            change = {"name": f"{name} of {each.entity.code}", "address": address}
            transaction.update(each.id, each.version, each.entity.model_copy(update=change))
    home.clock.advance(seconds=1)


@pytest.mark.long
def test_a_bill_that_somebody_changed_has_no_document(a_home):
    bill_id = next(each for each in bill_ids(a_home) if b"42.5" in make(a_home, each))
    before = make(a_home, bill_id)
    total = json.loads(before)["totals"]["total"]
    changes = (
        (_LINE, {"old": '"quantity":42.5', "new": '"quantity":43'}, "the usage of line"),
        (_LINE, {"old": '"bandSubtotal":42.5', "new": '"bandSubtotal":43'}, "the prices of band 1"),
        (_LINE, {"old": band(42.5, 0), "new": band(43.5, 1)}, "the bands of line"),
        (_BILL, {"old": total, "new": "1"}, "the sum of its lines is"),
    )
    for change, values, what in changes:
        alter(a_home, change, bill_id, **values)
        with pytest.raises(UnbalancedBill, match=what):
            make(a_home, bill_id)
        alter(a_home, change, bill_id, old=values["new"], new=values["old"])
    assert make(a_home, bill_id) == before


def band(subtotal, fixed):
    """A part of a band as it is stored."""
    units = '"bandUnits":42.5,"convertedBandSubtotal":42.5'
    return f'"bandSubtotal":{subtotal},{units},"fixedPrice":{fixed}'


_LINE = "UPDATE bill_line SET body = replace(body, :old, :new) WHERE bill_id = :id"
_BILL = "UPDATE bill SET total = :new WHERE id = :id AND :old <> :new"


def alter(home, change, bill_id, **values):
    """Change what is stored, as nobody should."""
    with home.stores.state.writing_home() as connection:
        assert connection.execute(text(change), {"id": bill_id, **values}).rowcount >= 1
