"""Who may do what: keys, policies, users, groups, invitations and support access over HTTP."""

from typing import Final

from meterlake.api.access import audit, users
from meterlake.api.entities import page
from meterlake.api.server.answers import select_page
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.model.configuration.access import (
    GroupTarget,
    KeyChange,
    PrincipalChoice,
    PrincipalType,
    SupportAccess,
)
from meterlake.model.rules.access import policy_document
from meterlake.model.values.problems import read
from meterlake.pipeline.access import access, groups
from meterlake.pipeline.config.entities import Document, envelope, version_of
from meterlake.stores.state.access.access import SUPPORT, AccessKey, PolicyGrant
from meterlake.stores.state.access.groups import Member

_SERVICE_USERS: Final = f"{ORGANIZATION}/serviceusers"
_KEYS: Final = f"{_SERVICE_USERS}/{{serviceUserId}}/accesskeys"
_POLICIES: Final = f"{ORGANIZATION}/permissionpolicies"
_POLICY: Final = f"{_POLICIES}/{{permissionPolicyId}}"
_GROUPS: Final = f"{ORGANIZATION}/resourcegroups/{{type}}"
_GROUP: Final = f"{_GROUPS}/{{resourceGroupId}}"
_SUPPORT: Final = f"{ORGANIZATION}/support"

_PAGE: Final = 100


# --- Service users and their keys --------------------------------------------------------------


async def _delete_service_user(call: Call) -> Document:
    id_ = member(call, "ServiceUser")
    gone = await call.run(
        access.delete_service_user, call.stores.state, call.org_id, call.author, id_
    )
    return gone.to_wire()


def _key_document(key: AccessKey) -> Document:
    return {
        "id": key.id,
        "serviceUserId": key.service_user_id,
        "status": key.status.value,
        "dtCreated": key.created,
    }


async def _create_key(call: Call) -> Document:
    key, secret = await call.run(
        access.create_key, call.stores.state, call.org_id, call.author, _service_user(call)
    )
    return {**_key_document(key), "apiSecret": secret}


async def _list_keys(call: Call) -> Document:
    found, token = await call.run(
        access.list_keys, call.stores.state, call.org_id, _service_user(call), page(call, _PAGE)
    )
    return envelope([_key_document(key) for key in found], token)


async def _get_key(call: Call) -> Document:
    id_ = member(call, "access key")
    found = await call.run(access.get_key, call.stores.state, call.org_id, _service_user(call), id_)
    return _key_document(found)


async def _update_key(call: Call) -> Document:
    change, id_ = read(KeyChange, await call.document()), member(call, "access key")
    changed = await call.run(
        access.set_key_status,
        call.stores.state,
        call.org_id,
        _service_user(call),
        id_,
        change.status,
    )
    return _key_document(changed)


async def _delete_key(call: Call) -> Document:
    id_ = member(call, "access key")
    gone = await call.run(
        access.delete_key, call.stores.state, call.org_id, _service_user(call), id_
    )
    return _key_document(gone)


def _service_user(call: Call) -> str:
    return member(call, "ServiceUser", "serviceUserId")


# --- Policies ----------------------------------------------------------------------------------


async def _delete_policy(call: Call) -> Document:
    id_ = member(call, "PermissionPolicy")
    gone = await call.run(access.delete_policy, call.stores.state, call.org_id, call.author, id_)
    return policy_document(gone)


def _granting(type_: PrincipalType) -> Handler:
    async def grant(call: Call) -> Document:
        policy, principal = await _grant_of(call, type_)
        made = await call.run(
            access.grant_policy, call.stores.state, call.org_id, call.author, policy, principal
        )
        return _grant_document(made)

    return grant


def _revoking(type_: PrincipalType) -> Handler:
    async def revoke(call: Call) -> Document:
        policy, principal = await _grant_of(call, type_)
        gone = await call.run(
            access.revoke_policy, call.stores.state, call.org_id, call.author, policy, principal
        )
        return _grant_document(gone)

    return revoke


async def _grant_of(call: Call, type_: PrincipalType) -> tuple[str, tuple[PrincipalType, str]]:
    policy = member(call, "PermissionPolicy", "permissionPolicyId")
    if type_ is PrincipalType.SUPPORTUSERS:
        return policy, (type_, SUPPORT)
    chosen = read(PrincipalChoice, await call.document())
    return policy, (type_, chosen.principal_id.lower())


async def _list_grants(call: Call) -> Document:
    policy = member(call, "PermissionPolicy", "permissionPolicyId")
    found, token = await call.run(
        access.list_grants, call.stores.state, call.org_id, policy, page(call, _PAGE)
    )
    return envelope([_grant_document(each) for each in found], token)


def _grant_document(grant: PolicyGrant) -> Document:
    principal = {} if grant.principal_id == SUPPORT else {"principalId": grant.principal_id}
    return {
        "id": grant.id,
        "version": 1,
        "permissionPolicyId": grant.policy_id,
        "principalType": grant.principal_type.value,
        **principal,
        **_create_key_document(grant),
    }


def _create_key_document(what: PolicyGrant | Member) -> Document:
    return {
        "createdBy": what.created_by,
        "dtCreated": what.created,
        "lastModifiedBy": what.created_by,
        "dtLastModified": what.created,
    }


# --- Groups ------------------------------------------------------------------------------------


def _group(call: Call, name: str = "resourceGroupId") -> groups.Address:
    return call.path["type"], member(call, "ResourceGroup", name)


