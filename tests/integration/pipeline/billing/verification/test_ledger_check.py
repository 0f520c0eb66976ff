"""The ledger of a home, compared with what is shown of it."""

from datetime import date
from decimal import Decimal

import pytest
from sqlalchemy import text

from meterlake.cli.app import run
from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType
from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.contracts import Commitment
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from meterlake.stores.state.billing.bills.batch import put_all
from meterlake.stores.state.billing.credits import ledger
from meterlake.stores.state.billing.credits.ledger import Consumption
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey, LineContent
from tests.integration.pipeline.billing.balances.test_balances import World, world

__all__ = ["world"]
D = Decimal


def line(number, kind, source, amount, pins=None):
    body = {"lineItemType": f"{kind}_CONSUMED", "convertedSubtotal": D(-amount)}
    return LineContent(str(number), body | {f"{kind.lower()}Id": source}, pins or {})


@pytest.fixture
def billed(world: World):
    """A world with a bill that draws 30 from a balance and 20 from a commitment."""
    world.book(100)
    with world.organization.transaction("me") as transaction:
        account = transaction.find(Account, "acme").id
        agreed = Commitment(
            account_id=account,
            start_date=date(2026, 1, 1),
            end_date=date(2027, 1, 1),
            currency="USD",
            amount=D(500),
        )
        world.commitment = transaction.create(agreed).id
        key = BillKey(account, date(2026, 11, 1), "MONTHLY", 1)
        lines = [
            line(1, "BALANCE", world.balance, 30),
            # Another currency: 25 of the bill's are 20 of the source's.
            line(2, "COMMITMENT", world.commitment, 25, {"posted": "20"}),
            LineContent("3", {"lineItemType": "USAGE", "convertedSubtotal": D(55)}, {}),
        ]
        content = BillContent(key, "2026-10", "USD", D(0), {}, {}, lines)
        [stored] = put_all(transaction, [content], BillStatus.PENDING)
        world.bill = stored.bill_id
        ledger.repost(transaction, stored.bill_id, 1, draws(world))
    return world


def draws(world, of_balance=30, of_commitment=20):
    types = LedgerAccountType
    return [
        Consumption(LedgerAccount(types.BALANCE, world.balance), D(of_balance), "USD"),
        Consumption(LedgerAccount(types.COMMITMENT, world.commitment), D(of_commitment), "USD"),
    ]


def repost(world, *args):
    with world.organization.transaction("me") as transaction:
        ledger.repost(transaction, world.bill, 2, draws(world, *args))


def differences(world):
    return [each.what for each in check_ledger(world.organization).differences]


def change(world, statement):
    with world.organization.transaction("me") as transaction:
        transaction.connection.execute(text(statement))


def test_an_empty_ledger_is_right(world):
    assert check_ledger(world.organization).postings == 0
    assert differences(world) == []


def test_a_ledger_with_bills_is_right(billed):
    found = check_ledger(billed.organization)

    assert (found.postings, found.differences) == (3, ())
    assert sum(found.accounts.values()) == 0
    assert found.accounts[LedgerAccountType.COMMITMENT, "USD"] == -20
    assert billed.listed()["prepaid"] == 70


def test_a_bill_that_says_something_else_than_its_postings_is_found(billed):
    repost(billed, 30, 21)

    assert differences(billed) == [f"lines of bill {billed.bill} that draw"]
    repost(billed, 30, 20)
    assert differences(billed) == []


def test_a_posting_that_was_changed_by_hand_is_found(billed):
    change(billed, "UPDATE posting SET amount = '29' WHERE amount = '30'")

    assert differences(billed) == [f"lines of bill {billed.bill} that draw"]


def test_a_posting_to_another_balance_is_found(billed):
    change(billed, "UPDATE posting SET to_account = 'balance:x' WHERE kind = 'credit'")

    assert "a posting is about its source" in differences(billed)


def test_what_bills_drew_is_consumed_in_the_summary(billed):
    assert billed.summary() == {
        "totalCreditAmount": 100,
        "totalDebitAmount": 30,
        "initialCreditAmount": 100,
        "expiredBalanceAmount": 0,
        "balanceConsumed": 30,
    }
    repost(billed, 40)
    assert billed.summary()["totalDebitAmount"] == 40
    assert billed.summary()["totalCreditAmount"] == 100


def test_transactions_of_bills_are_listed(billed):
    [of_bill] = billed.page(entityType="BILL")["data"]

    assert (of_bill["amount"], of_bill["entityId"]) == (-30, billed.bill)


def test_what_is_spent_of_a_commitment_is_shown(billed):
    shown = billed.organization.configuration().get(Commitment, billed.commitment)
    assert shown.entity.amount == 500
    from meterlake.model.resources import response
    from meterlake.stores.state.core.stored_configuration import StoredConfiguration

    with billed.organization.reading() as reader:
        assert response(shown, StoredConfiguration(reader))["amountSpent"] == 20


def test_the_command_says_what_is_wrong(billed, capsys, tmp_path):
    home = str(billed.stores.settings.home)
    file = tmp_path / "ledger.beancount"
    check = ["check", "books", "--home", home, "--beancount", str(file)]

    assert run(check) == 0
    assert "3 postings, 0 differences" in capsys.readouterr().out
    assert "Liabilities:Commitment:" in file.read_text("utf-8")
    repost(billed, 31)
    assert run([*check, "--json"]) == 1
    captured = capsys.readouterr()
    assert '"differences":[{' in captured.out
    assert "Unbalanced" in captured.err
