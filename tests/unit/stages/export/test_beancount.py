"""The ledger as text for beancount; `bean-check` accepts it where it is installed."""

from decimal import Decimal

import pytest

from meterlake.model.bills.ledger import PostingKind
from meterlake.stages.export.beancount import beancount_lines
from tests.beancount import bean_check, needs_bean_check
from tests.unit.stages.bill.credits.test_books import BACK, CREDIT, DRAWN, posting

D = Decimal


def test_postings_are_transactions_and_accounts_end_with_what_they_have():
    assert list(beancount_lines([CREDIT, DRAWN], 'A "B"')) == [
        'option "title" "A \\"B\\""',
        "",
        '2026-10-01 * "credit"',
        '  id: "p1"',
        "  Assets:Customer:A  100 USD",
        "  Liabilities:Balance:B  -100 USD",
        "",
        '2026-10-01 * "consumption"',
        '  id: "p2"',
        '  bill: "bill"',
        "  Liabilities:Balance:B  30 USD",
        "  Income:Revenue:P  -30 USD",
        "1900-01-01 open Liabilities:Balance:B",
        "1900-01-01 open Assets:Customer:A",
        "1900-01-01 open Income:Revenue:P",
        "2026-10-02 balance Liabilities:Balance:B -70 USD",
        "2026-10-02 balance Assets:Customer:A 100 USD",
        "2026-10-02 balance Income:Revenue:P -30 USD",
    ]


@pytest.mark.parametrize("name", ["credits", "credit s", "€", "x" * 80, "A", "1A", "US D"])
def test_names_that_beancount_does_not_take_are_made_to_fit_and_stay_different(name):
    postings = [CREDIT._replace(currency=each) for each in (name, "CREDITS", "USD")]

    text = "\n".join(beancount_lines(postings, "x"))

    assert len({line.split()[-1] for line in text.splitlines() if "balance" in line}) == 3


BOOKS = [
    CREDIT,
    DRAWN,
    BACK,
    posting(4, "balance:b", "rollover:b", "12.345", PostingKind.ROLLOVER),
    posting(5, "balance:b", "expired:", 1, PostingKind.EXPIRY, currency="credits"),
    posting(6, "commitment:c d", "revenue:", 3, PostingKind.CONSUMPTION, source_id="c d"),
    posting(7, "customer:a", "balance:b", 0),
]


@needs_bean_check
@pytest.mark.parametrize("wrong", [False, True])
def test_bean_check_adds_it_up(tmp_path, wrong):
    text = "\n".join(beancount_lines(BOOKS, "Acme")) + "\n"
    file = tmp_path / "ledger.beancount"
    file.write_text(text.replace("30 USD", "31 USD", 1) if wrong else text, "utf-8")

    assert bool(bean_check(file)) is wrong
