"""The updates of what an organization has once."""

import asyncio

import pytest
from starlette.requests import Request

from meterlake.api.routes import BY_ID
from meterlake.api.server.call import Call
from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.configuration.permissions import Permissions
from meterlake.model.errors import Invalid, Required, StaleVersion
from meterlake.model.values import wire
from meterlake.settings import Settings
from tests.organizations import new_organization, open_new

CONFIG = {
    "version": 1,
    "timezone": "Europe/Berlin",
    "yearEpoch": "2022-01-01",
    "monthEpoch": "2022-01-01",
    "weekEpoch": "2022-01-04",
    "dayEpoch": "2022-01-01",
    "currency": "USD",
    "daysBeforeBillDue": 14,
}


@pytest.fixture
def ask(tmp_path):
    """Call an operation of a new organization with a body."""
    settings = Settings(home=tmp_path / "home", _env_file=None)
    with open_new(settings) as stores:
        org = new_organization(stores.state)

        def asker(operation, body):
            async def receive():
                return {"type": "http.request", "body": wire.dumps(body), "more_body": False}

            headers = [(b"content-type", b"application/json")]
            scope = {"type": "http", "method": "PUT", "headers": headers, "query_string": b""}
            principal = Principal(PrincipalType.USER, "1", org, "session")
            call = Call(Request(scope, receive), stores, principal, Permissions(()), {})
            return asyncio.run(BY_ID[operation].handler(call))

        yield asker


def test_the_lock_date_is_set(ask):
    config = ask("UpdateBillConfig", {"version": 1, "billLockDate": "2026-01-01"})

    assert (config["version"], str(config["billLockDate"])) == (2, "2026-01-01")


@pytest.mark.parametrize("name", sorted(CONFIG))
def test_a_request_says_all_that_is_required(ask, name):
    with pytest.raises(Required, match=f"{name} is required"):
        ask("UpdateOrganizationConfig", {**CONFIG, name: None})


def test_settings_are_replaced(ask):
    config = ask("UpdateOrganizationConfig", {**CONFIG, "billPrefix": "A-"})

    assert (config["version"], config["billPrefix"]) == (2, "A-")
    assert config["scheduledBillInterval"] == 0
    again = ask("UpdateOrganizationConfig", {**CONFIG, "version": 2})
    assert "billPrefix" not in again
    with pytest.raises(StaleVersion):
        ask("UpdateOrganizationConfig", CONFIG)
    with pytest.raises(Invalid, match="scheduledBillOffset"):
        ask("UpdateOrganizationConfig", {**CONFIG, "version": 3, "scheduledBillOffset": 1})
