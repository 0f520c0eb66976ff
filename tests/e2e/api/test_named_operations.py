"""What is special about some resources: exact numbers, secrets, schedules, groups, tables, events."""

import json

import m3ter
import pytest

from tests.e2e.api.asking import differing, listed, refusal, shown
from tests.e2e.api.bodies import BY_API
from tests.e2e.api.bodies_beside import STATEMENT
from tests.e2e.api.world import END, START


def test_numbers_are_exact_on_the_way_in_and_out(http, world):
    price = "12345678901234567890123456.01234567890123456789"
    text = f"""{{
        "planId": "{world.new_plan()}", "aggregationId": "{world.aggregation}",
        "startDate": "{START}",
        "pricingBands": [{{"lowerLimit": 0, "fixedPrice": 0.10, "unitPrice": {price}}}]
    }}"""
    found = http.post("/pricings", content=text, headers={"Content-Type": "application/json"})
    assert found.status_code == 200, found.text
    assert f'"unitPrice":{price}' in found.text.replace(" ", "")
    again = http.get(f"/pricings/{found.json()['id']}")
    assert f'"unitPrice":{price}' in again.text.replace(" ", "")


def test_unknown_members_are_ignored_and_nulls_count_as_absent(http, world):
    body = {"name": "Storage", "code": world.code(), "colour": {"deep": [1]}, "customFields": None}
    found = http.post("/products", json=body)
    assert found.status_code == 200, found.text
    assert "colour" not in found.json()


def test_a_version_is_ignored_on_creation(http, world):
    body = {"name": "Storage", "code": world.code(), "version": 7, "id": "mine", "createdBy": "me"}
    made = http.post("/products", json=body).json()
    assert made["version"] == 1
    assert made["id"] != "mine"
    assert made["createdBy"] != "me"


def test_a_code_belongs_to_one_entity(sdk, world):
    code = world.code()
    sdk.products.create(name="One", code=code)
    error = refusal(m3ter.ConflictError, sdk.products.create, name="Two", code=code)
    assert error.response.headers["x-should-retry"] == "false"
    assert code in error.body["message"]


def test_an_entity_is_read_as_it_was(sdk, http, world):
    made = sdk.products.create(name="First", code=world.code())
    sdk.products.update(made.id, name="Second", code=made.code, version=1)
    at = made.dt_created.isoformat()
    old = http.get(f"/products/{made.id}", params={"asOf": at})
    assert old.status_code == 200, old.text
    assert (old.json()["name"], old.json()["version"]) == ("First", 1)
    assert http.get(f"/products/{made.id}", params={"asOf": START}).status_code == 404
    assert http.get(f"/products/{made.id}", params={"asOf": "2200-01-01"}).json()["version"] == 2


def test_a_member_of_the_path_is_part_of_the_address(sdk, world):
    other = world.new_balance(world.account)
    row = BY_API["balances.charge_schedules"]
    made = sdk.balances.charge_schedules.create(balance_id=world.balance, **row.least(world))
    schedules = sdk.balances.charge_schedules
    refusal(m3ter.NotFoundError, schedules.retrieve, made.id, balance_id=other)
    refusal(m3ter.NotFoundError, schedules.delete, made.id, balance_id=other)
    assert listed(schedules, {"balance_id": other}) == []


def test_secrets_are_never_shown(sdk, http, world):
    secret = "the-secret-of-the-hook"
    body = BY_API["webhooks"].least(world)
    body["credentials"] = {**body["credentials"], "secret": secret}
    made = sdk.webhooks.create(**body)
    texts = [
        json.dumps(shown(made)),
        http.get(f"/integrationdestinations/webhooks/{made.id}").text,
        http.get("/integrationdestinations/webhooks").text,
        http.get("/events", params={"pageSize": 100}).text,
    ]
    assert not any(secret in text for text in texts)
    shown_back = {**body["credentials"], "secret": made.credentials.secret}
    sdk.webhooks.update(made.id, **{**body, "credentials": shown_back}, version=1)


@pytest.mark.sees("PreviewScheduledCharge", "PreviewBalanceTransactionSchedule")
def test_schedules_are_previewed(sdk, world):
    charge = BY_API["balances.charge_schedules"].least(world)
    found = sdk.balances.charge_schedules.preview(balance_id=world.balance, **charge).to_dict()
    assert len(found["data"]) == 12
    assert [(each["units"], each["unitPrice"]) for each in found["data"][:2]] == [(2, 1.25)] * 2
    transaction = BY_API["balances.transaction_schedules"].least(world)
    schedules = sdk.balances.transaction_schedules
    found = schedules.preview(balance_id=world.balance, **transaction).to_dict()
    assert [each["amount"] for each in found["data"]] == [transaction["amount"]] * 12


