"""Webhooks, integrations and mappings through the official SDK."""

import httpx
import m3ter
import pytest

from meterlake.api.integrations import OPERATIONS
from tests.served import served

CREDENTIALS = {"type": "M3TER_SIGNED_REQUEST", "api_key": "key", "secret": "the secret"}
WEBHOOK = {"name": "Chat", "description": "d", "credentials": CREDENTIALS}
URL = "https://hooks.example.com/"
EMPTY = [
    ("integrationruns/destinations/1", {"data": []}),
    ("integrationruns/Bill/1?status=ERROR&order=ASC&startDate=2026-01-01", {"data": []}),
    ("externalmappingconfiguration/values/XERO/Account", []),
    ("externalmappingconfiguration/values/XERO/Account/1", []),
    ("integrationdestinations/marketplace/usageReport?pageSize=50", {"data": []}),
]
REFUSED = [
    ("integrationconfigs/available/XERO/entities", 404),
    ("integrationconfigs/available?systemName=XERO", 404),
    ("integrationconfigs/available/XERO/auth/Bill", 404),
    ("integrationconfigs/available/WEBHOOK/auth/Bill", 404),
    ("integrationconfigs/values/XERO/option", 404),
    ("integrationconfigs/values/WEBHOOK/option", 404),
    ("integrationruns/1", 404),
    ("integrationruns/logs/1", 404),
    ("integrationruns/Bill/latest/1", 404),
    ("integrationruns/Bill/latest?ids=1,2", 404),
    ("integrationruns/Bill/latest?pageSize=201", 400),
    ("integrationconfigs/entity/Nothing", 404),
    ("integrationconfigs/entity/Nothing?pageSize=201", 400),
    ("integrationruns/Bill/1?status=FINE", 400),
    ("integrationruns/Bill/1?order=UP", 400),
    ("integrationruns/Bill/1?pageSize=201", 400),
    ("integrationruns/Bill/1?startDate=2026-13-01", 400),
    ("integrationdestinations/marketplace/usageReport?pageSize=51", 400),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("integrations") / "home") as running:
        yield running


@pytest.fixture
def sdk(server):
    return server.sdk()


@pytest.mark.parametrize(("path", "answer"), EMPTY)
def test_what_there_is_none_of_is_an_empty_answer(server, path, answer):
    with server.http() as client:
        found = client.get(f"/{path}")

    assert (found.status_code, found.json()) == (httpx.codes.OK, answer)


@pytest.mark.parametrize(("path", "status"), REFUSED)
def test_what_is_not_there_is_refused(server, path, status):
    with server.http() as client:
        found = client.get(f"/{path}")

    assert (found.status_code, set(found.json())) == (status, {"message"})


def test_a_webhook_keeps_its_secret_to_itself(sdk, server):
    made = sdk.webhooks.create(**WEBHOOK, url=URL)
    off = sdk.webhooks.set_active(made.id, active=False)
    credentials = CREDENTIALS | {"secret": off.credentials.secret}
    again = sdk.webhooks.update(
        made.id,
        **WEBHOOK | {"name": "Pager", "credentials": credentials},
        url=URL,
        active=True,
        version=2,
    )

    assert (off.active, again.active, again.name) == (False, True, "Pager")
    with server.http() as client:
        answers = [
            client.get(f"/integrationdestinations/webhooks{end}") for end in ("", f"/{made.id}")
        ]
        bad = client.put(f"/integrationdestinations/webhooks/{made.id}/active")
        none = client.put("/integrationdestinations/webhooks/none/active?active=true")
    assert all(CREDENTIALS["secret"] not in answer.text for answer in answers)
    assert (bad.status_code, none.status_code) == (400, 404)
    with pytest.raises(m3ter.BadRequestError, match="webhook_loopback"):
        sdk.webhooks.update(made.id, **WEBHOOK, url="http://localhost/", version=3)


def test_an_integration_is_found_by_its_type(sdk):
    webhook = sdk.webhooks.create(**WEBHOOK, url=URL)
    configs = sdk.integration_configurations
    rule = sdk.notification_configurations.create(
        name="Due", code="due", description="d", event_name="billing.bill.created"
    )
    made = configs.create(
        entity_type="Notification",
        entity_id=rule.id,
        destination="Webhook",
        destination_id=webhook.id,
    )

    assert configs.get_by_entity("Notification", destination_id=webhook.id).id == made.id
    with pytest.raises(m3ter.NotFoundError, match="entity type 'Bill'"):
        configs.get_by_entity("Bill")
    with pytest.raises(m3ter.NotFoundError, match="entity type 'Notification'"):
        configs.get_by_entity("Notification", entity_id="2")
    assert [each.id for each in configs.list(destination_id=webhook.id)] == [made.id]
    with pytest.raises(m3ter.ConflictError):
        sdk.webhooks.delete(webhook.id)


def test_mappings_are_listed_from_both_ends(sdk):
    made = sdk.external_mappings.create(
        m3ter_entity="Account",
        m3ter_id="1",
        external_system="Salesforce",
        external_table="Account",
        external_id="x 1",
    )
    lists = (
        sdk.external_mappings.list(external_system_id="Salesforce", m3ter_ids=["1", "2"]),
        sdk.external_mappings.list_by_external_entity(
            "x 1", system="Salesforce", external_table="Account"
        ),
        sdk.external_mappings.list_by_m3ter_entity("1", entity="Account"),
    )

    assert [[each.id for each in found] for found in lists] == [[made.id]] * 3
    assert list(sdk.external_mappings.list(m3ter_ids=["2"])) == []


def test_every_operation_has_a_handler_or_says_why_not():
    assert all(operation.handler or operation.detail for operation in OPERATIONS)
