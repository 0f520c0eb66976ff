"""Integrations through the official SDK: which there can be, and how one is doing."""

from datetime import timedelta

import m3ter
import pytest
from sqlalchemy import delete, insert

from meterlake.model.configuration.integrations import RunStatus
from meterlake.stores.state.integrations.health import write_refusal
from meterlake.stores.state.integrations.run_tables import MARKETPLACE_RECORD
from tests.e2e.api.test_authorization import policy, service_user, statement, token_of
from tests.served import served
from tests.stored_runs import add_run, end_run

CREDENTIALS = {"type": "M3TER_SIGNED_REQUEST", "api_key": "key", "secret": "the secret"}
WEBHOOK = {"name": "Chat", "description": "d", "credentials": CREDENTIALS}
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("configs") / "home"
    with served(home, webhook_must_resolve=False) as running:
        yield running


@pytest.fixture
def sdk(server):
    return server.sdk()


@pytest.fixture
def config(sdk):
    webhook = sdk.webhooks.create(**WEBHOOK, url="https://hooks.example.com/")
    made = sdk.integration_configurations.create(
        entity_type="Notification", destination="Webhook", destination_id=webhook.id
    )
    yield made
    sdk.integration_configurations.delete(made.id)
    sdk.webhooks.delete(webhook.id)


@pytest.mark.parametrize("destination", ["XERO", "NETSUITE", "Nothing"])
def test_a_system_that_is_not_installed_is_refused_by_name(sdk, destination):
    with pytest.raises(m3ter.BadRequestError, match=rf"destination: '{destination}'.*WEBHOOK"):
        sdk.integration_configurations.create(entity_type="Bill", destination=destination)


def test_what_a_system_does_not_take_is_refused(sdk):
    with pytest.raises(m3ter.BadRequestError, match=r"entityType: 'Bill'.*WEBHOOK takes"):
        sdk.integration_configurations.create(entity_type="Bill", destination="WEBHOOK")


def test_credentials_of_another_kind_are_refused(sdk):
    with pytest.raises(m3ter.BadRequestError, match=r"credentials.type: 'HTTP_BASIC'"):
        sdk.integration_configurations.create(
            entity_type="Notification", destination="WEBHOOK", credentials={"type": "HTTP_BASIC"}
        )


@pytest.mark.sees("GetIntegrationConfig")
def test_a_configuration_is_also_its_newest_run(sdk, server, config, now):
    waiting = sdk.integration_configurations.retrieve(config.id)
    assert (waiting.status, waiting.entity_id) == ("WAITING", "*")

    facts = {"config_id": config.id, "config_version": 1}
    add_run(server.organization, now, f"{config.id} 1", **facts)
    sent = {"external_id": "x1", "url": "https://there.test/x1"}
    end_run(server.organization, now, RunStatus.COMPLETE, queues=[config.id], **sent)

    found = sdk.integration_configurations.retrieve(config.id)
    assert (found.status, found.external_id, found.url) == ("COMPLETE", "x1", sent["url"])
    assert found.dt_started < found.dt_completed


def test_who_is_refused_is_not_authorized_until_the_credentials_change(sdk, server, config, now):
    webhook = sdk.webhooks.retrieve(config.destination_id)
    with server.organization.transaction("t") as transaction:
        later = now + timedelta(seconds=1)
        write_refusal(transaction.connection, server.org_id, webhook.id, later)
    names = {"entity_type": "Notification", "destination": "Webhook", "destination_id": webhook.id}
    named = sdk.integration_configurations.update(config.id, **names, name="Chat", version=1)
    assert named.authorized is False
    assert sdk.integration_configurations.enable(config.id).authorized is False

    sdk.webhooks.update(
        webhook.id,
        **WEBHOOK | {"credentials": CREDENTIALS | {"api_key": "another"}},
        url=webhook.url,
        version=webhook.version,
    )
    [found] = sdk.integration_configurations.list(destination_id=webhook.id)
    assert found.authorized is True


@pytest.mark.sees("EnableIntegrationConfig", "DisableIntegrationConfig")
def test_an_integration_is_disabled_and_enabled(sdk, server, config):
    with server.http() as client:
        off = client.post(f"/integrationconfigs/{config.id}/disable").json()
        gone = client.post(f"/integrationconfigs/{NOBODY}/disable")
    assert (off["enabled"], gone.status_code) == (False, 404)
    assert "disabled by SERVICE_USER" in off["error"]
    [listed] = sdk.integration_configurations.list(destination_id=config.destination_id)
    assert listed.enabled is False

    assert sdk.integration_configurations.enable(config.id).enabled is True
    with pytest.raises(m3ter.NotFoundError):
        sdk.integration_configurations.enable(NOBODY)


