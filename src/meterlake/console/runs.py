"""Pages of runs: the jobs of all kinds, how far each is, and what one can do about it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.api.server.pages import is_on_this_machine
from meterlake.console.shell.lists import Column, ListFilter, Listing, show_list, status_filter
from meterlake.console.shell.page import Visit, page, page_routes

RUNS: Final = "/console/runs"
# Where the thing that a run is about has its own page; the members of the run fill it.
_PAGES: Final = {
    "EXPORT": "/console/data-out/jobs/{id}",
    "BILL_DOCUMENTS": "/console/bills/documents/{id}",
    "INTEGRATION_RUN": "/console/integrations/runs/{id}",
    "BACKFILL": "/console/backfills/{aboutId}",
    "STATEMENT": "/console/bills/{aboutId}",
}
_KINDS: Final = (
    ("UPLOAD", "Files"),
    ("INBOX_OBJECT", "Objects of inboxes"),
    ("LOOKUP", "Lookup tables"),
    ("BILL", "Bills"),
    ("STATEMENT", "Statements"),
    ("BILL_LETTER", "Bills by e-mail"),
    ("BILL_DOCUMENTS", "Documents of bills"),
    ("QUANTITIES", "Quantities"),
    ("CLOSING_STEP", "Closings"),
    ("EXPORT", "Exports"),
    ("BACKFILL", "Backfills"),
    ("INTEGRATION_RUN", "Integrations"),
)
# What "Run it again" does, by kind.
_AGAIN: Final = {
    "QUANTITIES": "Quantities are calculated from the measurements of now, in a new run.",
    "BILL": "Bills are made with the usage and the prices of now, in a new run.",
    "EXPORT": "The worker exports once more, with the configuration of its time.",
    "BACKFILL": "The worker does the step of the backfill once more.",
    "INTEGRATION_RUN": "The worker sends once more what was sent, as a new run.",
}
_STATUSES: Final = ("PENDING", "RUNNING", "COMPLETE", "FAILED", "CANCELLED", "AWAITING_FILE")
_OPEN: Final = frozenset({"PENDING", "RUNNING", "AWAITING_FILE"})
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def duration(seconds: int) -> str:
    """How long something took, by its two largest units: `2 min 5 s`."""
    parts = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "under 1 s"


def time_taken(run: Mapping[str, Any], now: datetime) -> str:
    """How long a run took, or takes by now; empty if it has not begun."""
    if not (began := run.get("dtStarted")):
        return ""
    ended = run.get("dtCompleted")
    until = datetime.fromisoformat(ended) if ended else now
    return duration(max(0, int((until - datetime.fromisoformat(began)).total_seconds())))


def done_of(run: Mapping[str, Any]) -> tuple[int, int] | None:
    """How much of a run is done, and of how much; None if it does not count."""
    progress = run.get("progress") or {}
    total, pending = progress.get("total"), progress.get("pending")
    return None if total is None or pending is None else (int(total - pending), int(total))


async def _with_times(visit: Visit, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["status"] = row.get("outcome", row["status"])
        row["took"] = time_taken(row, visit.now)
        row["kind"] = dict(_KINDS).get(row["kind"], row["kind"])


_LISTING: Final = Listing(
    "Runs",
    "/runs",
    (
        Column("What", "subject", link=f"{RUNS}/{{id}}"),
        Column("Kind", "kind"),
        Column("Status", "status", "status"),
        Column("Asked for", "dtCreated", "instant", sort="dtCreated"),
        Column("By", "createdBy", "author"),
        Column("Took", "took"),
        Column("Error", "error"),
    ),
    empty=(
        "No runs yet",
        "Files, bills, exports, backfills and what is sent to others appear here when they begin.",
    ),
    intro="What the server does and has done: files, bills, exports, backfills, deliveries.",
    filters=(
        ListFilter("kinds", "Kind", _KINDS),
        status_filter(_STATUSES),
        ListFilter("dateCreatedStart", "From", type="date"),
        ListFilter("dateCreatedEnd", "Before", type="date"),
    ),
    complete=_with_times,
)


async def list_runs(visit: Visit) -> Response:
    """One page of runs, by kind, status and time."""
    await visit.people()
    return await show_list(visit, _LISTING, "runs/list.html", prefect=_prefect(visit))


async def show_run(visit: Visit) -> Response:
    """One run: how far it is, how it ended, and what one can do about it."""
    run = await visit.api.get(f"/runs/{visit.request.path_params['id']}")
    await visit.people()
    return visit.page(
        "runs/run.html",
        run=run,
        kind=dict(_KINDS).get(run["kind"], run["kind"]),
        is_open=run["status"] in _OPEN,
        took=time_taken(run, visit.now),
        done=done_of(run),
        target=_PAGES.get(run["kind"], "").format_map(run),
        again=_AGAIN.get(run["kind"], "The worker does it once more."),
        prefect=_flow_run(visit, run),
    )


async def change_run(visit: Visit) -> Response:
    """Cancel a run, or have it done once more."""
    id_ = visit.request.path_params["id"]
    match visit.field("action"):
        case "cancel":
            run = await visit.api.send("POST", f"/runs/{id_}/cancel")
            ended = run["status"] == "CANCELLED"
            said = "You cancelled the run." if ended else "You asked the run to stop."
        case "retry":
            run = await visit.api.send("POST", f"/runs/{id_}/retry")
            said = "The worker does it once more."
        case _:
            raise visit.unknown_action("a run")
    return visit.go(f"{RUNS}/{run['id']}", said)


def _flow_run(visit: Visit, run: Mapping[str, Any]) -> str:
    """Where Prefect shows the flow run that worked on a run; empty if none did, or it has no address."""
    server, id_ = _prefect(visit), run.get("flowRunId")
    return f"{server}/runs/flow-run/{id_}" if server and id_ else ""


def _prefect(visit: Visit) -> str:
    """Where Prefect shows its own runs; empty if it has no address for the person's browser."""
    api: str | None = visit.request.app.state.services.stores.settings.prefect_url
    if not api:
        return ""
    url = api.rstrip("/").removesuffix("/api")
    is_local = any(each in url for each in ("//127.0.0.1", "//localhost", "//[::1]"))
    return "" if is_local and not is_on_this_machine(visit.request) else url


ROUTES: Final = (
    Route(RUNS, page(list_runs), methods=["GET"], name="ConsoleRuns"),
    *page_routes(f"{RUNS}/{{id}}", show_run, change_run, "ConsoleRun"),
)
