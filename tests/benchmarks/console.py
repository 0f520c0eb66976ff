"""What pages of the console cost beside the calls of the API that they make.

    PYTHONPATH=src:. python tests/benchmarks/console.py --home FOLDER   # made if it is not there
    PYTHONPATH=src:. python tests/benchmarks/console.py --small         # a quick look
    PYTHONPATH=src:. python tests/benchmarks/console.py --lists         # lists of 100,000 accounts only
    PYTHONPATH=src:. python tests/benchmarks/console.py --home FOLDER --rooms --json console.json

With `--rooms` the first page of each room of the navigation is measured alone, of the large organization
and of some small ones, as the clock has it: the median, the 95th percentile and the largest.
With `--lists` the home has the accounts alone, each with a name of its own and without a bill.

The home has 1,000 organizations. One of them has 100,000 accounts, each with ten priced sums of a meter
and with 100 measurements of September, which are billed; the others are small and quiet.
All is within this process, without a network: the clock and the CPU time of all threads. A page is
opened once, then `--repeat` times; the calls that it made are then sent one after the other, as often.
Of both the least counts, since nothing makes work less than it is. `first` is the first time, with
all that is still unknown to the process, and `clock` the median, with all that the machine does beside it.
"""

import argparse
import asyncio
import json
import re
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from uuid import uuid4

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meterlake.api.app import create_app
from meterlake.console.app import ROUTES
from meterlake.console.shell.navigation import ROOMS
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.benchmarks import bills
from tests.console_world import CONSOLE, Browser, shape_of
from tests.many_organizations import make_many
from tests.people import PASSWORD, allow, join, policy

ADDRESS: Final = "http://127.0.0.1:8000"
NAME: Final = "Benchmark"
# The goals: of the design of the console.
RATIO_MAX, P95_MAX_MS, FIRST_PAGE_MAX, LIST_MAX_MS = 1.5, 300, 200_000, 100
DOCUMENTS: Final = 40


def make_home(home: Path, accounts: int, each: int, organizations: int) -> None:
    """A home of one large organization whose month is billed, and of small ones."""
    bills.make_home(home, accounts, each)
    with open_stores(Settings(home=home)) as stores:
        assert bill(stores.find_organization(), bills.MONTH).failures == []
    if organizations > 1:
        make_many(Settings(home=home), organizations - 1)


def make_accounts(home: Path, accounts: int) -> None:
    """A home of accounts with names, addresses and purchase orders in an order of their own."""
    bills.make_home(home, accounts, 1)
    # In no order, and always the same.
    number = "CAST(substr(code, 9) AS INTEGER) * 7919 % 1000003"
    with sqlite3.connect(home / "state.sqlite") as connection:
        connection.execute(
            f"""UPDATE entity SET body = json_set(body, '$.name', 'Customer ' || ({number}),
                '$.emailAddress', 'bills@' || ({number}) || '.example',
                '$.purchaseOrderNumber', 'PO ' || ({number})) WHERE kind = 'Account'"""
        )


# ---- what is measured -------------------------------------------------------------------------


class Spent(NamedTuple):
    """Seconds of the clock, and of the processor by all threads."""

    clock: float
    cpu: float


class Calls:
    """Wraps the operations of the API, and keeps what they are asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.made: list[httpx.Request] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Keep a call and pass it on."""
        content, more = b"", True
        while more:
            message = await receive()
            content, more = content + message.get("body", b""), message.get("more_body", False)
        query = scope["query_string"].decode()
        url = f"{ADDRESS}{scope['raw_path'].decode()}{'?' if query else ''}{query}"
        self.made.append(
            httpx.Request(scope["method"], url, headers=scope["headers"], content=content)
        )
        waiting: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, again, send)

    def take(self) -> list[httpx.Request]:
        """What was asked since the last time."""
        made, self.made = self.made, []
        return made


