"""Pages of backfills: a correction is staged, looked at with its bills, then applied or taken back."""

import asyncio
import base64
import re
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.files import csv_file
from meterlake.console.shell.lists import Column, Listing, show_list, status_filter
from meterlake.console.shell.page import SentFile, Visit, page, page_routes
from meterlake.model.work.backfill import WITH_STAGED_ROWS, BackfillStatus

BACKFILLS: Final = "/console/backfills"
NEW: Final = f"{BACKFILLS}/new"
# The API takes ten megabytes, in base64.
_FILES_MAX: Final = 7_000_000
_CONFLICT: Final = 409
_SIDES: Final = ("before", "after")
# More are in the file.
_ROWS_SHOWN: Final = 20
_MODES: Final = {
    "retract": "Withdraw a file or measurements",
    "replace": "Put files in the place of measurements",
    "re-derive": "Calculate derived fields again",
    "re-aggregate": "Calculate quantities again",
}


async def _say_files(visit: Visit, rows: list[dict[str, Any]]) -> None:
    """Beside each backfill, the files that it withdraws or brings."""
    del visit
    for each in rows:
        each["about"] = each.get("sourceName") or ", ".join(each.get("files", ()))


_LISTING: Final = Listing(
    "Backfills",
    "/backfills",
    (
        Column("Backfill", "id", link=f"{BACKFILLS}/{{id}}"),
        Column("Kind", "mode", "words"),
        Column("File", "about"),
        Column("Status", "status", "status"),
        Column("In work", "pending", "words"),
        Column("Reason", "reason"),
        Column("Measurements gone", "counts.measurementsGone", "number"),
        Column("Measurements come", "counts.measurementsCame", "number"),
        Column("Begun", "dtCreated", "instant", sort="dtCreated"),
        Column("By", "author", "author"),
    ),
    empty=(
        "No backfills yet",
        "By a backfill you correct what came in. You see what it changes before it does.",
    ),
    intro="Corrections of what came in. Nothing changes before you apply one; you can take it back.",
    filters=(status_filter(BackfillStatus),),
    create=("New backfill", NEW, "StartBackfill"),
    complete=_say_files,
)


async def list_backfills(visit: Visit) -> Response:
    """One page of backfills."""
    await visit.people()
    return await show_list(visit, _LISTING)


async def new_backfill(visit: Visit) -> Response:
    """The form of a new backfill of one kind; the address may fill it in."""
    mode = visit.query("mode")
    if mode is not None and mode not in _MODES:
        raise ApiRefusalError(404, f"there is no backfill of the kind {mode!r}")
    source, name = visit.query("source"), None
    if source is not None and visit.may("ListSources"):
        answer = await visit.api.get("/measurements/sources", source=source)
        names = {each["identity"]: each["name"] for each in reversed(answer["data"])}
        name = names.get(source)
    return visit.page("backfills/new.html", mode=mode or "retract", modes=_MODES, file=name)


async def start_backfill(visit: Visit) -> Response:
    """Have the worker stage a backfill."""
    texts = ("id", "mode", "reason", "month", "since", "until", "source")
    order: dict[str, Any] = {name: visit.field(name) for name in texts if visit.field(name)}
    for name in ("meters", "accounts", "uids"):
        if found := re.split(r"[\s,]+", visit.field(name)):
            order |= {name: [each for each in found if each]} if any(found) else {}
    files, mappings = visit.files.get("files", []), visit.files.get("mapping", [])
    if sum(len(each.content) for each in [*files, *mappings]) > _FILES_MAX:
        raise ApiRefusalError(
            400,
            f"The files have more than {_FILES_MAX:,} bytes together."
            " Use meterlake backfill start replace for larger ones.",
        )
    if mappings:
        order["mapping"] = _file(mappings[-1])
    if files:
        order["files"] = [_file(each) for each in files]
    made = await visit.api.send("POST", "/backfills", order)
    said = "The worker stages the backfill; nothing is changed yet. You see here what it changes."
    return visit.go(f"{BACKFILLS}/{made['id']}", said)


def _file(file: SentFile) -> dict[str, str]:
    name = file.name.replace("\\", "/").rpartition("/")[2]
    return {"name": name, "content": base64.b64encode(file.content).decode()}


