"""The Data Explorer over HTTP: usage by question, once or saved."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from starlette.requests import Request

from meterlake.api.billing.documents import member
from meterlake.api.server.answers import JsonResponse
from meterlake.api.server.call import Call
from meterlake.api.server.operations import ORGANIZATION, Operation
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.values.problems import read
from meterlake.pipeline.explorer.explore import Stop, explore, explore_saved

T = TypeVar("T")


async def query_usage(call: Call) -> JsonResponse:
    """Rows of usage, folded or as they were sent."""
    query = read(UsageQueryRequest, await call.document())
    return await ended_with_request(
        call, lambda stop: JsonResponse(explore(call.stores, call.org_id, query, stop).to_json())
    )


async def query_saved(call: Call) -> JsonResponse:
    """The rows that a saved query means now."""
    id_ = member(call, "UsageSavedQuery")
    return await ended_with_request(
        call,
        lambda stop: JsonResponse(explore_saved(call.stores, call.org_id, id_, stop).to_json()),
    )


async def ended_with_request(call: Call, work: Callable[[Stop], T]) -> T:
    """Run something long until it is done, takes too long, or nobody waits for its answer."""
    stop, seconds = Stop(), call.stores.settings.explorer_seconds
    working = asyncio.ensure_future(call.run(work, stop))
    leaving = asyncio.ensure_future(_wait_for_disconnect(call.request))
    try:
        done, _ = await asyncio.wait(
            {working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if leaving in done:
            stop("nobody waits for the answer any more")
        elif working not in done:
            stop(f"it takes longer than {seconds:g} s; ask for less at once")
        return await working
    finally:
        leaving.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until whoever asks hangs up; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


OPERATIONS: Final = (
    Operation(
        "PostUsageDataQuery",
        "POST",
        f"{ORGANIZATION}/usage/query",
        "analytics:query",
        "usage",
        query_usage,
        limit="query",
    ),
    # Of our own.
    Operation(
        "QueryUsageSavedQuery",
        "POST",
        f"{ORGANIZATION}/usage/savedqueries/{{id}}/query",
        "analytics:query",
        "usage",
        query_saved,
        item="",
        limit="query",
    ),
)
