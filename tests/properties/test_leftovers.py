"""Laws of what is left of balances at their ends."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.bills.ledger import (
    LedgerAccount,
    LedgerAccountType,
    Movement,
    Posting,
    PostingKind,
    account_sums,
)
from meterlake.model.customers.balances import Balance
from meterlake.stages.bill.credits.balances import correct_leftovers, count_ends, find_leftovers

D = Decimal
ID = "00000000-0000-0000-0000-000000000001"
START = datetime(2026, 1, 1, tzinfo=UTC)
OWN, ROLLOVER = (
    LedgerAccount(kind, ID) for kind in (LedgerAccountType.BALANCE, LedgerAccountType.ROLLOVER)
)
CUSTOMER = LedgerAccount(LedgerAccountType.CUSTOMER, "a")
REVENUE = LedgerAccount(LedgerAccountType.REVENUE, "")

days = st.integers(0, 120).map(lambda number: START + timedelta(days=number))
cents = st.integers(0, 10_000).map(lambda number: D(number).scaleb(-2))


@st.composite
def balances(draw):
    has_rollover = draw(st.booleans())
    return Balance(
        code="b",
        name="B",
        account_id=ID,
        start_date=START,
        end_date=START + timedelta(days=30),
        currency="USD",
        rollover_end_date=START + timedelta(days=60) if has_rollover else None,
        rollover_amount=draw(st.none() | cents) if has_rollover else None,
    )


transactions = st.lists(
    st.builds(
        lambda amount, applied, is_credit: Movement(
            OWN,
            PostingKind.CREDIT if is_credit else PostingKind.MANUAL,
            amount if is_credit else -amount,
            applied,
        ),
        cents,
        st.none() | days,
        st.booleans(),
    ),
    max_size=6,
)
draws = st.lists(
    st.builds(
        lambda account, amount: Movement(account, PostingKind.CONSUMPTION, -amount, None),
        st.sampled_from([OWN, ROLLOVER]),
        cents,
    ),
    max_size=4,
)


def posted(movements):
    """The movements as postings."""
    for number, each in enumerate(movements):
        other = REVENUE if each.kind is PostingKind.CONSUMPTION else CUSTOMER
        pair = (each.account, other) if each.change < 0 else (other, each.account)
        yield posting(number, pair, abs(each.change), each.kind, each.applied)


def posting(number, between, amount, kind, applied):
    return Posting(
        *(number, str(number), *between, amount, "USD", kind, ID, START, "test"),
        applied=applied,
    )


def settled(balance, movements, now, standing=()):
    """What stands after a look: what was right stays, the rest is made anew."""
    due = find_leftovers(ID, balance, movements, now)
    changes = correct_leftovers(standing, due)
    kept = [each for each in standing if each not in changes.wrong]
    return kept + [posting(0, each[:2], *each[2:]) for each in changes.missing]


@given(balances(), transactions, draws, days)
def test_what_ended_holds_nothing_but_what_it_is_owed(balance, ins, outs, now):
    movements = ins + outs
    counted = [each for each in movements if each.applied is None or each.applied <= now]
    sums = account_sums([*posted(counted), *settled(balance, movements, now)])
    own = sums.get((OWN, "USD"), D(0))

    assert sum(sums.values()) == 0
    if now < balance.end_date:
        assert own == sum(each.change for each in counted if each.account == OWN)
    else:
        assert own == min(sum(each.change for each in counted if each.account == OWN), 0)
    if count_ends(balance, now) == 2:
        assert sums.get((ROLLOVER, "USD"), D(0)) <= 0


@given(balances(), transactions, days)
def test_nothing_is_left_over_before_the_end_and_never_more_than_there_was(balance, ins, now):
    found = find_leftovers(ID, balance, ins, now)

    if now < balance.end_date:
        assert found == []
    carried = sum(each.amount for each in found if each.kind is PostingKind.ROLLOVER)
    assert all(each.amount > 0 for each in found)
    assert balance.rollover_amount is None or carried <= balance.rollover_amount
    assert carried == 0 or balance.rollover_end_date is not None


@given(balances(), transactions, draws, draws, days)
def test_whenever_a_bill_is_calculated_the_same_is_left_over(balance, ins, before, late, now):
    first = settled(balance, ins + before, now)

    after = settled(balance, ins + before + late, now, first)

    assert account_sums(after) == account_sums(settled(balance, ins + before + late, now))
    assert settled(balance, ins + before + late, now, after) == after
    again = correct_leftovers(after, find_leftovers(ID, balance, ins + before + late, now))
    assert again == ([], [])
