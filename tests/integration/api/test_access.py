import httpx
import m3ter
import pytest
from argon2 import PasswordHasher

from meterlake.api.access.access import OPERATIONS
from meterlake.pipeline.access import login
from tests.people import allow, join, policy
from tests.served import served

NOBODY = "0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11"
STATEMENT = {"effect": "ALLOW", "action": ["CONFIG_RETRIEVE"], "resource": ["config:meter/*"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
    with served(tmp_path_factory.mktemp("access") / "home") as running:
        yield running
    patch.undo()


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture(scope="module")
def ada(server):
    return join(server.stores.state, server.org_id)


@pytest.fixture
def sdk(server):
    return server.sdk()


@pytest.fixture
def robot(http):
    return http.post("/serviceusers", json={"name": "robot"}).json()["id"]


def token_of(server, key):
    answer = httpx.post(
        f"{server.url}/oauth/token",
        json={"grant_type": "client_credentials"},
        auth=(key["id"], key["apiSecret"]),
    )
    return answer.json().get("access_token")


@pytest.mark.sees(
    "PostServiceUser",
    "GetServiceUser",
    "PutServiceUser",
    "DeleteServiceUser",
    "CreateAccessKey",
    "GetAccessKey",
    "ListAccessKeys",
    "UpdateAccessKey",
    "DeleteAccessKey",
    "GenerateToken",
)
def test_service_users_and_their_keys(server, http, robot):
    path = f"/serviceusers/{robot}"
    shown = http.get(path).json()
    assert (shown["name"], shown["version"]) == ("robot", 1)
    assert http.put(path, json={"name": "android", "version": 1}).json()["version"] == 2
    assert http.put(path, json={"name": "late", "version": 1}).status_code == 409
    key = http.post(f"{path}/accesskeys", json={}).json()
    assert len(key["apiSecret"]) == 43
    assert "apiSecret" not in http.get(f"{path}/accesskeys/{key['id']}").json()
    (listed,) = http.get(f"{path}/accesskeys").json()["data"]
    assert "apiSecret" not in listed

    assert token_of(server, key)
    changed = http.put(f"{path}/accesskeys/{key['id']}", json={"status": "INACTIVE"})
    assert changed.json()["status"] == "INACTIVE"
    assert token_of(server, key) is None
    for wrong in ("SLEEPING", 1, None, ["ACTIVE"]):
        answer = http.put(f"{path}/accesskeys/{key['id']}", json={"status": wrong})
        assert answer.status_code == 400
    assert http.delete(f"{path}/accesskeys/{key['id']}").json()["id"] == key["id"]
    assert http.get(f"{path}/accesskeys/{key['id']}").status_code == 404
    assert http.delete(path).json()["name"] == "android"
    assert http.get(path).status_code == 404
    assert http.post(f"{path}/accesskeys", json={}).status_code == 404


@pytest.mark.sees("AddPermissionPolicyToServiceUser", "RemovePermissionPolicyFromServiceUser")
def test_a_service_user_needs_a_policy_to_call(server, http, sdk, robot):
    key = http.post(f"/serviceusers/{robot}/accesskeys", json={}).json()
    caller = server.sdk(api_key=key["id"], api_secret=key["apiSecret"])
    with pytest.raises(m3ter.PermissionDeniedError):
        caller.users.me()
    made = sdk.permission_policies.create(name="Meters", permission_policy=[STATEMENT])
    granted = sdk.permission_policies.add_to_service_user(
        permission_policy_id=made.id, principal_id=robot
    )
    assert (granted.principal_type, granted.principal_id) == ("SERVICEUSER", robot)

    caller = wait_until_it_may(caller)
    assert caller.meters.list().data == []
    for forbidden in (caller.products.list, caller.users.list):
        with pytest.raises(m3ter.PermissionDeniedError):
            forbidden()
    with pytest.raises(m3ter.ConflictError):
        sdk.permission_policies.delete(id=made.id)
    sdk.permission_policies.remove_from_service_user(
        permission_policy_id=made.id, principal_id=robot
    )
    assert sdk.permission_policies.delete(id=made.id).id == made.id


def wait_until_it_may(caller):
    """What a process knows of permissions is a few seconds old."""
    import time

    give_up = time.monotonic() + 5
    while True:
        try:
            caller.users.me()
        except m3ter.PermissionDeniedError:
            assert time.monotonic() < give_up
            time.sleep(0.1)
        else:
            return caller


def test_managed_policies_are_neither_changed_nor_deleted(sdk):
    managed = [each for each in sdk.permission_policies.list().data if each.managed_policy]

    assert {each.name for each in managed} == {"Administrator", "ReadOnly"}
    for each in managed:
        with pytest.raises(m3ter.PermissionDeniedError):
            sdk.permission_policies.delete(id=each.id)
        with pytest.raises(m3ter.PermissionDeniedError):
            sdk.permission_policies.update(
                id=each.id, name="Mine", permission_policy=[STATEMENT], version=each.version
            )


@pytest.mark.sees(
    "AddPermissionPolicyToUser",
    "AddPermissionPolicyToSupportUsers",
    "RemovePermissionPolicyFromUser",
    "RemovePermissionPolicyFromSupportUsers",
    "GetOrgUserPermissions",
)
def test_policies_are_granted_to_all_kinds_of_principals(sdk, ada):
    made = sdk.permission_policies.create(name="Meters", permission_policy=[STATEMENT])
    team = sdk.resource_groups.create(type="user", name="Team")
    where = {"permission_policy_id": made.id}
    policies = sdk.permission_policies

    assert policies.add_to_user(**where, principal_id=ada).principal_type == "USER"
    assert policies.add_to_user_group(**where, principal_id=team.id).principal_type == "USERGROUP"
    assert policies.add_to_support_user(**where).principal_type == "SUPPORTUSERS"
    shown = sdk.users.get_permissions(id=ada)
    assert [each["id"] for each in shown.data] == [made.id]
    listed = sdk.resource_groups.list_permissions(type="user", resource_group_id=team.id)
    assert [each.id for each in listed.data] == [made.id]
    policies.remove_from_user(**where, principal_id=ada)
    policies.remove_from_user_group(**where, principal_id=team.id)
    policies.remove_from_support_user(**where)
    for call in (policies.remove_from_user, policies.remove_from_user_group):
        with pytest.raises(m3ter.NotFoundError):
            call(**where, principal_id=ada)


@pytest.mark.sees("GetOrgUser", "ListOrgUsers", "PutOrgUser", "AdminResendTempPass")
def test_users_are_read_and_changed(sdk, ada):
    shown = sdk.users.retrieve(id=ada)
    assert (shown.email, shown.first_name) == ("ada@example.com", "Ada")
    assert ada in [each.id for each in sdk.users.list().data]
    assert sdk.users.list(ids=[NOBODY]).data == []
    changed = sdk.users.update(
        id=ada,
        version=shown.version,
        permission_policy=[STATEMENT],
        dt_end_access="2999-01-01T00:00:00Z",
    )
    assert changed.version == shown.version + 1
    assert changed.permission_policy[0].resource == ["config:meter/*"]
    with pytest.raises(m3ter.ConflictError):
        sdk.users.update(id=ada, version=shown.version)
    for unknown in (NOBODY, "nothing", "%00"):
        with pytest.raises(m3ter.NotFoundError):
            sdk.users.retrieve(id=unknown)
    assert sdk.users.resend_password(id=ada) is None
    assert sdk.users.me().organization.organization_name == "Sample"


@pytest.mark.sees("GetOrgUserGroups")
def test_groups_of_users_with_those_that_they_are_in(sdk, ada):
    outer = sdk.resource_groups.create(type="user", name="Outer")
    inner = sdk.resource_groups.create(type="user", name="Inner")
    sdk.resource_groups.add_resource(
        type="user", resource_group_id=outer.id, target_id=inner.id, target_type="GROUP"
    )
    answer = sdk.resource_groups.add_resource(
        type="user", resource_group_id=inner.id, target_id=ada, target_type="ITEM"
    )
    assert answer.id == inner.id

    direct = sdk.users.get_user_groups(id=ada)
    assert [each["name"] for each in direct.data] == ["Inner"]
    every = sdk.users.get_user_groups(id=ada, extra_query={"inherited": "true"})
    assert {each["name"] for each in every.data} == {"Inner", "Outer"}
    contents = sdk.resource_groups.list_contents(type="user", resource_group_id=outer.id)
    assert [(each.target_id, each.target_type) for each in contents.data] == [(inner.id, "GROUP")]
    sdk.resource_groups.remove_resource(
        type="user", resource_group_id=inner.id, target_id=ada, target_type="ITEM"
    )
    assert sdk.users.get_user_groups(id=ada).data == []


def test_groups_live_below_their_type(sdk, http):
    meters = sdk.resource_groups.create(type="meter", name="Meters")
    changed = sdk.resource_groups.update(
        type="meter", id=meters.id, name="All meters", version=meters.version
    )
    assert changed.version == 2
    assert [each.id for each in sdk.resource_groups.list(type="meter").data] == [meters.id]
    assert sdk.resource_groups.list(type="plan").data == []
    for wrong in (sdk.resource_groups.retrieve, sdk.resource_groups.delete):
        with pytest.raises(m3ter.NotFoundError):
            wrong(type="plan", id=meters.id)
    for target in ({}, {"targetId": NOBODY}, {"targetId": NOBODY, "targetType": "thing"}):
        answer = http.post(f"/resourcegroups/meter/{meters.id}/addresource", json=target)
        assert answer.status_code == 400
    with pytest.raises(m3ter.BadRequestError):
        sdk.resource_groups.add_resource(
            type="meter", resource_group_id=meters.id, target_id=NOBODY, target_type="ITEM"
        )
    assert sdk.resource_groups.delete(type="meter", id=meters.id).name == "All meters"


def test_invitations_are_made_and_listed(server, sdk):
    made = policy(server.stores.state, server.org_id, allow())
    first = sdk.users.invitations.create(
        email="new@example.com",
        first_name="New",
        last_name="Person",
        permission_policy_ids=[made],
    )
    assert first.dt_expiry
    assert first.inviting_principal_id
    assert first.id in [each.id for each in sdk.users.invitations.list().data]
    assert sdk.users.invitations.retrieve(id=first.id).permission_policy_ids == [made]
    for wrong in (
        {"email": "no address"},
        {"first_name": ""},
        {"permission_policy_ids": [NOBODY]},
        {"dt_expiry": "2001-01-01T00:00:00Z"},
    ):
        fields = {"email": "x@example.com", "first_name": "X", "last_name": "Y"}
        with pytest.raises(m3ter.BadRequestError):
            sdk.users.invitations.create(**(fields | wrong))


def test_support_access_is_given_until_a_date(http):
    assert http.get("/support").status_code == 200
    assert http.put("/support", json={}).status_code == 400
    until = {"dtEndSupportUsersAccess": "2030-01-01T00:00:00Z"}
    first = http.put("/support", json=until).json()
    assert first["version"] == 1
    assert http.put("/support", json=until).status_code == 400
    policies = {"supportUsersPermissionPolicy": [STATEMENT]}
    assert http.put("/support", json=until | policies | {"version": 1}).json()["version"] == 2
    assert http.put("/support", json=until | {"version": 1}).status_code == 409
    shown = http.get("/support").json()["supportUsersPermissionPolicy"]
    assert shown[0] == STATEMENT


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)
@pytest.mark.parametrize("id", ["nothing", "%00", "a" * 3000, NOBODY])
def test_nothing_odd_in_a_path_breaks_the_server(http, operation, id):
    path = operation.path.removeprefix("/organizations/{orgId}")
    for name in ("id", "serviceUserId", "permissionPolicyId", "resourceGroupId"):
        path = path.replace(f"{{{name}}}", id)
    path = path.replace("{type}", "user")
    if "{" in operation.path.removeprefix("/organizations/{orgId}"):
        answer = http.request(operation.method, path, json={})
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.json()["message"]
