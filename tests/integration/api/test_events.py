"""The operations of events: their parameters, and the members of responses that fields name."""

import asyncio

import pytest
from starlette.requests import Request

from meterlake.api.events import OPERATIONS
from meterlake.api.openapi.builder import COMPUTED as RESPONSES
from meterlake.api.server.call import Call
from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.configuration.permissions import Permissions
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid
from meterlake.model.resources import RESOURCES
from meterlake.model.resources.event_fields import COMPUTED, type_of
from meterlake.settings import Settings
from tests.organizations import new_organization, open_new

BY_ID = {operation.id: operation for operation in OPERATIONS}


@pytest.fixture
def stores(tmp_path):
    settings = Settings(home=tmp_path / "home", _env_file=None)
    with open_new(settings) as opened:
        yield opened


@pytest.fixture
def ask(stores):
    """Call an operation of a new organization with a query."""
    org = new_organization(stores.state)
    with stores.state.transaction(org, "USER_1") as transaction:
        transaction.create(Account(name="A", code="a", email_address="a@a.example"), "1" * 36)
        transaction.create(Account(name="B", code="b", email_address="b@b.example"), "2" * 36)

    def asker(operation, query="", **path):
        scope = {"type": "http", "method": "GET", "headers": [], "query_string": query.encode()}
        principal = Principal(PrincipalType.USER, "1", org, "session")
        call = Call(Request(scope), stores, principal, Permissions(()), path)
        return asyncio.run(BY_ID[operation].handler(call))

    return asker


def test_the_list_takes_all_parameters(ask):
    [one] = ask("ListEvents", f"accountId={'1' * 36}&pageSize=1&includeActioned=true")["data"]
    both = ask("ListEvents", "eventName=configuration.account.created&pageSize=1")
    rest = ask(
        "ListEvents",
        f"eventName=configuration.account.created&nextToken={both['nextToken']}",
    )

    assert one["m3terEvent"]["eventData"]["newDto"]["code"] == "a"
    assert rest["data"] == [one]
    other = both["data"][0]["id"]
    assert len(ask("ListEvents", f"ids={one['id']},{other}")["data"]) == 2
    assert ask("ListEvents", f"ids={one['id']}&ids={other}") == ask(
        "ListEvents", f"ids={one['id']},{other}"
    )
    assert ask("ListEvents", f"resourceId={'2' * 36}&eventType=Notification")["data"] == []
    assert ask("ListEvents", "notificationId=x&notificationCode=y")["data"] == []
    assert ask("GetEvent", id=one["id"]) == one


@pytest.mark.parametrize(
    "query", ["pageSize=0", "pageSize=101", "includeActioned=yes", "nextToken=x", "eventType=x"]
)
def test_what_a_parameter_cannot_be_is_refused(ask, query):
    with pytest.raises(Invalid, match=query.partition("=")[0]):
        ask("ListEvents", query)


def test_types_and_fields(ask):
    assert "billing.bill.created" in ask("ListEventTypes")["events"]
    assert len(ask("ListEventFields")["events"]) > 80
    assert list(ask("ListEventFields", "eventName=billing.bill.created")["events"]) == [
        "billing.bill.created"
    ]


def test_the_paths_without_an_id_come_first():
    assert [operation.id for operation in OPERATIONS].index("GetEvent") == len(OPERATIONS) - 1


@pytest.mark.parametrize("row", [row for row in RESOURCES if row.event], ids=lambda row: row.name)
def test_fields_name_what_responses_have(row):
    more = RESPONSES.get(row.schema)
    members = {} if more is None else more.model_fields
    expected = {field.alias or name: type_of(field.annotation) for name, field in members.items()}

    assert dict(COMPUTED.get(row.event, {})) == expected
