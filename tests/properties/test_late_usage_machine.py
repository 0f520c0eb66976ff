"""The law of late usage: all bills, memos included, and what is open, are the price of known usage.

It begins where money can be charged twice: August is billed and closed, and of its bills something
is carried. Usage comes in time or late, is retracted and brought back; bills are made by the
schedule and by hand, one by one or all of a month, approved, locked, deleted, and made anew or not;
memos are deleted; the policy changes. The model knows no bills: it has the measurements that are there,
and a price.
"""

import shutil
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.late_usage import LateUsageStatus
from meterlake.model.bills.memos import CreditLineItem, DebitLineItem
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Conflict, NotFound
from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline.backfill import lifecycle
from meterlake.pipeline.billing.bills import delete_bill
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.jobs.schedule import order_of_run
from meterlake.pipeline.billing.late_usage.lists import list_late
from meterlake.pipeline.billing.memos import MemoRef, delete_memo, get_memo
from meterlake.pipeline.billing.verification.verify import VerifyChoice, verify_bills
from meterlake.stores.state.billing.bills import bills
from tests.bills import price_egress, subscribe
from tests.homes import HEADER, Home, a_home, configure, csv_row
from tests.laws import examples, run_machine

ACCOUNTS = ("acme", "bolt")
POLICIES = ("CARRY_FORWARD", "RECALCULATE", "REPORT")
BEGIN, END = datetime(2026, 8, 20, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC)
CLOSED = datetime(2026, 9, 2, 12, tzinfo=UTC)
MONTHS = (Month(2026, 8), Month(2026, 9), Month(2026, 10))
STANDING, FREE_FROM = 31, 100


def kind_of(amount):
    """The kind of memo that carries an amount."""
    return CreditLineItem if amount < 0 else DebitLineItem


def price(usage):
    """What a month costs: 1 a unit up to 100, nothing beyond, and 31."""
    return STANDING + min(usage, FREE_FROM)


