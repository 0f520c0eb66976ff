"""Bills bucket by bucket are the bills of all accounts at once."""

import pytest

from meterlake.model.bills.unbilled import Uncovered
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.calculation import reading as bill_reading
from meterlake.pipeline.billing.calculation.reading import read_bills
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.stages.bill import BillSelection
from meterlake.stores.state.billing.accounts.buckets import read_account_buckets
from tests.bills import a_home_to_bill, subscribe, use
from tests.homes import configure

SEPTEMBER = Month(2026, 9)


def add_family(home):
    """Children of acme: one in its pool, one on a plan of its own from the 20th on."""
    address = {"emailAddress": "a@b.example", "parentAccountId": "acme"}
    children = [{"code": code, "name": code, **address} for code in ("zoe", "anna")]
    configure(home.organization, accounts=children)
    subscribe(home, "anna", start="2026-09-20T00:00:00Z")
    use(home, ("5", "zoe", 7), ("6", "anna", 9))


def add_commitment(home):
    of_bolt = {"accountId": "bolt", "startDate": "2026-09-10", "endDate": "2026-12-01"}
    commitments = [{**of_bolt, "currency": "USD", "amount": 50}]
    configure(home.organization, commitments=commitments)


def delete_user(home):
    """An account that used something, and that there is no more."""
    use(home, ("7", "ghost", 11))
    with home.organization.transaction("someone") as transaction:
        transaction.delete(Account, transaction.find(Account, "ghost").id)


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as opened:
        add_family(opened)
        add_commitment(opened)
        delete_user(opened)
        yield opened


def calculate(home, bucket):
    """The bills in their order, and what nothing prices."""
    snapshot = home.organization.lake.snapshot()
    selection = BillSelection(SEPTEMBER)
    reading = read_bills(home.organization, selection, snapshot, bucket)
    found = list(reading.calculations())
    made = [each.made for part in found for each in part.made()]
    unpriced = [each for part in found for each in part.unpriced()]
    return made, {str(each) for each in (*unpriced, *reading.unknown_usage())}


def test_buckets_hold_everything_of_their_accounts_and_relatives(home):
    with home.organization.reading() as reader:
        whole = reader.configuration()
        [one], shared = (found := read_account_buckets(reader, None, 100)).buckets, found.shared
        parts = read_account_buckets(reader, None, 1)
        chosen = read_account_buckets(reader, [reader.find(Account, "zoe").id], 100)

    assert found.configuration(one).versions() == whole.versions()
    assert Account not in Configuration(shared).kinds()
    codes = [[whole.get(Account, id_).entity.code for id_ in b.account_ids] for b in parts.buckets]
    assert codes == [["acme"], ["anna"], ["bolt"], ["zoe"]]
    family = chosen.configuration(chosen.buckets[0])
    assert {each.entity.code for each in family.all(Account)} == {"acme", "anna", "zoe"}
    assert {each.entity.code for each in family.all(AccountPlan)} == {"acme-basic", "anna-basic"}


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 3])
def test_bills_do_not_depend_on_the_size_of_buckets(home, size):
    made, unpriced = calculate(home, None)

    assert len(made) == 4
    assert any(Uncovered.NO_ACCOUNT.value in each for each in unpriced)
    assert calculate(home, size) == (made, unpriced)


@pytest.mark.long
def test_a_job_counts_the_bills_of_all_buckets(home, monkeypatch):
    monkeypatch.setattr(bill_reading, "BUCKET", 2)
    first = bill(home.organization, SEPTEMBER)
    again = bill(home.organization, SEPTEMBER)

    assert [each.account_code for each in first.bills] == ["acme", "bolt"]
    assert {each.stored.value for each in again.bills} == {"unchanged"}
    job = home.stores.state.jobs.get(first.job_id)
    assert (job.progress["total"], job.progress["pending"]) == (2, 0)
    assert job.result["billIds"] == [each.bill_id for each in first.bills]
