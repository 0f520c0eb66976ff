"""Files behind signed links: `GET /downloads/{token}` needs no other token; who makes the links."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from meterlake.api.server.answers import failure
from meterlake.api.server.call import ORGANIZATION, Call, Operation
from meterlake.model.errors import MeterlakeError, NotFound, Required
from meterlake.pipeline.export.delivered import delivered_blocks
from meterlake.pipeline.ingest.reporting import failed_ingest_file
from meterlake.stores import Stores
from meterlake.stores.downloads import PATH, Download

_BLOCK: Final = 1 << 18
_HEADERS: Final = {
    # Whoever has the link has the file: it is neither kept nor handed on.
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}

_OF_PAGES: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox"
)


async def link(call: Call, download: Download, lifetime_s: float) -> str:
    """The whole URL of a link, where whoever asks reaches this server."""
    return base_url(call) + await call.run(call.stores.downloads.path, download, lifetime_s)


def base_url(call: Call) -> str:
    """Where whoever asks reaches this server: as the settings say, or as the request came."""
    return call.stores.settings.public_url or str(call.request.base_url).rstrip("/")


async def failed_ingest_url(call: Call) -> Any:
    """A link to the file of what was wrong with a source; the event names the file."""
    file = call.query.text("file")
    if file is None:
        raise Required("file")
    download = await call.run(failed_ingest_file, call.organization, file)
    return {"url": await link(call, download, call.stores.settings.download_seconds)}


async def _download(request: Request) -> Response:
    stores: Stores = request.app.state.services.stores
    try:
        token = request.path_params["token"]
        return await run_in_threadpool(lambda: file_response(stores, stores.downloads.open(token)))
    except MeterlakeError as error:
        return failure(error)


def file_response(stores: Stores, download: Download) -> Response:
    """A file as an answer.

    Raises:
        NotFound: It is gone.
        Conflict: It belongs to an export, and the server does not keep it any more.
        Unavailable: The store that it is in failed.
    """
    headers = {**_HEADERS, "Content-Disposition": _disposition(download.name)}
    if download.export:
        org_id, job_id, place = download.export.split("/", 2)
        blocks = delivered_blocks(stores.organization(org_id), job_id, place, download.name)
        return StreamingResponse(blocks, headers=headers, media_type=download.media_type)
    try:
        info = stores.objects.head(download.key)
        content = _blocks(stores.objects.open(download.key))
    except NotFound:  # It names the store's own path.
        raise NotFound("file", download.name, " any more; have it made again") from None
    headers["Content-Length"] = str(info.size_bytes)
    return StreamingResponse(content, headers=headers, media_type=download.media_type)


def content_response(name: str, media_type: str, data: bytes) -> Response:
    """What was made for this answer alone; a page may show itself, and do nothing else."""
    policy = {"Content-Security-Policy": _OF_PAGES} if media_type == "text/html" else {}
    headers = {**_HEADERS, **policy, "Content-Disposition": _disposition(name)}
    return Response(data, headers=headers, media_type=media_type)


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    with closing(stream):
        while block := stream.read(_BLOCK):
            yield block


def _disposition(name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


OPERATIONS: Final = (
    Operation(
        "GetValidationErrorDownloadUrl",
        "GET",
        f"{ORGANIZATION}/measurements/failedIngest/getDownloadUrl",
        "measurements:retrieve",
        "measurements",
        failed_ingest_url,
    ),
)
ROUTES: Final = (Route(f"{PATH}/{{token:path}}", _download, methods=["GET"], name="GetDownload"),)
