"""Sequential numbers of bills: in the order of creation, never twice, on both databases."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from decimal import Decimal
from threading import Barrier

import pytest

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Locked
from meterlake.model.values.ids import derived_id
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import put_all
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey
from meterlake.stores.state.core.many_rows import CHUNK

WRITERS = 4
DAY = date(2026, 11, 1)


def content(number):
    key = BillKey(derived_id("account", str(number)), DAY, "MONTHLY", 1)
    return BillContent(key, "2026-10", "USD", Decimal(number), {}, {}, ())


@pytest.fixture
def write(state, org):
    """Call a function with a transaction of its own."""

    def writer(function, *arguments):
        with state.transaction(org, "USER_1") as transaction:
            return function(transaction, *arguments)

    return writer


@pytest.fixture
def configure(write):
    """Set the prefix and the start of numbers."""

    def setter(prefix, start=None):
        def put(transaction):
            entity = OrganizationConfig(
                currency="USD",
                days_before_bill_due=1,
                bill_prefix=prefix,
                sequence_start_number=start,
            )
            for found in transaction.all(OrganizationConfig):
                return transaction.update(found.id, found.version, entity)
            return transaction.create(entity)

        write(put)

    return setter


def make(write, *numbers):
    write(put_all, [content(number) for number in numbers], BillStatus.PENDING)


@pytest.fixture
def given(state, org):
    """The numbers that bills have, by what they come to."""

    def reader():
        with state.reading(org) as found:
            return {int(b.content.total): b.invoice_number for b in bills.of_period(found)}

    return reader


def test_without_a_prefix_there_are_no_numbers(write, configure, given):
    make(write, 1)
    configure(None, 100)
    make(write, 2)
    configure("", 100)
    make(write, 3)
    assert given() == {1: None, 2: None, 3: None}


def test_numbers_follow_the_start_and_stay(write, configure, given):
    configure("INVOICE-", 100)
    make(write, 1, 2)
    write(bills.put, content(3))
    changed = replace(content(1), currency="EUR")
    write(put_all, [changed], BillStatus.PENDING)
    make(write, 2)

    assert given() == {1: "INVOICE-101", 2: "INVOICE-102", 3: "INVOICE-103"}


def test_numbers_only_go_up_whatever_the_settings_become(write, configure, given):
    configure("A-")
    make(write, 1)
    configure("B-", 50)
    make(write, 2)
    configure("A-", 3)
    make(write, 3)
    assert given() == {1: "A-1", 2: "B-51", 3: "A-52"}


def test_the_number_of_a_deleted_bill_is_not_given_again(state, org, write, configure, given):
    configure("A-")
    make(write, 1, 2)
    with state.reading(org) as reader:
        ids = {int(b.content.total): b.id for b in bills.of_period(reader)}
    write(bills.remove, ids[2])
    make(write, 2)
    assert given() == {1: "A-1", 2: "A-3"}
    write(bills.set_status, ids[1], BillStatus.APPROVED)
    write(bills.lock, ids[1])
    with pytest.raises(Locked):
        write(bills.remove, ids[1])


def test_what_is_not_committed_takes_no_number(write, configure, given):
    configure("A-")

    def fail(transaction):
        put_all(transaction, [content(1)], BillStatus.PENDING)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write(fail)
    make(write, 2)
    assert given() == {2: "A-1"}


def test_many_bills_are_numbered_in_their_order(write, configure, given):
    configure("A-")
    count = CHUNK + 5
    make(write, *range(1, count + 1))
    assert given() == {number: f"A-{number}" for number in range(1, count + 1)}


def test_workers_that_bill_at_the_same_time_share_the_numbers(write, configure, given):
    configure("A-")
    barrier = Barrier(WRITERS)

    def work(worker):
        barrier.wait()
        for turn in range(5):
            make(write, *(worker * 100 + turn * 10 + each for each in range(1, 4)))

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(work, range(WRITERS)))

    numbers = sorted(int(number.removeprefix("A-")) for number in given().values())
    assert numbers == list(range(1, WRITERS * 5 * 3 + 1))
