"""Rules across entities: the organization, references, stages of features, requests at once."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from itertools import count

import pytest

from meterlake.model.errors import Invalid
from meterlake.model.resources import CONFIG, RESOURCES
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey
from tests.e2e.api.asking import refused
from tests.e2e.api.bodies import BY_API
from tests.e2e.api.world import FIELDS, START
from tests.homes import configure

_LATER = "2028-01-01T00:00:00Z"


# --- The organization -------------------------------------------------------------------------------


def _of_product(sdk, fields):
    now = sdk.custom_fields.retrieve()
    return sdk.custom_fields.update(version=now.version or 0, product=fields)


def test_the_organization_has_a_custom_field_first(sdk, world):
    _of_product(sdk, {})
    body = {"name": "Storage", "code": world.code(), "custom_fields": {"tier": "gold"}}
    words = ("customFields.tier", "gold", "customFields.product")
    refused(sdk.products.create, *words, **body)
    _of_product(sdk, {"tier": "none"})
    made = sdk.products.create(**body)
    refused(_of_product, "product", "tier", body["code"], sdk=sdk, fields={})
    sdk.products.update(made.id, **{**body, "custom_fields": {}}, version=1)
    _of_product(sdk, {})


def test_some_kinds_carry_any_custom_field(sdk, world):
    fields = {"anything": 1}
    assert sdk.plan_groups.retrieve(world.new_group(custom_fields=fields)).custom_fields == fields
    balance = world.new_balance(world.account, custom_fields=fields)
    assert sdk.balances.retrieve(balance).custom_fields == fields


def test_a_currency_is_there_before_it_is_used(sdk, world):
    account = {"name": "Acme", "email_address": "a@b.example", "currency": "XTS"}
    words = ("currency", "XTS", "Currency")
    refused(sdk.accounts.create, *words, **account, code=world.code())
    refused(sdk.plan_groups.create, *words, name="Bundle", currency="XTS")
    refused(world.new_balance, *words, account_id=world.account, currency="XTS")
    currency = sdk.currencies.create(name="Test", code="XTS")
    used = sdk.accounts.create(**account, code=world.code())
    refused(sdk.currencies.delete, currency.id, "Account", answers=409, id=currency.id)
    renamed = {"name": "Test", "code": "XTT", "version": 1}
    refused(sdk.currencies.update, "code", "XTT", "XTS", id=currency.id, **renamed)
    sdk.accounts.delete(used.id)
    sdk.currencies.delete(currency.id)


def test_bills_are_not_locked_while_one_is_pending(server, sdk, world):
    content = BillContent(
        BillKey(world.account, date(2026, 10, 1), "MONTHLY", 1),
        "2026-09",
        "USD",
        Decimal(0),
        {"startDate": "2026-09-01", "endDate": "2026-10-01"},
        {},
        (),
    )
    with server.organization.transaction("test") as transaction:
        bills.put(transaction, content)
    version = sdk.bill_config.retrieve().version
    body = {"bill_lock_date": "2026-09-30", "version": version}
    refused(sdk.bill_config.update, "billLockDate", "2026-09-30", "PENDING", **body)
    sdk.bill_config.update(bill_lock_date="2026-09-29", version=version)


# --- What something refers to -----------------------------------------------------------------------


def test_what_something_refers_to_is_not_deleted(sdk, world):
    account, contract, plan = world.account, world.contract, world.new_plan()
    group = world.new_group(plan)
    world.put_on(world.new_account(), plan_group_id=group)
    world.put_on(account, plan_id=world.plan, contract_id=contract)
    assert world.compound
    for api, id_, user in (
        (sdk.products, world.product, ""),
        (sdk.meters, world.meter, "Aggregation"),
        (sdk.aggregations, world.aggregation, ""),
        (sdk.plan_templates, world.template, "Plan"),
        (sdk.plans, plan, "PlanGroupLink"),
        (sdk.plan_groups, group, ""),
        (sdk.accounts, account, ""),
        (sdk.contracts, contract, "AccountPlan"),
    ):
        refused(api.delete, id_, user, "referenced", answers=409, id=id_)
        assert api.retrieve(id_).id == id_


@pytest.mark.parametrize(
    ("field", "api", "body"),
    [
        ("productId", "plan_templates", {"product_id": None}),
        ("planTemplateId", "plans", {"plan_template_id": None}),
        ("accountId", "contracts", {"account_id": None}),
        ("meterId", "aggregations", {"meter_id": None}),
        ("counterId", "counter_adjustments", {"counter_id": None}),
    ],
)
def test_what_is_referred_to_exists(sdk, world, field, api, body):
    nobody = "00000000-0000-4000-8000-000000000000"
    given = {**BY_API[api].least(world), **dict.fromkeys(body, nobody)}
    refused(getattr(sdk, api).create, field, nobody, "existing", **given)


# --- At the same time -------------------------------------------------------------------------------


def at_once(server, call, times=8):
    """What becomes of the same request, sent several times at once."""
    with server.http() as client, ThreadPoolExecutor(times) as pool:
        found = list(pool.map(lambda _: call(client), range(times)))
    assert {each.status_code for each in found} <= {200, 400, 404, 409}, [e.text for e in found]
    return Counter(each.status_code for each in found)


def test_a_rule_holds_for_requests_at_once(server, world):
    account, plan = world.new_account(), world.plan
    body = {"accountId": account, "planId": plan, "startDate": START}
    found = at_once(server, lambda client: client.post("/accountplans", json=body))
    assert found[200] == 1
    day = {"accountId": account, "counterId": world.counter, "date": "2026-05-01", "value": 1}
    found = at_once(server, lambda client: client.post("/counteradjustments", json=day))
    assert found[200] == 1


def test_a_code_is_given_once_to_requests_at_once(server, world):
    body = {"name": "Storage", "code": world.code()}
    found = at_once(server, lambda client: client.post("/products", json=body))
    assert found == {200: 1, 409: 7}


@pytest.mark.parametrize("_", range(5))
def test_what_is_deleted_while_it_is_used_first_stays_or_goes(server, sdk, world, _):
    product, turns = world.new_product(), count()
    body = {"name": "Egress", "dataFields": FIELDS, "derivedFields": [], "productId": product}

    def use_or_delete(client):
        if next(turns) % 2:
            return client.delete(f"/products/{product}")
        return client.post("/meters", json={**body, "code": world.code()})

    at_once(server, use_or_delete, 4)
    if list(sdk.meters.list(product_id=[product])):
        assert sdk.products.retrieve(product).id == product


# --- Stages of features -----------------------------------------------------------------------------


@pytest.mark.sees("GetFeatures", "UpdateFeatures")
def test_what_is_in_beta_is_refused_until_it_is_enabled(sdk, http, world):
    balance, table = world.balance, world.new_table()
    now = http.get("/features").json()
    off = http.put("/features", json={"beta": False, "preview": True, "version": now["version"]})
    assert off.status_code == 200, off.text
    try:
        for call, given in (
            (sdk.lookup_tables.list, {}),
            (sdk.lookup_tables.retrieve, {"id": table}),
            (sdk.lookup_tables.lookup_table_revisions.list, {"lookup_table_id": table}),
            (sdk.balances.charge_schedules.list, {"balance_id": balance}),
            (sdk.balances.transaction_schedules.list, {"balance_id": balance}),
        ):
            refused(call, "beta", "features", answers=403, **given)
    finally:
        version = off.json()["version"]
        on = http.put("/features", json={"beta": True, "preview": True, "version": version})
    assert on.status_code == 200
    assert sdk.lookup_tables.retrieve(table).id == table


# --- Addresses outside ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/in",
        "https://127.0.0.1/in",
        "https://localhost/in",
        "https://10.0.0.1/in",
        "https://169.254.169.254/latest",
        "https://[::1]/in",
        "https://[::ffff:10.0.0.1]/in",
        "https://2130706433/in",
        "https://user:secret@hooks.example.com/in",
        "ftp://hooks.example.com/in",
        "nothing",
    ],
)
def test_webhooks_lead_outside(sdk, url):
    credentials = {"type": "M3TER_SIGNED_REQUEST", "api_key": "key", "secret": "secret"}
    body = {"name": "Hook", "description": "Tells", "credentials": credentials, "url": url}
    message = refused(sdk.webhooks.create, "url", **body)
    assert "secret@" not in message


# --- Other ways in ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"products": [{"name": "a", "code": "a", "customFields": {"unknown": 1}}]},
            ("customFields.unknown", "customFields.product"),
        ),
        (
            {
                "accounts": [
                    {"name": "a", "code": "a", "emailAddress": "a@b.example", "currency": "XXX"}
                ]
            },
            ("currency", "XXX"),
        ),
    ],
)
def test_files_of_configuration_go_through_the_same_rules(server, http, content, words):
    with pytest.raises(Invalid) as caught:
        configure(server.organization, **content)
    ((kind, (body,)),) = content.items()
    found = http.post(f"/{kind}", json=body)
    assert found.status_code == 400
    for message in (str(caught.value), found.json()["message"]):
        assert all(word in message for word in words), message


# Fields whose names sound like personal data, and that hold it or do not.
_PERSONAL = re.compile(r"mail|phone|address|first_name|last_name|birth|contact")
_ALLOWED = {
    ("Account", "email_address"),
    ("Account", "address"),
    # Of a machine.
    ("ExportDestination", "service_account_email"),
}


def test_only_accounts_have_fields_for_personal_data():
    found = {
        (resource.entity.__name__, name)
        for resource in RESOURCES
        if resource.area == CONFIG
        for name in resource.entity.model_fields
        if _PERSONAL.search(name)
    }
    assert found <= _ALLOWED


# --- Notifications ----------------------------------------------------------------------------------


def test_notifications_are_of_events_and_fields_that_there_are(sdk, world):
    name = f"scheduled.contract.{world.code()}"
    event = {"name": name, "entity": "Contract", "field": "endDate", "offset": -5}
    body = {"name": "Ends", "code": world.code(), "description": "Tells", "event_name": name}
    notifications, scheduled = sdk.notification_configurations, sdk.scheduled_event_configurations
    refused(notifications.create, "eventName", name, **body)
    refused(scheduled.create, "field", "endDat", "endDate", **event | {"field": "endDat"})
    made = scheduled.create(**event)
    refused(notifications.create, "calculation", "column 1", **body, calculation="new.name")
    told = notifications.create(**body, calculation='new.name != "Trial"')
    refused(scheduled.delete, body["code"], id=made.id, answers=409)
    renamed = event | {"name": f"{name}x", "version": 1}
    refused(scheduled.update, "name", body["code"], id=made.id, **renamed)
    assert scheduled.update(made.id, **event | {"offset": 3, "version": 1}).offset == 3
    notifications.delete(told.id)
    scheduled.delete(made.id)
