"""The first page of an organization that has nothing yet: from there to a first bill."""

import asyncio
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.page import Visit, page

START: Final = "/console/start"
MONTHS: Final = "/console/months"


async def show_start(visit: Visit) -> Response:
    """The steps to a first bill, and which of them are done."""
    has = dict(
        zip(
            ("meters", "plans", "customers", "bills"),
            await asyncio.gather(
                *(_has_any(visit, path) for path in ("/meters", "/plans", "/accounts", "/bills"))
            ),
            strict=True,
        )
    )
    return visit.page("start.html", has=has)


async def _has_any(visit: Visit, path: str) -> bool:
    found = await visit.api.find(path, pageSize=1)
    return bool(found and found["data"])


async def load_sample(visit: Visit) -> Response:
    """Load the sample, and lead on to its month."""
    loaded = await visit.api.send("POST", "/sample")
    return visit.go(
        f"{MONTHS}/{loaded['month']}",
        f"The sample is loaded: {loaded['entities']} things of its catalog, prices and customers."
        f" The worker brings in {loaded['files']} files now; then you make the bills here.",
    )


ROUTES: Final = (
    Route(START, page(show_start), methods=["GET"], name="ConsoleStart"),
    Route(START, page(load_sample, show_start), methods=["POST"], name="ConsoleStartSample"),
)
