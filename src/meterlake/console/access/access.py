"""Pages of access: people, programs, groups, policies in words, and the log of who did what."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.access.policy_words import ACTION_WORDS, RESOURCE_WORDS, read_policy
from meterlake.console.bills.timeline import act_in_words
from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.entity_forms import EntityPages, FormTrial
from meterlake.console.shell.lists import Column, ListFilter, Listing, called_by, show_list
from meterlake.console.shell.page import Visit, page, page_routes, words
from meterlake.console.shell.people import full_name
from meterlake.console.shell.session import end_session, origin
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.values.ids import UNNAMED

ACCESS: Final = "/console/access"
PEOPLE: Final = f"{ACCESS}/people"
PROGRAMS: Final = f"{ACCESS}/programs"
GROUPS: Final = f"{ACCESS}/groups"
POLICIES: Final = f"{ACCESS}/policies"
LOG: Final = f"{ACCESS}/log"
# Pages of the room: the operation that each needs, its label and its address.
_PLACES: Final = (
    ("ListOrgUsers", "People", PEOPLE),
    ("ListServiceUsers", "Programs", PROGRAMS),
    ("ListResourceGroups", "Groups", f"{GROUPS}/user"),
    ("ListPermissionPolicies", "Policies", POLICIES),
    ("ListAuditLog", "Who did what", LOG),
    ("GetMe", "What you may do", f"{ACCESS}/me"),
)
_LOGGED: Final = (
    *(
        "accounts",
        "accountPlans",
        "aggregations",
        "balances",
        "bills",
        "changeProposals",
        "closings",
        "commitments",
    ),
    *(
        "contracts",
        "integrationConfigs",
        "meters",
        "passwordLinks",
        "permissionPolicies",
        "plans",
        "policyGrants",
    ),
    *("counterPricings", "features", "invitations", "organizationConfig", "planTemplates"),
    *("pricings", "products", "rejectedRows", "runs", "serviceUsers", "users", "webhooks"),
)
# What meterlake and its commands do has no person.
_PROGRAMS_OF_OURS: Final = (
    *((SYSTEM, "meterlake"), (UNNAMED, "A command without a name")),
    *((each, each) for each in ("demo", "exports", "ingest")),
)
# What is no entity has another page than its changes.
_ELSEWHERE: Final = {
    "bills": "/console/bills/{id}",
    "changeProposals": "/console/catalogue/proposals/{id}",
    "closings": "/console/months/{id}",
    "passwordLinks": f"{PEOPLE}/{{id}}",
    "rejectedRows": "/console/data-in/rejected/{id}",
    "runs": "/console/runs/{id}",
    "policyGrants": POLICIES,
}

SERVICE_USERS: Final = EntityPages("serviceUsers", PROGRAMS, "service user")


# Who may have a policy: what people call them, their pages, and their list in the API.
_PRINCIPALS: Final = (
    ("People", PEOPLE, "/users"),
    ("Service users", PROGRAMS, "/serviceusers"),
    ("Groups", f"{GROUPS}/user", "/resourcegroups/user"),
)


async def _grants_of(
    visit: Visit, id_: str
) -> tuple[list[dict[str, Any]], list[tuple[str, str, list[dict[str, Any]]]]]:
    """The grants of a policy, and everybody who may have one, by kind with the place of their pages."""
    grants, *rows = await asyncio.gather(
        visit.api.every(f"/permissionpolicies/{id_}/principals"),
        *(visit.api.every(path) for *_, path in _PRINCIPALS),
    )
    kinds = zip(_PRINCIPALS, rows, strict=True)
    return grants, [(title, place, found) for (title, place, _), found in kinds]


async def _policy_holders(visit: Visit, id_: str) -> list[dict[str, Any]]:
    """Who has a policy, by kind and name."""
    grants, kinds = await _grants_of(visit, id_)
    held = {each.get("principalId") for each in grants}
    found = []
    for title, place, known in kinds:
        entities = [
            (full_name(each) or each["name"], f"{place}/{each['id']}")
            for each in known
            if each["id"] in held
        ]
        if entities:
            found.append({"title": title, "entities": entities, "more": False})
    if any(each["principalType"] == "SUPPORTUSERS" for each in grants):
        found.append({"title": "Support", "entities": [("Support users", "")], "more": False})
    return found


async def _read_form(_: Visit, document: Mapping[str, Any]) -> Any:
    """What the statements of a form come to."""
    return {"reading": read_policy(document.get("permissionPolicy", []))}


POLICY_PAGES: Final = EntityPages(
    "permissionPolicies",
    POLICIES,
    "policy",
    obstacles=_policy_holders,
    intro="A policy allows or denies actions on kinds of things, such as config:bill/*.",
    trial=FormTrial(
        "GetMe",
        "access/try_policy.html",
        _read_form,
        {"policy_actions": ACTION_WORDS, "policy_resources": RESOURCE_WORDS},
    ),
)
GROUP_PAGES: Final = EntityPages("resourceGroups", f"{GROUPS}/{{type}}", "group")


# --- Who has which policy ------------------------------------------------------------------------


async def _policies(visit: Visit) -> list[dict[str, Any]]:
    found = await visit.api.every("/permissionpolicies")
    return sorted(found, key=lambda each: str(each["name"]))


async def _holders(visit: Visit, policies: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The policies that each principal has by itself, by the principal's id."""
    lists = await asyncio.gather(
        *(visit.api.every(f"/permissionpolicies/{each['id']}/principals") for each in policies)
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for policy, grants in zip(policies, lists, strict=True):
        for grant in grants:
            found.setdefault(grant.get("principalId", "support"), []).append(policy)
    return found


async def _change_grant(visit: Visit, holder: str, id_: str) -> str:
    """Give a policy to a principal, or take it away; what the next page says."""
    policy, verb = visit.field("policy"), visit.field("action")
    if not policy:
        raise ApiRefusalError(400, "No policy was chosen. Choose one.")
    path = "addto" if verb == "grant" else "removefrom"
    body = {"principalId": id_}
    await visit.api.send("POST", f"/permissionpolicies/{policy}/{path}{holder}", body)
    if verb == "grant":
        return "You gave the policy. It counts within seconds; you can take it away again."
    return "You took the policy away. It counts within seconds."


# --- People --------------------------------------------------------------------------------------


async def _with_policies(
    policies: list[dict[str, Any]], visit: Visit, rows: list[dict[str, Any]]
) -> None:
    held = await _holders(visit, policies)
    for row in rows:
        row["name"] = full_name(row)
        row["policies"] = ", ".join(each["name"] for each in held.get(row["id"], ()))


_CALLED: Final = called_by("name")
_PEOPLE: Final = Listing(
    "People",
    "/users",
    (
        Column("Name", "name", link=f"{PEOPLE}/{{id}}", sort="lastName"),
        Column("E-mail", "email", sort="email"),
        Column("Policies", "policies"),
        Column("Access ends", "dtEndAccess", "instant"),
        Column("Since", "dtCreated", "instant"),
    ),
    empty=("No people yet", "Invite the first one below."),
    filters=(called_by("firstName", "lastName", "email"),),
    intro="Who signs in to the console, and what each may do.",
)


async def list_people(visit: Visit, link: str = "") -> Response:
    """People, open invitations, and the form that invites."""
    invitations, policies = await asyncio.gather(visit.api.every("/invitations"), _policies(visit))
    now = visit.now.isoformat()
    return await show_list(
        visit,
        replace(
            _PEOPLE,
            links=visit.open_places(_PLACES),
            complete=partial(_with_policies, policies),
        ),
        "access/people.html",
        invitations=[
            each
            for each in invitations
            if not each.get("accepted") and each.get("dtExpiry", now) >= now
        ],
        policies=policies,
        link=link,
    )


async def invite(visit: Visit) -> Response:
    """Invite a person; without a mail server the page shows the link, this once."""
    body = {
        "email": visit.field("email"),
        "firstName": visit.field("firstName"),
        "lastName": visit.field("lastName"),
        "permissionPolicyIds": [each for each in visit.form.get("policy", ()) if each],
    }
    made = await visit.api.send("POST", "/invitations", body)
    link = str(made.get("link", ""))
    if not link:
        return visit.go(PEOPLE, f"You invited {made['email']}: a letter with the link is sent.")
    visit.form, visit.has_acted = {}, True
    return await list_people(visit, _whole(visit, link))


def _whole(visit: Visit, link: str) -> str:
    """A link of the API with the address at which the person reaches the server."""
    return link if "://" in link else f"{origin(visit.request)}{link}"


async def show_person(visit: Visit, link: str = "") -> Response:
    """One person: policies with the way by which each came, sign-ins, what they did."""
    id_ = visit.request.path_params["id"]
    user, groups, policies, sessions = await asyncio.gather(
        visit.api.get(f"/users/{id_}"),
        visit.api.get(f"/users/{id_}/usergroups", inherited=True),
        _policies(visit),
        visit.api.find(f"/users/{id_}/sessions"),
    )
    log = await visit.api.find("/auditlog", createdBy=f"USER_{id_}", pageSize=10)
    held = await _holders(visit, policies)
    ways = [(each, "") for each in held.get(id_, ())]
    ways += [
        (each, group["name"]) for group in groups["data"] for each in held.get(group["id"], ())
    ]
    own = user.get("permissionPolicy", [])
    return visit.page(
        "access/person.html",
        user=user,
        ways=ways,
        reading=read_policy(
            [*own, *(statement for each, _ in ways for statement in each["permissionPolicy"])]
        ),
        own=read_policy(own).sentences,
        others=[each for each in policies if each["id"] not in {one["id"] for one, _ in ways}],
        sessions=rows_of(sessions),
        log=None if log is None else log["data"],
        link=link,
        links=visit.open_places(_PLACES),
    )


async def change_person(visit: Visit) -> Response:
    """Give or take a policy, end the access or the sign-ins, or send a new password."""
    id_ = visit.request.path_params["id"]
    match visit.field("action"):
        case "grant" | "revoke":
            said = await _change_grant(visit, "user", id_)
        case "sign-out":
            found = await visit.api.send("POST", f"/users/{id_}/sessions/end")
            said = f"You ended all sign-ins, {found['ended']} of them."
        case "end-access" | "open-access":
            user = await visit.api.get(f"/users/{id_}")
            ends = visit.now.isoformat() if visit.field("action") == "end-access" else None
            body = {
                "permissionPolicy": user.get("permissionPolicy", []),
                "version": user["version"],
                **({} if ends is None else {"dtEndAccess": ends}),
            }
            await visit.api.send("PUT", f"/users/{id_}", body)
            said = "The access has ended." if ends else "The person has access again."
        case "password":
            made = await visit.api.send("POST", f"/users/{id_}/password/link")
            if "link" in made:
                # Not led on: the link is nowhere but in this answer.
                visit.has_acted = True
                return await show_person(visit, _whole(visit, made["link"]))
            said = "A letter with the link is sent, or waits in the outbox of the server."
        case _:
            raise visit.unknown_action("a person")
    return visit.go(f"{PEOPLE}/{id_}", said)


# --- Programs ------------------------------------------------------------------------------------


async def list_programs(visit: Visit) -> Response:
    """Service users: programs that sign in with keys."""
    await visit.people()
    return await show_list(visit, replace(_PROGRAMS, links=visit.open_places(_PLACES)))


_PROGRAMS: Final = Listing(
    "Programs",
    "/serviceusers",
    (
        Column("Name", "name", link=f"{PROGRAMS}/{{id}}", sort="name"),
        Column("By", "createdBy", "author", sort="createdBy"),
        Column("Since", "dtCreated", "instant", sort="dtCreated"),
    ),
    empty=("No programs yet", "A service user is a program that calls the API with a key."),
    filters=(_CALLED,),
    intro="Service users: programs that call the API with access keys.",
    create=("New service user", f"{PROGRAMS}/new", SERVICE_USERS.creates),
)


async def show_program(visit: Visit, secret: Mapping[str, Any] | None = None) -> Response:
    """One service user: its keys and policies; the secret of a new key, this once."""
    id_ = visit.request.path_params["id"]
    program, policies, keys = await asyncio.gather(
        visit.api.get(f"/serviceusers/{id_}"),
        _policies(visit),
        visit.api.every(f"/serviceusers/{id_}/accesskeys"),
    )
    held = (await _holders(visit, policies)).get(id_, [])
    return visit.page(
        "access/program.html",
        program=program,
        keys=keys,
        secret=secret,
        held=held,
        others=[each for each in policies if each not in held],
        reading=read_policy([one for each in held for one in each["permissionPolicy"]]),
        links=visit.open_places(_PLACES),
    )


async def change_program(visit: Visit) -> Response:
    """Make a key, put one out of use, delete it; give or take a policy."""
    id_ = visit.request.path_params["id"]
    keys, key = f"/serviceusers/{id_}/accesskeys", visit.field("key")
    match visit.field("action"):
        case "grant" | "revoke":
            said = await _change_grant(visit, "serviceuser", id_)
        case "new-key":
            # Shown by this answer alone: nothing keeps the secret.
            made = await visit.api.send("POST", keys, {})
            visit.has_acted = True
            return await show_program(visit, made)
        case "key-off" | "key-on":
            status = "ACTIVE" if visit.field("action") == "key-on" else "INACTIVE"
            await visit.api.send("PUT", f"{keys}/{key}", {"status": status})
            said = "The key works again." if status == "ACTIVE" else "The key is out of use."
        case "key-delete":
            await visit.api.send("DELETE", f"{keys}/{key}")
            said = "You deleted the key. What it signed in stops working."
        case _:
            raise visit.unknown_action("a service user")
    return visit.go(f"{PROGRAMS}/{id_}", said)


# --- Groups --------------------------------------------------------------------------------------


async def list_groups(visit: Visit) -> Response:
    """Groups of people, or of other things of one type."""
    await visit.people()
    return await show_list(visit, replace(_GROUPS, links=visit.open_places(_PLACES)))


_GROUPS: Final = Listing(
    "Groups",
    "/resourcegroups/{type}",
    (
        Column("Name", "name", link=f"{GROUPS}/{{type}}/{{id}}", sort="name"),
        Column("Of", "type", "words"),
        Column("By", "createdBy", "author", sort="createdBy"),
        Column("Since", "dtCreated", "instant", sort="dtCreated"),
    ),
    empty=("No groups yet", "A group gives the same policies to several people at once."),
    filters=(_CALLED,),
    create=("New group", f"{GROUPS}/user/new", GROUP_PAGES.creates),
)


async def show_group(visit: Visit) -> Response:
    """One group: its members and policies."""
    type_, id_ = visit.request.path_params["type"], visit.request.path_params["id"]
    path = f"/resourcegroups/{type_}/{id_}"
    group, members, policies, users = await asyncio.gather(
        visit.api.get(path),
        visit.api.send("POST", f"{path}/contents"),
        _policies(visit),
        visit.api.every("/users") if type_ == "user" else asyncio.sleep(0, []),
    )
    held = (await _holders(visit, policies)).get(id_, [])
    names = {each["id"]: each.get("email", each["id"]) for each in users}
    inside = {each["targetId"] for each in members["data"]}
    return visit.page(
        "access/group.html",
        group=group,
        members=members["data"],
        names=names,
        outside=[(id_, name) for id_, name in names.items() if id_ not in inside],
        held=held,
        others=[each for each in policies if each not in held],
        reading=read_policy([one for each in held for one in each["permissionPolicy"]]),
        links=visit.open_places(_PLACES),
    )


async def change_group(visit: Visit) -> Response:
    """Put a member in or take it out; give or take a policy."""
    type_, id_ = visit.request.path_params["type"], visit.request.path_params["id"]
    path = f"/resourcegroups/{type_}/{id_}"
    target = {"targetId": visit.field("member"), "targetType": visit.field("kind") or "item"}
    match visit.field("action"):
        case "grant" | "revoke":
            said = await _change_grant(visit, "usergroup", id_)
        case "put-in":
            await visit.api.send("POST", f"{path}/addresource", target)
            said = "The group has the member now."
        case "take-out":
            await visit.api.send("POST", f"{path}/removeresource", target)
            said = "You took the member out."
        case _:
            raise visit.unknown_action("a group")
    return visit.go(f"{GROUPS}/{type_}/{id_}", said)


# --- Policies ------------------------------------------------------------------------------------


async def _with_words(_: Visit, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["words"] = " ".join(read_policy(row["permissionPolicy"]).sentences[:3])


_POLICIES: Final = Listing(
    "Policies",
    "/permissionpolicies",
    (
        Column("Name", "name", link=f"{POLICIES}/{{id}}", sort="name"),
        Column("What it says", "words"),
        Column("Made by meterlake", "managedPolicy"),
        Column("Changed", "dtLastModified", "instant", sort="dtLastModified"),
    ),
    empty=("No policies", "A policy says what its holders may do."),
    filters=(_CALLED,),
    create=("New policy", f"{POLICIES}/new", POLICY_PAGES.creates),
    complete=_with_words,
)


async def list_policies(visit: Visit) -> Response:
    """Policies with what they say."""
    return await show_list(visit, replace(_POLICIES, links=visit.open_places(_PLACES)))


async def show_policy(visit: Visit) -> Response:
    """One policy: what it allows, what it does not, and who has it."""
    id_ = visit.request.path_params["id"]
    policy, (grants, kinds) = await asyncio.gather(
        visit.api.get(f"/permissionpolicies/{id_}"), _grants_of(visit, id_)
    )
    known = {
        each["id"]: (each.get("email") or each["name"], f"{place}/{each['id']}")
        for _, place, rows in kinds
        for each in rows
    }
    return visit.page(
        "access/policy.html",
        policy=policy,
        reading=read_policy(policy["permissionPolicy"]),
        holders=[(each, *known.get(each.get("principalId"), ("", ""))) for each in grants],
        links=visit.open_places(_PLACES),
    )


# --- The log -------------------------------------------------------------------------------------


# Where people call them otherwise than the API does.
_KINDS: Final = {
    "accounts": "Customers",
    "accountPlans": "Plans of customers",
    "changeProposals": "Proposed changes",
    "counterPricings": "Prices of counters",
    "integrationConfigs": "Integrations",
    "permissionPolicies": "Policies",
    "pricings": "Prices",
}


def _kind_in_words(kind: str) -> str:
    return _KINDS.get(kind, words(kind))


async def _with_words_of_kind(_: Visit, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["kindWords"] = _kind_in_words(row["kind"])
        named = row.get("name") not in {None, "", row["entityId"]}
        row["what"] = row["name"] if named else row["kindWords"]
        row["done"] = act_in_words(row["action"])
        if row["kind"] == "bills":
            row["what"] = f"{row['what']}, {row.get('period', '')}"
        elif row["kind"] == "runs":
            step, _, month = row["what"].partition(" ")
            if step == "backfill" and month:
                row["what"] = f"Backfill: {month}"
            else:
                row["what"] = f"Closing of {month}: {step}" if month else words(step)


_LOG: Final = Listing(
    "Who did what",
    "/auditlog",
    (
        Column("When", "at", "instant", sort="at"),
        Column("Who", "by", "author"),
        Column("Did", "done"),
        Column("What", "what", link=f"{LOG}/{{kind}}/{{entityId}}"),
        Column("Amount", "amount", "money"),
        Column("Reason", "reason"),
        Column("Kind", "kindWords"),
    ),
    empty=("Nothing yet", "Changes, approvals, grants and begun runs appear here."),
    intro="Changes of entities, what people did to bills, balances, months and rejected rows, grants of"
    " policies, and runs that were begun, cancelled or run again.",
    complete=_with_words_of_kind,
)


async def show_log(visit: Visit) -> Response:
    """The log, by person, kind and time."""
    people = await visit.people()
    filters = (
        ListFilter(
            "createdBy",
            "Who",
            (*sorted(people.items(), key=lambda each: each[1]), *_PROGRAMS_OF_OURS),
            is_open=True,
        ),
        ListFilter(
            "kinds", "Kind", tuple((each, _kind_in_words(each)) for each in _LOGGED), is_open=True
        ),
        ListFilter("peopleOnly", "By", (("true", "People and programs only"),)),
        ListFilter("dateStart", "From", type="date"),
        ListFilter("dateEnd", "Before", type="date"),
    )
    return await show_list(visit, replace(_LOG, filters=filters, links=visit.open_places(_PLACES)))


async def show_changes(visit: Visit) -> Response:
    """What became of one entity, field by field."""
    kind, id_ = visit.request.path_params["kind"], visit.request.path_params["id"]
    if kind in _ELSEWHERE:
        return visit.go(_ELSEWHERE[kind].format(id=id_))
    found = await visit.api.get(f"/configuration/{kind}/{id_}/changes")
    await visit.people()
    return visit.page(
        "access/changes.html", kind=kind, changes=found["data"], links=visit.open_places(_PLACES)
    )


async def show_me(visit: Visit) -> Response:
    """What the person may do, and the way out of all sign-ins."""
    me = await visit.api.get("/users/me")
    own = await visit.api.find(f"/users/{me['user']['id']}")
    held = await visit.api.find(f"/users/{me['user']['id']}/permissions")
    statements = [*(own or {}).get("permissionPolicy", [])]
    statements += [one for each in rows_of(held) for one in each["permissionPolicy"]]
    return visit.page(
        "access/me.html",
        me=me["user"],
        reading=None if held is None else read_policy(statements),
        count=len(visit.allowed),
        links=visit.open_places(_PLACES),
    )


async def leave_everywhere(visit: Visit) -> Response:
    """End all sign-ins of the person, this one too."""
    await visit.api.send("POST", "/users/me/sessions/end")
    return end_session(visit.request)


ROUTES: Final = (
    *SERVICE_USERS.routes(),
    *POLICY_PAGES.routes(),
    *GROUP_PAGES.routes(),
    Route(f"{ACCESS}/me", page(show_me), methods=["GET"], name="ConsoleMe"),
    Route(f"{ACCESS}/me", page(leave_everywhere), methods=["POST"], name="ConsoleLeave"),
    Route(PEOPLE, page(list_people), methods=["GET"], name="ConsolePeople"),
    Route(PEOPLE, page(invite, list_people), methods=["POST"], name="ConsoleInvite"),
    *page_routes(f"{PEOPLE}/{{id}}", show_person, change_person, "ConsolePerson"),
    Route(PROGRAMS, page(list_programs), methods=["GET"], name="ConsolePrograms"),
    *page_routes(f"{PROGRAMS}/{{id}}", show_program, change_program, "ConsoleProgram"),
    Route(f"{GROUPS}/{{type}}", page(list_groups), methods=["GET"], name="ConsoleGroups"),
    *page_routes(f"{GROUPS}/{{type}}/{{id}}", show_group, change_group, "ConsoleGroup"),
    Route(POLICIES, page(list_policies), methods=["GET"], name="ConsolePolicies"),
    Route(f"{POLICIES}/{{id}}", page(show_policy), methods=["GET"], name="ConsolePolicy"),
    Route(LOG, page(show_log), methods=["GET"], name="ConsoleLog"),
    Route(f"{LOG}/{{kind}}/{{id}}", page(show_changes), methods=["GET"], name="ConsoleChanges"),
)
