"""Which methods of the SDK work: every one is called, and none leads nowhere."""

import inspect
from base64 import b64encode

import m3ter
import pytest

from tests import sdk_methods
from tests.e2e.api.bodies import ROWS
from tests.e2e.api.bodies_beside import STATEMENT
from tests.e2e.api.methods import api_of, methods_of
from tests.e2e.api.world import END, START, World
from tests.people import join
from tests.served import Served

METHODS = 286
NOWHERE = "00000000-0000-4000-8000-000000000000"

# What the methods ask for by name, if no row of the table of bodies says more.
_ANY = {
    "account_id": NOWHERE,
    "accounting_product_id": NOWHERE,
    "amount": 1,
    "balance_id": NOWHERE,
    "bill_id": NOWHERE,
    "bill_ids": [NOWHERE],
    "billing_entities": ["CONTRACT"],
    "content_length": 100,
    "content_type": "text/csv",
    "description": "Said",
    "email": "new@user.example",
    "end_date": END,
    "entity": "Account",
    "entity_type": "Notification",
    "external_id": "1",
    "external_table": "Accounts",
    "file_name": "data.csv",
    "first_name": "Ada",
    "grant_type": "client_credentials",
    "id": NOWHERE,
    "item": {"region": "eu", "factor": 1},
    "items": [{"region": "eu", "factor": 1}],
    "job_id": NOWHERE,
    "last_name": "Lovelace",
    "lookup_key": "eu",
    "lookup_table_id": NOWHERE,
    "lookup_table_revision_id": NOWHERE,
    "m3ter_id": NOWHERE,
    "measurements": [{"meter": "m", "account": "a", "ts": START, "uid": "1"}],
    "permission_policy_id": NOWHERE,
    "principal_id": NOWHERE,
    "product_id": NOWHERE,
    "referenced_bill_id": NOWHERE,
    "referenced_line_item_id": NOWHERE,
    "resource_group_id": NOWHERE,
    "service_period_end_date": END,
    "service_period_start_date": START,
    "status": "APPROVED",
    "system": "CRM",
    "target_id": NOWHERE,
    "target_type": "ITEM",
    "type": "meter",
    "source_type": "OPERATIONAL",
    "operational_data_types": ["BILLS"],
}
_OF_ROW = {row.api: row for row in reversed(ROWS)}
_ORGANIZATION = {
    "currency": "USD",
    "day_epoch": "2022-01-01",
    "days_before_bill_due": 14,
    "month_epoch": "2022-01-01",
    "timezone": "UTC",
    "week_epoch": "2022-01-04",
    "year_epoch": "2022-01-01",
    "version": 1,
}
_SPECIAL = {
    "organization_config.update": _ORGANIZATION,
    "custom_fields.update": {"version": 1},
    "bill_config.update": {"version": 1},
    "permission_policies.update": {"name": "p", "permission_policy": STATEMENT, "version": 1},
    "lookup_tables.lookup_table_revisions.update_status": {"status": "PUBLISHED", "version": 1},
    "data_exports.create_adhoc": {"operational_data_types": ["BILLS"]},
    "webhooks.set_active": {"active": True},
    "usage.get_failed_ingest_download_url": {"file": "failed-ingest/nothing.json"},
    "usage.query": {"start_date": START, "end_date": END},
    "statements.statement_jobs.list": {"status": "PENDING"},
}


def required(method) -> list[str]:
    """The arguments that a method cannot do without."""
    return [
        name
        for name, each in inspect.signature(method).parameters.items()
        if each.default is inspect.Parameter.empty
    ]


def arguments(world: World, path: str, method) -> dict:
    """Arguments with which a method reaches its operation; what they name is mostly not there."""
    api, _, verb = path.rpartition(".")
    row = _OF_ROW.get(api)
    found = {name: _ANY[name] for name in required(method) if name in _ANY}
    if row is not None:
        found |= row.path(world)
        if verb in {"create", "update", "preview"}:
            found |= row.least(world)
    if verb == "update" and "version" in inspect.signature(method).parameters:
        found["version"] = 1
    return found | _SPECIAL.get(path, {})


def outcome(call, given: dict) -> str:
    """What comes of a call: its status, and whether there is an operation at all."""
    try:
        call(**given)
    except m3ter.APIStatusError as error:
        return f"{error.status_code} {error.response.json()['message']}"
    except m3ter.APIResponseValidationError as error:
        return f"not of its type: {error.__cause__}"
    return "200"


def existing(server: Served, world: World, sdk: m3ter.M3ter) -> dict[str, dict]:
    """What is there to be named: of every part of the SDK what its methods ask for."""
    policy = sdk.permission_policies.create(name=world.code(), permission_policy=STATEMENT).id
    group = sdk.resource_groups.create(type="meter", name=world.code()).id
    common = {
        "account_id": world.account,
        "balance_id": world.balance,
        "lookup_table_id": world.table,
        "lookup_table_revision_id": world.new_revision(world.table),
        "m3ter_id": world.account,
        "permission_policy_id": policy,
        "resource_group_id": group,
        "target_id": world.meter,
    }
    ids: dict[str, str] = {"permission_policies": policy, "resource_groups": group}
    for row in ROWS:
        ids.setdefault(row.api, next(iter(_list(world, sdk, row))).id)
    ids["lookup_tables.lookup_table_revision_data"] = common["lookup_table_revision_id"]
    ids["events"] = next(iter(sdk.events.list())).id
    ids["users.invitations"] = next(iter(sdk.users.invitations.list())).id
    ids["users"] = join(server.stores.state, server.org_id)
    return {"": common} | {api: common | {"id": id_} for api, id_ in ids.items()}


