"""The law of closed months: bills, exported files and the published file have the same quantities.

It begins with a month that waits for its approval. Files come before, between and after the review
and the approval, are retracted and brought back; bills are made by hand, deleted, locked and
approved one by one; reviews are rejected, months are opened again, and the policy for late usage
changes. The model has the measurements that are there, what the approval saw, and what was locked.
"""

import shutil
import sys
import tempfile
from collections import defaultdict
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
from meterlake.model.bills.requests import BillStatus
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.late_usage.lists import list_late
from meterlake.pipeline.closing.bill_review import review_bills
from meterlake.pipeline.closing.close_month import ClosingStep, Rejected
from meterlake.pipeline.closing.closing_bills import NotReviewed, NotShown, carry_out_review
from meterlake.stores.state.billing.bills import bills
from tests.closing_world import ACCOUNTS, ClosingWorld, MonthBillState, a_month_to_close
from tests.homes import HEADER
from tests.late_bills import choose, retract, revert, schedule
from tests.laws import examples, run_machine

pytestmark = pytest.mark.long

POLICIES = ("CARRY_FORWARD", "RECALCULATE", "REPORT")
STANDING, FREE_FROM = 31, 100
units = st.integers(1, 90)
accounts = st.sampled_from(ACCOUNTS)


def price(usage):
    """What a month costs: 1 a unit up to 100, nothing beyond, and 31."""
    return STANDING + min(usage, FREE_FROM)


