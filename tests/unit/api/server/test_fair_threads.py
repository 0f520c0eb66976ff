"""Threads that organizations share: who asks for little waits for one turn, not for the others' queue."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count, pairwise
from typing import Any

import pytest

from meterlake.api.server.fair_threads import FairThreads
from meterlake.model.errors import TooMany

MANY = 80


class Work:
    """Work that lasts until it is let go, and the order in which it began."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: list[threading.Event] = []

    def __call__(self, name: str) -> str:
        gate = threading.Event()
        self.begun.append(name)
        self.gates.append(gate)
        assert gate.wait(180)
        return name


async def until(condition: Callable[[], bool]) -> None:
    """Let the others go on until something holds."""
    async with asyncio.timeout(180):
        while not condition():  # noqa: ASYNC110 - of what threads did
            await asyncio.sleep(0.001)


def played(story: Callable[[Work], Coroutine[Any, Any, None]]) -> None:
    """Play a story; whatever becomes of it, its threads end."""
    work = Work()

    async def whole() -> None:
        try:
            await story(work)
        finally:
            for gate in work.gates:
                gate.set()

    asyncio.run(whole())


def has_begun(work: Work, many: int) -> bool:
    return len(work.begun) >= many


def has_ended(tasks: list["asyncio.Task[str]"], many: int) -> bool:
    return sum(each.done() for each in tasks) >= many


def ask(threads: FairThreads, work: Work, name: str, number: int) -> list["asyncio.Task[str]"]:
    """So many requests at the same time."""
    return [asyncio.create_task(threads.run(name, work, name)) for _ in range(number)]


def test_who_asks_for_little_begins_at_once() -> None:
    async def story(work: Work) -> None:
        threads = FairThreads(3, MANY, "documents")
        greedy = ask(threads, work, "greedy", MANY)
        await until(lambda: len(work.begun) == 2)
        small = ask(threads, work, "small", 1)

        await until(lambda: len(work.begun) == 3)
        assert work.begun == ["greedy", "greedy", "small"]
        work.gates[2].set()
        assert await small[0] == "small"
        for each in greedy:
            each.cancel()

    played(story)


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_organizations_take_turns_whatever_the_queue_of_the_others(at_once: int) -> None:
    """Between two requests of the small one, the greedy one has at most the threads' number."""

    async def story(work: Work) -> None:
        threads = FairThreads(at_once, MANY, "documents")
        greedy = ask(threads, work, "greedy", MANY)
        await until(lambda: len(work.begun) == max(1, at_once - 1))
        small = ask(threads, work, "small", 5)
        for done in count():
            if all(each.done() for each in small):
                break
            # Whose thread is slow to begin has its turn all the same: nobody overtakes it.
            await until(partial(has_begun, work, done + at_once))
            work.gates[done].set()
            await until(partial(has_ended, [*greedy, *small], done + 1))

        places = [place for place, name in enumerate(work.begun) if name == "small"]
        steps = [after - before for before, after in pairwise(places)]
        assert max(steps) <= at_once + 1
        assert places[0] <= 2 * at_once
        for each in greedy:
            each.cancel()

    played(story)


def test_more_than_may_wait_are_refused_with_a_time_and_others_are_not() -> None:
    async def story(work: Work) -> None:
        threads = FairThreads(2, 3, "documents")
        greedy = ask(threads, work, "greedy", 10)
        await until(lambda: sum(each.done() for each in greedy) == 6)

        refused = [each.exception() for each in greedy if each.done()]
        assert all(isinstance(each, TooMany) and each.retry_after >= 1 for each in refused)
        assert "documents" in str(refused[0])
        small = ask(threads, work, "small", 1)
        await until(lambda: "small" in work.begun)
        work.gates[work.begun.index("small")].set()
        assert await small[0] == "small"
        for gate in work.gates:
            gate.set()
        await until(lambda: [gate.set() for gate in work.gates] and all(e.done() for e in greedy))
        assert work.begun.count("greedy") == 4

    played(story)


def test_who_gave_up_while_waiting_takes_no_thread() -> None:
    async def story(work: Work) -> None:
        threads = FairThreads(1, 3, "documents")
        first, second, third = ask(threads, work, "greedy", 3)
        await until(lambda: len(work.begun) == 1)
        second.cancel()
        await until(second.done)
        work.gates[0].set()

        await until(lambda: len(work.begun) == 2)
        work.gates[1].set()
        assert [await first, await third] == ["greedy", "greedy"]
        [fourth] = ask(threads, work, "greedy", 1)
        await until(lambda: len(work.begun) == 3)
        work.gates[2].set()
        assert await fourth == "greedy"

    played(story)


def test_an_error_gives_the_thread_back() -> None:
    async def story(work: Work) -> None:
        threads = FairThreads(1, 3, "documents")
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await threads.run("greedy", lambda: 1 / 0)
        [task] = ask(threads, work, "greedy", 1)
        await until(lambda: len(work.begun) == 1)
        work.gates[0].set()
        assert await task == "greedy"

    played(story)
