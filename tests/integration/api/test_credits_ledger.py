"""The ledger of what pays for bills, while these are made again, deleted, locked and contended."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from meterlake.model.values import failpoint
from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.billing.jobs.jobs import run_bill_job
from meterlake.stores import open_stores
from meterlake.stores.state.billing.bills.batch import BillOutcome
from tests.credit_world import world

__all__ = ["world"]
FEBRUARY, MARCH, APRIL = "2026-02-01", "2026-03-01", "2026-04-01"


def used(world, *months):
    """An account that used some gigabytes a month, from January on."""
    account = world.account()
    for number, gigabytes in enumerate(months, start=1):
        world.use(account, (f"2026-{number:02}-05", gigabytes))
    return account


def drawn(world, account):
    """What sources paid of each bill."""
    return {
        day: -sum(amount for kind, amount in lines if kind.endswith("_CONSUMED"))
        for day, lines in world.lines(account).items()
    }


def versions(world, account):
    return {day: each.version for day, each in world.bills(account).items()}


def held(world, balance):
    """What events say that a balance held, and then holds."""
    return [
        (each.get("oldDto", {}).get("amount"), each["newDto"]["amount"])
        for each in world.events("billing.balanceamount", balance)
    ]


@pytest.mark.sees("GetLedgerFile")
def test_the_ledger_is_a_file_with_every_posting(world):
    account = used(world, 60)
    world.balance(account, 50)
    world.bill(account, FEBRUARY)
    with world.server.http() as http:
        answer = http.get("/ledger/beancount")

    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.count("\n  id: ") == world.check()


@pytest.mark.long
def test_a_calculation_that_changes_nothing_posts_nothing(world):
    account = used(world, 60, 60)
    world.commit(account, 50)
    balance = world.balance(account, 50)
    world.bill(account, FEBRUARY, MARCH)
    before, events = world.check(), held(world, balance)

    world.bill(account, MARCH, FEBRUARY)

    assert world.check() == before
    assert versions(world, account) == {FEBRUARY: 1, MARCH: 1}
    assert held(world, balance) == events == [(None, 50), (50, 40), (40, 0)]


def test_a_deleted_bill_gives_back_what_later_bills_draw_then(world):
    account = used(world, 80, 80, 0)
    balance, commitment = world.balance(account, 60), world.commit(account, 40)
    world.bill(account, FEBRUARY, MARCH)
    assert (world.amount(balance), world.spent(commitment)) == (0, 40)

    world.sdk.bills.delete(world.bills(account)[FEBRUARY].id)
    world.check()
    assert (world.amount(balance), world.spent(commitment)) == (40, 40 - 40)

    world.bill(account, APRIL)
    assert (drawn(world, account)[MARCH], world.amount(balance)) == (80, 20)
    assert world.spent(commitment) == 40
    world.bill(account, FEBRUARY)
    assert drawn(world, account) == {FEBRUARY: 80, MARCH: 20, APRIL: 0}


@pytest.mark.long
def test_events_say_what_bills_draw_and_give_back(world):
    account = used(world, 70)
    balance, commitment = world.balance(account, 60), world.commit(account, 40)
    world.bill(account, FEBRUARY)
    world.use(account, ("2026-01-20", 10))
    world.bill(account, FEBRUARY)
    world.sdk.bills.delete(world.bills(account)[FEBRUARY].id)

    assert held(world, balance) == [(None, 60), (60, 30), (30, 20), (20, 60)]
    last = world.events("billing.balanceamount", balance)[-1]
    assert (last["newDto"]["accountCode"], last["newDto"]["code"]) == (account.code, balance.code)
    spent = [
        (each["oldDto"]["amountSpent"], each["newDto"]["amountSpent"], each["newDto"]["amount"])
        for each in world.events("configuration.commitment.updated", commitment)
    ]
    assert spent == [(0, 40, 40), (40, 0, 40)]


@pytest.mark.long
def test_late_usage_makes_the_next_month_again_in_the_same_job(world):
    account = used(world, 60, 60)
    world.balance(account, 100)
    world.bill(account, FEBRUARY, MARCH)
    assert drawn(world, account) == {FEBRUARY: 60, MARCH: 40}

    world.use(account, ("2026-01-20", 30))
    world.bill(account, FEBRUARY)

    assert drawn(world, account) == {FEBRUARY: 90, MARCH: 10}
    assert versions(world, account) == {FEBRUARY: 2, MARCH: 2}


def lock(world, account, day):
    bill = world.bills(account)[day]
    world.sdk.bills.approve(bill_ids=[bill.id])
    world.sdk.bills.lock(bill.id)


@pytest.mark.long
def test_a_locked_month_keeps_what_it_drew_and_is_reported(world):
    account = used(world, 60, 60)
    balance = world.balance(account, 100)
    world.bill(account, FEBRUARY, MARCH)
    lock(world, account, MARCH)

    world.use(account, ("2026-01-20", 30))
    world.bill(account, FEBRUARY)
    assert drawn(world, account) == {FEBRUARY: 60, MARCH: 40}

    # Now January draws less of the balance, and February might draw more.
    world.commit(account, 50)
    [result] = world.run(FEBRUARY, accounts=[account])
    world.check()
    assert drawn(world, account) == {FEBRUARY: 90, MARCH: 40}
    assert world.amount(balance) == 100 - 40 - 40
    [locked] = result.of(BillOutcome.LOCKED)
    assert (str(locked.bill_date), versions(world, account)[MARCH]) == (MARCH, 3)


@pytest.mark.long
def test_a_top_up_that_is_applied_earlier_counts_where_it_applies(world):
    account = used(world, 100, 100)
    balance = world.balance(account, 50)
    world.bill(account, FEBRUARY, MARCH)

    world.top_up(balance, 30, "2026-01-15")
    world.top_up(balance, 20, "2026-02-15")
    world.bill(account, FEBRUARY)
    assert drawn(world, account) == {FEBRUARY: 80, MARCH: 20}

    # On its bill date it is too late.
    world.top_up(balance, 7, FEBRUARY)
    world.bill(account, FEBRUARY, MARCH)
    assert drawn(world, account) == {FEBRUARY: 80, MARCH: 27}


@pytest.mark.long
def test_a_bill_that_draws_from_an_ended_balance_corrects_its_end_at_once(world):
    account = used(world, 60)
    balance = world.balance(account, 100, end_date="2026-02-01T00:00:00Z")
    # What comes in after the end expires at once, until a bill draws it.
    assert (world.amount(balance), held(world, balance)[-1]) == (0, (100, 0))
    world.bill(account, FEBRUARY)
    assert settle_ended_balances(world.server.organization) == 0
    assert drawn(world, account) == {FEBRUARY: 60}

    world.use(account, ("2026-01-20", 30))
    world.bill(account, FEBRUARY)

    found = world.sdk.balances.transactions.list(balance.id, entity_type="SCHEDULER")
    # The end that counts; the one that was taken back is in the ledger only.
    assert [each.amount for each in found] == [-10]
    assert [(each.description, each.created_by) for each in found] == [
        ("Expired: the balance ended on 31 Jan 2026", "balance ends")
    ]
    with world.server.http() as http:
        wanted = f"/balances/{balance.id}/transactions?entityType=SCHEDULER&includeReversed=true"
        every = http.get(wanted).json()["data"]
        log = http.get("/auditlog", params={"entityId": balance.id}).json()["data"]
    # The newest first: 100 expired, then 40, then 10.
    back = next(each for each in every if "reverses" in each and each["amount"] == 40)
    assert [each["amount"] for each in every if "reverses" not in each] == [-10, -40, -100]
    expired = [each for each in log if each["action"] in {"expired", "expiryReversed"}]
    assert [each["amount"] for each in expired if each["action"] == "expired"] == [10, 40, 100]
    assert {each["by"] for each in expired} == {"balance ends"}
    assert back["createdBy"] == "balance ends"
    assert back["description"] == "Taken back: Expired: the balance ended on 31 Jan 2026"
    assert (world.amount(balance), drawn(world, account)) == (0, {FEBRUARY: 90})
    # In the end it holds what it held.
    assert held(world, balance)[-1] == (100, 0)
    assert settle_ended_balances(world.server.organization) == 0

    world.sdk.bills.delete(world.bills(account)[FEBRUARY].id)
    world.check()
    found = world.sdk.balances.transactions.list(balance.id, entity_type="SCHEDULER")
    assert next(iter(found)).amount == -100


def credit(world, account, day, line, amount, on=None):
    """A credit on a bill about one of its lines, or about a line of another bill."""
    bills = world.bills(account)
    return world.sdk.bills.credit_line_items.create(
        bills[on or day].id,
        product_id=world.products["cloud"],
        accounting_product_id=world.products["cloud"],
        description="Outage",
        amount=amount,
        referenced_bill_id=bills[day].id,
        referenced_line_item_id=bills[day].line_items[line].id,
        service_period_start_date="2026-01-14T00:00:00Z",
        service_period_end_date="2026-01-15T00:00:00Z",
    )


@pytest.mark.long
def test_a_credit_of_a_person_on_a_line_is_paid_by_no_source(world):
    account = used(world, 100, 100)
    balance = world.balance(account, 150)
    world.bill(account, FEBRUARY, MARCH)

    made = credit(world, account, FEBRUARY, 0, 30)
    # Any next job of the account makes it again, and what follows from it.
    world.bill(account, APRIL)
    assert drawn(world, account) == {FEBRUARY: 70, MARCH: 80, APRIL: 0}
    assert (world.total(account, FEBRUARY), world.amount(balance)) == (0, 0)
    before = world.check()
    world.bill(account, FEBRUARY)
    assert world.check() == before

    world.sdk.bills.credit_line_items.delete(made.id, bill_id=world.bills(account)[FEBRUARY].id)
    world.bill(account, APRIL)
    assert drawn(world, account) == {FEBRUARY: 100, MARCH: 50, APRIL: 0}


@pytest.mark.long
def test_a_credit_about_another_bill_lowers_nothing_that_is_paid_for(world):
    account = used(world, 100, 100)
    world.balance(account, 500)
    world.bill(account, FEBRUARY, MARCH)

    credit(world, account, FEBRUARY, 0, 30, on=MARCH)
    world.bill(account, FEBRUARY, MARCH)

    assert drawn(world, account) == {FEBRUARY: 100, MARCH: 100}
    assert world.total(account, MARCH) == -30


@pytest.mark.long
def test_a_credit_of_more_than_the_line_lowers_it_to_nothing(world):
    account = world.account("usage", "seats")
    world.use(account, ("2026-01-05", 100))
    world.balance(account, 500)
    world.bill(account, FEBRUARY)

    credit(world, account, FEBRUARY, 0, 130)
    world.bill(account, FEBRUARY)

    assert drawn(world, account) == {FEBRUARY: 31}
    assert world.total(account, FEBRUARY) == -30


def test_a_credit_that_comes_while_its_bill_is_made_lowers_what_is_drawn(world, monkeypatch):
    account = used(world, 100)
    world.balance(account, 150)
    world.bill(account, FEBRUARY)
    world.use(account, ("2026-01-20", 10))

    def credit_once(step):
        if step == "bill.made":
            monkeypatch.undo()
            credit(world, account, FEBRUARY, 0, 30)

    monkeypatch.setattr(failpoint, "hook", credit_once)
    world.bill(account, FEBRUARY)

    assert drawn(world, account) == {FEBRUARY: 80}


class Race:
    """Two jobs that are at a step together, of which one stores its bills before the other goes on."""

    def __init__(self, step, first):
        self.step = step
        self.first = first
        self.barrier = threading.Barrier(2, timeout=60)
        self.stored = threading.Event()
        self.own = threading.local()

    @contextmanager
    def runs(self, number):
        """What is done in it is one of the jobs; nobody waits for one that failed."""
        self.own.number, self.own.waits = number, True
        try:
            yield
        except BaseException:
            self.barrier.abort()
            raise
        finally:
            self.stored.set()

    def __call__(self, name):
        number = getattr(self.own, "number", None)
        if name == self.step and number is not None and self.own.waits:
            self.own.waits = False
            self.barrier.wait()
            if number != self.first:
                assert self.stored.wait(60)
        if name == "bill.stored" and number == self.first:
            self.stored.set()


@pytest.mark.parametrize(
    ("days", "first"),
    [
        ((FEBRUARY, MARCH), 0),
        pytest.param((FEBRUARY, MARCH), 1, marks=pytest.mark.slow),
        pytest.param((MARCH, MARCH), 0, marks=pytest.mark.slow),
        ((MARCH, MARCH), 1),
    ],
    ids=lambda each: "/".join(each) if isinstance(each, tuple) else None,
)
def test_two_jobs_at_once_never_spend_a_cent_twice(world, monkeypatch, days, first):
    """Both have made their bills of the same money before one of them stores its own."""
    accounts = [used(world, 60, 60) for _ in range(3)]
    for each in accounts:
        world.balance(each, 70)
        world.commit(each, 30)
    ids = [each.id for each in accounts]
    jobs = [world.sdk.bill_jobs.create(bill_date=day, account_ids=ids) for day in days]
    race = Race("bill.made", first)
    monkeypatch.setattr(failpoint, "hook", race)

    def run(number):
        with race.runs(number), open_stores(world.server.settings) as stores:
            return run_bill_job(stores, jobs[number].id)

    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(run, range(2)))

    world.check()
    assert [each.failures for each in results] == [[], []]
    expected = {FEBRUARY: 60, MARCH: 40} if FEBRUARY in days else {MARCH: 60}
    assert [drawn(world, each) for each in accounts] == [expected] * 3
    # What was made of money that was gone is never stored, not for a moment.
    again = FEBRUARY in days and first == 1
    made = dict.fromkeys(expected, 1) | {MARCH: 1 + again}
    assert [versions(world, each) for each in accounts] == [made] * 3


@pytest.mark.sees("CheckBillRecalculation", "ListChangedBills")
def test_a_calculation_says_which_other_bills_it_touches_and_which_it_changed(world):
    account, other = used(world, 60, 60, 60), used(world, 60, 60)
    world.balance(account, 100)
    world.bill(account, FEBRUARY, MARCH, APRIL)
    world.bill(other, FEBRUARY, MARCH)
    ids = {day: each.id for day, each in world.bills(account).items()}
    world.sdk.bills.update_status(ids[APRIL], status="APPROVED")
    world.sdk.bills.lock(ids[APRIL])
    with world.server.http() as http:
        chosen = {"billIds": [ids[FEBRUARY]]}
        touched = http.post("/billjobs/recalculate/check", json=chosen).json()["data"]
        assert [(each["billDate"], each["relation"]) for each in touched] == [
            (MARCH, "DRAWS_AFTER"),
            (APRIL, "DRAWS_AFTER"),
        ]
        assert [each["recalculated"] for each in touched] == [True, False]
        # Who has no balance has no later bill that hangs together with it.
        alone = {"billIds": [world.bills(other)[FEBRUARY].id]}
        assert http.post("/billjobs/recalculate/check", json=alone).json() == {"data": []}
        nobody = {"billIds": ["00000000-0000-4000-8000-000000000000"]}
        assert http.post("/billjobs/recalculate/check", json=nobody).status_code == 404

        world.use(account, ("2026-01-06", 30))
        job = http.post("/billjobs/recalculate", json=chosen).json()
        run_bill_job(world.server.stores, job["id"])
        changed = http.get(f"/billjobs/{job['id']}/changedbills").json()["data"]
    # 90 of the 100 are drawn in January now; 10 are left for February, which had 40.
    assert [
        (each["billDate"], each["chosen"], each["before"], each["billTotal"]) for each in changed
    ] == [(FEBRUARY, True, 0, 0), (MARCH, False, 20, 50)]
    assert world.total(account, APRIL) == 60


def test_bills_of_a_family_are_named_and_stay(world):
    parent = used(world, 10)
    child = world.sdk.accounts.create(
        code="child", name="Child", email_address="c@example.com", parent_account_id=parent.id
    )
    world.attach(child, "usage", child_billing_mode="CHILD")
    world.use(child, ("2026-01-05", 5))
    world.run(FEBRUARY, accounts=[parent, child])
    with world.server.http() as http:
        chosen = {"billIds": [world.bills(child)[FEBRUARY].id]}
        touched = http.post("/billjobs/recalculate/check", json=chosen).json()["data"]
        assert [
            (each["accountCode"], each["relation"], each["recalculated"]) for each in touched
        ] == [(parent.code, "SAME_FAMILY", False)]
