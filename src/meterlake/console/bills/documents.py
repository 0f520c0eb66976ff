"""The documents of many bills as one file: at once for few, else made by the worker and kept for a day."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.files import file_of
from meterlake.console.shell.page import Visit, page

_DOCUMENTS: Final = "/console/bills/documents"
_FEW: Final = f"{_DOCUMENTS}/few"
# Nobody waits longer than some seconds for the answer to a click.
AT_ONCE_MAX: Final = 20
_RUNNING: Final = frozenset({"PENDING", "RUNNING"})


def is_at_once(visit: Visit, ids: Sequence[str]) -> bool:
    """Whether documents are few enough for the answer; or nobody may ask for a job of them."""
    return len(ids) <= AT_ONCE_MAX or not visit.may("CreateBillDocumentsJob")


async def begin_documents(visit: Visit, body: Mapping[str, Any]) -> Response:
    """Have the worker make documents, and lead on to the page that shows how far they are."""
    job = await visit.api.send("POST", "/bills/documents/jobs", body)
    said = "The worker makes the documents. This page has the file when it is done."
    return visit.go(f"{_DOCUMENTS}/{job['id']}", said)


def show_few(visit: Visit, ids: Sequence[str], format: str) -> Response:
    """Lead on to the page that has a file of few documents made and saved."""
    query = urlencode({"bills": ",".join(ids), "as": format})
    return visit.go(f"{_FEW}?{query}")


async def show_few_documents(visit: Visit) -> Response:
    """That few documents are being made, which takes seconds, and then their file."""
    visit.require("DownloadBillDocuments")
    ids = [each for each in (visit.query("bills") or "").split(",") if each]
    format_ = visit.query("as")
    if not ids or format_ not in {"pdf", "zip"}:
        raise ApiRefusalError(400, "Choose bills, and whether you want one PDF or a ZIP of PDFs.")
    if visit.query("file"):
        body = {"billIds": ids, "format": format_}
        return file_of(await visit.api.fetch_made("/bills/download/documents", body))
    return visit.page("bills/few_documents.html", count=len(ids), format=format_)


async def show_documents(visit: Visit) -> Response:
    """How far a file of documents is, or the file itself."""
    job = await visit.api.get(f"/bills/documents/jobs/{visit.request.path_params['job']}")
    if visit.query("file") and "downloadUrl" in job:
        return visit.go(job["downloadUrl"])
    await visit.people()
    return visit.page("bills/documents.html", job=job, running=job["status"] in _RUNNING)


ROUTES: Final = (
    Route(_FEW, page(show_few_documents), methods=["GET"], name="ConsoleFewDocuments"),
    Route(f"{_DOCUMENTS}/{{job}}", page(show_documents), methods=["GET"], name="ConsoleDocuments"),
)
