"""The ledger of balances and commitments: postings are added, never changed."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meterlake.model.bills.ledger import (
    BillRank,
    LedgerAccount,
    LedgerAccountType,
    PostingKind,
    account_sums,
)
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import BillConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.customers.contracts import Commitment
from meterlake.model.errors import StillReferenced
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import put_all
from meterlake.stores.state.billing.credits import balances, ledger
from meterlake.stores.state.billing.credits.balances import BookingCause
from meterlake.stores.state.billing.credits.ledger import Consumption
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey
from meterlake.stores.state.core.entity_history import PastConfiguration, changes_at
from meterlake.stores.state.core.postings import amounts_spent
from tests.laws import examples

D = Decimal
USER = BookingCause(EntityType.USER, "somebody")


class Books:
    """An account with a balance of 100 and a commitment of 500, and ways to look at them."""

    def __init__(self, state, org, clock):
        self.state, self.org, self.clock = state, org, clock
        times = {"start_date": datetime(2026, 1, 1, tzinfo=UTC)}
        with self.writing() as transaction:
            account = transaction.create(Account(name="A", code="a", email_address="a@b.example"))
            self.account = account.id
            shared = {"account_id": account.id, "currency": "USD"}
            balance = Balance(
                code="b", name="B", end_date=datetime(2027, 1, 1, tzinfo=UTC), **times, **shared
            )
            agreed = Commitment(
                start_date=date(2026, 1, 1), end_date=date(2027, 1, 1), amount=D(500), **shared
            )
            self.balance = transaction.create(balance)
            self.commitment = transaction.create(agreed).id
            balances.append(transaction, self.balance, BalanceTransaction(amount=D(100)), USER)

    def writing(self):
        return self.state.transaction(self.org, "USER_1")

    def reading(self):
        return self.state.reading(self.org)

    def draw(self, amount, kind="balance", product=None):
        own = LedgerAccountType(kind)
        id_ = self.commitment if kind == "commitment" else self.balance.id
        return Consumption(LedgerAccount(own, id_), D(amount), "USD", product)

    def repost(self, bill, version, *draws):
        self.clock.advance(seconds=1)
        with self.writing() as transaction:
            return ledger.repost(transaction, bill, version, draws, "job")

    def bill(self, bill_date):
        key = BillKey(self.account, bill_date, "MONTHLY", 1)
        content = BillContent(key, "2026-10", "USD", D(0), {}, {}, ())
        with self.writing() as transaction:
            [stored] = put_all(transaction, [content], BillStatus.APPROVED)
        return stored.bill_id

    @property
    def postings(self):
        with self.reading() as reader:
            return list(ledger.all_postings(reader))

    @property
    def amount(self):
        with self.reading() as reader:
            return balances.amounts(reader, [self.balance.id], self.clock())[self.balance.id]

    @property
    def spent(self):
        with self.reading() as reader:
            return amounts_spent(reader, [self.commitment]).get(self.commitment, 0)

    def movements(self, source):
        with self.reading() as reader:
            return ledger.read_movements(reader, [source]).get(source, [])


@pytest.fixture
def books(state, org, clock):
    return Books(state, org, clock)


def sums(postings):
    found = account_sums(postings)
    assert sum(found.values()) == 0
    return {account.type.value: amount for (account, _), amount in found.items() if amount}


def test_a_transaction_is_a_posting_from_the_customer_to_the_balance(books):
    assert sums(books.postings) == {"customer": -100, "balance": 100}


def test_a_transaction_below_0_goes_back(books):
    with books.writing() as transaction:
        balances.append(transaction, books.balance, BalanceTransaction(amount=D("-0.05")), USER)

    assert [each.kind for each in books.postings] == [PostingKind.CREDIT, PostingKind.MANUAL]
    assert sums(books.postings) == {"customer": D("-99.95"), "balance": D("99.95")}


def test_a_transaction_of_0_is_kept(books):
    with books.writing() as transaction:
        made = balances.append(transaction, books.balance, BalanceTransaction(amount=D(0)), USER)

    assert (made.amount, len(books.postings), books.amount) == (0, 2, 100)


def test_what_a_bill_draws_goes_to_revenue_by_accounting_product(books):
    changed = books.repost("bill", 1, books.draw(30), books.draw(10, product="p"), books.draw(5))

    assert changed == {books.balance.id}
    found = account_sums(books.postings)
    revenue = LedgerAccountType.REVENUE
    assert found[LedgerAccount(revenue), "USD"] == 35
    assert found[LedgerAccount(revenue, "p"), "USD"] == 10
    assert books.amount == 55


def test_a_bill_of_a_commitment_raises_what_was_spent(books):
    books.repost("bill", 1, books.draw(30, "commitment"))

    assert (books.spent, books.amount) == (30, 100)
    assert sums(books.postings)["commitment"] == -30


def test_what_was_spent_of_a_commitment_by_then_is_known_later(books):
    books.repost("bill", 1, books.draw(30, "commitment"))
    before = books.clock()
    books.repost("bill", 2, books.draw(50, "commitment"))

    with books.reading() as reader:
        past, now = (PastConfiguration(reader, each) for each in (before, books.clock()))
        found = [each.amount_spent(books.commitment) for each in (past, now)]
        assert (found, now.amount_spent(books.balance.id)) == ([30, 50], 0)
        changed = list(changes_at(reader, Commitment, books.clock(), books.clock()))
    assert [each.id for each in changed] == [books.commitment]


def test_a_bill_that_draws_the_same_posts_nothing(books):
    books.repost("bill", 1, books.draw(30), books.draw(20, "commitment"))
    before = books.postings

    # Two parts of one line are one posting, in whatever order.
    assert (
        books.repost("bill", 2, books.draw(20, "commitment"), books.draw(29), books.draw(1))
        == set()
    )
    assert books.postings == before


def test_a_bill_that_draws_otherwise_takes_back_what_it_drew(books):
    books.repost("bill", 1, books.draw(30), books.draw(20, "commitment"))
    first = books.postings[1]

    assert books.repost("bill", 2, books.draw(40), books.draw(20, "commitment")) == {
        books.balance.id
    }

    reversal, again = books.postings[3:]
    assert (reversal.kind, reversal.reverses, reversal.bill_version) == ("reversal", first.id, 2)
    assert (again.kind, again.amount, again.bill_version, again.job_id) == (
        "consumption",
        40,
        2,
        "job",
    )
    assert (books.amount, books.spent) == (60, 20)


def test_a_bill_that_is_gone_draws_nothing(books):
    books.repost("bill", 1, books.draw(30), books.draw(20, "commitment"))

    books.repost("bill", 2)

    assert (books.amount, books.spent) == (100, 0)
    assert sums(books.postings) == {"customer": -100, "balance": 100}
    with books.reading() as reader:
        assert ledger.consumption_of(reader, ["bill"]) == {}


def test_a_bill_that_is_deleted_gives_back_what_it_drew(books):
    bill = books.bill(date(2026, 11, 1))
    books.repost(bill, 1, books.draw(30))
    with books.writing() as transaction:
        bills.remove(transaction, bill)

    assert books.amount == 100
    with books.reading() as reader:
        assert ledger.consumption_of(reader, [bill]) == {}


def test_nothing_is_drawn_without_an_amount(books):
    assert books.repost("bill", 1, books.draw(0)) == set()
    assert len(books.postings) == 1


def test_many_bills_are_posted_at_once(books):
    made = [
        ledger.BillConsumption(f"bill {number}", 1, [books.draw("0.01")]) for number in range(900)
    ]
    for _ in range(2):
        with books.writing() as transaction:
            ledger.repost_bills(transaction, made)

    assert books.amount == 91
    with books.reading() as reader:
        found = ledger.consumption_of(reader, [each.bill_id for each in made])
    assert {each: len(postings) for each, postings in found.items()} == {
        each.bill_id: 1 for each in made
    }


def test_transactions_show_bills_and_what_was_taken_back(books):
    books.repost("bill", 1, books.draw(30))
    books.repost("bill", 2, books.draw(40))

    with books.reading() as reader:
        found = balances.of_balance(reader, books.balance.id)
        of_bill = balances.latest(
            reader, books.balance.id, {"entity_type": "BILL", "entity_id": "bill"}, None, 9
        )
    assert [(each.amount, each.cause.type) for each in found] == [
        (100, "USER"),
        (-30, "BILL"),
        (30, "BILL"),
        (-40, "BILL"),
    ]
    assert of_bill == found[:0:-1]


def test_what_is_drawn_from_a_commitment_is_no_transaction_of_a_balance(books, clock):
    books.repost("bill", 1, books.draw(30, "commitment"))

    with books.reading() as reader:
        assert balances.of_balance(reader, books.commitment) == []
        assert len(list(balances.one_by_one(reader, None, clock()))) == 1


def test_movements_say_which_bill_drew_them(books):
    bill = books.bill(date(2026, 11, 1))
    books.repost(bill, 1, books.draw(30))
    books.repost("another", 1, books.draw(5))

    credit, drawn, lost = books.movements(books.balance.id)
    assert (credit.kind, credit.change, credit.bill, credit.applied) == ("credit", 100, None, None)
    assert (drawn.kind, drawn.change, drawn.is_final) == ("consumption", -30, False)
    assert drawn.bill == BillRank.of(date(2026, 11, 1), "MONTHLY", 1)
    assert (lost.change, lost.bill) == (-5, None)


def test_movements_leave_out_what_was_taken_back(books):
    books.repost("bill", 1, books.draw(30))
    books.repost("bill", 2, books.draw(20))

    assert [each.change for each in books.movements(books.balance.id)] == [100, -20]
    assert books.movements("another") == []


@pytest.mark.parametrize("how", ["locked", "closed"])
def test_movements_say_whether_their_bill_stays_as_it_is(books, how):
    first, second = (books.bill(date(2026, month, 1)) for month in (10, 11))
    for bill in (first, second):
        books.repost(bill, 1, books.draw(1))
    with books.writing() as transaction:
        if how == "locked":
            bills.lock(transaction, first)
        else:
            [config] = transaction.all(BillConfig)
            closed = BillConfig(bill_lock_date=date(2026, 9, 30))
            transaction.update(config.id, config.version, closed)

    _, *drawn = books.movements(books.balance.id)
    assert [each.is_final for each in drawn] == [True, False]


def test_a_commitment_that_was_drawn_from_is_kept(books):
    with books.reading() as reader:
        balances.refuse_drawn_commitment(reader, books.commitment)
    books.repost("bill", 1, books.draw(1, "commitment"))

    with books.reading() as reader, pytest.raises(StillReferenced):
        balances.refuse_drawn_commitment(reader, books.commitment)


def test_sources_are_locked(books):
    with books.writing() as transaction:
        ledger.lock_sources(transaction, [books.balance.id, books.commitment])
        assert ledger.read_movements(transaction, [books.balance.id])


steps = st.lists(
    st.tuples(
        st.sampled_from(["one", "two"]),
        st.lists(
            st.tuples(st.sampled_from(["balance", "commitment", "rollover"]), st.integers(0, 3)),
            max_size=4,
        ),
    ),
    max_size=6,
)


@settings(
    max_examples=examples(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=timedelta(seconds=10),
)
@given(steps=steps)
def test_however_often_bills_are_calculated_the_ledger_says_what_they_draw(books, steps):
    drawn = {"one": [], "two": []}
    for version, (bill, draws) in enumerate(steps, start=1):
        drawn[bill] = draws
        books.repost(bill, version, *(books.draw(amount, kind) for kind, amount in draws))

    assert sum(account_sums(books.postings).values()) == 0
    total = {kind: D(0) for kind in ("balance", "commitment", "rollover")}
    for draws in drawn.values():
        for kind, amount in draws:
            total[kind] += amount
    assert books.spent == total["commitment"]
    assert books.amount == 100 - total["balance"] - total["rollover"]
    for bill in drawn:
        books.repost(bill, 99)
    assert (books.spent, books.amount) == (0, 100)