async def show_backfill(visit: Visit) -> Response:
    """One backfill: where it stands, what it changes of quantities and bills, who did what."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"/backfills/{id_}")
    difference = await _difference(visit, id_)
    if visit.query("format") == "csv":
        return _quantities_file(id_, difference)
    changed = None
    if found["status"] in WITH_STAGED_ROWS and not found.get("pending"):
        changed = await _measurements(visit, id_)
    if visit.query("format") == "measurements":
        return _measurements_file(id_, changed)
    names = await _names(visit, found)
    await visit.people()
    return visit.page(
        "backfills/backfill.html",
        found=found,
        title=_MODES[found["mode"]],
        names=names,
        difference=difference,
        changed=changed,
        rows_shown=_ROWS_SHOWN,
    )


async def _difference(visit: Visit, id_: str) -> Any:
    """What it changes; None as long as nothing is staged."""
    try:
        return await visit.api.find(f"/backfills/{id_}/difference")
    except ApiRefusalError as refusal:
        if refusal.status != _CONFLICT:
            raise
        return None


async def _measurements(visit: Visit, id_: str) -> Any:
    """The measurements that it changes or has changed; None if the person may not see them."""
    if not visit.may("GetBackfillMeasurements"):
        return None
    try:
        return await visit.api.find(f"/backfills/{id_}/measurements")
    except ApiRefusalError as refusal:
        if refusal.status != _CONFLICT:
            raise
        return {"refused": refusal.reason, "rows": []}


def _measurements_file(id_: str, changed: Any) -> Response:
    found = [] if changed is None else changed["rows"]
    fields = sorted({name for each in found for side in _SIDES for name in each.get(side, ())})
    rows: list[list[Any]] = [
        ["uid", "meter", "account", *(f"{side} {name}" for side in _SIDES for name in fields)]
    ]
    for each in found:
        sides = (each.get(side, {}).get(name) for side in _SIDES for name in fields)
        rows.append([each["uid"], each["meter"], each["account"], *sides])
    return csv_file(f"{id_}-measurements.csv", rows)


def _quantities_file(id_: str, difference: Any) -> Response:
    columns = ("month", "account", "meter", "aggregation", "start", "end", "quantityUnit")
    rows: list[list[Any]] = [[*columns, "segment", "before", "after"]]
    for each in (difference or {}).get("quantities", ()):
        segment = ", ".join(
            f"{name}={value}" for name, value in (each.get("segment") or {}).items()
        )
        sides = ((each.get(side) or {}).get("quantity") for side in ("before", "after"))
        rows.append([*(each.get(name) for name in columns), segment, *sides])
    return csv_file(f"{id_}.csv", rows)


async def _names(visit: Visit, found: dict[str, Any]) -> dict[str, str]:
    """The codes of the meters and accounts that a backfill is about, by id."""
    wanted = {kind: found.get(f"{kind}Ids") for kind in ("meter", "account")}
    answers = await asyncio.gather(
        *(visit.api.by_id(f"/{kind}s", ids or ()) for kind, ids in wanted.items())
    )
    return {id_: each["code"] for answer in answers for id_, each in answer.items()}


async def change_backfill(visit: Visit) -> Response:
    """Apply a backfill, drop it, take it back, or stage it again."""
    id_ = visit.request.path_params["id"]
    target = f"{BACKFILLS}/{id_}"
    match visit.field("action"):
        case "apply":
            await visit.api.send("POST", f"/backfills/{id_}/apply")
            said = "The worker makes the change, in one commit. You can take it back afterwards."
        case "drop":
            await visit.api.send("POST", f"/backfills/{id_}/drop")
            said = "You dropped the backfill. Nothing was changed; what was done stays listed here."
        case "revert":
            await visit.api.send("POST", f"/backfills/{id_}/revert")
            said = "The worker takes the change back: all will be as it was before."
        case "stage":
            await visit.api.send("POST", "/backfills", {"id": id_})
            said = "The worker stages the backfill again, from what there is now."
        case _:
            raise visit.unknown_action("a backfill")
    return visit.go(target, said)


ROUTES: Final = (
    Route(BACKFILLS, page(list_backfills), methods=["GET"], name="ConsoleBackfills"),
    Route(
        NEW, page(new_backfill, needs="StartBackfill"), methods=["GET"], name="ConsoleBackfillNew"
    ),
    Route(NEW, page(start_backfill, new_backfill), methods=["POST"], name="ConsoleBackfillStart"),
    *page_routes(f"{BACKFILLS}/{{id}}", show_backfill, change_backfill, "ConsoleBackfill"),
)
