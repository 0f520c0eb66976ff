"""Pages of lookup tables' revisions: the columns, the rows, and which one calculations read."""

import asyncio
import csv
import io
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.addresses import ADDRESSES
from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.entity_forms import EntityPages
from meterlake.console.shell.files import csv_file
from meterlake.console.shell.page import Visit, page, page_routes
from meterlake.model.values.plurals import counted

_TABLE: Final = f"{ADDRESSES['lookupTables']}/{{lookupTableId}}"
_REVISIONS: Final = f"{_TABLE}/revisions"
_REVISION: Final = f"{_REVISIONS}/{{id}}"
# Rows that a page shows, and that one file has.
_SHOWN: Final = 100
_FILE_MAX: Final = 2_000
PAGES: Final = EntityPages(
    "lookupTableRevisions",
    _REVISIONS,
    "revision",
    gone=_TABLE,
    intro="A revision holds the rows of a table. It is a draft until you publish it.",
)


async def revisions_of(visit: Visit, table_id: str) -> list[dict[str, Any]]:
    """The revisions of a table, the published one first, then the newest."""
    rows = await visit.api.every(f"/lookuptables/{table_id}/revisions")
    newest = sorted(rows, key=lambda each: str(each["dtCreated"]), reverse=True)
    return sorted(newest, key=lambda each: each["status"] != "PUBLISHED")


async def show_revision(visit: Visit) -> Response:
    """One revision: its columns, its first rows, and what one can do with it."""
    place = _place(visit)
    table, revision, data, _ = await asyncio.gather(
        visit.api.get(f"/lookuptables/{visit.request.path_params['lookupTableId']}"),
        visit.api.get(place),
        visit.api.find(f"{place}/data", limit=_SHOWN),
        visit.people(),
    )
    return visit.page(
        "catalogue/revision.html",
        table=table,
        revision=revision,
        rows=None if data is None else data["items"],
        address=_REVISION.format_map(visit.request.path_params),
        pages=PAGES,
    )


async def revision_file(visit: Visit) -> Response:
    """The rows of a revision as CSV, as the page takes them back."""
    place = _place(visit)
    revision, data = await asyncio.gather(
        visit.api.get(place), visit.api.get(f"{place}/data", limit=_FILE_MAX)
    )
    names = [each["name"] for each in revision["fields"]]
    rows = [[item.get(name) for name in names] for item in data["items"]]
    return csv_file("revision.csv", [names, *rows])


async def change_revision(visit: Visit) -> Response:
    """Write rows into a draft or empty it, publish or archive a revision, copy it to a draft."""
    place, target = _place(visit), _REVISION.format_map(visit.request.path_params)
    match visit.field("action"):
        case "write":
            revision = await visit.api.get(place)
            items = read_rows(visit.field("rows"), revision)
            await visit.api.send("PUT", f"{place}/data", {"items": items})
            said = "You wrote the rows. Those of the same keys were replaced."
        case "empty":
            await visit.api.send("DELETE", f"{place}/data")
            said = "You emptied the draft."
        case "publish":
            await visit.api.send("PUT", f"{place}/status", {"status": "PUBLISHED"})
            said = "You published the revision. Calculations of what comes in now read it."
        case "archive":
            await visit.api.send("PUT", f"{place}/status", {"status": "ARCHIVED"})
            said = "You archived the revision. The table has no published one now."
        case "copy":
            made = await visit.api.send("POST", f"{place}/data/copy")
            members = {**visit.request.path_params, "id": made["revisionId"]}
            said, target = "This is the copy, a draft.", _REVISION.format_map(members)
        case _:
            raise visit.unknown_action("a revision")
    return visit.go(target, said)


def read_rows(text: str, revision: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that somebody typed as CSV, below a line with the names of columns.

    Raises:
        ApiRefusalError: A line has fewer or more values than there are names.
    """
    types = {each["name"]: each["type"] for each in revision["fields"]}
    lines = [each for each in csv.reader(io.StringIO(text)) if any(map(str.strip, each))]
    names = [each.strip() for each in lines[0]] if lines else []
    found = []
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(names):
            values, columns = counted(len(line), "value"), counted(len(names), "column")
            told = f"rows, line {number}: it has {values} for {columns}"
            raise ApiRefusalError(400, f"{told}; put texts with commas into quotes")
        cells = zip(names, map(str.strip, line), strict=True)
        found.append({name: _value(text, types.get(name)) for name, text in cells if text})
    return found


def _value(text: str, type: str | None) -> Decimal | str:
    """A number where the column holds numbers; what is none stays a text, which the API refuses."""
    try:
        found = Decimal(text) if type == "NUMBER" else None
    except InvalidOperation:
        return text
    return found if found is not None and found.is_finite() else text


def _place(visit: Visit) -> str:
    return "/lookuptables/{lookupTableId}/revisions/{id}".format_map(visit.request.path_params)


ROUTES: Final = (
    *PAGES.routes(),
    Route(
        f"{_REVISION}/rows.csv",
        page(revision_file),
        methods=["GET"],
        name="ConsoleLookupRevisionFile",
    ),
    *page_routes(_REVISION, show_revision, change_revision, "ConsoleLookupRevision"),
)