def test_an_integration_whose_webhook_is_off_is_not_enabled(sdk, config):
    sdk.webhooks.set_active(config.destination_id, active=False)
    [off] = sdk.integration_configurations.list(destination_id=config.destination_id)
    enabled = sdk.integration_configurations.enable(config.id)
    still_off = sdk.webhooks.retrieve(config.destination_id)
    sdk.webhooks.set_active(config.destination_id, active=True)
    [on] = sdk.integration_configurations.list(destination_id=config.destination_id)

    assert (off.enabled, enabled.enabled, still_off.active, on.enabled) == (
        False,
        False,
        False,
        True,
    )
    assert off.to_dict()["error"] == "the webhook is not active"


@pytest.mark.sees(
    "GetAvailableConfig",
    "GetAvailableSystems",
    "GetAvailableSystemEntities",
    "GetAvailableAuthForSystemAndEntityType",
)
@pytest.mark.usefixtures("config")
def test_what_is_installed_is_offered_and_nothing_else(server):
    with server.http() as client:
        available = client.get("/integrationconfigs/available?systemName=webhook").json()
        systems = client.get("/integrationconfigs/available/systems?entityType=Notification").json()
        none = client.get("/integrationconfigs/available/systems?entityType=Contract").json()
        entities = client.get("/integrationconfigs/available/WEBHOOK/entities").json()
        sign_in = client.get("/integrationconfigs/available/WEBHOOK/auth/Notification").json()

    assert none == []
    [destination] = available["supportedEntities"]["Notification"]["destinations"]
    assert (destination["apiName"], destination["released"]) == ("WEBHOOK", True)
    assert set(available["selectedConfigurations"]) == {"WEBHOOK"}
    common = [each["name"] for each in available["globalConfigurationOptions"]["settings"]]
    assert common == ["accountIds", "restrictedAccountIds", "sendBillsOnApproval", "usersToNotify"]
    assert "WEBHOOK" in [each["identifier"] for each in systems]
    assert {"entityType": "Notification", "sent": True} in entities
    assert sign_in["settings"][0]["values"] == ["M3TER_SIGNED_REQUEST"]


@pytest.fixture
def now(server):
    return server.stores.now()


@pytest.mark.sees("GetConfigOptionValues", "GetExternalMappingConfiguration")
def test_options_and_mappings_are_those_of_the_declarations(server):
    with server.http() as client:
        method = client.get("/integrationconfigs/values/HTTP/method").json()
        mappings = client.get("/externalmappingconfiguration").json()

    assert method["id"] == "POST"
    assert [each["id"] for each in method["values"]] == ["POST", "PUT"]
    systems = {each["name"]: each["tables"] for each in mappings["externalSystems"]}
    assert systems["HTTP"] == ["Bill"]
    assert "Bill" in mappings["m3terEntities"]


@pytest.mark.sees("GetUsageReport")
def test_what_the_marketplace_took_is_reported_by_bill(server, now):
    hour = now.replace(minute=0, second=0, microsecond=0)
    names = {"customer": "c", "dimension": "p-cents", "system": "AWS", "account_id": NOBODY}
    stores = server.stores
    with stores.state.transaction(server.org_id, "t") as transaction:
        for number, accepted in enumerate((True, True, False)):
            facts = {"bill_id": f"b{number % 2}", "run_key": str(number), "accepted": accepted}
            made = {"hour": hour - timedelta(hours=number), "quantity": number + 1}
            row = {"org": server.org_id, **names, **facts, **made}
            transaction.connection.execute(insert(MARKETPLACE_RECORD), row)
    path = "/integrationdestinations/marketplace/usageReport"
    with server.http() as client:
        first = client.get(f"{path}?pageSize=1").json()
        second = client.get(path, params={"pageSize": 1, "nextToken": first["nextToken"]}).json()
        later = client.get(f"{path}?billStartDate=2026-01-01").json()

    reports = first["data"] + second["data"]
    assert [each["billId"] for each in reports] == ["b0", "b1"]
    assert list(reports[0]["reportedUsage"]["p-cents"].values()) == [1]
    assert later == {"data": []}


