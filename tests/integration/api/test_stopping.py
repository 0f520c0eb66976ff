"""A request that the server cannot wait for when it stops: its caller is told to come again."""

import asyncio
import json

import pytest

from meterlake.api.server.dispatch import Dispatcher


class Waiting(Dispatcher):
    """An application whose answers take for ever."""

    async def _answer(self, request):  # noqa: ARG002
        self.begun.set()
        await asyncio.Event().wait()


async def stopped():
    sent = []
    application = Waiting(None, None)
    application.begun = asyncio.Event()

    async def send(message):
        sent.append(message)

    task = asyncio.create_task(application({"type": "http", "headers": []}, None, send))
    await application.begun.wait()
    task.cancel("timeout graceful shutdown exceeded")
    await task
    return sent


@pytest.mark.long
def test_its_caller_is_told_that_the_server_stops():
    start, body = asyncio.run(stopped())

    assert start["status"] == 503
    assert json.loads(body["body"])["message"] == "the server is stopping; try again"
