"""The document of a bill: sums that do not agree, texts, days, prices, sections."""

from datetime import date
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.bills.statements import StatementLine
from meterlake.model.catalog.catalog import Reduce
from meterlake.model.errors import UnbalancedBill
from meterlake.model.values.money import RoundingMode
from meterlake.stages.document.document_data import (
    BandPrice,
    CurrencyRounding,
    LineDraw,
    NamedAccount,
    ReferencedBill,
    amount_text,
    clean_lines,
    clean_text,
    first_day,
    last_day,
)
from tests.document_world import band, document, facts, line, usage

TWO_BANDS = [band("0", "2", "0.3", "0", "0.6"), band("2", "4", "0.05", "0.2", "0.4")]


def banded(amount, bands, number=1, **members):
    """A line with bands."""
    return line(number, amount, usagePerPricingBand=bands, **members)


def price(*line_ids, days=(1, 1), mode=RoundingMode.HALF_EVEN, **members):
    """Lines whose bands are what they cost."""
    rounding = CurrencyRounding(2, mode)
    return BandPrice(line_ids, days, **{"own": rounding, "billed": rounding, **members})


DRAWN = {"lineItemType": "COMMITMENT_CONSUMED", "productId": None}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            facts(line(1, "1.5"), line(2, "2"), total=Decimal("3.51")),
            "the sum of its lines is 3.5, and not 3.51",
        ),
        (facts(total=Decimal(1)), "the sum of its lines is 0, and not 1"),
        (
            facts(
                line(1, 5), line(2, -3, **DRAWN), draws={"line-2": [LineDraw("line-1", Decimal(2))]}
            ),
            "the sum of what line 2 pays is 2, and not 3",
        ),
        (
            facts(StatementLine(line(1, 5), [usage("4", "1", "2.9")])),
            "the sum of the usage of line 1 is 3.9, and not 4",
        ),
        (
            facts(banded("1", [band("0", "4", "0.25", "0", "1.01")])),
            "the sum of the prices of band 1 of line 1 is 1, and not 1.01",
        ),
        (
            facts(banded("1", [band("0", "4", "0.25", "0", "1")], units="5")),
            "the sum of the units in the bands of line 1 is 4, and not 5",
        ),
        (
            facts(banded("1.01", TWO_BANDS), band_prices=[price("line-1")]),
            "the sum of the bands of line 1 is 1, and not 1.01",
        ),
        (
            facts(banded("0.67", TWO_BANDS), band_prices=[price("line-1", days=(20, 31))]),
            "the sum of the bands of line 1 is 0.65, and not 0.67",
        ),
        (
            facts(
                banded("1.15", TWO_BANDS, currency="EUR", conversionRate="1.135", subtotal="1"),
                band_prices=[price("line-1")],
            ),
            "the sum of the bands of line 1 is 1.14, and not 1.15",
        ),
        (
            facts(
                banded("1.004", [band("0", "4", "0.25125", "0", "1.005")]),
                band_prices=[price("line-1", mode=RoundingMode.UNNECESSARY)],
            ),
            "the sum of the bands of line 1 is 1.005, and not 1.004",
        ),
        (
            facts(
                banded("0.6", TWO_BANDS[:1], units="2"),
                banded("0.41", TWO_BANDS[1:], 2, units="4"),
                band_prices=[price("line-1", "line-2", own=None)],
            ),
            "the sum of the bands of line 1 and 2 is 1, and not 1.01",
        ),
    ],
    ids=[
        *("total", "nothing", "draws", "usage", "band", "units", "bands", "days", "rate"),
        *("unrounded", "cut"),
    ],
)
def test_a_bill_that_does_not_add_up_has_no_document(found, sentence):
    from meterlake.stages.document.document import build_document

    with pytest.raises(UnbalancedBill) as error:
        build_document(found)
    assert str(error.value) == (
        f"bill 'bbbbbbbb' has no document: {sentence};"
        " `meterlake bill verify bbbbbbbb`, or `GET /bills/bbbbbbbb/verify`, names what differs"
    )


