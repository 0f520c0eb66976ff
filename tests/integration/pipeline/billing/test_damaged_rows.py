"""One damaged row of State: it fails the bill of its own account, by name, and no other one."""

import logging

import pytest
from sqlalchemy import text

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.verification.verify import VerifyChoice, verify_bills
from meterlake.stores.state.core.reader import DamagedRow
from tests.bills import a_home_to_bill
from tests.long_cases import long_after

pytestmark = pytest.mark.usefixtures("home_database")

SEPTEMBER = Month(2026, 9)
BROKEN = "{broken"
OF_ACME = "(SELECT id FROM bill WHERE account_id = :acme)"
PLAN_OF_ACME = (
    "kind = 'AccountPlan' AND id IN (SELECT id FROM entity_reference WHERE target_id = :acme)"
)
# What is damaged, and what the finding about the bill has in its text.
DAMAGES = {
    "bill body": ("UPDATE bill SET body = :broken WHERE account_id = :acme", BROKEN),
    "bill pins": ("UPDATE bill SET pins = :broken WHERE account_id = :acme", BROKEN),
    "bill frequency": ("UPDATE bill SET frequency = :broken WHERE account_id = :acme", BROKEN),
    "line body": (f"UPDATE bill_line SET body = :broken WHERE bill_id IN {OF_ACME}", BROKEN),
    "line pins": (f"UPDATE bill_line SET pins = :broken WHERE bill_id IN {OF_ACME}", BROKEN),
    "plan of the account": (
        f"UPDATE entity_history SET body = :broken WHERE {PLAN_OF_ACME}",
        "the row of AccountPlan",
    ),
    "account": (
        "UPDATE entity_history SET body = :broken WHERE kind = 'Account' AND id = :acme",
        "the row of Account",
    ),
    "account without a code": (
        "UPDATE entity_history SET body = '{}' WHERE kind = 'Account' AND id = :acme",
        "the row of Account",
    ),
}


def make_bills(home):
    bill(home.organization, SEPTEMBER)


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path, make_bills) as opened:
        yield opened


def id_of(home, code):
    [id_] = [id_ for id_, each in home.account_codes().items() if each == code]
    return id_


def damage(home, statement):
    values = {"acme": id_of(home, "acme"), "broken": BROKEN}
    used = {name: value for name, value in values.items() if f":{name}" in statement}
    with home.organization.transaction("someone") as transaction:
        assert transaction.connection.execute(text(statement), used).rowcount >= 1


def bills_of(home, code):
    with home.organization.reading() as reader:
        query = text("SELECT id FROM bill WHERE account_id = :account")
        return set(reader.connection.execute(query, {"account": id_of(home, code)}).scalars())


@pytest.mark.long
@pytest.mark.parametrize(("statement", "said"), DAMAGES.values(), ids=DAMAGES)
def test_verify_names_the_bill_of_the_damaged_row_alone(home, statement, said):
    damage(home, statement)

    found = verify_bills(home.organization, VerifyChoice())

    of_bills = [each for each in found.differences if each.bill_id is not None]
    assert {each.bill_id for each in of_bills} == bills_of(home, "acme")
    assert any(said in str(each.calculated) + str(each.stored) for each in of_bills)
    assert found.verified == 2


@pytest.mark.parametrize(
    "statement",
    long_after(
        3,
        [
            "UPDATE bill SET total = :broken WHERE account_id = :acme",
            "UPDATE bill SET status = :broken WHERE account_id = :acme",
            f"UPDATE entity SET body = :broken WHERE {PLAN_OF_ACME}",
            f"UPDATE entity SET body = '{{}}' WHERE {PLAN_OF_ACME}",
            "UPDATE entity SET body = :broken WHERE kind = 'Account' AND id = :acme",
        ],
    ),
    ids=["total", "status", "plan", "empty plan", "account"],
)
def test_billing_fails_the_account_of_the_damaged_row_alone(home, statement, caplog):
    caplog.set_level(logging.CRITICAL)
    damage(home, statement)

    result = bill(home.organization, SEPTEMBER)

    [failure] = result.failures
    assert failure.account_code == "acme"
    assert [each.account_code for each in result.bills] == ["bolt"]
    assert result.totals == {"USD": 131}


def test_a_damaged_row_of_no_account_ends_the_run_by_name(home):
    damage(home, "UPDATE entity SET body = :broken WHERE kind = 'Plan' AND :acme <> ''")

    with pytest.raises(DamagedRow, match=r"the row of Plan .*, version 1, in State is damaged"):
        bill(home.organization, SEPTEMBER)
