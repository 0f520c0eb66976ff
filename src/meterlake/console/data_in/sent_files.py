"""Files that people send from a page: through the API's upload, and then their job, followed live."""

from typing import Any, Final

from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.lists import Column, ListFilter, Listing, show_list
from meterlake.console.shell.page import SentFile, Visit, page
from meterlake.model.values.plurals import counted

FILES: Final = "/console/data-in/files"
_API: Final = "/fileuploads/measurements"
# The content says what a file is.
_TYPE: Final = "application/octet-stream"
# Until a job has ended.
GOING_ON: Final = frozenset({"notUploaded", "running"})
_LISTING: Final = Listing(
    "Uploaded files",
    f"{_API}/jobs",
    (
        Column("File", "fileName", link=f"{FILES}/{{id}}"),
        Column("Status", "status", "status"),
        Column("Rows", "totalRows", "number"),
        Column("Repeats", "repeatedRows", "number"),
        Column("Rejected", "failedRows", "number"),
        Column("Why it failed", "failureReason"),
        Column("Announced", "dtCreated", "instant", sort="dtCreated"),
        Column("By", "createdBy", "author"),
    ),
    empty=("No file was uploaded yet", "Choose one on the page Data in, or let a program send it."),
    filters=(
        ListFilter("dateCreatedStart", "Announced since", type="date", is_instant=True),
        ListFilter("dateCreatedEnd", "Announced before", type="date", is_instant=True),
    ),
)


async def list_files(visit: Visit) -> Response:
    """One page of uploaded files."""
    await visit.people()
    return await show_list(visit, _LISTING)


async def send_files(visit: Visit) -> Response:
    """Bring the files of a form in, each by a job of its own."""
    chosen = visit.files.get("file")
    if not chosen:
        raise ApiRefusalError(400, "No file was chosen. Choose one, or several.")
    if empty := [each.name for each in chosen if not each.content]:
        reason = f"{', '.join(empty)}: the file is empty. Leave it out, or choose another. No file was sent."
        raise ApiRefusalError(400, reason)
    # All before the first is sent: a name that is refused keeps all of them back.
    announced = [await _announced(visit, each) for each in chosen]
    for each, place in zip(chosen, announced, strict=True):
        await visit.api.put(place["url"], place["headers"], each.content)
    target = f"{FILES}/{announced[0]['jobId']}" if len(chosen) == 1 else FILES
    sent = counted(len(chosen), "file")
    return visit.go(target, f"You sent {sent}. The worker brings in what is new in it.")


async def _announced(visit: Visit, file: SentFile) -> Any:
    # Some browsers send the folder, too.
    name = file.name.replace("\\", "/").rpartition("/")[2]
    try:
        return await _announce(visit, name, len(file.content))
    except ApiRefusalError as refusal:
        raise ApiRefusalError(refusal.status, f"{name}: {refusal.reason}") from None


async def _announce(visit: Visit, name: str, size: int) -> Any:
    body = {"fileName": name, "contentType": _TYPE, "contentLength": size}
    return await visit.api.send("POST", f"{_API}/generateUploadUrl", body)


async def announce_file(visit: Visit) -> Response:
    """What a script needs to send a file by itself: the URL, and the page of the job."""
    size = visit.field("size")
    if not (size.isascii() and size.isdigit()):
        raise ApiRefusalError(400, "The size of the file must be a number of bytes.")
    announced = await _announce(visit, visit.field("name"), int(size))
    return JSONResponse(
        {**announced, "page": f"{FILES}/{announced['jobId']}"},
        headers={"Cache-Control": "no-store"},
    )


async def show_file(visit: Visit) -> Response:
    """The job of a file: where it stands, and what became of its rows."""
    job = await visit.api.get(f"{_API}/jobs/{visit.request.path_params['id']}")
    await visit.people()
    reasons = sorted((job.get("failureReasons") or {}).items(), key=lambda each: -each[1])
    return visit.page(
        "data_in/file.html", job=job, reasons=reasons, is_going_on=job["status"] in GOING_ON
    )


async def original_file(visit: Visit) -> Response:
    """Lead on to the file itself."""
    id_ = visit.request.path_params["id"]
    found = await visit.api.get(f"{_API}/jobs/{id_}/original")
    return RedirectResponse(found["url"], 303, {"Cache-Control": "no-store"})


ROUTES: Final = (
    Route(FILES, page(list_files), methods=["GET"], name="ConsoleFiles"),
    Route(FILES, page(send_files, list_files), methods=["POST"], name="ConsoleFilesSend"),
    Route(f"{FILES}/announce", page(announce_file), methods=["POST"], name="ConsoleFileAnnounce"),
    Route(f"{FILES}/{{id}}", page(show_file), methods=["GET"], name="ConsoleFile"),
    Route(f"{FILES}/{{id}}/original", page(original_file), methods=["GET"], name="ConsoleOriginal"),
)