class ClosingMachine(RuleBasedStateMachine):
    """A month, and a model of what was used in it."""

    world: ClosingWorld
    # The units of each file that was taken in, by account; those that lie in the drop folder.
    files: dict[str, tuple[str, int]]
    waiting: dict[str, tuple[str, int]]
    retracted: dict[str, str]
    policy: str
    # What the steps before the review saw, or the approval; None before, and behind a reopening.
    shown: dict[str, int] | None
    approved: dict[str, int] | None
    # Whether somebody did something since the bills were made that may make them others.
    touched: bool
    closed: bool
    # The bills of the closed month, and what was exported and published with it.
    kept: dict[str, MonthBillState]

    @initialize()
    def begin(self):
        """The month waits for its approval."""
        self.folder = Path(tempfile.mkdtemp(prefix="meterlake-closing-"))
        self.opened = a_month_to_close(self.folder / "home")
        self.world = self.opened.__enter__()
        self.home = self.world.home
        self.files, self.waiting, self.retracted, self.kept = {}, {}, {}, {}
        self.shown = self.approved = None
        self.bad = 0
        self.touched = self.closed = False
        self.change_the_policy("REPORT")
        for account in ACCOUNTS:
            self.ingest(account, 40)
        self.look()

    # ---- what comes in ---------------------------------------------------------------------------

    def known(self):
        """The usage that is there, of each account."""
        found = dict.fromkeys(ACCOUNTS, 0)
        for name, (account, used) in self.files.items():
            if name not in self.retracted:
                found[account] += used
        return found

    def new_name(self):
        return f"f{len(self.files) + len(self.waiting) + self.bad}"

    @rule(account=accounts, units=units)
    def ingest(self, account, units):
        name = self.new_name()
        self.world.ingest(name, account, units)
        self.files[name] = (account, units)
        self.go_on()

    @rule(account=accounts, units=units)
    def drop(self, account, units):
        name = self.new_name()
        self.world.drop(name, account, units)
        self.waiting[name] = (account, units)

    @rule()
    def ingest_what_is_rejected(self):
        """A row without a price of its own, so to say: nobody can take it in."""
        name = self.new_name()
        self.home.ingest(f"{name}.csv", HEADER + self.world.row(name, "acme", "many"))
        self.bad += 1
        self.go_on()

    @precondition(lambda self: self.files.keys() - self.retracted.keys())
    @rule(data=st.data())
    def retract(self, data):
        name = data.draw(st.sampled_from(sorted(self.files.keys() - self.retracted.keys())))
        self.retracted[name] = retract(self.home, f"{name}.csv")
        self.go_on()

    @precondition(lambda self: self.retracted)
    @rule(data=st.data())
    def revert(self, data):
        name = data.draw(st.sampled_from(sorted(self.retracted)))
        revert(self.home, self.retracted.pop(name))
        self.go_on()

    # ---- what people do with bills ---------------------------------------------------------------

    @rule(policy=st.sampled_from(POLICIES))
    def change_the_policy(self, policy):
        choose(self.home, policy)
        self.policy = policy

    @rule()
    def bill_by_hand(self):
        """As `meterlake bill` does: bills that are approved stay as they are."""
        order = BillOrder(days=self.world.month, keep_approved=True)
        assert bill_order(self.home.organization, order).failures == []
        self.touched = True
        self.go_on()

    @rule()
    def schedule(self):
        """Late usage of the closed month becomes what the policy says."""
        late = self.late_accounts()
        before = self.world.bills()
        assert schedule(self.home).failures == []
        self.touched = True
        if self.closed:
            self.check_late(late, before)
            self.kept = self.world.bills()
        self.go_on()

    def late_accounts(self):
        """The accounts whose bills have other usage than is known."""
        known = self.known()
        return {code for code, bill in self.world.bills().items() if bill.quantity != known[code]}

    def check_late(self, late, before):
        """No bill of the closed month changes but by RECALCULATE; memos carry by CARRY_FORWARD."""
        after, known = self.world.bills(), self.known()
        for code in ACCOUNTS:
            if self.policy == "RECALCULATE" and code in late and not before[code].locked:
                assert after[code].quantity == known[code]
                assert after[code].status == "PENDING"
            else:
                assert after[code] == before[code]
        billed, expected = self.sums()
        assert billed == expected

    def sums(self):
        """All bills with what is open about them, and the price of the usage that is known."""
        with self.home.organization.reading() as reader:
            stored = bills.of_period(reader)
        billed, expected = defaultdict(Decimal), defaultdict(Decimal)
        known, month = self.known(), str(self.world.month)
        for each in stored:
            account = each.content.body["accountCode"]
            billed[account] += each.content.total
            expected[account] += price(known[account] if each.content.period == month else 0)
        for each in list_late(self.home.organization):
            if each.is_open:
                billed[each.account_code] += each.difference
        return billed, expected

    @rule(account=accounts, locks=st.booleans())
    def approve_one(self, account, locks):
        """What one bill is approved for is no approval of the month."""
        found = self.world.bills().get(account)
        if found is None or found.locked or self.closed:
            return
        with self.home.organization.transaction("bob") as transaction:
            bills.set_status(transaction, found.id, BillStatus.APPROVED)
            if locks:
                bills.lock(transaction, found.id)
        self.touched = True

    @rule(account=accounts)
    def delete_one(self, account):
        found = self.world.bills().get(account)
        if found is None or found.locked or self.closed or self.approved is not None:
            return
        with self.home.organization.transaction("bob") as transaction:
            bills.remove(transaction, found.id)
        self.touched = True

    # ---- closing ---------------------------------------------------------------------------------

    @rule()
    def look(self):
        """Go on to the review: what is done is not done again."""
        done = self.world.closing.outcomes()
        if ClosingStep.INGEST not in done and not self.closed:
            self.files |= self.waiting
            self.waiting.clear()
        if ClosingStep.REVIEW in done:
            return
        self.world.look()
        if ClosingStep.BILL not in done:
            self.shown, self.touched = self.known(), False
        self.go_on()

    @rule()
    def approve(self):
        """What was shown is approved, and nothing else."""
        done = self.world.closing.outcomes()
        if self.closed or ClosingStep.REVIEW in done:
            return
        if ClosingStep.BILL not in done:
            with pytest.raises(NotShown):
                self.world.approve()
            return
        before = self.world.bills()
        try:
            carry_out_review(self.world.closing)
        except NotReviewed:
            assert self.touched or self.known() != self.shown
            # Nobody approved anything.
            for code, bill in self.world.bills().items():
                assert bill.status == "PENDING" or before[code].status == "APPROVED"
            self.shown = None
            return
        assert self.known() == self.shown
        self.approved = self.shown
        self.check_open({code for code, bill in before.items() if bill.status == "APPROVED"})
        self.go_on()

    def check_open(self, approved_before):
        """What is open after the approval is what a review of now finds, and what the model knows."""
        organization = self.home.organization
        open_ = self.world.closing.outcomes()[ClosingStep.REVIEW]["open"]
        assert open_ == len(review_bills(organization, self.world.month))
        late = self.late_accounts()
        assert late == self.left()
        assert open_ > 0 or not (self.bad or late)
        # What came late for an approved bill, and went again, is looked at all the same.
        assert open_ == 0 or self.bad or approved_before

    def left(self):
        """The accounts whose bills the closing left as they were, and would have made others."""
        done = self.world.closing.outcomes()[ClosingStep.BILL]
        return {each["account"] for each in done.get("left", ())}

    @rule()
    def hand_over(self):
        """Go on behind the approval, perhaps long after it."""
        if self.closed or self.approved is None:
            return
        self.world.approve()
        self.closed = True
        self.kept = self.world.bills()
        assert {each.status for each in self.kept.values()} == {"APPROVED"}
        self.check_quantities()
        self.go_on()

    def check_quantities(self):
        """Exported and published is what the approval saw; so are the bills that it approved."""
        for found in (self.world.exported(), self.world.published()):
            assert {code: found.get(code, 0) for code in ACCOUNTS} == self.approved
        left = self.left()
        for code, bill in self.world.bills().items():
            assert code in left or bill.quantity == self.approved[code]

    @rule()
    def close(self):
        """Everything that is left, as people do it who look and approve at once."""
        if self.closed:
            return
        if self.approved is None:
            self.look()
            self.approve()
            if self.approved is None:
                self.look()
                self.approve()
        self.hand_over()
        assert self.closed

    @rule(account=accounts, units=units)
    def close_around_a_file(self, account, units):
        """A file comes between review and approval: it is seen before the month is closed."""
        if self.closed or self.approved is not None:
            return
        self.look()
        self.ingest(account, units)
        self.approve()
        assert self.approved is None
        self.close()
        assert self.approved == self.known()

    @rule()
    def reject(self):
        done = self.world.closing.outcomes()
        if ClosingStep.BILL not in done or ClosingStep.REVIEW in done:
            return
        with pytest.raises(Rejected):
            self.world.reject("a law")
        self.shown = None
        with pytest.raises(NotShown):
            self.world.approve()

    @precondition(lambda self: self.closed)
    @rule()
    def publish_again(self):
        self.world.publish()
        self.check_quantities_of_files()

    @precondition(lambda self: self.closed)
    @rule()
    def reopen(self):
        before = self.world.bills()
        done = self.world.reopen("a law")
        after = self.world.bills()
        for code, bill in after.items():
            assert bill.status == ("APPROVED" if bill.locked else "PENDING")
            assert (bill.quantity, bill.total) == (before[code].quantity, before[code].total)
        assert done.locked_bills == sum(each.locked for each in after.values())
        assert done.pending_bills == sum(not each.locked for each in after.values())
        assert self.world.closing.reopenings[-1]["reason"] == "a law"
        self.shown = self.approved = None
        self.closed = False
        with pytest.raises(NotShown):
            self.world.approve()

    def check_quantities_of_files(self):
        for found in (self.world.exported(), self.world.published()):
            assert {code: found.get(code, 0) for code in ACCOUNTS} == self.approved

    def go_on(self):
        """Time passes; what is closed stays as it is."""
        self.home.clock.advance(minutes=1)
        if self.closed:
            assert self.world.bills() == self.kept

    def teardown(self):
        if not hasattr(self, "opened"):
            return
        try:
            # Not after a failure: it would hide it.
            if sys.exc_info()[0] is None:
                self.close()
                self.check_quantities_of_files()
        finally:
            self.end()

    def end(self):
        self.opened.__exit__(None, None, None)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.long
def test_a_closed_month_has_one_quantity_whatever_comes_around_its_approval():
    """A few steps by hand: files before and behind the review, and late usage of a closed month."""
    machine = ClosingMachine()
    try:
        machine.begin()
        machine.drop("bolt", 3)
        machine.close_around_a_file("acme", 5)
        machine.change_the_policy("RECALCULATE")
        machine.ingest("acme", 7)
        machine.schedule()
    finally:
        machine.end()


@pytest.mark.slow
def test_a_closed_month_has_one_quantity_after_whatever_people_did():
    run_machine(ClosingMachine, examples(8), 25)
