"""Bills calculated again: what else that touches, before it; and what it changed, after it."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.shell.page import Visit, page
from meterlake.model.values.plurals import counted

_CALCULATIONS: Final = "/console/bills/recalculations"
# The API takes so many bills at once.
CALCULATED_MAX: Final = 100
_RUNNING: Final = frozenset({"PENDING", "INITIALIZING", "RUNNING"})


class Touched(NamedTuple):
    """The other bills that a calculation has to do with.

    Attributes:
        calculated: Those that may change with it.
        locked: Those that would, and are locked.
        family: Those of parents and children, which stay as they are.
    """

    calculated: list[dict[str, Any]]
    locked: list[dict[str, Any]]
    family: list[dict[str, Any]]


async def check_recalculation(visit: Visit, ids: Sequence[str]) -> Touched:
    """Ask which other bills a calculation of some bills touches; of too many, nobody asks."""
    found: list[dict[str, Any]] = []
    may = visit.may("RecalculateBillJob", "CheckBillRecalculation")
    if may and 0 < len(ids) <= CALCULATED_MAX:
        answer = await visit.api.send("POST", "/billjobs/recalculate/check", {"billIds": ids})
        found = answer["data"]
    draws = [each for each in found if each["relation"] == "DRAWS_AFTER"]
    return Touched(
        calculated=[each for each in draws if each["recalculated"]],
        locked=[each for each in draws if not each["recalculated"]],
        family=[each for each in found if each["relation"] == "SAME_FAMILY"],
    )


async def recalculate(visit: Visit, ids: Sequence[str], back: str) -> Response:
    """Have the worker calculate bills again, and lead on to the page that says what it changed.

    Args:
        visit: What was sent.
        ids: The bills.
        back: Where one goes who may not read jobs.
    """
    job = await visit.api.send("POST", "/billjobs/recalculate", {"billIds": ids})
    what = "the bill" if len(ids) == 1 else counted(len(ids), "bill")
    if not visit.may("GetBillJob", "ListChangedBills"):
        return visit.go(
            back, f"The worker calculates {what} again. Load this page again to see it."
        )
    said = f"The worker calculates {what} again. This page shows what changes."
    return visit.go(f"{_CALCULATIONS}/{job['id']}", said)


async def show_recalculation(visit: Visit) -> Response:
    """How far a calculation of chosen bills is, and which bills it changed."""
    id_ = visit.request.path_params["job"]
    job = await visit.api.get(f"/billjobs/{id_}")
    running = job["status"] in _RUNNING
    changed = [] if running else (await visit.api.get(f"/billjobs/{id_}/changedbills"))["data"]
    await visit.people()
    return visit.page(
        "bills/recalculation.html",
        job=job,
        running=running,
        chosen=[each for each in changed if each["chosen"]],
        others=[each for each in changed if not each["chosen"]],
    )


ROUTES: Final = (
    Route(
        f"{_CALCULATIONS}/{{job}}",
        page(show_recalculation),
        methods=["GET"],
        name="ConsoleRecalculation",
    ),
)
