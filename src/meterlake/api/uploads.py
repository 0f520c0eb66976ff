"""Uploads over HTTP: announcing a file, taking it in through its signed URL, and its job."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from meterlake.api.entities import ordered_page
from meterlake.api.server import downloads
from meterlake.api.server.answers import failure, message
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.ingest import receiving, uploads
from meterlake.pipeline.ingest.receiving import Receiving
from meterlake.stores import Stores
from meterlake.stores.files.incoming import PATH
from meterlake.stores.state.ingest.uploads import Created

_PAGE_MAX: Final = 100
_KIND: Final = "upload job"
_JOBS: Final = f"{ORGANIZATION}/fileuploads/measurements/jobs"
# Written and hashed at once, outside the thread that serves everybody.
_BLOCK: Final = 1 << 20
# A client that says nothing for so long is gone.
_SILENCE_S: Final = 60
# Of a body that is refused so much is read, so that its sender comes to hear why.
_DRAINED_MAX: Final = 1 << 20
_DRAIN_S: Final = 5


async def generate_url(call: Call) -> Any:
    """Make a job for a file, and the URL that takes the file."""
    document = await call.document()
    base = downloads.base_url(call)
    return await call.run(uploads.announce, call.organization, call.author, document, base)


async def list_jobs(call: Call) -> Any:
    """One page of jobs."""
    query = call.query
    created = Created(query.instant("dateCreatedStart"), query.instant("dateCreatedEnd"))
    this = ordered_page(call, _PAGE_MAX, "dtCreated")
    return await call.run(uploads.list_jobs, call.organization, created, this)


async def get_job(call: Call) -> Any:
    """One job."""
    id_ = member(call, _KIND)
    return await call.run(uploads.get_job, call.organization, id_)


async def get_original(call: Call) -> Any:
    """A link to the file of a job."""
    id_ = member(call, _KIND)
    download = await call.run(uploads.original, call.organization, id_)
    url = await downloads.link(call, download, call.stores.settings.download_seconds)
    return {"jobId": id_, "url": url, "headers": {}}


async def put_file(request: Request) -> Response:
    """Take in a file; its signed URL is all that its sender needs."""
    stores: Stores = request.app.state.services.stores
    try:
        token, headers = request.path_params["token"], dict(request.headers)
        with ExitStack() as stack:
            coming = receiving.receiving(stores, token, headers)
            found: Receiving = await run_in_threadpool(stack.enter_context, coming)
            async for block in _blocks(request):
                await run_in_threadpool(found.write, block)
            await run_in_threadpool(found.finish)
        return Response(status_code=HTTPStatus.OK)
    except ClientDisconnect:
        return message(HTTPStatus.BAD_REQUEST, "the file broke off")  # Nobody hears it.
    except TimeoutError:
        return message(HTTPStatus.REQUEST_TIMEOUT, f"nothing came for {_SILENCE_S} s")
    except MeterlakeError as error:
        await _drain(request)
        return failure(error)


async def _blocks(request: Request) -> AsyncIterator[bytes]:
    """The body in blocks that are worth a write.

    Raises:
        ClientDisconnect: It broke off.
        TimeoutError: Nothing came for too long.
    """
    buffered = bytearray()
    stream = aiter(request.stream())
    while True:
        async with asyncio.timeout(_SILENCE_S):
            chunk = await anext(stream, None)
        if chunk is None:
            break
        buffered += chunk
        if len(buffered) >= _BLOCK:
            yield bytes(buffered)
            buffered.clear()
    yield bytes(buffered)


async def _drain(request: Request) -> None:
    with suppress(ClientDisconnect, TimeoutError, RuntimeError):
        async with asyncio.timeout(_DRAIN_S):
            left = _DRAINED_MAX
            async for chunk in request.stream():
                left -= len(chunk)
                if left < 0:
                    return


def _operation(name: str, method: str, path: str, handler: Handler) -> Operation:
    return Operation(name, method, path, "measurements:fileupload", "measurements", handler)


OPERATIONS: Final = (
    _operation(
        "GenerateUploadUrl",
        "POST",
        f"{ORGANIZATION}/fileuploads/measurements/generateUploadUrl",
        generate_url,
    ),
    _operation("ListJobs", "GET", _JOBS, list_jobs),
    _operation("GetUploadJobResponse", "GET", f"{_JOBS}/{{id}}", get_job),
    replace(
        _operation(
            "GetJobOriginalFileDownloadUrl", "GET", f"{_JOBS}/{{id}}/original", get_original
        ),
        reads="measurements:retrieve",
    ),
)

ROUTES: Final = (Route(f"{PATH}/{{token:path}}", put_file, methods=["PUT"], name="PutUploadFile"),)