@pytest.mark.sees(
    "PostBalanceTransaction", "GetBalanceTransactionsSummary", "ListBalanceTransactions"
)
def test_money_comes_into_a_balance(sdk, world):
    balance = world.new_balance(world.account)
    for amount in (100.5, -0.25):
        sdk.balances.transactions.create(balance_id=balance, amount=amount, description="By hand")
    assert sdk.balances.retrieve(balance).amount == 100.25
    summary = sdk.balances.transactions.summary(balance_id=balance)
    assert (summary.total_credit_amount, summary.total_debit_amount) == (100.5, 0.25)
    assert [each.amount for each in sdk.balances.transactions.list(balance_id=balance)] == [
        -0.25,
        100.5,
    ]


@pytest.mark.sees("EndDateBillingEntitiesForAccount")
def test_what_an_account_has_ends_together(sdk, http, world):
    account = world.new_account()
    contract = world.new_contract(account)
    plan = world.put_on(account, plan_id=world.plan)
    # What was changed are ids; the SDK's type for them says nothing but `empty`.
    body = {"billingEntities": ["CONTRACT", "ACCOUNTPLAN"], "endDate": "2026-03-01T00:00:00Z"}
    ended = http.put(f"/accounts/{account}/enddatebillingentities", json=body)
    updated = ended.json()["updatedEntities"]
    assert updated["CONTRACT"] == [contract]
    assert updated["ACCOUNTPLAN"] == [plan]
    assert str(sdk.contracts.retrieve(contract).end_date) == "2026-03-01"
    assert sdk.account_plans.retrieve(plan).version == 2


@pytest.mark.sees("ReplaceAccountPlan")
def test_an_account_plan_is_replaced(sdk, http, world):
    account = world.new_account()
    first = world.put_on(account, plan_id=world.plan)
    body = {"accountId": account, "planId": world.plan, "startDate": END}
    found = http.post(f"/accountplans/{first}/replace", json=body)
    assert found.status_code == 200, found.text
    assert sdk.account_plans.retrieve(first).to_dict(mode="json")["endDate"] == END
    every = sdk.account_plans.list(account=account, includeall=True)
    assert len(list(every)) == 2


@pytest.mark.sees(
    "PutLookupTableRevisionData",
    "GetLookupTableRevisionDataEntry",
    "PutLookupTableRevisionDataEntry",
    "GetLookupTableRevisionData",
    "UpdateLookupTableRevisionStatus",
)
def test_a_lookup_table_is_published_and_archived(sdk, world):
    table = world.new_table()
    revision = world.new_revision(table)
    data = sdk.lookup_tables.lookup_table_revision_data
    where = {"lookup_table_id": table}
    data.update(revision, **where, items=[{"region": "eu", "factor": 1.5}])
    found = data.retrieve_key("eu", **where, lookup_table_revision_id=revision)
    assert differing([{"region": "eu", "factor": 1.5}], found.items) == []
    data.update_key(
        "us",
        **where,
        lookup_table_revision_id=revision,
        item={"region": "us", "factor": 2},
    )
    assert [item["region"] for item in data.retrieve(revision, **where).items or []] == ["eu", "us"]
    revisions = sdk.lookup_tables.lookup_table_revisions
    for version, status in enumerate(("PUBLISHED", "ARCHIVED"), start=1):
        changed = revisions.update_status(revision, **where, status=status, version=version)
        assert changed.status == status


@pytest.mark.sees("AddResourceToGroup", "ListResourceGroupsForId", "RemoveResourceFromGroup")
def test_members_of_a_resource_group(sdk, world):
    group = sdk.resource_groups.create(type="meter", name=world.code())
    there = {"type": "meter", "target_id": world.meter, "target_type": "ITEM"}
    sdk.resource_groups.add_resource(group.id, **there)
    contents = list(sdk.resource_groups.list_contents(group.id, type="meter"))
    assert [each.target_id for each in contents] == [world.meter]
    sdk.resource_groups.remove_resource(group.id, **there)
    assert list(sdk.resource_groups.list_contents(group.id, type="meter")) == []


@pytest.mark.sees("PutSupport", "GetSupport")
def test_support_access_is_opened_and_closed(http):
    body = {"dtEndSupportUsersAccess": END}
    first = http.put("/support", json=body)
    assert first.status_code == 200, first.text
    found = http.get("/support").json()
    assert found["dtEndSupportUsersAccess"] == END
    stale = {**body, "version": found["version"] + 1}
    assert http.put("/support", json=stale).status_code == 409
    closed = {"dtEndSupportUsersAccess": START, "version": found["version"]}
    assert http.put("/support", json=closed).json()["dtEndSupportUsersAccess"] == START


def test_nothing_was_reported_to_a_marketplace(http):
    found = http.get("/integrationdestinations/marketplace/usageReport")
    assert (found.status_code, found.json()) == (200, {"data": []})


