"""Whether the ledger is right."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.bills.ledger import LedgerAccount, Posting, PostingKind
from meterlake.stages.bill.credits.books import (
    Books,
    ConsumptionLine,
    compare_lines,
    compare_totals,
    compare_views,
)

D = Decimal
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


def posting(number, from_, to, amount, kind=PostingKind.CREDIT, **more):
    accounts = (LedgerAccount.parse(from_), LedgerAccount.parse(to))
    more = {"source_id": "b", "currency": "USD", **more}
    return Posting(
        sequence=number,
        id=f"p{number}",
        from_account=accounts[0],
        to_account=accounts[1],
        amount=D(amount),
        kind=kind,
        created=NOON,
        author="me",
        **more,
    )


CREDIT = posting(1, "customer:a", "balance:b", 100)
DRAWN = posting(2, "balance:b", "revenue:p", 30, PostingKind.CONSUMPTION, bill_id="bill")
BACK = posting(3, "revenue:p", "balance:b", 30, PostingKind.REVERSAL, bill_id="bill", reverses="p2")


def books(*postings):
    made = Books()
    for each in postings:
        made.add(each)
    return made


def test_accounts_add_up():
    found = books(CREDIT, DRAWN)

    assert (found.postings, found.differences, found.totals) == (2, [], {"USD": 0})
    assert found.source_sums() == {"b": 70}
    assert found.drawn == {("bill", "b"): 30}
    assert list(compare_totals(found)) == []


def test_what_was_taken_back_is_not_drawn():
    found = books(CREDIT, DRAWN, BACK)

    assert (found.differences, found.drawn) == ([], {("bill", "b"): 0})
    assert found.source_sums() == {"b": 100}


@pytest.mark.parametrize(
    "wrong",
    [
        [CREDIT._replace(amount=D(-1))],
        [CREDIT._replace(source_id="c")],
        [CREDIT._replace(to_account=LedgerAccount.parse("expired:"))],
        [BACK],
        [DRAWN, BACK._replace(amount=D(29))],
        [DRAWN, BACK._replace(currency="EUR")],
        [DRAWN, BACK._replace(from_account=LedgerAccount.parse("revenue:"))],
        [DRAWN, BACK, BACK._replace(id="p4")],
    ],
)
def test_a_posting_that_is_wrong_by_itself_is_found(wrong):
    assert [each.id for each in books(*wrong).differences] == [wrong[-1].id]


def test_a_view_that_shows_something_else_is_found():
    ledger, shown = {"a": D(1), "b": D(2)}, {"b": D("2.00"), "c": D(3), "d": D(0)}

    assert [(each.id, each.ledger, each.found) for each in compare_views("x", ledger, shown)] == [
        ("a", "1", "0"),
        ("c", "0", "3"),
    ]


@pytest.mark.parametrize(
    ("lines", "ids"),
    [
        ([("bill", "b", 30)], []),
        ([("bill", "b", 20), ("bill", "b", 10)], []),
        ([], ["b"]),
        ([("bill", "b", 29)], ["b"]),
        ([("bill", "b", 30), ("bill", "c", 1)], ["c"]),
        ([("other", "b", 30)], ["b", "b"]),
    ],
)
def test_a_bill_that_draws_something_else_than_was_posted_is_found(lines, ids):
    lines = [ConsumptionLine(bill, source, D(amount)) for bill, source, amount in lines]

    assert [each.id for each in compare_lines(books(CREDIT, DRAWN), lines)] == ids
