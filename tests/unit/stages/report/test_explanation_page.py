"""The page of an explained bill: all of it is text, and nothing comes from elsewhere."""

from decimal import Decimal
from html.parser import HTMLParser

from meterlake.model.bills.explanation import BillExplanation, DerivationRule, ExplainedNumber
from meterlake.stages.report.explanation_page import explanation_page

EVIL = "<script>alert(1)</script>\" onload='x' &amp;"
BILL = {
    "id": "b-1",
    "version": 2,
    "accountCode": EVIL,
    "billDate": "2026-10-01",
    "currency": "USD",
    "currencyPlaces": 2,
    "pins": {"snapshot": 7, "code": "1.0"},
}


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text, self.depth = [], "", 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.depth += tag == "details"

    def handle_endtag(self, tag):
        self.depth -= tag == "details"

    def handle_data(self, data):
        self.text += data


def page_of(**facts):
    row = {"file": EVIL, "row": 2, "uid": EVIL, "ts": "2026-09-03T10:00:00Z", "value": Decimal(40)}
    quantity = ExplainedNumber(
        name=EVIL,
        value=Decimal("42.5"),
        unit=EVIL,
        rule=DerivationRule.MEASURED,
        facts={"statement": EVIL, "accounts": [EVIL], "segment": {EVIL: EVIL}, **facts},
        measurements=[row],
    )
    line = ExplainedNumber(
        name=EVIL,
        value=Decimal("42.5"),
        unit="USD",
        rule=DerivationRule.SUM,
        operands=(quantity,),
        key=EVIL,
        facts={"number": 1, "lineKey": EVIL},
    )
    root = ExplainedNumber(
        name="Total", value=Decimal("42.5"), unit="USD", rule=DerivationRule.SUM, operands=(line,)
    )
    different = {"subject": "line", "name": EVIL, "field": EVIL, "stored": EVIL}
    return explanation_page(BillExplanation(BILL, root, [different]))


def test_what_others_wrote_is_text():
    page = Elements(page_of())

    tags = {tag for tag, _ in page.found}
    assert tags.isdisjoint({"script", "img", "link", "iframe", "object", "form"})
    assert page.text.count("<script>alert(1)</script>") >= 9
    names = {name for _, attrs in page.found for name in attrs}
    assert not {name for name in names if name.startswith("on")}
    assert page.depth == 0


def test_nothing_is_fetched_from_elsewhere():
    page = page_of()
    attributes = [attrs for _, attrs in Elements(page).found]

    assert not [each for each in attributes if "src" in each]
    assert all(each.get("href", "#").startswith("#") for each in attributes)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_amounts_have_all_their_decimals():
    assert "42.50" in page_of()