class Console:
    """The console of a home, with somebody in front of it who may do all."""

    def __init__(self, client: httpx.AsyncClient, calls: Calls, org_id: str) -> None:
        self.client = client
        self.calls = calls
        self.org_id = org_id

    async def sign_in(self, email: str) -> None:
        """Go through the sign-in."""
        # Only its reader of forms: nothing is sent with it.
        reader = Browser(httpx.Client())
        reader.page = await self.client.get(f"{CONSOLE}/customers")
        form = {**reader.hidden(), "email": email, "password": PASSWORD}
        answer = await self.client.post("/oauth/authorize", data=form)
        assert answer.url.path.startswith(CONSOLE), answer.url

    async def crawl(self, skip: list[str]) -> AsyncIterator[tuple[str, httpx.Response, Spent]]:
        """One page of each shape that a link leads to, opened for the first time.

        Args:
            skip: Words of addresses that are left out.
        """
        waiting, known = [f"{CONSOLE}/customers", CONSOLE], set[str]()
        reader = Browser(httpx.Client())
        while waiting:
            address = waiting.pop(0)
            # The first page leads on to that of the month.
            whole = f"{address}/months" if address == CONSOLE else address
            if shape_of(address) in known or any(each in whole for each in skip):
                continue
            known.add(shape_of(address))
            self.calls.take()
            reader.page, spent = await timed(lambda: self.client.get(address))  # noqa: B023
            if not reader.page.headers.get("content-type", "").startswith("text/html"):
                continue
            yield address, reader.page, spent
            waiting += reader.links()

    async def repeat(self, address: str, times: int) -> tuple[list[Spent], list[Spent]]:
        """A page so many times; and so often the sum of its calls, one after the other."""
        pages, sums = [], []
        for _ in range(times):
            self.calls.take()
            pages.append((await timed(lambda: self.client.get(address)))[1])
            calls = self.calls.take()
            sums.append((await timed(lambda: self.send(calls)))[1])  # noqa: B023
        return pages, sums

    async def send(self, calls: list[httpx.Request]) -> None:
        """Send calls of the API one after the other."""
        for each in calls:
            await self.client.send(each)


async def timed(work: Callable[[], Awaitable[Any]]) -> tuple[Any, Spent]:
    """What some work gives, and what it took."""
    clock, cpu = time.perf_counter(), time.process_time()
    found = await work()
    return found, Spent(time.perf_counter() - clock, time.process_time() - cpu)


@asynccontextmanager
async def console(home: Path, name: str = NAME) -> AsyncIterator[Console]:
    """The console of a home, with a person of an organization who is signed in."""
    settings = Settings(home=home, limit_explorer=False)
    with open_stores(settings) as stores:
        org_id = next(each.id for each in stores.state.organizations() if each.name == name)
        ids = [policy(stores.state, org_id, allow())]
        person = f"{uuid4()}@example.com"
        join(stores.state, org_id, person, permissionPolicyIds=ids)
    front = create_app(settings, ROUTES)
    async with front.rest.router.lifespan_context(front.rest):
        front.operations = calls = Calls(front.operations)
        transport = httpx.ASGITransport(front)
        async with httpx.AsyncClient(
            transport=transport, base_url=ADDRESS, follow_redirects=True
        ) as client:
            found = Console(client, calls, org_id)
            await found.sign_in(person)
            yield found


# ---- the tables -------------------------------------------------------------------------------


async def measure_pages(found: Console, repeat: int, skip: list[str]) -> None:
    """Print a line for each page, then the sums."""
    answers, above = list[Spent](), list[float]()
    print(
        "| page | first | clock | CPU | CPU of its calls | ratio | kB |\n|---|---|---|---|---|---|---|"
    )
    async for address, page, first in found.crawl(skip):
        assert page.status_code == httpx.codes.OK, (address, page.status_code)
        pages, sums = await found.repeat(address, repeat)
        answers += pages
        own, calls = (min(each.cpu for each in some) for some in (pages, sums))
        if own > RATIO_MAX * calls:
            above.append(own - calls)
        median = statistics.median(each.clock for each in pages)
        times = " | ".join(f"{1000 * each:.0f} ms" for each in (first.clock, median, own, calls))
        size = len(page.content) / 1000
        print(f"| {shape_of(address)} | {times} | {own / calls:.2f} | {size:.0f} |", flush=True)
    print(f"\n{len(above)} pages take more than {RATIO_MAX} times the CPU of their calls,", end=" ")
    print(f"at most {1000 * max(above, default=0):.0f} ms more")
    clock, cpu = (
        1000 * statistics.quantiles(each, n=20)[-1] for each in zip(*answers, strict=True)
    )
    print(
        f"p95 of {len(answers)} answers: {clock:.0f} ms by the clock (goal: {P95_MAX_MS} ms),",
        end=" ",
    )
    print(f"{cpu:.0f} ms of CPU")


