"""The application with the console beside both APIs; what a server process runs."""

from decimal import Decimal
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from meterlake.api.app import Application, create_app
from meterlake.api.server.oauth import CALLBACK, SIGNED_OUT
from meterlake.console import month, revenue, runs, search, settings, usage
from meterlake.console.access import access
from meterlake.console.bills import bill, bill_lines, bills, documents, email_text, recalculation
from meterlake.console.catalogue import catalogue
from meterlake.console.customers import customers
from meterlake.console.data_in import backfills, data_in
from meterlake.console.data_out import data_out, integrations
from meterlake.console.shell.charts import bar_chart
from meterlake.console.shell.lists import Column, ListFilter, Listing
from meterlake.console.shell.page import Visit, locale_of, page, plain_page
from meterlake.console.shell.session import end_session, end_sign_in
from meterlake.console.shell.static_files import PLACE, VersionedFiles
from meterlake.console.start import first_file, start
from meterlake.model.values.log_lines import redact_logs
from meterlake.settings import Settings
from meterlake.stores.processes import end_with_supervisor


async def _signed_out(_: Request) -> Response:
    return plain_page("signed_out.html")


async def _sign_out(visit: Visit) -> Response:
    return end_session(visit.request)


async def _home(visit: Visit) -> Response:
    """The month that is billed now, or the way to a first bill where nothing is measured yet.

    Whoever may not see months begins in the first room that is open.
    """
    rooms = visit.rooms()
    if rooms and not visit.may("GetClosing"):
        return visit.go(rooms[0].path, visit.session.said)
    meters = await visit.api.find("/meters", pageSize=1)
    if meters is not None and not meters["data"]:
        return visit.go(start.START, visit.session.said)
    return await month.current_month(visit)


async def _components(visit: Visit) -> Response:
    days = [f"{day} Oct" for day in range(1, 32)]
    groups = {
        name: [Decimal(each * (day % 7 + 1)) for day in range(31)]
        for name, each in (("eu", 12), ("us", 7), ("Credits", -2))
    }
    return visit.page(
        "components.html",
        listing=_EXAMPLE,
        rows=[{"code": "acme", "month": "2026-10-31", "total": "1234.50", "currency": "EUR"}],
        chart=bar_chart("Usage by day", days, groups, locale_of(visit.request), "GB"),
    )


_EXAMPLE: Final = Listing(
    "Example",
    "",
    (
        Column("Code", "code", "code"),
        Column("Day", "month", "day"),
        Column("Total", "total", "money"),
    ),
    empty=("Nothing here yet", "A sentence that says what comes here, and how you bring it."),
    filters=(ListFilter("status", "Status", (("A", "First"), ("B", "Second"))),),
)


async def _nothing(visit: Visit) -> Response:
    return visit.page("nothing.html", 404)


ROUTES: Final = (
    Route(CALLBACK, end_sign_in, methods=["GET"], name="ConsoleCallback"),
    Route(SIGNED_OUT, _signed_out, methods=["GET"], name="ConsoleSignedOut"),
    Route("/console/sign-out", page(_sign_out), methods=["POST"], name="ConsoleSignOut"),
    Route("/console/components", page(_components), methods=["GET"], name="ConsoleComponents"),
    Mount(PLACE, VersionedFiles()),
    Route("/console", page(_home), methods=["GET"], name="ConsoleHome"),
    *month.ROUTES,
    *start.ROUTES,
    *first_file.ROUTES,
    *bills.ROUTES,
    *bill.ROUTES,
    *bill_lines.ROUTES,
    *recalculation.ROUTES,
    *documents.ROUTES,
    *email_text.ROUTES,
    *customers.ROUTES,
    *catalogue.ROUTES,
    *usage.ROUTES,
    *revenue.ROUTES,
    *data_out.ROUTES,
    *integrations.ROUTES,
    *runs.ROUTES,
    *search.ROUTES,
    *settings.ROUTES,
    *access.ROUTES,
    *data_in.ROUTES,
    *backfills.ROUTES,
    Route("/console/{rest:path}", page(_nothing), methods=["GET"], name="ConsoleNothing"),
)


def app() -> Application:
    """The application of the home that METERLAKE_HOME names; what `uvicorn --factory` calls."""
    end_with_supervisor()
    redact_logs()
    return create_app(Settings(), ROUTES)