async def _delete_group(call: Call) -> Document:
    gone = await call.run(
        groups.delete_group, call.stores.state, call.org_id, call.author, _group(call, "id")
    )
    return gone.to_wire()


async def _add_resource(call: Call) -> Document:
    target, address = read(GroupTarget, await call.document()), _group(call)
    found = await call.run(
        groups.put_in,
        call.stores.state,
        call.org_id,
        call.author,
        address,
        (target.target_id.lower(), target.target_type.value),
    )
    return found.to_wire()


async def _remove_resource(call: Call) -> Document:
    target, address = read(GroupTarget, await call.document()), _group(call)
    found = await call.run(
        groups.take_out,
        call.stores.state,
        call.org_id,
        call.author,
        address,
        target.target_id.lower(),
    )
    return found.to_wire()


async def _contents(call: Call) -> Document:
    found, token = await call.run(
        groups.contents, call.stores.state, call.org_id, _group(call), page(call, _PAGE)
    )
    return envelope(
        [
            {
                "id": each.id,
                "version": 1,
                "targetId": each.target_id,
                "targetType": each.target_type.upper(),
                **_create_key_document(each),
            }
            for each in found
        ],
        token,
    )


async def _group_permissions(call: Call) -> Document:
    address, this = _group(call), page(call, _PAGE)
    found = await call.run(groups.group_permissions, call.stores.state, call.org_id, address)
    return select_page([policy_document(each) for each in found], this)


# --- Support -------------------------------------------------------------------


async def _get_support(call: Call) -> Document:
    return await call.run(access.support_access, call.stores.state, call.org_id)


async def _put_support(call: Call) -> Document:
    document = await call.document()
    entity = read(SupportAccess, document)
    version = None if document.get("version") is None else version_of(document)
    return await call.run(
        access.set_support_access, call.stores.state, call.org_id, call.author, entity, version
    )


# --- The table ---------------------------------------------------------------------------------

_CREATE: Final = "config:create"
_RETRIEVE: Final = "config:retrieve"
_UPDATE: Final = "config:update"
_DELETE: Final = "config:delete"

_HOLDERS: Final = (
    ("ServiceUser", "serviceuser", PrincipalType.SERVICEUSER),
    ("SupportUsers", "supportusers", PrincipalType.SUPPORTUSERS),
    ("User", "user", PrincipalType.USER),
    ("UserGroup", "usergroup", PrincipalType.USERGROUP),
)


def _grants() -> tuple[Operation, ...]:
    return tuple(
        Operation(
            f"{verb}PermissionPolicy{'To' if verb == 'Add' else 'From'}{name}",
            "POST",
            f"{_POLICY}/{path}{word}",
            _UPDATE,
            "permissionpolicy",
            handler(type_),
            item="permissionPolicyId",
        )
        for name, word, type_ in _HOLDERS
        for verb, path, handler in (
            ("Add", "addto", _granting),
            ("Remove", "removefrom", _revoking),
        )
    )


def _of_group(
    id_: str, path: str, action: str, handler: Handler, method: str = "POST"
) -> Operation:
    return Operation(
        id_,
        method,
        f"{_GROUP}/{path}",
        action,
        "resourcegroup",
        handler,
        item="resourceGroupId",
    )


OPERATIONS: Final = (
    Operation(
        "DeleteServiceUser",
        "DELETE",
        f"{_SERVICE_USERS}/{{id}}",
        _DELETE,
        "serviceuser",
        _delete_service_user,
    ),
    Operation("CreateAccessKey", "POST", _KEYS, _CREATE, "accesskey", _create_key),
    Operation("ListAccessKeys", "GET", _KEYS, _RETRIEVE, "accesskey", _list_keys),
    Operation("GetAccessKey", "GET", f"{_KEYS}/{{id}}", _RETRIEVE, "accesskey", _get_key),
    Operation("UpdateAccessKey", "PUT", f"{_KEYS}/{{id}}", _UPDATE, "accesskey", _update_key),
    Operation("DeleteAccessKey", "DELETE", f"{_KEYS}/{{id}}", _DELETE, "accesskey", _delete_key),
    Operation(
        "DeletePermissionPolicy",
        "DELETE",
        f"{_POLICIES}/{{id}}",
        _DELETE,
        "permissionpolicy",
        _delete_policy,
    ),
    Operation(
        "ListPermissionPolicyPrincipals",
        "GET",
        f"{_POLICY}/principals",
        _RETRIEVE,
        "permissionpolicy",
        _list_grants,
        item="permissionPolicyId",
    ),
    *_grants(),
    *users.OPERATIONS,
    *audit.OPERATIONS,
    Operation(
        "DeleteResourceGroup",
        "DELETE",
        f"{_GROUPS}/{{id}}",
        _DELETE,
        "resourcegroup",
        _delete_group,
    ),
    _of_group("AddResourceToGroup", "addresource", _UPDATE, _add_resource),
    _of_group("RemoveResourceFromGroup", "removeresource", _UPDATE, _remove_resource),
    _of_group("ListResourceGroupsForId", "contents", _RETRIEVE, _contents),
    _of_group("GetResourceGroupPermissions", "permissions", _RETRIEVE, _group_permissions, "GET"),
    Operation("GetSupport", "GET", _SUPPORT, _RETRIEVE, "support", _get_support),
    Operation("PutSupport", "PUT", _SUPPORT, _UPDATE, "support", _put_support),
)
