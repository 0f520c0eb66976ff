"""Requests with a key: the first one acts, the others wait for it and get what it was answered."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starlette.concurrency import run_in_threadpool

from meterlake.model.errors import MeterlakeError, NotAnswered
from meterlake.pipeline.access import idempotency
from meterlake.pipeline.access.idempotency import IdempotencyKey
from meterlake.stores import Stores

KEY_MAX: Final = 255
_WAIT_S: Final = 30.0
_ASK_AGAIN_S: Final = 0.1
T = TypeVar("T")


async def act_once(
    stores: Stores,
    key: IdempotencyKey,
    act: Callable[[], Awaitable[T]],
    kept: Callable[[T], str | None],
) -> T | str:
    """What a request is answered; what was kept of it if it came before.

    Args:
        stores: Where keys are known.
        key: The key with its request.
        act: Acts. After an error that says what is wrong, the key may be sent again.
        kept: What to keep of an answer; None if nothing was done.

    Raises:
        KeyReused: The key came with another request.
        NotAnswered: The first request has not ended in time, or was interrupted.
    """
    found = await _claim(stores, key)
    if found is not None:
        return found
    try:
        answer = await act()
    except MeterlakeError:
        await run_in_threadpool(idempotency.release, stores, key)
        raise
    text = kept(answer)
    if text is None:
        await run_in_threadpool(idempotency.release, stores, key)
    else:
        await run_in_threadpool(idempotency.keep, stores, key, text)
    return answer


async def _claim(stores: Stores, key: IdempotencyKey) -> str | None:
    loop = asyncio.get_running_loop()
    end = loop.time() + _WAIT_S
    while True:
        try:
            return await run_in_threadpool(idempotency.claim, stores, key)
        except NotAnswered:
            if loop.time() > end:
                raise
        await asyncio.sleep(_ASK_AGAIN_S)
