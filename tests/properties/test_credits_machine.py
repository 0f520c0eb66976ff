"""Laws of commitments and balances at the level of whole bills, through the stores.

Whatever is billed, made again, deleted, topped up, charged late and locked, in whatever order: the
ledger is right at every moment, no source gives more than it has, and no bill takes more than it
owes. What sources pay in the end depends on no order of jobs.
"""

import shutil
import tempfile
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from unittest import TestCase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment
from meterlake.model.errors import Locked
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances.balances import create_transaction
from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.billing.bills import delete_bill, lock_bill, set_status
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.credits.balances import amounts
from meterlake.stores.state.core.postings import amounts_spent
from tests.bills import price_egress, subscribe
from tests.homes import HEADER, Home, csv_row, new_home, open_home
from tests.laws import examples

D = Decimal
MONTHS = tuple(Month(2026, number) for number in (5, 6, 7, 8))
AGREED, PREPAID, CARRIED = D(40), D(70), D(25)
ANN = "ann"
months = st.sampled_from(MONTHS)


def create(home, kind, **body):
    return entities.create(home.organization, ANN, ResourceRef(BY_ENTITY[kind], {}), body)


def top_up(home, balance_id, amount, day="2026-01-01"):
    principal = Principal(PrincipalType.USER, ANN, home.org_id, "session")
    body = {"amount": amount, "appliedDate": f"{day}T00:00:00Z"}
    create_transaction(home.organization, principal.author, balance_id, body)


def prepare(home: Home) -> None:
    """Accounts with usage in some months, a commitment, and balances of which one ends in July."""
    price_egress(home)
    subscribe(home, "acme", "bolt")
    rows = [
        csv_row(f"{code}-{month}", 10 + number, code, ts=f"{month}-03T10:00:00Z")
        for code in ("acme", "bolt")
        for number, month in enumerate(MONTHS)
    ]
    home.ingest("usage.csv", HEADER + "".join(rows))
    for code in ("acme", "bolt"):
        own = {"accountId": _account(home, code).id, "currency": "USD"}
        days = {"startDate": "2026-06-10", "endDate": "2027-01-01", "overageSurchargePercent": 10}
        create(home, Commitment, **own, **days, amount=AGREED, amountPrePaid=AGREED)
        start = {**own, "startDate": "2026-01-01T00:00:00Z"}
        for name, end in (("ends", "2026-07-15"), ("stays", "2027-01-01")):
            more = {"endDate": f"{end}T00:00:00Z", "rolloverEndDate": "2027-02-01T00:00:00Z"}
            made = create(
                home,
                Balance,
                **start,
                **more,
                code=f"{name}-{code}",
                name=name,
                rolloverAmount=CARRIED,
            )
            top_up(home, made["id"], PREPAID)


def _account(home, code):
    with home.organization.reading() as reader:
        found = reader.find(Account, code)
    assert found is not None
    return found


def make(home, month):
    result = bill(home.organization, month)
    assert result.failures == []


def stored(home):
    with home.organization.reading() as reader:
        return list(bills.of_period(reader))


def state_of(home):
    """What bills say, what balances hold, and what is spent of commitments."""
    with home.organization.reading() as reader:
        balances, commitments = reader.all(Balance), reader.all(Commitment)
        held = amounts(reader, [each.id for each in balances], home.clock())
        spent = amounts_spent(reader, [each.id for each in commitments])
        found = list(bills.of_period(reader))
    lines = {
        (each.content.key): [
            (line.body["lineItemType"], str(line.body["convertedSubtotal"]))
            for line in each.content.lines
        ]
        for each in found
    }
    return lines, {each.entity.code: held.get(each.id, ZERO) for each in balances}, spent


def check(home):
    """The ledger is right, no source is overdrawn, and no bill takes more than it owes."""
    assert check_ledger(home.organization).differences == ()
    lines, held, spent = state_of(home)
    assert all(amount >= 0 for amount in held.values()), held
    assert all(0 <= amount <= AGREED for amount in spent.values()), spent
    for found in lines.values():
        owed = sum((D(amount) for _, amount in found if D(amount) > 0), ZERO)
        paid = sum((D(amount) for kind, amount in found if kind.endswith("_CONSUMED")), ZERO)
        assert -owed <= paid <= 0


