"""Pages of integrations: what is sent to other systems, and every run of it, try by try."""

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.entity_forms import EntityPages
from meterlake.console.shell.form_fields import FieldKind, FormField
from meterlake.console.shell.lists import Column, Listing, called_by, show_list
from meterlake.console.shell.page import Visit, page, page_routes, words
from meterlake.model.resources import BY_NAME
from meterlake.model.values.ids import is_id

INTEGRATIONS: Final = "/console/integrations"
_RUNS: Final = f"{INTEGRATIONS}/runs"
_NEWEST: Final = 20
_WEBHOOK: Final = "WEBHOOK"
_KINDS: Final = {
    "boolean": FieldKind.TICK,
    "integer": FieldKind.WHOLE,
    "number": FieldKind.NUMBER,
    "array": FieldKind.LINES,
}
_LONG: Final = 200
# Settings that name accounts; people choose them by name.
_ACCOUNTS: Final = frozenset({"accountIds", "restrictedAccountIds"})


async def _form_fields(visit: Visit, entity: Mapping[str, Any]) -> tuple[FormField, ...]:
    """The fields of an integration: those that its system asks for."""
    sent = (visit.field("destination"), visit.query("destination"))
    system = entity.get("destination") or next(filter(None, sent), "")
    kind = entity.get("entityType") or visit.field("entityType") or visit.query("entityType")
    found = await visit.api.get("/integrationconfigs/available", systemName=system)
    taken = found["supportedEntities"]
    if kind not in taken:
        kind = next(iter(taken))
    [chosen] = taken[kind]["destinations"]
    own = chosen["destinationConfigOptions"]["settings"]
    common = taken[kind]["entityConfigurationOptions"]["settings"]
    settings = tuple(_setting_field(each) for each in (*own, *common))
    return (
        FormField("entityType", FieldKind.HIDDEN, "Entity type", default=kind),
        FormField("destination", FieldKind.HIDDEN, "Destination", default=chosen["destination"]),
        FormField("name", FieldKind.TEXT, "Name", "People read it in lists.", longest=_LONG),
        *(_WEBHOOK_FIELDS if system.upper() == _WEBHOOK else (_sign_in(chosen),)),
        FormField("configData", FieldKind.GROUP, "Settings", members=settings),
    )


def _setting_field(setting: Mapping[str, Any]) -> FormField:
    name, values = setting["name"], tuple(setting.get("values", ()))
    kind = FieldKind.CHOICE if values else _KINDS.get(setting["type"], FieldKind.TEXT)
    if name in _ACCOUNTS:
        kind = FieldKind.REFERENCES
    elif kind is FieldKind.TEXT and name.lower().endswith("template"):
        kind = FieldKind.AREA
    return FormField(
        name,
        kind,
        words(name.removesuffix("Ids") + "s" if name in _ACCOUNTS else name),
        setting["description"],
        required=setting["required"],
        choices=values,
        target=BY_NAME["accounts"] if name in _ACCOUNTS else None,
        default=setting.get("default"),
    )


def _sign_in(chosen: Mapping[str, Any]) -> FormField:
    """How one signs in to a system: the kind of credentials, and the fields of all kinds."""
    members: dict[str, FormField] = {}
    for each in chosen["authConfigOptions"]["settings"]:
        name = each["name"].removeprefix("credentials.")
        values = tuple(each.get("values", ()))
        kind, hint = FieldKind.CHOICE if values else FieldKind.TEXT, each["description"]
        if name in members:
            hint = ""  # Every kind of credentials has it.
        members[name] = FormField(name, kind, words(name), hint, choices=values)
    hint = "How meterlake signs in there. You do not see a secret again; leave its mask to keep it."
    fields = tuple(members.values())
    return FormField("credentials", FieldKind.GROUP, "Credentials", hint, members=fields)


_WEBHOOK_FIELDS: Final = (
    FormField(
        "destinationId",
        FieldKind.REFERENCE,
        "Webhook",
        required=True,
        target=BY_NAME["webhooks"],
    ),
    FormField(
        "entityId",
        FieldKind.REFERENCE,
        "Notification",
        "Without one, all notifications are sent.",
        target=BY_NAME["notificationConfigurations"],
    ),
)
PAGES: Final = EntityPages(
    "integrationConfigs", INTEGRATIONS, "integration", fields_for=_form_fields
)


