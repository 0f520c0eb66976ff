"""What goes back to sources that paid of a line which is lower now."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType
from meterlake.stages.bill.credits.source_returns import SourcePart, return_to_sources
from meterlake.stages.bill.pricing.currencies import Currencies

D = Decimal
CURRENCIES = Currencies({}, {})
FIRST, LAST = (LedgerAccount(LedgerAccountType.BALANCE, id_) for id_ in ("first", "last"))
AMOUNTS = st.integers(0, 500).map(lambda cents: D(cents) / 100)


def part(account, amount, total=None, posted=None, returned=0):
    total = D(amount if total is None else total)
    posted = total if posted is None else D(posted)
    return SourcePart(account, "USD", None, D(amount), total, posted, D(returned))


def returned(paid, difference):
    found = return_to_sources("line", paid, D(difference), CURRENCIES)
    return [(each.account, each.amount, each.posted) for each in found]


def test_nothing_goes_back_for_a_line_that_rises():
    assert returned([part(FIRST, 30)], 5) == []
    assert returned([part(FIRST, 30)], 0) == []
    assert returned([], -5) == []


def test_who_drew_last_gets_back_first():
    assert returned([part(FIRST, 30), part(LAST, 20)], -45) == [
        (LAST, 20, 20),
        (FIRST, 25, 25),
    ]


def test_what_went_back_before_does_not_go_back_again():
    assert returned([part(FIRST, 30, returned=25)], -45) == [(FIRST, 5, 5)]
    assert returned([part(FIRST, 30, returned=30)], -45) == []


def test_another_currency_gets_back_what_it_gave():
    """It gave 10.01 for 30.02 on the bill, of which 30 are of the line."""
    found = returned([part(FIRST, 30, total="30.02", posted="10.01")], -30)

    assert found == [(FIRST, 30, D("10.00"))]


@given(amount=AMOUNTS, rest=AMOUNTS, posted=AMOUNTS, steps=st.lists(AMOUNTS, max_size=5))
def test_however_it_goes_back_it_is_never_more_than_was_given(amount, rest, posted, steps):
    """Bit by bit as much goes back as at once."""
    if not amount:
        return
    whole = part(FIRST, amount, total=amount + rest, posted=posted)
    back, own = D(0), D(0)
    for step in steps:
        for _, one, its in returned([whole._replace(returned=back)], -step):
            back, own = back + one, own + its
    assert back == min(sum(steps), amount)
    assert own == sum(its for _, _, its in returned([whole], -sum(steps)))
    assert 0 <= own <= posted