@pytest.fixture(scope="module")
def template():
    path = Path(tempfile.mkdtemp(prefix="meterlake-credits-")) / "home"
    org_id = new_home(path)
    with open_home(path, org_id) as home:
        prepare(home)
    yield path, org_id
    shutil.rmtree(path.parent)


@pytest.fixture(scope="module")
def home(template, tmp_path_factory):
    path, org_id = template
    copy = tmp_path_factory.mktemp("orders") / "home"
    shutil.copytree(path, copy)
    with open_home(copy, org_id) as found:
        yield found


@pytest.fixture(scope="module")
def in_order(home):
    """What comes of the months one after the other."""
    for month in MONTHS:
        make(home, month)
    check(home)
    return state_of(home)


@pytest.mark.slow
@settings(max_examples=examples(5))
@given(order=st.permutations(MONTHS), again=st.lists(months, max_size=2))
def test_in_which_order_months_are_billed_changes_nothing(home, in_order, order, again):
    for each in stored(home):
        delete_bill(home.organization, ANN, each.id)
    # Of one that has ended, what is not carried over is expired until a bill draws it.
    held = state_of(home)[1]
    assert {held[name] for name in held if name.startswith("stays")} == {PREPAID}
    assert {held[name] for name in held if name.startswith("ends")} == {CARRIED}

    for month in (*order, *again):
        make(home, month)
        check(home)

    assert state_of(home) == in_order
    postings = check_ledger(home.organization).postings
    for month in order:
        make(home, month)
    assert check_ledger(home.organization).postings == postings


class CreditsMachine(RuleBasedStateMachine):
    """Everything that is done with bills and their sources, in any order."""

    template: tuple[Path, str]

    @initialize()
    def open(self):
        path, org_id = self.template
        self.folder = tempfile.mkdtemp(prefix="meterlake-credits-")
        copy = Path(self.folder, "home")
        shutil.copytree(path, copy)
        self.opened = open_home(copy, org_id)
        self.home = self.opened.__enter__()
        self.charges = 0

    @rule(month=months)
    def bill(self, month):
        make(self.home, month)
        before = check_ledger(self.home.organization).postings, state_of(self.home)
        make(self.home, month)
        assert before == (
            check_ledger(self.home.organization).postings,
            state_of(self.home),
        )

    @rule(number=st.integers(0, 7))
    def delete(self, number):
        self._of_a_bill(number, lambda id_: delete_bill(*self._ann(), id_))

    @rule(number=st.integers(0, 7))
    def lock(self, number):
        def approve_and_lock(id_):
            set_status(*self._ann(), id_, BillStatus.APPROVED)
            lock_bill(*self._ann(), id_)

        self._of_a_bill(number, approve_and_lock)

    @rule(
        code=st.sampled_from(["ends-acme", "stays-bolt"]), month=months, amount=st.integers(1, 50)
    )
    def top_up(self, code, month, amount):
        with self.home.organization.reading() as reader:
            balance = reader.find(Balance, code)
        top_up(self.home, balance.id, amount, f"{month}-10")

    @rule(month=months, amount=st.integers(1, 60))
    def charge_late(self, month, amount):
        """A single charge on the bill of a month."""
        self.charges += 1
        create(
            self.home,
            Charge,
            accountId=_account(self.home, "acme").id,
            code=f"late-{self.charges}",
            name="Late",
            currency="USD",
            entityType="AD_HOC",
            lineItemType="AD_HOC",
            amount=amount,
            billDate=str(month.after),
            servicePeriodStartDate=f"{month}-01T00:00:00Z",
            servicePeriodEndDate=f"{month}-20T00:00:00Z",
        )

    @rule()
    def settle(self):
        settle_ended_balances(self.home.organization)

    @invariant()
    def everything_is_right(self):
        if hasattr(self, "home"):
            check(self.home)

    def teardown(self):
        if hasattr(self, "opened"):
            self.opened.__exit__(None, None, None)
            shutil.rmtree(self.folder)

    def _ann(self):
        return self.home.organization, ANN

    def _of_a_bill(self, number, change):
        found = stored(self.home)
        if found:
            with suppress(Locked):
                change(found[number % len(found)].id)


@pytest.fixture
def machine(template) -> type[TestCase]:
    CreditsMachine.template = template
    return CreditsMachine.TestCase


@pytest.mark.long
def test_whatever_is_done_the_ledger_is_right(machine):
    tried = machine("runTest")
    machine.settings = settings(max_examples=examples(4), stateful_step_count=8)
    tried.runTest()
