"""Pages of what comes in: the whole at a glance, and each source with what became of its rows."""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from babel.dates import format_timedelta
from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.data_in import inboxes, late_usage, mappings, rejected, sent_files
from meterlake.console.data_in.late_usage import UNBILLED
from meterlake.console.data_in.mapping_form import fields_of_meter
from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.files import file_of
from meterlake.console.shell.lists import Column, ListFilter, Listing, show_list
from meterlake.console.shell.page import Visit, page, words

DATA_IN: Final = "/console/data-in"
SOURCES: Final = f"{DATA_IN}/sources"
_NEWEST: Final = 10
_FAILED: Final = 5
_LATE: Final = 100
_METERS: Final = 100


async def show_data_in(visit: Visit) -> Response:
    """What came, what was refused and why, how fresh each meter is, what runs, what failed."""
    status, sources, failed, jobs, late, known = await asyncio.gather(
        visit.api.get("/measurements/status"),
        visit.api.get("/measurements/sources", pageSize=_NEWEST),
        visit.api.get("/measurements/sources", status="failed", pageSize=_FAILED),
        visit.api.find("/fileuploads/measurements/jobs", pageSize=_NEWEST),
        visit.api.find("/lateusage", pageSize=_LATE),
        visit.api.find("/meters", pageSize=_METERS),
    )
    meters = sorted(status["meters"], key=lambda each: str(each.get("lastReceived") or ""))
    return visit.page(
        "data_in/overview.html",
        seen=status,
        rejected=sorted(status["rejected"].items(), key=lambda each: -each[1]),
        waiting=sum(status["rejected"].values()),
        meters=meters,
        columns={each["code"]: fields_of_meter(each) for each in rows_of(known)},
        sources=sources["data"],
        failed=failed["data"],
        jobs=rows_of(jobs),
        is_going_on=any(each["status"] in sent_files.GOING_ON for each in rows_of(jobs)),
        late=_count_late(rows_of(late)),
        since=lambda instant: since(visit, instant),
    )


def _count_late(rows: list[dict[str, Any]]) -> dict[str, int]:
    """How many bills lack usage that came, charge for some that left, or could not be compared.

    And how many charge the same with what came or left, as long as nobody has decided so.
    """
    differences = [each.get("difference") for each in rows if each["status"] in UNBILLED]
    known = [each for each in differences if each is not None]
    return {
        "came": sum(each > 0 for each in known),
        "left": sum(each < 0 for each in known),
        "unknown": len(differences) - len(known),
        "same": sum(each["status"] == "UNCHANGED" and "dtDecided" not in each for each in rows),
    }


def since(visit: Visit, instant: str) -> str:
    """How long ago something was, in the words of the person's language."""
    now: datetime = visit.request.app.state.services.stores.now()
    passed = datetime.fromisoformat(instant).astimezone(UTC) - now
    return str(format_timedelta(passed, add_direction=True, locale="en"))


async def _say_why(visit: Visit, rows: list[dict[str, Any]]) -> None:
    """Beside each source, why rows of it were rejected, or why it could not be read."""
    del visit
    for each in rows:
        counts = (f"{words(reason)} {rows}" for reason, rows in each["reasons"].items())
        failure = ": ".join(each[name] for name in ("reason", "detail") if each.get(name))
        each["why"] = failure or ", ".join(counts)
        each["withdrawn"] = _count_withdrawn(each)


def _count_withdrawn(source: dict[str, Any]) -> int:
    """How many measurements of an attempt at a source backfills have withdrawn."""
    return sum(each["measurements"] for each in source["retracted"])


_SOURCES: Final = Listing(
    "Sources",
    "/measurements/sources",
    (
        Column("File", "name", link=f"{SOURCES}/{{identity}}?attempt={{attempt}}", sort="name"),
        Column("Status", "status", "status"),
        Column("Received", "received", "number", sort="received"),
        Column("Accepted", "accepted", "number", sort="accepted"),
        Column("Withdrawn", "withdrawn", "number"),
        Column("Repeats", "repeats", "number"),
        Column("Rejected", "rejected", "number", sort="rejected"),
        Column("Mended", "mended", "number"),
        Column("Why", "why"),
        Column("Came", "receivedAt", "instant", sort="receivedAt"),
        Column("Read", "finishedAt", "instant", sort="finishedAt"),
    ),
    empty=(
        "Nothing came yet",
        "Each file and each batch that comes is a source, with a receipt of what became of its rows.",
    ),
    intro=(
        "One row for each attempt at a file or a batch. Received = accepted + repeats + rejected."
        " Withdrawn are accepted measurements that a backfill took back, mended are rejected rows"
        " that came in since."
    ),
    filters=(
        ListFilter("nameContains", "File", type="search"),
        ListFilter("status", "Status", (("done", "Done"), ("failed", "Failed"))),
        ListFilter("since", "Came since", type="date", is_instant=True),
        ListFilter("until", "Came before", type="date", is_instant=True),
    ),
    complete=_say_why,
)


async def list_sources(visit: Visit) -> Response:
    """One page of sources, or all as a file."""
    return await show_list(visit, _SOURCES)


async def show_source(visit: Visit) -> Response:
    """One source, or what one delivery or job brought: every attempt with its numbers."""
    id_ = visit.request.path_params["id"]
    answer: dict[str, Any] = await visit.api.get("/measurements/sources", source=id_)
    if not answer["data"]:
        reason = f"source {id_!r} not found; sources are listed on the page of sources"
        raise ApiRefusalError(404, reason)
    attempts = answer["data"]
    # The same content under another name is another attempt at the same source.
    chosen = [each for each in attempts if str(each["attempt"]) == visit.query("attempt")]
    identities = {each["identity"] for each in attempts}
    late = rows_of(await visit.api.find("/lateusage", pageSize=_LATE))
    for each in attempts:
        each["withdrawn"] = _count_withdrawn(each)
    return visit.page(
        "data_in/source.html",
        attempts=attempts,
        shown=(chosen or attempts)[0],
        names=list(dict.fromkeys(each["name"] for each in reversed(attempts))),
        id=id_,
        late=[
            each for each in late if any(source["id"] in identities for source in each["sources"])
        ],
    )


async def download_template(visit: Visit) -> Response:
    """A CSV file to begin with, of one meter."""
    meter = visit.query("meter") or ""
    found = await visit.api.fetch("/measurements/template", meter=meter)
    return file_of(found, f"{meter}.csv")


async def show_receipt(visit: Visit) -> Response:
    """What became of the measurement of a uid."""
    uid = visit.query("uid")
    found = None if uid is None else await visit.api.get("/measurements/receipt", uid=uid)
    return visit.page("data_in/receipt.html", found=found)


ROUTES: Final = (
    Route(DATA_IN, page(show_data_in), methods=["GET"], name="ConsoleDataIn"),
    Route(SOURCES, page(list_sources), methods=["GET"], name="ConsoleSources"),
    Route(
        f"{DATA_IN}/template", page(download_template), methods=["GET"], name="ConsoleFileTemplate"
    ),
    Route(f"{SOURCES}/{{id}}", page(show_source), methods=["GET"], name="ConsoleSource"),
    Route(f"{DATA_IN}/receipt", page(show_receipt), methods=["GET"], name="ConsoleReceipt"),
    *late_usage.ROUTES,
    *mappings.ROUTES,
    *inboxes.ROUTES,
    *rejected.ROUTES,
    *sent_files.ROUTES,
)
