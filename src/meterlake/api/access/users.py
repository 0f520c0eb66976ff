"""Users and invitations over HTTP."""

from dataclasses import replace
from typing import Final

from starlette.responses import Response

from meterlake.api.entities import page, search_of
from meterlake.api.server.answers import select_page
from meterlake.api.server.call import ORGANIZATION, Call, Operation, member
from meterlake.model.configuration.access import Invitation, UserChange
from meterlake.model.configuration.permissions import ANYTHING
from meterlake.model.errors import Invalid
from meterlake.model.rules.access import policy_document
from meterlake.model.values.problems import read
from meterlake.pipeline.access import invitation_email, users
from meterlake.pipeline.config.entities import Document, version_of
from meterlake.stores.state.access.people import NAMES_OF_USERS

_USERS: Final = f"{ORGANIZATION}/users"
_INVITATIONS: Final = f"{ORGANIZATION}/invitations"

_PAGE: Final = 200
_RETRIEVE: Final = "config:retrieve"
_UPDATE: Final = "config:update"


async def _list_users(call: Call) -> Document:
    ids = [each.lower() for each in call.query.texts("ids")]
    this = page(call, _PAGE)
    search = search_of(call, NAMES_OF_USERS, this.size)
    if any(each.comparator not in {"~", "*"} for each in search.terms):
        rule = "its terms must be such as email~ada: a field, ~ and what it begins with, or * and what it has within"
        raise Invalid("searchQuery", call.query.text("searchQuery"), rule)
    this = replace(this, oldest_first=search.ascending, search=search)
    return await call.run(users.list_users, call.stores.state, call.org_id, this, ids)


async def _get_user(call: Call) -> Document:
    return await call.run(users.get_user, call.stores.state, call.org_id, member(call, "user"))


async def _update_user(call: Call) -> Document:
    document, id_ = await call.document(), member(call, "user")
    change = read(UserChange, document)
    return await call.run(
        users.update_user,
        call.stores.state,
        call.principal,
        id_,
        version_of(document),
        (change.permission_policy, change.dt_end_access),
    )


async def _me(call: Call) -> Document:
    return await call.run(users.me, call.stores.state, call.principal)


async def _user_permissions(call: Call) -> Document:
    id_ = member(call, "user")
    this = page(call, _PAGE)
    found = await call.run(users.user_permissions, call.stores.state, call.org_id, id_)
    # The client expects one object with an id, the text of the contract a list: this is both.
    return {"id": id_, **select_page([policy_document(each) for each in found], this)}


async def _user_groups(call: Call) -> Document:
    id_, inherited = member(call, "user"), call.query.flag("inherited")
    this = page(call, _PAGE)
    found = await call.run(
        users.user_groups, call.stores.state, call.org_id, id_, inherited=inherited
    )
    return {"id": id_, **select_page([each.to_wire() for each in found], this)}


async def _resend_password(call: Call) -> Response:
    id_ = member(call, "user")
    await call.run(invitation_email.send_new_password, call.organization, call.author, id_)
    return Response()


async def _new_password(call: Call) -> Document:
    id_ = member(call, "user")
    return await call.run(invitation_email.new_password, call.organization, call.author, id_)


async def _invite(call: Call) -> Document:
    invitation = read(Invitation, await call.document())
    return await call.run(invitation_email.invite, call.organization, call.author, invitation)


async def _get_invitation(call: Call) -> Document:
    id_ = member(call, "Invitation")
    return await call.run(users.get_invitation, call.stores.state, call.org_id, id_)


async def _list_invitations(call: Call) -> Document:
    this = page(call, _PAGE)
    return await call.run(users.list_invitations, call.stores.state, call.org_id, this)


OPERATIONS: Final = (
    Operation("ListOrgUsers", "GET", _USERS, _RETRIEVE, "user", _list_users),
    Operation("GetMe", "GET", f"{_USERS}/me", ANYTHING, "user", _me),
    Operation("GetOrgUser", "GET", f"{_USERS}/{{id}}", _RETRIEVE, "user", _get_user),
    Operation("PutOrgUser", "PUT", f"{_USERS}/{{id}}", _UPDATE, "user", _update_user),
    Operation(
        "GetOrgUserPermissions",
        "GET",
        f"{_USERS}/{{id}}/permissions",
        _RETRIEVE,
        "user",
        _user_permissions,
    ),
    Operation(
        "GetOrgUserGroups", "GET", f"{_USERS}/{{id}}/usergroups", _RETRIEVE, "user", _user_groups
    ),
    Operation(
        "AdminResendTempPass",
        "PUT",
        f"{_USERS}/{{id}}/password/resend",
        _UPDATE,
        "user",
        _resend_password,
    ),
    Operation(
        "CreatePasswordLink",
        "POST",
        f"{_USERS}/{{id}}/password/link",
        _UPDATE,
        "user",
        _new_password,
    ),
    Operation(
        "CreateOrgUserInvitation", "POST", _INVITATIONS, "config:create", "invitation", _invite
    ),
    Operation(
        "ListOrgUserInvitations", "GET", _INVITATIONS, _RETRIEVE, "invitation", _list_invitations
    ),
    Operation(
        "GetOrgUserInvitation",
        "GET",
        f"{_INVITATIONS}/{{id}}",
        _RETRIEVE,
        "invitation",
        _get_invitation,
    ),
)
