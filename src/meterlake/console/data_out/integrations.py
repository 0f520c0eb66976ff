"""Pages of integrations: what is sent to other systems, and every run of it, try by try."""

import base64
import json
from decimal import Decimal
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.entity_forms import EntityPages
from meterlake.console.shell.lists import Column, Listing, show_list
from meterlake.console.shell.page import Visit, page

INTEGRATIONS: Final = "/console/integrations"
_RUNS: Final = f"{INTEGRATIONS}/runs"
_NEWEST: Final = 20
PAGES: Final = EntityPages(
    "integrationConfigs",
    INTEGRATIONS,
    "integration",
    intro="An integration sends bills to another system, or a notification to a webhook.",
)


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
        Column("Name", "label", link=f"{INTEGRATIONS}/{{id}}"),
        Column("Sends", "entityType", "words"),
        Column("To", "target"),
        Column("Enabled", "enabled"),
        Column("Signed in", "authorized"),
        Column("By", "createdBy", "author"),
        Column("Since", "dtCreated", "instant"),
    ),
    empty=("No integrations yet", "An integration sends bills or notifications to another system."),
    create=("New integration", f"{INTEGRATIONS}/new", "PostIntegrationConfig"),
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
    return visit.page(
        "integrations/integration.html",
        integration=found,
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
    *PAGES.routes(),
    Route(INTEGRATIONS, page(list_integrations), methods=["GET"], name="ConsoleIntegrations"),
    Route(f"{_RUNS}/{{id}}", page(show_run), methods=["GET"], name="ConsoleIntegrationRun"),
    Route(
        f"{_RUNS}/{{id}}",
        page(change_run, show_run),
        methods=["POST"],
        name="ConsoleIntegrationRunChange",
    ),
    Route(
        f"{INTEGRATIONS}/{{id}}", page(show_integration), methods=["GET"], name="ConsoleIntegration"
    ),
    Route(
        f"{INTEGRATIONS}/{{id}}",
        page(change_integration, show_integration),
        methods=["POST"],
        name="ConsoleIntegrationChange",
    ),
)
