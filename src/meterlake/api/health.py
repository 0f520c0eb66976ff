"""Whether the server can answer."""

import asyncio
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from meterlake.model.errors import MeterlakeError
from meterlake.stores import Stores

_ANSWER_S: Final = 5


async def readiness(request: Request) -> tuple[int, str]:
    """200 and `ready`, or 503 and why not."""
    stores: Stores = request.app.state.services.stores
    try:
        await asyncio.wait_for(run_in_threadpool(stores.state.organizations), timeout=_ANSWER_S)
    except (MeterlakeError, TimeoutError) as error:
        return 503, f"not ready: {error or 'the State database does not answer'}"
    return 200, "ready"
