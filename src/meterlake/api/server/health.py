"""Whether the server can answer."""

import asyncio
from typing import Final

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import Request

from meterlake.model.errors import MeterlakeError
from meterlake.stores import Stores

_ANSWER_S: Final = 5


async def readiness(request: Request) -> tuple[int, str]:
    """200 and `ready`, or 503 and why not."""
    state = request.app.state
    asked: asyncio.Task[None] | None = getattr(state, "probe", None)
    if asked is None or asked.done():
        # All who ask meanwhile share the answer: a State that hangs is not asked again and again.
        state.probe = asked = asyncio.create_task(_ask(state.services.stores))
    try:
        await asyncio.wait_for(asyncio.shield(asked), timeout=_ANSWER_S)
    except (MeterlakeError, TimeoutError) as error:
        return 503, f"not ready: {error or 'the State database does not answer'}"
    return 200, "ready"


async def _ask(stores: Stores) -> None:
    # On a thread of its own: those that all requests share may be taken.
    await anyio.to_thread.run_sync(stores.state.organizations, limiter=CapacityLimiter(1))
