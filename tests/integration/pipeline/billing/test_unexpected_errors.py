"""Accounts whose bills cannot be stored or calculated for a reason that nobody foresaw."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Busy, StaleVersion, Unavailable
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.calculation.account_bills import AccountBills
from meterlake.pipeline.billing.calculation.failures import store_in_parts
from meterlake.pipeline.billing.jobs.documents import job_document
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from meterlake.pipeline.jobs.attempt import Cancelled, GivenUp
from meterlake.stages.bill import BillMaker
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, use
from tests.homes import configure

pytestmark = pytest.mark.usefixtures("home_database")

SEPTEMBER = Month(2026, 9)
MORNING = datetime(2026, 10, 1, 8, tzinfo=UTC)
TRIGGERS = {
    "sqlite": "CREATE TRIGGER refused BEFORE INSERT ON bill WHEN NEW.account_id = '{id}'"
    " BEGIN SELECT RAISE(ABORT, 'no bill of acme'); END",
    "postgresql": "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF NEW.account_id = '{id}' THEN RAISE check_violation USING MESSAGE = 'no bill of acme';"
    " END IF; RETURN NEW; END $$;"
    " CREATE TRIGGER refused BEFORE INSERT ON bill FOR EACH ROW EXECUTE FUNCTION refuse()",
}
DROPPED = {"sqlite": "DROP TRIGGER refused", "postgresql": "DROP TRIGGER refused ON bill"}


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as opened:
        both = {"startDate": "2026-01-01", "endDate": "2027-01-01", "currency": "USD", "amount": 50}
        commitments = [both | {"accountId": code} for code in ("acme", "bolt")]
        configure(opened.organization, commitments=commitments)
        yield opened


def execute(home, statement):
    with home.organization.transaction("someone") as transaction:
        transaction.connection.execute(text(statement))


def dialect(home):
    with home.organization.reading() as reader:
        return reader.connection.dialect.name


def refuse_bills_of(home, code, on="INSERT"):
    [id_] = [id_ for id_, each in home.account_codes().items() if each == code]
    trigger = TRIGGERS[dialect(home)].replace("BEFORE INSERT", f"BEFORE {on}")
    execute(home, trigger.format(id=id_))


def run(home):
    return bill(home.organization, SEPTEMBER)


def stored(home):
    with home.organization.reading() as reader:
        found = bills.of_period(reader, "2026-09")
    return {each.content.body["accountCode"]: each.content.total for each in found}


def assert_only_acme_fails(home, result, *reasons):
    [failure] = result.failures
    assert failure.account_code == "acme"
    assert failure.reason.startswith("an unexpected error: ")
    assert all(each in failure.reason for each in reasons), failure.reason
    assert failure.reason.endswith("otherwise report it, with what the log says of it")
    assert "\n" not in failure.reason
    job = home.stores.state.jobs.get(result.job_id)
    shown = job_document(job)
    assert (shown["status"], shown["total"], shown["pending"]) == ("COMPLETE", 2, 0)
    assert job.result["failed"] == [["acme", failure.reason]]


@pytest.mark.long
def test_an_account_that_the_database_refuses_fails_alone(home):
    refuse_bills_of(home, "acme")
    result = run(home)

    assert_only_acme_fails(home, result, "IntegrityError", "no bill of acme")
    assert stored(home) == {"bolt": 81}  # 131 - 50
    assert check_ledger(home.organization).differences == ()

    execute(home, DROPPED[dialect(home)])
    again = run(home)
    assert {each.account_code: each.stored.value for each in again.bills} == {
        "acme": "created",
        "bolt": "unchanged",
    }


@pytest.mark.long
def test_a_bill_that_stood_before_stands_where_the_new_one_is_refused(home):
    before = run(home)
    assert not before.failures
    use(home, ("late", "acme", 5), ("late2", "bolt", -5))
    old = stored(home)["acme"]
    refuse_bills_of(home, "acme", on="UPDATE")
    result = run(home)

    assert_only_acme_fails(home, result, "no bill of acme")
    assert stored(home)["acme"] == old


def test_an_account_that_the_program_cannot_calculate_fails_alone(home, monkeypatch):
    make = BillMaker.make

    def break_acme(self, account_terms, ledger):
        if account_terms.account.entity.code == "acme":
            raise KeyError("a defect")
        return make(self, account_terms, ledger)

    monkeypatch.setattr(BillMaker, "make", break_acme)
    result = run(home)

    assert_only_acme_fails(home, result, "KeyError", "a defect")
    assert stored(home) == {"bolt": 81}


def account_bills(code):
    account = Account.from_wire({"code": code, "name": code, "emailAddress": "a@b.example"})
    return AccountBills(Record(code, 1, account, MORNING, "x", MORNING, "x"), {}, {}, ())


ACCOUNTS = st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, min_size=1, max_size=20)


@given(ACCOUNTS, st.data())
def test_whatever_cannot_be_stored_the_others_are_once_and_in_order(codes, data):
    bad = data.draw(st.sets(st.sampled_from(codes)))
    committed = []

    def store(batch):
        names = [each.account_id for each in batch]
        if bad.intersection(names):
            raise ValueError("cannot be stored")
        committed.extend(names)
        return names, set(names[:1])

    found, contended = store_in_parts(store, [account_bills(each) for each in codes])

    assert committed == [each for each in codes if each not in bad]
    assert [each for each in found if isinstance(each, str)] == committed
    failures = [each for each in found if not isinstance(each, str)]
    assert {each.account_code for each in failures} == bad
    assert len(failures) == len(bad)
    assert contended <= set(committed)


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("the State database", "gone"),
        Busy("bill job 'x'", "the worker stops"),
        StaleVersion("Job", "x", 1, 2),
        Cancelled("bill", "x"),
        GivenUp("bill", "x", 3),
        MemoryError(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_concerns_every_account_ends_the_run(error):
    tries = []

    def store(batch):
        tries.append(len(batch))
        raise error

    with pytest.raises(type(error)):
        store_in_parts(store, [account_bills(each) for each in "abcd"])
    assert tries == [4]