def test_usage_that_does_not_add_up_by_nature_is_shown():
    found = document(StatementLine(line(1, 5), [usage("4", "4", "3", kind=Reduce.MAX)]))
    [shown] = found["usage"]["lines"]
    assert [row["quantity"] for row in shown["usages"][0]["rows"]] == ["4", "3"]
    assert shown["usages"][0]["additive"] is False


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        ("0", 2, "0.00"),
        ("-0.5", 2, "-0.50"),
        ("12.345", 2, "12.345"),
        ("7", 0, "7"),
        ("7.25", 0, "7.25"),
        ("1E+3", 3, "1000.000"),
    ],
)
def test_amounts_have_the_decimals_of_their_currency_and_lose_none(value, decimals, text):
    assert amount_text(value, decimals) == text


@given(st.decimals(allow_nan=False, allow_infinity=False, places=5), st.integers(0, 5))
def test_an_amount_is_the_same_number(value, decimals):
    text = amount_text(value, decimals)
    assert Decimal(text) == value
    assert len(text.partition(".")[2]) >= decimals


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Acme", "Acme"),
        ("a\nb\tc", "a b c"),
        ("abc\u202e123", "abc123"),
        ("\x1b[31mred\x00", "[31mred"),
        ("שלום\u200f", "שלום\u200f"),
        ("\ud800x", "x"),
        ("क्\u200dष", "क्\u200dष"),
    ],
)
def test_what_controls_a_page_is_no_part_of_a_text(text, shown):
    assert clean_text(text) == shown


def test_lines_of_an_address_are_kept_and_empty_ones_are_not():
    assert clean_lines("1 Street\r\n\n  \nTown\u2028Land") == ["1 Street", "Town", "Land"]


@pytest.mark.parametrize(
    ("zone", "start", "end", "days"),
    [
        ("UTC", "2026-09-01T00:00:00Z", "2026-10-01T00:00:00Z", ("2026-09-01", "2026-09-30")),
        (
            "Europe/Berlin",
            "2026-08-31T22:00:00Z",
            "2026-09-30T22:00:00Z",
            ("2026-09-01", "2026-09-30"),
        ),
        (
            "Asia/Kolkata",
            "2026-09-14T18:30:00Z",
            "2026-09-15T18:30:00Z",
            ("2026-09-15", "2026-09-15"),
        ),
        (
            "America/New_York",
            "2026-09-01T04:00:00Z",
            "2026-09-15T16:00:00Z",
            ("2026-09-01", "2026-09-15"),
        ),
    ],
)
def test_both_days_of_a_period_belong_to_it(zone, start, end, days):
    assert (first_day(start, ZoneInfo(zone)), last_day(end, ZoneInfo(zone))) == days


@pytest.mark.parametrize(
    ("bands", "units", "amount", "price"),
    [
        ([band("0", "4", "0.25", "0", "1")], "4", "1", "0.25"),
        ([band("0", "4", "0.25", "0", "1")], "4", "-1", "0.25"),
        ([band("0", "4", "0.25", "0", "1")], "4", "0.5", None),  # prorated
        ([band("0", "4", "0.25", "2", "3")], "4", "3", None),
        ([band("0", "10", "1", "0", "10"), band("10", "5", "2", "0", "10")], "15", "20", None),
        ([band("0", "0", "1", "0", "0"), band("10", "5", "2", "0", "10")], "5", "10", "2"),
        ([], "1", "31", "31.00"),
        ([], "3", "31", None),
    ],
)
def test_a_price_is_shown_where_each_unit_has_it_and_nothing_else_counts(
    bands, units, amount, price
):
    found = document(line(1, amount, units=units, usagePerPricingBand=bands))
    assert found["sections"][0]["lines"][0]["unitPrice"] == price


