import pytest

from meterlake.model.customers.accounts import Account, AccountPlan
from tests.entity_rules import refused, required

ID = "2054cfc5-18df-47ce-926c-5817033073b4"
ACCOUNT = {"code": "acme", "name": "Acme", "emailAddress": "a@b.example", "currency": "USD"}
ACCOUNT_PLAN = {"accountId": ID, "planId": ID, "startDate": "2026-01-01T00:00:00Z"}


def test_what_is_required_is_what_the_contract_requires():
    assert required(Account, ACCOUNT) == {"code", "name", "emailAddress"}
    assert required(AccountPlan, ACCOUNT_PLAN) == {"accountId", "startDate"}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"emailAddress": "acme"}, "emailAddress"),
        ({"purchaseOrderNumber": "x" * 101}, "purchaseOrderNumber"),
        ({"daysBeforeBillDue": 0}, "daysBeforeBillDue"),
        ({"address": {"addressLine1": "x" * 51}}, "address.addressLine1"),
        ({"address": {"postCode": "x" * 21}}, "address.postCode"),
        ({"billEpoch": "2026-10-01T00:00:00Z"}, "billEpoch"),
        ({"autoGenerateStatementMode": "PDF"}, "autoGenerateStatementMode"),
        ({"creditApplicationOrder": ["BALANCE"] * 3}, "creditApplicationOrder"),
        ({"currency": ""}, "currency"),
    ],
)
def test_an_account_that_breaks_the_contract_is_refused(changes, place):
    assert refused(Account, ACCOUNT, **changes) == {place}


@pytest.mark.parametrize(
    "changes",
    [{"accountId": "acme"}, {"childBillingMode": "NONE"}, {"endDate": "never"}, {"code": " "}],
)
def test_an_account_plan_that_breaks_the_contract_is_refused(changes):
    assert refused(AccountPlan, ACCOUNT_PLAN, **changes) == set(changes)


def test_the_lines_of_an_address_have_their_names_of_the_wire():
    document = ACCOUNT | {"address": {"addressLine1": "Harbour 1", "country": "NO"}}

    assert Account.from_wire(document).to_wire()["address"] == document["address"]