async def ask_system(visit: Visit) -> Response:
    """Choose what a new integration sends where; then its form."""
    if visit.query("destination"):
        return await PAGES.show_new(visit)
    found = await visit.api.get("/integrationconfigs/available")
    return visit.page("integrations/systems.html", entities=found["supportedEntities"])


async def _with_names(visit: Visit, rows: list[dict[str, Any]]) -> None:
    webhooks = await visit.api.every("/integrationdestinations/webhooks")
    names = {each["id"]: each["name"] for each in webhooks}
    for row in rows:
        row["label"] = row.get("name") or f"{row['entityType']} to {row['destination']}"
        row["target"] = names.get(row.get("destinationId"), row["destination"])
    await visit.people()


_LISTING: Final = Listing(
    "Integrations",
    "/integrationconfigs",
    (
        Column("Name", "label", link=f"{INTEGRATIONS}/{{id}}", sort="name"),
        Column("Sends", "entityType", "words", sort="entityType"),
        Column("To", "target"),
        Column("Enabled", "enabled"),
        Column("Signed in", "authorized"),
        Column("By", "createdBy", "author", sort="createdBy"),
        Column("Since", "dtCreated", "instant", sort="dtCreated"),
    ),
    empty=("No integrations yet", "An integration sends bills or notifications to another system."),
    create=("New integration", f"{INTEGRATIONS}/new", "PostIntegrationConfig"),
    filters=(called_by("name"),),
    complete=_with_names,
    links=(
        ("Runs of all integrations", "/console/runs?kinds=INTEGRATION_RUN"),
        ("What failed", "/console/runs?kinds=INTEGRATION_RUN&status=FAILED"),
        ("Webhooks", "/console/data-out/webhooks"),
    ),
)


async def list_integrations(visit: Visit) -> Response:
    """Integrations, with what each sends where."""
    return await show_list(visit, _LISTING)


async def show_integration(visit: Visit) -> Response:
    """One integration with its newest runs."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"/integrationconfigs/{id_}")
    await _with_names(visit, [found])
    runs = await visit.api.find(f"/integrationconfigs/{id_}/runs", pageSize=_NEWEST)
    notification = None
    if is_id(str(found.get("entityId", ""))):
        notification = await visit.api.find(f"/notifications/configurations/{found['entityId']}")
    return visit.page(
        "integrations/integration.html",
        integration=found,
        notification=notification,
        runs=None if runs is None else runs["data"],
    )


async def change_integration(visit: Visit) -> Response:
    """Let an integration run again, or have it send nothing more."""
    id_, verb = visit.request.path_params["id"], visit.field("action")
    if verb not in {"enable", "disable"}:
        raise visit.unknown_action("an integration")
    await visit.api.send("POST", f"/integrationconfigs/{id_}/{verb}")
    said = "The integration sends again." if verb == "enable" else "It sends nothing more."
    return visit.go(f"{INTEGRATIONS}/{id_}", said)


async def show_run(visit: Visit) -> Response:
    """One run: what was sent, and what was answered, try by try."""
    id_ = visit.request.path_params["id"]
    run = await visit.api.get(f"/integrationruns/{id_}")
    log = await visit.api.find(f"/integrationruns/logs/{id_}")
    history: dict[str, Any] = {}
    if log is not None:
        history = json.loads(base64.b64decode(log["Payload"]), parse_float=Decimal)
    return visit.page(
        "integrations/run.html",
        run=run,
        tries=history.get("tries", []),
        body=history.get("body", ""),
        is_open=run.get("dtCompleted") is None,
        may_read_log=log is not None,
    )


async def change_run(visit: Visit) -> Response:
    """Send a run once more."""
    id_, verb = visit.request.path_params["id"], visit.field("action")
    if verb != "replay":
        raise visit.unknown_action("a run")
    made = await visit.api.send("POST", f"/integrationruns/{id_}/replay")
    return visit.go(f"{_RUNS}/{made['id']}", "The worker sends it once more, as this new run.")


ROUTES: Final = (
    Route(
        f"{INTEGRATIONS}/new",
        page(ask_system, needs=PAGES.creates),
        methods=["GET"],
        name="ConsoleNewIntegration",
    ),
    *PAGES.routes(),
    Route(INTEGRATIONS, page(list_integrations), methods=["GET"], name="ConsoleIntegrations"),
    *page_routes(f"{_RUNS}/{{id}}", show_run, change_run, "ConsoleIntegrationRun"),
    *page_routes(
        f"{INTEGRATIONS}/{{id}}", show_integration, change_integration, "ConsoleIntegration"
    ),
)