@pytest.mark.sees(
    "AddPermissionPolicyToUserGroup",
    "GetResourceGroupPermissions",
    "RemovePermissionPolicyFromUserGroup",
)
def test_policies_are_granted_and_taken_away(sdk, http, world):
    policies = sdk.permission_policies
    policy = policies.create(name=world.code(), permission_policy=STATEMENT).id
    user = http.post("/serviceusers", json={"name": "Robot"}).json()["id"]
    group = sdk.resource_groups.create(type="user", name=world.code()).id
    given = policies.add_to_service_user(policy, principal_id=user)
    assert (given.permission_policy_id, given.principal_id) == (policy, user)
    refusal(m3ter.ConflictError, policies.delete, policy)
    assert policies.remove_from_service_user(policy, principal_id=user).id == given.id
    policies.add_to_user_group(policy, principal_id=group)
    found = list(sdk.resource_groups.list_permissions(group, type="user"))
    assert [each.id for each in found] == [policy]
    policies.remove_from_user_group(policy, principal_id=group)
    policies.add_to_support_user(policy)
    policies.remove_from_support_user(policy)
    assert policies.delete(policy).id == policy


@pytest.mark.sees(
    "CreateOrgUserInvitation", "GetOrgUserInvitation", "ListOrgUserInvitations", "GetMe"
)
def test_people_are_invited(sdk):
    person = {"email": "ada@people.example", "first_name": "Ada", "last_name": "Lovelace"}
    made = sdk.users.invitations.create(**person)
    assert differing(person, shown(made)) == []
    assert sdk.users.invitations.retrieve(made.id).id == made.id
    assert [each.id for each in sdk.users.invitations.list()] == [made.id]
    assert sdk.users.me().service_user.id


@pytest.mark.sees("GetIntegrationConfigForType", "ActivateWebhookDestination")
def test_integrations_and_webhooks_are_switched(sdk, world):
    assert sdk.integration_configurations.enable(world.integration).enabled is True
    by_entity = sdk.integration_configurations.get_by_entity("Notification")
    assert by_entity.id == world.integration
    assert sdk.webhooks.set_active(world.webhook, active=False).active is False
    assert sdk.webhooks.retrieve(world.webhook).active is False


@pytest.mark.sees(
    "ListExternalMappingsForM3terEntity", "ListExternalMappingsForExternalSystemAndEntity"
)
def test_what_an_entity_is_called_elsewhere_is_found_from_both_sides(sdk, world):
    made = sdk.external_mappings.create(**BY_API["external_mappings"].least(world))
    ours = sdk.external_mappings.list_by_m3ter_entity(world.account, entity="Account")
    assert made.id in [each.id for each in ours]
    theirs = sdk.external_mappings.list_by_external_entity(
        made.external_id, system="CRM", external_table="Accounts"
    )
    assert [each.id for each in theirs] == [made.id]


@pytest.mark.sees("ListEventTypes", "ListEventFields")
def test_types_of_events_have_fields(sdk):
    types = sdk.events.get_types().events
    assert "configuration.account.created" in types
    fields = sdk.events.get_fields(event_name="configuration.commitment.updated").events
    assert "new.amount" in fields["configuration.commitment.updated"]


@pytest.mark.sees("ListEvents", "GetEvent")
def test_events_tell_old_and_new_values(sdk, world):
    made = sdk.products.create(name="Before", code=world.code())
    sdk.products.update(made.id, name="After", code=made.code, version=1)
    sdk.products.delete(made.id)
    found = list(sdk.events.list(resource_id=made.id, include_actioned=True))
    assert [each.event_name for each in found] == [
        "configuration.product.deleted",
        "configuration.product.updated",
        "configuration.product.created",
    ]
    text = json.dumps(found[1].to_dict(mode="json"))
    assert "Before" in text
    assert "After" in text
    assert sdk.events.retrieve(found[0].id).id == found[0].id


@pytest.mark.parametrize(
    "kind",
    ["planGroup", "balance", "balanceChargeSchedule", "balanceTransactionSchedule", "acount"],
)
def test_an_organization_has_custom_fields_of_its_kinds_alone(http, kind):
    before = http.get("/customfields").json()
    found = http.put("/customfields", json={**before, kind: {"tier": "gold"}})
    assert found.status_code == 400, found.text
    message = found.json()["message"]
    assert message.startswith(
        f"{kind}: {{'tier': 'gold'}} is not allowed: it must be one of organization, "
    )
    assert http.get("/customfields").json() == before
    # What an answer has beside its kinds may come back.
    again = http.put("/customfields", json={**before, "account": {"tier": "gold"}})
    assert again.json()["account"] == {"tier": "gold"}


def test_a_body_says_nothing_else_than_its_path(http, world):
    path = f"/balances/{world.balance}/balancechargeschedules"
    body = {
        "name": "Fee",
        "code": world.code(),
        "currency": "USD",
        "servicePeriodStartDate": START,
        "servicePeriodEndDate": END,
        "billFrequency": "MONTHLY",
        "billFrequencyInterval": 1,
        "billInAdvance": False,
        "chargeDescription": "Monthly fee",
        "amount": 1,
    }
    other = http.post(path, json={**body, "balanceId": world.new_balance(world.account)})
    assert other.status_code == 400, other.text
    assert other.json()["message"].startswith("balanceId: ")
    assert http.post(path, json={**body, "balanceId": [1]}).status_code == 400
    same = http.post(path, json={**body, "balanceId": world.balance})
    assert same.json()["balanceId"] == world.balance
