"""The operations of balances: what their queries and paths say."""

import asyncio

import pytest
from starlette.requests import Request

from meterlake.api.billing.balances import OPERATIONS
from meterlake.api.server.call import Call
from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.configuration.permissions import Permissions
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, NotFound, StillReferenced
from meterlake.model.values import wire
from meterlake.settings import Settings
from tests.databases import state_of
from tests.organizations import new_organization, open_new

BY_ID = {operation.id: operation for operation in OPERATIONS}
ACCOUNT = "0" * 8 + "-0000-4000-8000-" + "0" * 12
BALANCE = {
    "code": "prepaid",
    "name": "Prepaid",
    "accountId": ACCOUNT,
    "currency": "USD",
    "startDate": "2026-01-01T00:00:00Z",
    "endDate": "2027-01-01T00:00:00Z",
}
FEE = {
    "name": "Fee",
    "code": "fee",
    "currency": "USD",
    "servicePeriodStartDate": "2026-01-01T00:00:00Z",
    "servicePeriodEndDate": "2026-04-01T00:00:00Z",
    "billFrequency": "MONTHLY",
    "billFrequencyInterval": 1,
    "billInAdvance": True,
    "chargeDescription": "Fee",
    "amount": 10,
}


@pytest.fixture
def ask(home_database, tmp_path):
    """Call an operation of a new organization with a query and a body."""
    home = tmp_path / home_database
    settings = Settings(home=home, _env_file=None, **state_of(home))
    with open_new(settings) as stores:
        org = new_organization(stores.state)
        with stores.state.transaction(org, "USER_1") as transaction:
            account = Account(name="A", code="a", email_address="a@a.example")
            transaction.create(account, ACCOUNT)

        def asker(operation, query="", body=None, **path):
            async def receive():
                return {"type": "http.request", "body": wire.dumps(body), "more_body": False}

            headers = [(b"content-type", b"application/json")]
            scope = {
                "type": "http",
                "method": BY_ID[operation].method,
                "headers": headers,
                "query_string": query.encode(),
            }
            principal = Principal(PrincipalType.USER, "1", org, "session")
            call = Call(Request(scope, receive), stores, principal, Permissions(()), path)
            return asyncio.run(BY_ID[operation].handler(call))

        yield asker


@pytest.fixture
def balance(ask):
    return ask("PostBalance", body=BALANCE)


def test_every_answer_of_a_balance_shows_what_it_holds(ask, balance):
    id_ = balance["id"]
    assert balance["amount"] == 0
    ask("PostBalanceTransaction", body={"amount": 10}, balanceId=id_)

    assert ask("GetBalance", id=id_)["amount"] == 10
    updated = ask("PutBalance", body={**BALANCE, "version": 1, "name": "Other"}, id=id_)
    assert (updated["amount"], updated["version"]) == (10, 2)
    [listed] = ask("ListBalances", f"accountId={ACCOUNT}&endDateStart=2027-01-01")["data"]
    assert listed == ask("GetBalance", id=id_)
    with pytest.raises(StillReferenced):
        ask("DeleteBalance", id=id_)


def test_a_balance_without_transactions_is_deleted(ask, balance):
    assert ask("DeleteBalance", id=balance["id"]) == balance
    assert ask("ListBalances") == {"data": []}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("contractId=", 1),
        (f"contractId={ACCOUNT}", 0),
        (f"contract={ACCOUNT}", 0),
        ("endDateEnd=2027-01-01", 0),
        ("endDateEnd=2027-01-01T00:00:00.000001Z", 1),
        (f"ids={ACCOUNT}", 0),
    ],
)
@pytest.mark.usefixtures("balance")
def test_balances_are_filtered(ask, query, found):
    assert len(ask("ListBalances", f"accountId={ACCOUNT}&{query}")["data"]) == found


def test_transactions_are_booked_listed_and_summed_up(ask, balance):
    id_ = balance["id"]
    made = ask("PostBalanceTransaction", body={"amount": 10}, balanceId=id_.upper())

    assert (made["entityType"], made["entityId"]) == ("USER", "1")
    assert ask("ListBalanceTransactions", "entityType=USER&pageSize=200", balanceId=id_) == {
        "data": [made]
    }
    assert ask("ListBalanceTransactions", "entityType=BILL", balanceId=id_) == {"data": []}
    summary = ask("GetBalanceTransactionsSummary", balanceId=id_)
    assert summary["totalCreditAmount"] == summary["initialCreditAmount"] == 10


@pytest.mark.parametrize("query", ["pageSize=201", "pageSize=0", "entityType=X", "nextToken=x"])
def test_what_a_parameter_cannot_be_is_refused(ask, balance, query):
    with pytest.raises(Invalid, match=query.partition("=")[0]):
        ask("ListBalanceTransactions", query, balanceId=balance["id"])


def test_what_is_no_id_is_the_id_of_nothing(ask):
    with pytest.raises(NotFound):
        ask("ListBalanceTransactions", balanceId="x")
    with pytest.raises(NotFound):
        ask("GetBalance", id="x")


def test_schedules_are_previewed_in_pages(ask, balance):
    page = ask("PreviewScheduledCharge", "pageSize=2", FEE, balanceId=balance["id"])
    token = page["nextToken"]
    rest = ask(
        "PreviewScheduledCharge", f"pageSize=2&nextToken={token}", FEE, balanceId=balance["id"]
    )

    assert [len(page["data"]), len(rest["data"])] == [2, 1]
    with pytest.raises(Invalid, match="transactionDescription"):
        ask("PreviewBalanceTransactionSchedule", body=FEE, balanceId=balance["id"])