def test_the_report_leaves_out_what_is_withheld_and_what_another_bill_or_account_is_about(
    server, now
):
    """Reading by any verb needs the right to read, and each filter filters."""
    other = "0b111111-0000-4000-8000-00000000000a"
    bills = ["0b111111-0000-4000-8000-000000000011", "0b111111-0000-4000-8000-000000000012"]
    hour = now.replace(minute=0, second=0, microsecond=0)
    with server.organization.transaction("t") as transaction:
        for number, bill in enumerate(bills):
            row = {"customer": f"f{number}", "dimension": "f-cents", "hour": hour, "quantity": 7}
            row |= {"system": ("AWS", "GCP")[number], "account_id": (NOBODY, other)[number]}
            row |= {"org": server.org_id, "bill_id": bill, "run_key": bill, "accepted": True}
            transaction.connection.execute(insert(MARKETPLACE_RECORD), row)
    path = "/integrationdestinations/marketplace/usageReport"
    denied = statement("deny", ["all"], f"config:bill/item/{bills[0]}")
    allowed = statement("allow", ["all"], "*")
    only = statement("allow", ["all"], "config:marketplaceusage/*")

    def seen(client, **query):
        found = client.get(path, params=query)
        assert found.status_code == 200, found.text
        return {each["billId"] for each in found.json()["data"]}.intersection(bills)

    with server.http() as client:
        assert seen(client) == set(bills)
        for name, values in (("billId", bills), ("accountId", (NOBODY, other))):
            assert [seen(client, **{name: each}) for each in values] == [{each} for each in bills]
        assert [seen(client, externalSystem=each) for each in ("AWS", "GCP")] == [
            {each} for each in bills
        ]
        users = [
            service_user(client, policy(client, f"reports {number}", *given))
            for number, given in enumerate(((allowed, denied), (only,)))
        ]
    shown = []
    for _, key, secret in users:
        with server.http(token_of(server, key, secret)) as client:
            shown.append((seen(client), seen(client, billId=bills[0])))
    assert shown == [({bills[1]}, set()), (set(), set())]
    with server.organization.transaction("t") as transaction:
        mine = MARKETPLACE_RECORD.c.bill_id.in_(bills)
        transaction.connection.execute(delete(MARKETPLACE_RECORD).where(mine))


def new_mapping(sdk, config_id):
    return sdk.external_mappings.create(
        m3ter_entity="Bill",
        m3ter_id=NOBODY,
        external_system="Webhook",
        external_table="Bill",
        external_id="inv-1",
        integration_config_id=config_id,
    )


@pytest.mark.parametrize("choice", [None, "keep", "delete"])
def test_mappings_go_or_stay_with_the_integration_by_choice(sdk, choice):
    webhook = sdk.webhooks.create(**WEBHOOK, url="https://hooks.example.com/")
    made = sdk.integration_configurations.create(
        entity_type="Notification", destination="Webhook", destination_id=webhook.id
    )
    mapping = new_mapping(sdk, made.id)
    query = {} if choice is None else {"mappings": choice}

    assert sdk.integration_configurations.delete(made.id, extra_query=query).id == made.id
    if choice == "delete":
        with pytest.raises(m3ter.NotFoundError):
            sdk.external_mappings.retrieve(mapping.id)
    else:
        left = sdk.external_mappings.delete(mapping.id)
        assert (left.integration_config_id, left.external_id) == (None, "inv-1")


def test_who_may_not_delete_mappings_deletes_none_with_an_integration(server, sdk, config):
    mapping = new_mapping(sdk, config.id)
    denied = {
        "effect": "DENY",
        "action": ["CONFIG_DELETE"],
        "resource": ["config:externalmapping/*"],
    }
    allowed = {"effect": "ALLOW", "action": ["ALL"], "resource": ["*:*/*"]}
    policy = sdk.permission_policies.create(name="No mappings", permission_policy=[allowed, denied])
    with server.http() as http:
        robot = http.post("/serviceusers", json={"name": "Robot"}).json()["id"]
        sdk.permission_policies.add_to_service_user(policy.id, principal_id=robot)
        key = http.post(f"/serviceusers/{robot}/accesskeys").json()
    limited = server.sdk(api_key=key["id"], api_secret=key["apiSecret"])
    with pytest.raises(m3ter.PermissionDeniedError, match="config:delete on externalmapping"):
        limited.integration_configurations.delete(config.id, extra_query={"mappings": "delete"})
    sdk.external_mappings.delete(mapping.id)


def test_another_word_for_mappings_is_refused(sdk, config):
    with pytest.raises(m3ter.BadRequestError, match=r"mappings: .drop. .* one of keep, delete"):
        sdk.integration_configurations.delete(config.id, extra_query={"mappings": "drop"})
