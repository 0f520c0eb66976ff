"""What bills said before stays, and what an organization was stays readable."""

from dataclasses import replace
from decimal import Decimal

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import put_all
from meterlake.stores.state.billing.bills.versions import get_version, list_versions
from meterlake.stores.state.billing.calculations.pins import last_transaction
from meterlake.stores.state.core.views.past_state import PastState
from tests.unit.stores.state.billing.bills.test_bills import CONTENT, LINES

OTHER = replace(CONTENT, total=Decimal("15.1"), lines=LINES[:1], pins={"snapshot": 8})


@pytest.fixture
def write(state, org):
    def writer(function, *arguments, author="USER_1"):
        with state.transaction(org, author) as transaction:
            return function(transaction, *arguments)

    return writer


def put_one(transaction, content):
    put_all(transaction, [content], BillStatus.PENDING)
    return bills.find(transaction, content)


def number_of(state, org):
    with state.reading(org) as reader:
        return last_transaction(reader)


@pytest.mark.parametrize("put", [put_one, lambda transaction, c: bills.put(transaction, c)[0]])
def test_every_content_of_a_bill_stays_with_its_lines(state, org, write, put):
    bill = write(put, CONTENT)
    write(bills.set_status, bill.id, BillStatus.APPROVED)
    write(put, OTHER, author="USER_2")

    with state.reading(org) as reader:
        first, second = list_versions(reader, bill.id)
        before = get_version(reader, bill.id, 2)
        assert get_version(reader, bill.id, 1) == before
        now = get_version(reader, bill.id, 3)
        with pytest.raises(NotFound):
            get_version(reader, bill.id, 4)
        with pytest.raises(NotFound):
            get_version(reader, bill.id, 0)
    assert (first.version, first.content.total, first.replaced_by) == (1, Decimal("14.1"), "USER_2")
    assert (second.version, second.content.total, second.replaced) == (3, Decimal("15.1"), None)
    assert before.content == bill.content
    assert (now.content.pins, len(now.content.lines)) == ({"snapshot": 8}, 1)


def test_a_bill_that_stays_as_it_is_has_one_version(state, org, write):
    bill = write(put_one, CONTENT)
    write(put_one, CONTENT)

    with state.reading(org) as reader:
        [only] = list_versions(reader, bill.id)
        with pytest.raises(NotFound):
            list_versions(reader, "another")
    assert only.version == 1


def test_a_deleted_bill_keeps_what_it_said(state, org, write):
    bill = write(put_one, CONTENT)
    write(bills.remove, bill.id)

    with state.reading(org) as reader:
        [last] = list_versions(reader, bill.id)
        found = get_version(reader, bill.id, 1)
    assert last.replaced is not None
    assert found.content == bill.content


def test_who_reads_the_past_sees_what_a_transaction_left(state, org, write):
    bill = write(put_one, CONTENT)
    created = number_of(state, org)
    write(put_one, OTHER)
    changed = number_of(state, org)
    write(bills.set_status, bill.id, BillStatus.APPROVED)
    write(bills.lock, bill.id)
    assert created < changed < number_of(state, org)

    def totals(number):
        with PastState(state, number).reading(org) as reader:
            return [(each.content.total, each.locked) for each in bills.one_by_one(reader)]

    assert totals(created - 1) == []
    assert totals(created) == [(Decimal("14.1"), False)]
    assert totals(changed) == [(Decimal("15.1"), False)]
    assert totals(number_of(state, org)) == [(Decimal("15.1"), True)]
    with PastState(state, created).reading(org) as reader:
        [found] = bills.one_by_one(reader)
        assert found.content == bill.content
    with state.reading(org) as reader:
        [found] = bills.one_by_one(reader)
        assert (found.locked, found.content.total) == (True, Decimal("15.1"))


def test_entities_of_one_instant_are_told_apart_by_their_transactions(state, org, write):
    parent = write(lambda t: t.create(Account(name="p", code="p", email_address="p@example.com")))
    child = Account(name="c", code="c", email_address="c@example.com", parent_account_id=parent.id)
    made = write(lambda t: t.create(child))
    first = number_of(state, org)
    alone = child.model_copy(update={"parent_account_id": None, "name": "alone"})
    changed = write(lambda t: t.update(made.id, 1, alone))
    second = number_of(state, org)
    write(lambda t: t.delete(Account, made.id))

    def names(number):
        with PastState(state, number).reading(org) as reader:
            related = reader.referring(Account, Account, parent.id)
            kept = len(reader.history(Account, made.id))
            return {each.entity.name for each in reader.all(Account)}, len(related), kept

    assert made.modified == changed.modified
    assert names(first) == ({"p", "c"}, 1, 1)
    assert names(second) == ({"p", "alone"}, 0, 2)
    assert names(number_of(state, org)) == ({"p"}, 0, 3)
    with PastState(state, first).reading(org) as reader:
        assert reader.find(Account, "c") == made