class LateUsageMachine(RuleBasedStateMachine):
    """A home, and a model of what was used."""

    home: Home
    # The measurements of each file: account, month, units; and the backfill that retracted it.
    files: dict[str, tuple[str, str, int]]
    retracted: dict[str, str]
    policy: str

    # What people have given away by deleting a memo, and the calculation of the bill it is about.
    forgiven: list[tuple[str, str, Decimal]]

    @initialize()
    def begin(self):
        """August is billed and closed, and 5 more of it are on the bills of September."""
        self.folder = Path(tempfile.mkdtemp(prefix="meterlake-late-"))
        self.opened = a_home(self.folder / "home")
        self.home = self.opened.__enter__()
        price_egress(self.home)
        subscribe(self.home, *ACCOUNTS, start="2026-08-01T00:00:00Z")
        self.files, self.retracted, self.forgiven = {}, {}, []
        self.choose("CARRY_FORWARD")
        self.home.clock.time = BEGIN
        for account in ACCOUNTS:
            self.ingest(account, MONTHS[0], 40)
        self.home.clock.time = CLOSED - timedelta(days=1)
        self.schedule()
        self.home.clock.time = CLOSED
        for account in ACCOUNTS:
            self.ingest(account, MONTHS[0], 5)
        self.schedule()
        assert {each.status for each in self.lates()} == {LateUsageStatus.CARRIED}

    def choose(self, policy):
        wanted = {"daysBeforeBillDue": 14, "lateUsage": policy}
        configure(self.home.organization, organizationConfig=wanted)
        self.policy = policy

    @rule(policy=st.sampled_from(POLICIES))
    def change_the_policy(self, policy):
        self.choose(policy)

    @rule(days=st.sampled_from([1, 3, 11, 31]))
    def let_time_pass(self, days):
        self.home.clock.time = min(self.home.clock.time + timedelta(days=days), END)

    @rule(
        account=st.sampled_from(ACCOUNTS),
        month=st.sampled_from(MONTHS),
        units=st.integers(1, 90),
    )
    def ingest(self, account, month, units):
        day = datetime(month.year, month.month, 3, 10, tzinfo=UTC)
        if day > self.home.clock():
            return
        name = f"f{len(self.files)}"
        row = csv_row(name, units, account, ts=day.isoformat())
        self.home.ingest(f"{name}.csv", HEADER + row)
        self.files[name] = (account, str(month), units)

    @precondition(lambda self: self.files.keys() - self.retracted.keys())
    @rule(data=st.data())
    def retract(self, data):
        name = data.draw(st.sampled_from(sorted(self.files.keys() - self.retracted.keys())))
        query = f"SELECT identity FROM lake.source WHERE name = '{name}.csv'"
        [(identity,)] = self.home.query(query)
        spec = BackfillSpec(Mode.RETRACT, reason="a law", source=identity)
        organization = self.home.organization
        made = lifecycle.start(organization, lifecycle.Order(spec, "ann"))
        lifecycle.apply(organization, made.id, "ann")
        self.retracted[name] = made.id

    @precondition(lambda self: self.retracted)
    @rule(data=st.data())
    def revert(self, data):
        name = data.draw(st.sampled_from(sorted(self.retracted)))
        try:
            lifecycle.revert(self.home.organization, self.retracted[name], "ann")
        except Conflict:
            return
        del self.retracted[name]

    @rule(month=st.sampled_from(MONTHS))
    def bill_by_hand(self, month):
        self.make(BillOrder(days=month))

    def make(self, order):
        assert bill_order(self.home.organization, order).failures == []

    def stored(self):
        with self.home.organization.reading() as reader:
            return {each.id: each for each in bills.of_period(reader)}

    @precondition(lambda self: self.stored())
    @rule(data=st.data())
    def bill_one_by_hand(self, data):
        self.make(BillOrder(bill_ids=(data.draw(self.one_of(self.stored())),)))

    def one_of(self, found):
        """The id of a bill of some, in an order that is the same when an example is run again."""
        return st.sampled_from(
            sorted(
                found,
                key=lambda id_: (
                    found[id_].content.body["accountCode"],
                    found[id_].content.key.rank,
                ),
            )
        )

    def lates(self):
        return list_late(self.home.organization)

    def memos_to_delete(self):
        """The memos of late usage of bills that no memo was taken back of, on bills that are open."""
        found, late = self.stored(), self.lates()
        corrected = {each.bill_id for each in late if each.is_correction}
        return [
            (each.bill_id, line)
            for each in late
            for line in each.lines
            if each.bill_id in found.keys() - corrected
            and line.memo_bill_id in found
            and not found[line.memo_bill_id].locked
            and self.memo(line) is not None
        ]

    def memo(self, line):
        ref = MemoRef(kind_of(line.memo_amount), line.memo_bill_id, line.memo_id)
        try:
            return get_memo(self.home.organization, ref) and ref
        except NotFound:
            return None

    @precondition(lambda self: self.memos_to_delete())
    @rule(data=st.data())
    def delete_a_memo(self, data):
        bill_id, line = data.draw(st.sampled_from(self.memos_to_delete()))
        delete_memo(self.home.organization, "ann", self.memo(line))
        bill = self.stored()[bill_id]
        self.forgiven.append((bill_id, bill.job_id, line.memo_amount))

    @precondition(lambda self: self.stored())
    @rule(data=st.data(), locks=st.booleans())
    def approve(self, data, locks):
        found = {id_: each for id_, each in self.stored().items() if not each.locked}
        if not found:
            return
        id_ = data.draw(self.one_of(found))
        with self.home.organization.transaction("ann") as transaction:
            bills.set_status(transaction, id_, BillStatus.APPROVED)
            if locks:
                bills.lock(transaction, id_)

    @precondition(lambda self: self.stored())
    @rule(data=st.data(), makes_anew=st.booleans())
    def delete(self, data, makes_anew):
        found = {id_: each for id_, each in self.stored().items() if not each.locked}
        if not found:
            return
        id_ = data.draw(self.one_of(found))
        delete_bill(self.home.organization, "ann", id_)
        if makes_anew:
            self.make(BillOrder(days=Month.parse(found[id_].content.period)))

    @rule()
    def schedule(self):
        """Then all that is known is billed, carried or open."""
        with self.home.organization.reading() as reader:
            [record] = reader.all(OrganizationConfig)
        self.make(order_of_run(record.entity, self.home.clock()))
        self.home.clock.advance(minutes=1)
        self.check()

    def check(self):
        """All bills, memos included, are the price of known usage; but for what is open."""
        billed, expected = self.sums()
        for late in self.open_ones():
            assert late.difference is not None
            billed[late.account_code] += late.difference
        assert billed == expected
        open_bills = [(each.bill_id, each.is_correction) for each in self.open_ones()]
        assert len(open_bills) == len(set(open_bills))

    def sums(self):
        """What is billed, and the price of the usage that is known, of each account."""
        used = defaultdict(int)
        for name, (account, month, units) in self.files.items():
            if name not in self.retracted:
                used[account, month] += units
        billed, expected = defaultdict(Decimal), defaultdict(Decimal)
        for each in self.stored().values():
            account = each.content.body["accountCode"]
            billed[account] += each.content.total
            expected[account] += price(used[account, each.content.period])
            for bill_id, job_id, amount in self.forgiven:
                # A bill that is calculated again has what was given away of it.
                if (bill_id, job_id) == (each.id, each.job_id):
                    expected[account] -= amount
        return billed, expected

    def open_ones(self):
        """What is on no bill; nothing but what waits for one if late usage is carried."""
        found = [each for each in self.lates() if each.is_open]
        if self.policy == "CARRY_FORWARD":
            assert {each.status for each in found} <= {LateUsageStatus.WAITING}
        return found

    def carry_all(self):
        """With an open bill of each account, all is carried: bills alone are the price."""
        self.choose("CARRY_FORWARD")
        self.home.clock.time = max(self.home.clock.time, END) + timedelta(days=31)
        self.schedule()
        assert self.open_ones() == []
        billed, expected = self.sums()
        assert billed == expected

    def teardown(self):
        if not hasattr(self, "opened"):
            return
        try:
            # Not after a failure: it would hide it.
            if sys.exc_info()[0] is None:
                self.carry_all()
            found = verify_bills(self.home.organization, VerifyChoice())
            assert found.differences == ()
        finally:
            self.close()

    def close(self):
        self.opened.__exit__(None, None, None)
        shutil.rmtree(self.folder, ignore_errors=True)


def test_late_usage_is_charged_once_whatever_comes_after_it_was_carried():
    """A few steps by hand, so that the law has always met the second file of a closed bill."""
    machine = LateUsageMachine()
    try:
        machine.begin()
        machine.ingest("acme", MONTHS[0], 10)
        machine.schedule()
        machine.change_the_policy("RECALCULATE")
        machine.ingest("acme", MONTHS[0], 3)
        machine.schedule()
    finally:
        machine.close()


@pytest.mark.slow
def test_a_few_steps_leave_bills_that_are_the_price_of_known_usage():
    run_machine(LateUsageMachine, 1, 5)


@pytest.mark.slow
def test_bills_with_memos_and_what_is_open_are_the_price_of_known_usage():
    run_machine(LateUsageMachine, examples(8), 25)