def test_a_band_says_where_it_ends():
    bands = [band("0", "10", "1", "0", "10"), band("10", "5", "2", "0", "10")]
    limits = {"line-1": [Decimal(0), Decimal(10), Decimal(100)]}
    [first, second] = document(banded(20, bands), limits=limits)["sections"][0]["lines"][0]["bands"]
    assert (first["above"], first["upTo"], second["above"], second["upTo"]) == (
        "0",
        "10",
        "10",
        "100",
    )
    unknown = document(banded(20, bands))["sections"][0]["lines"][0]["bands"]
    assert [each["upTo"] for each in unknown] == [None, None]


def test_lines_stand_by_product_then_what_is_of_none_credits_and_memos():
    found = document(
        line(1, 5),
        line(2, 7, productId="q", productName="Store", productCode="store"),
        line(3, -2, **DRAWN),
        line(4, 1, lineItemType="DEBIT_MEMO"),
        line(5, 3),
        line(6, 2, productId=None),
        draws={"line-3": [LineDraw("line-1", Decimal("1.5")), LineDraw("line-2", Decimal("0.5"))]},
    )
    assert [
        (each["kind"], each["title"], [one["number"] for one in each["lines"]], each["subtotal"])
        for each in found["sections"]
    ] == [
        ("product", "Cloud", [1, 5], "8.00"),
        ("product", "Store", [2], "7.00"),
        ("other", "Other charges", [6], "2.00"),
        ("credits", "Prepayments and commitments applied", [3], "-2.00"),
        ("memos", "Credits and adjustments", [4], "1.00"),
    ]
    assert found["totals"] == {"charges": "18.00", "credits": "-2.00", "total": "16.00"}
    assert found["sections"][3]["lines"][0]["draws"] == [
        {"line": 1, "description": "Sent", "amount": "1.50"},
        {"line": 2, "description": "Sent", "amount": "0.50"},
    ]


def test_a_family_has_a_sum_for_each_account():
    found = document(
        line(1, 5, childAccountId="a", childAccountCode="a"),
        line(2, "2.5", childAccountId="b", childAccountCode="b-code"),
        line(3, 1),
        accounts={"a": NamedAccount("a-code", "First")},
    )
    assert found["accounts"] == [
        {"code": "a-code", "name": "First", "amount": "5.00"},
        {"code": "b-code", "name": None, "amount": "2.50"},
        {"code": "acme", "name": "Acme", "amount": "1.00"},
    ]
    assert document(line(1, 5))["accounts"] == []


def test_a_memo_names_what_it_is_about():
    bill = ReferencedBill("INV-3", date(2026, 9, 1), {"x": 4})
    about = {"lineItemType": "CREDIT_MEMO", "referencedBillId": "old", "referencedLineItemId": "x"}
    found = document(line(1, -5, **about), bills={"old": bill})
    reference = {
        "billId": "old",
        "billNumber": "INV-3",
        "billDate": "2026-09-01",
        "lineId": "x",
        "line": 4,
    }
    assert found["sections"][0]["lines"][0]["reference"] == reference
    gone = document(line(1, -5, **about))["sections"][0]["lines"][0]["reference"]
    assert gone == {**reference, "billNumber": None, "billDate": None, "line": None}


@pytest.mark.parametrize(("status", "draft"), [("PENDING", True), ("APPROVED", False)])
def test_what_is_not_approved_is_a_draft(status, draft):
    assert document(line(1, 5), bill={"status": status})["bill"]["draft"] is draft


def test_a_line_that_shares_usage_names_the_one_that_has_it():
    found = document(
        StatementLine(line(1, 5), [usage("4", "4")]),
        StatementLine(line(2, 1, lineItemType="OVERAGE_USAGE"), usage_of="line-1"),
    )
    assert [
        (each["line"], each["sameAs"], len(each["usages"])) for each in found["usage"]["lines"]
    ] == [
        (1, None, 1),
        (2, 1, 0),
    ]
