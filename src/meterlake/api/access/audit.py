"""The log of who did what, and the sessions of people, over HTTP."""

from typing import Any, Final

from meterlake.api.entities import ordered_page
from meterlake.api.server.call import ORGANIZATION, Call, Operation, member
from meterlake.api.server.readable_fields import visible_rows, with_author_names
from meterlake.model.configuration.access import PrincipalType
from meterlake.model.configuration.permissions import ANYTHING
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.access import audit
from meterlake.pipeline.config.entities import Document
from meterlake.stores.state.access.audit_log import AuditFilter

_USERS: Final = f"{ORGANIZATION}/users"
_PAGE_MAX: Final = 100
# Whose right to read the log needs for what is no entity.
_BESIDE: Final = {
    "bills": "bill",
    "changeProposals": "changeproposal",
    "closings": "bill",
    "passwordLinks": "user",
    "policyGrants": "permissionpolicy",
    "runs": "run",
}


async def list_log(call: Call) -> Any:
    """Without what was done to things that whoever asks may not read."""
    query = call.query
    wanted = AuditFilter(
        authors=query.texts("createdBy"),
        kinds=[_kind(each) for each in query.texts("kinds")],
        entity_id=query.text("entityId"),
        start=query.instant("dateStart"),
        end=query.instant("dateEnd"),
        people_only=query.flag("peopleOnly"),
    )
    this = ordered_page(call, _PAGE_MAX, "at")
    found = await call.run(audit.audit_log, call.organization, wanted, this)
    return {**found, "data": await _readable(call, found["data"])}


def _kind(name: str) -> str:
    if name not in audit.KINDS:
        raise Invalid("kinds", name, f"it must be one of {', '.join(sorted(audit.KINDS))}")
    return audit.KINDS[name]


async def _readable(call: Call, rows: list[Document]) -> list[Document]:
    seen: set[str] = set()
    for kind in {each["kind"] for each in rows}:
        resource = _BESIDE.get(kind) or (BY_NAME[kind].permission if kind in BY_NAME else kind)
        of_kind = [each for each in rows if each["kind"] == kind]
        seen |= {each["id"] for each in await visible_rows(call, resource, of_kind, "entityId")}
    return await with_author_names(call, [each for each in rows if each["id"] in seen], "by")


async def list_sessions(call: Call) -> Any:
    """The sign-ins of a user that live."""
    found = await call.run(audit.list_sessions, call.organization, member(call, "user"))
    return {"data": found}


async def end_sessions(call: Call) -> Any:
    """Sign a user out of the organization."""
    return await call.run(audit.end_sessions, call.organization, member(call, "user"))


async def end_own_sessions(call: Call) -> Any:
    """Sign whoever asks out everywhere.

    Raises:
        NotFound: A program asks, which has no sessions.
    """
    if call.principal.type is not PrincipalType.USER:
        remedy = "; service users have none: delete the access keys instead"
        raise NotFound("session of", call.principal.id, remedy)
    return await call.run(audit.end_all_sessions, call.organization, call.principal.id)


OPERATIONS: Final = (
    Operation(
        "ListAuditLog", "GET", f"{ORGANIZATION}/auditlog", "audit:retrieve", "auditlog", list_log
    ),
    Operation(
        "EndMySessions", "POST", f"{_USERS}/me/sessions/end", ANYTHING, "user", end_own_sessions
    ),
    Operation(
        "ListUserSessions",
        "GET",
        f"{_USERS}/{{id}}/sessions",
        "config:retrieve",
        "user",
        list_sessions,
    ),
    Operation(
        "EndUserSessions",
        "POST",
        f"{_USERS}/{{id}}/sessions/end",
        "config:update",
        "user",
        end_sessions,
    ),
)
