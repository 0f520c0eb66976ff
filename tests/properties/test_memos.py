"""Lines of people on a bill: whatever is done in which order, the bill is what it should be."""

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.bills.memos import CreditLineItem, DebitLineItem
from meterlake.model.bills.requests import BillStatus
from meterlake.model.rules.memos import signed_amount
from meterlake.model.values.ids import derived_id
from meterlake.stores.state import State
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import put_all
from meterlake.stores.state.billing.memos import memos
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from meterlake.stores.state.core.engine import sqlite_url
from tests.organizations import new_organization

ID = "5d9d4a3e-0000-4000-8000-000000000000"
WHEN = datetime(2026, 10, 1, tzinfo=UTC)
ACCOUNTS = count()
AMOUNTS = st.decimals(Decimal("0.01"), Decimal(10**6), places=2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([CreditLineItem, DebitLineItem]), AMOUNTS),
        st.tuples(st.just("change"), st.integers(0, 9), AMOUNTS),
        st.tuples(st.just("delete"), st.integers(0, 9), st.none()),
        st.tuples(st.just("bill"), st.integers(0, 3), AMOUNTS),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with State.at(sqlite_url(tmp_path_factory.mktemp("memos") / "state.sqlite")) as state:
        yield state, new_organization(state)


def item(kind, amount):
    return kind(
        product_id=ID,
        accounting_product_id=ID,
        description="d",
        amount=amount,
        referenced_bill_id=ID,
        referenced_line_item_id=ID,
        service_period_start_date=WHEN,
        service_period_end_date=WHEN,
    )


def shown(entity):
    return {"convertedSubtotal": signed_amount(entity), "lineItemType": entity.type.value}


def calculated(account, number, amount):
    lines = [
        LineContent(f"USAGE/{n}", {"sequenceNumber": n, "convertedSubtotal": amount}, {})
        for n in range(1, number + 1)
    ]
    key = BillKey(account, date(2026, 11, 1), "MONTHLY", 1)
    total = amount * number
    return BillContent(key, "2026-10", "USD", total, {"billTotal": total}, {}, lines)


class Model:
    """What a bill has to be, kept by hand."""

    def __init__(self, transaction, account):
        self.transaction, self.account = transaction, account
        self.calculated, self.memos = Decimal(0), []
        self.bill(0, Decimal(0))

    def bill(self, lines, amount):
        content = calculated(self.account, lines, amount)
        [outcome] = put_all(self.transaction, [content], BillStatus.PENDING)
        self.id, self.calculated, self.count = outcome.bill_id, amount * lines, lines
        assert outcome.total == self.total
        again = put_all(self.transaction, [content], BillStatus.PENDING)
        assert [each.stored.value for each in again] == ["unchanged"]

    @property
    def total(self):
        return self.calculated + sum(signed_amount(each.record.entity) for each in self.memos)

    def add(self, kind, amount):
        bill, entity = bills.open_bill(self.transaction, self.id), item(kind, amount)
        self.memos.append(memos.create_memo(self.transaction, self.id, entity, shown(entity)))
        bills.renew_memos(self.transaction, bill)

    def change(self, index, amount):
        if index < len(self.memos):
            bill, memo = bills.open_bill(self.transaction, self.id), self.memos[index]
            entity = replace_amount(memo.record.entity, amount)
            version = memo.record.version
            self.memos[index] = memos.update_memo(
                self.transaction, memo, version, entity, shown(entity)
            )
            bills.renew_memos(self.transaction, bill)

    def delete(self, index, _):
        if index < len(self.memos):
            bill = bills.open_bill(self.transaction, self.id)
            memos.delete_memo(self.transaction, self.memos.pop(index))
            bills.renew_memos(self.transaction, bill)

    def check(self):
        bill = bills.get(self.transaction, self.id)
        lines = bill.content.lines
        assert bill.content.total == bill.content.body["billTotal"] == self.total
        assert [line.body["sequenceNumber"] for line in lines] == list(range(1, len(lines) + 1))
        assert [line.key for line in lines[: self.count]] == [
            f"USAGE/{n}" for n in range(1, self.count + 1)
        ]
        ids = [line_id(bill.id, line.key) for line in lines[self.count :]]
        assert ids == [each.record.id for each in self.memos]
        assert bill.status is BillStatus.PENDING


def replace_amount(entity, amount):
    return entity.model_copy(update={"amount": amount})


@given(steps=STEPS)
def test_a_bill_comes_to_its_calculated_lines_and_those_of_people(home, steps):
    state, org = home
    with state.transaction(org, "USER_1") as transaction:
        model = Model(transaction, derived_id("account", str(next(ACCOUNTS))))
        for step, first, second in steps:
            getattr(model, step)(first, second)
            model.check()


def test_a_line_may_apply_in_part():
    entity = replace_amount(item(CreditLineItem, Decimal(5)), Decimal(5))
    part = entity.model_copy(update={"amount_to_apply_on_bill": Decimal(2)})
    assert (signed_amount(entity), signed_amount(part)) == (Decimal(-5), Decimal(-2))