def _list(world, sdk, row):
    filters = {"counter_adjustments": {"account_id": world.account, "counter_id": world.counter}}
    return api_of(sdk, row.api).list(**row.path(world), **filters.get(row.api, {}))


@pytest.fixture(scope="module")
def nothing(sdk):
    """What the methods that read answer in an organization that has nothing yet."""
    reading = {each.name for each in sdk_methods.methods() if each.verb == "GET"}
    return {
        path: outcome(method, _asked(path, method))
        for path, method in methods_of(sdk).items()
        if path in reading and set(required(method)) <= set(_ANY)
    }


def _asked(path, method):
    return {name: _ANY[name] for name in required(method)} | _SPECIAL.get(path, {})


@pytest.fixture(scope="module")
def outcomes(nothing, sdk, world):
    del nothing  # asks before there is anything
    world.allow_custom_fields()
    return {
        path: outcome(method, arguments(world, path, method))
        for path, method in methods_of(sdk).items()
        if path != "authentication.get_bearer_token"
    }


@pytest.fixture(scope="module")
def found(outcomes, server, sdk, world):
    """What the methods answer about what is there; deletions come last."""
    del outcomes
    known = existing(server, world, sdk)
    order = sorted(methods_of(sdk).items(), key=lambda item: ("delet" in item[0], item[0]))
    return {
        path: outcome(method, arguments(world, path, method) | named(known, path, method))
        for path, method in order
        if path != "authentication.get_bearer_token"
    }


def named(known, path, method):
    api = path.rpartition(".")[0]
    there = known.get(api, known[""])
    return {name: there[name] for name in inspect.signature(method).parameters if name in there}


def test_the_sdk_has_286_methods(sdk):
    assert len(methods_of(sdk)) == METHODS


def test_a_token_is_got_by_its_own_method(server, sdk):
    # The SDK itself asks in this way before every call.
    credentials = {"Authorization": "Basic " + _basic(server.key, server.secret)}
    found = sdk.authentication.get_bearer_token(
        grant_type="client_credentials", extra_headers=credentials
    )
    assert (found.token_type, found.expires_in) == ("Bearer", 18000)


def _basic(key, secret):
    return b64encode(f"{key}:{secret}".encode()).decode()


def test_every_method_leads_to_an_operation(outcomes):
    lost = {path: text for path, text in outcomes.items() if _is_lost(text)}
    assert lost == {}


def _is_lost(text):
    status = text[:3]
    no_path = status == "404" and text.startswith("404 there is no /")
    return no_path or status == "405" or (status.startswith("5") and status != "501")


@pytest.mark.long
def test_every_answer_is_of_the_type_that_the_sdk_expects(nothing, outcomes, found):
    answers = [*nothing.items(), *outcomes.items(), *found.items()]
    assert [each for each in answers if each[1].startswith(("not of its type", "500"))] == []


@pytest.mark.long
def test_what_is_there_is_answered(nothing, found):
    assert nothing["integration_configurations.get_by_entity"].startswith("404")
    assert len([path for path, text in nothing.items() if text == "200"]) > 50
    reading = {each.name for each in sdk_methods.methods() if each.verb == "GET"}
    missing = {path for path in reading & set(found) if not found[path].startswith(("200", "501"))}
    assert missing <= _FOUND_ELSEWHERE


# Jobs, bills and rows that tests of their own make first.
_FOUND_ELSEWHERE = {
    "bill_jobs.retrieve",
    "bills.credit_line_items.list",
    "bills.credit_line_items.retrieve",
    "bills.debit_line_items.list",
    "bills.debit_line_items.retrieve",
    "bills.latest_by_account",
    "bills.line_items.list",
    "bills.line_items.retrieve",
    "bills.retrieve",
    "data_exports.jobs.retrieve",
    "data_exports.jobs.get_download_url",
    "statements.get_csv",
    "statements.get_json",
    "statements.statement_jobs.retrieve",
    "lookup_tables.lookup_table_revision_data.lookup_table_revision_data_jobs.retrieve",
    "lookup_tables.lookup_table_revision_data.retrieve_key",
    "usage.file_uploads.jobs.retrieve",
    "usage.file_uploads.jobs.get_original_download_url",
    "usage.get_failed_ingest_download_url",
}


_OF_BILLS = (
    "bill_jobs.recalculate",
    "statements.statement_jobs.create",
    "statements.statement_jobs.create_batch",
)


@pytest.mark.long
def test_every_method_is_called_with_what_it_needs(outcomes):
    refused = {path: text for path, text in outcomes.items() if text[:3] in {"400", "415", "401"}}
    # What is made again has to be there when it is asked for.
    for path in _OF_BILLS:
        assert NOWHERE in refused.pop(path)
    assert refused == {}


@pytest.mark.long
def test_no_method_is_left_to_a_later_version(outcomes):
    assert [path for path, text in outcomes.items() if text.startswith("501")] == []