class RoomTimes(NamedTuple):
    """The first page of a room, so many times, and the sums of its calls as often."""

    title: str
    pages: list[Spent]
    calls: list[Spent]
    kilobytes: int

    def to_json(self) -> dict[str, Any]:
        """Milliseconds: of the clock, and of the processor the least of the page and of its calls."""
        clock = sorted(1000 * each.clock for each in self.pages)
        page, calls = (1000 * min(each.cpu for each in some) for some in (self.pages, self.calls))
        return {
            "page": self.title,
            "p50": round(statistics.median(clock)),
            "p95": round(_p95(clock)),
            "max": round(clock[-1]),
            "cpu": round(page),
            "calls": round(calls),
            "kB": self.kilobytes,
        }


async def measure_rooms(
    home: Path, names: list[str], repeat: int, skip: list[str]
) -> list[dict[str, Any]]:
    """Print a line for each room of the navigation, of some organizations together."""
    found: dict[str, RoomTimes] = {}
    for name in names:
        async with console(home, name) as one:
            for room in ROOMS:
                if any(each in room.path for each in skip):
                    continue
                page = await one.client.get(room.path)
                assert page.status_code == httpx.codes.OK, (room.path, page.status_code)
                pages, calls = await one.repeat(room.path, repeat)
                size = round(len(page.content) / 1000)
                before = found.setdefault(room.path, RoomTimes(room.title, [], [], size))
                before.pages.extend(pages)
                before.calls.extend(calls)
    rows = [each.to_json() for each in found.values()]
    print("\n".join(["| page | p50 | p95 | max | CPU | CPU of its calls | kB |", "|---" * 7 + "|"]))
    print("\n".join(table(rows)), flush=True)
    answers = [each for room in found.values() for each in room.pages]
    clock, cpu = (_p95([1000 * each for each in some]) for some in zip(*answers, strict=True))
    print(f"p95 of {len(answers)} answers: {clock:.0f} ms by the clock, {cpu:.0f} ms of CPU\n")
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a table of what `measure_rooms` found."""
    times = ("p50", "p95", "max", "cpu", "calls")
    return [
        f"| {row['page']} | {' | '.join(f'{row[each]} ms' for each in times)} | {row['kB']} |"
        for row in rows
    ]


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if values[1:] else values[0]


async def measure_organizations(
    home: Path, few: int, repeat: int, skip: list[str]
) -> dict[str, Any]:
    """Measure the rooms of the large organization, and of some small ones together."""
    with open_stores(Settings(home=home)) as stores:
        others = [each.name for each in stores.state.organizations() if each.name != NAME]
    print(f"The large organization, each page {repeat} times:\n")
    large = await measure_rooms(home, [NAME], repeat, skip)
    step = max(1, len(others) // few)
    chosen = others[::step][:few]
    print(f"{len(chosen)} of the {len(others)} small ones, each page {repeat} times:\n")
    return {"large": large, "small": await measure_rooms(home, chosen, repeat, [])}


async def measure_first_page(found: Console) -> None:
    """Print what a browser that has nothing yet loads for the first page."""
    page = await found.client.get(CONSOLE)
    files = sorted(set(re.findall(r'(?:href|src)="(/[^"]*static/[^"]*)"', page.text)))
    sizes = [len((await found.client.get(each)).content) for each in files]
    size = len(page.content) + sum(sizes)
    print(
        f"first page with {len(files)} files: {size / 1000:.0f} kB (goal: {FIRST_PAGE_MAX / 1000:.0f} kB)"
    )


async def measure_lists(found: Console, repeat: int, deep: int) -> None:
    """Print what pages of the longest list take beside the call of the API."""
    path = f"/organizations/{found.org_id}/accounts"
    found.calls.take()
    await found.client.get(f"{CONSOLE}/customers")
    bearer = {"Authorization": found.calls.take()[-1].headers["Authorization"]}
    token = await _deep(found, path, bearer, deep, {})
    by_name = {"sort": "name", "order": "DESC"}
    deep_by_name = await _deep(found, path, bearer, deep, {"sortBy": "name", "sortOrder": "DESC"})
    pages = {
        "first": {},
        f"after {deep * 100:,} rows": {"page": token},
        "sorted by name": by_name,
        f"sorted by name, after {deep * 100:,} rows": {**by_name, "page": deep_by_name},
        "sorted by currency": {"sort": "currency", "order": "ASC"},
        "narrowed to a few": {"called": "customer 77777"},
        "narrowed to none": {"called": "nobody"},
        "narrowed to all, sorted by name": {"called": "c", **by_name},
    }
    print("| customers | page, CPU | its calls, CPU | more |\n|---|---|---|---|")
    for name, query in pages.items():
        kept = {key: value for key, value in query.items() if value}
        shown, calls = await found.repeat(f"{CONSOLE}/customers?{urlencode(kept)}", repeat)
        _print_list(name, shown, calls)
    for name, text in (("few", "customer 77777"), ("nothing", "nobody"), ("all", "c")):
        shown, calls = await found.repeat(f"{CONSOLE}/search?{urlencode({'q': text})}", repeat)
        _print_list(f"search in the head that finds {name}", shown, calls)
    print(f"(goal: at most {LIST_MAX_MS} ms more)")


def _print_list(name: str, shown: list[Spent], calls: list[Spent]) -> None:
    own, called = (1000 * min(each.cpu for each in some) for some in (shown, calls))
    print(f"| {name} | {own:.0f} ms | {called:.0f} ms | {own - called:.0f} ms |", flush=True)


async def _deep(
    found: Console, path: str, bearer: dict[str, str], deep: int, order: dict[str, str]
) -> str | None:
    """The token of the page behind so many pages of the API."""
    token = None
    for _ in range(deep):
        query = {"pageSize": 100, **order, **({"nextToken": token} if token else {})}
        answer = (await found.client.get(path, params=query, headers=bearer)).json()
        token = answer.get("nextToken")
        if not token:
            break
    return token


async def measure_documents(found: Console) -> None:
    """Print what the documents of some bills as one PDF take, with the processes that make them."""
    path = f"/organizations/{found.org_id}/bills"
    found.calls.take()
    await found.client.get(f"{CONSOLE}/bills")
    headers = {"Authorization": found.calls.take()[-1].headers["Authorization"]}
    query = {"pageSize": DOCUMENTS, "excludeLineItems": "true"}
    rows = (await found.client.get(path, params=query, headers=headers)).json()["data"]
    body = {"billIds": [each["id"] for each in rows], "format": "pdf"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer, spent = await timed(
        lambda: found.client.post(f"{path}/download/documents", json=body, headers=headers)
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert answer.status_code == httpx.codes.OK, answer.text
    children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{len(rows)} bills as one PDF: {spent.clock:.1f} s by the clock, {spent.cpu:.1f} s of CPU"
        f" and {children:.1f} s of the typesetter's; {len(answer.content) / 1e6:.1f} MB"
    )


async def measure(
    home: Path, repeat: int, deep: int, skip: list[str], *, lists_only: bool = False
) -> None:
    """Print all, or of lists alone."""
    async with console(home) as found:
        if lists_only:
            await measure_lists(found, repeat, deep)
            return
        if "months" not in skip:
            await measure_first_page(found)
        await measure_lists(found, repeat, deep)
        await measure_documents(found)
        await measure_pages(found, repeat, skip)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--home", type=Path, help="made if it is not there, and kept")
    parser.add_argument("--small", action="store_true", help="20 accounts and 2 organizations")
    parser.add_argument("--lists", action="store_true", help="of 100,000 accounts, without bills")
    parser.add_argument("--rooms", action="store_true", help="first pages of rooms only")
    parser.add_argument("--few", type=int, default=5, help="and of so many small organizations")
    parser.add_argument("--json", type=Path, help="write what `--rooms` measured to a file")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--skip",
        nargs="*",
        default=[],
        help="leave out pages whose address has a word: `months` bills all accounts at the first look",
    )
    options = parser.parse_args()
    size, deep = ((20, 10, 2), 1) if options.small else ((100_000, 100, 1000), 500)
    with tempfile.TemporaryDirectory(prefix="meterlake-console-") as folder:
        home = (options.home or Path(folder, "home")).absolute()
        if not home.exists() and options.lists:
            make_accounts(home, size[0])
        elif not home.exists():
            make_home(home, *size)
        if options.rooms:
            rooms = measure_organizations(home, options.few, options.repeat, options.skip)
            told = json.dumps(asyncio.run(rooms), indent=1)
            if options.json:
                options.json.write_text(told + "\n")
            return
        asyncio.run(measure(home, options.repeat, deep, options.skip, lists_only=options.lists))


if __name__ == "__main__":
    main()
