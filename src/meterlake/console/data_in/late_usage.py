"""The page of late usage: what came after the bills, what became of it, and who decides what."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from meterlake.console.bills.recalculation import recalculate
from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.lists import Column, ListFilter, Listing, show_list, status_filter
from meterlake.console.shell.page import Visit, page_routes
from meterlake.model.bills.late_usage import LateSourceKind, LateUsageStatus
from meterlake.model.configuration.organization import LateUsagePolicy

LATE: Final = "/console/data-in/late"
# What no bill has.
UNBILLED: Final = frozenset({"OPEN", "REPORTED", "FAILED"})
# Names that people choose for backfills are whole, long ids are not.
_ID_SHOWN: Final = 12
_DECISIONS: Final = {
    LateUsageStatus.OPEN: "not decided yet",
    LateUsageStatus.RECALCULATED: "on the bill, which was made again",
    LateUsageStatus.CARRIED: "on a later bill, as memos",
    LateUsageStatus.WAITING: "waits for the customer's next bill",
    LateUsageStatus.REPORTED: "on no bill",
    LateUsageStatus.UNCHANGED: "changes no amount",
    LateUsageStatus.FAILED: "could not be compared; tried again",
}
_POLICIES: Final = (
    (LateUsagePolicy.REPORT.value, "Report it: no bill changes"),
    (LateUsagePolicy.RECALCULATE.value, "Make the bill again, if it is not locked"),
    (LateUsagePolicy.CARRY_FORWARD.value, "Put the difference on the customer's next bill"),
)


async def _say_decisions(visit: Visit, rows: list[dict[str, Any]]) -> None:
    """Beside each row, what became of it in words, and what brought it."""
    del visit
    for each in rows:
        each["decision"] = each.get("reason") or _DECISIONS[LateUsageStatus(each["status"])]
        brought = {(source["kind"], source["id"]) for source in each["sources"]}
        # A link leads to one thing.
        if len(brought) == 1:
            [(kind, id_)] = brought
            if kind == LateSourceKind.BACKFILL:
                each["backfill"] = id_
        each["cause"] = ", ".join(dict.fromkeys(map(_cause, each["sources"])))


def _cause(source: Mapping[str, Any]) -> str:
    """What people know it by that brought late usage: a file, or a backfill and what it did."""
    if source["kind"] == LateSourceKind.BACKFILL:
        return f"backfill {source['id'][:_ID_SHOWN]}: {source['name']}"
    return str(source["name"])


_LISTING: Final = Listing(
    "Late usage",
    "/lateusage",
    (
        Column("Customer", "accountCode", link="/console/customers/{accountId}"),
        Column("Period", "period"),
        Column("Bill of", "billDate", "day", link="/console/bills/{billId}"),
        Column("Bill differs by", "difference", "money"),
        Column("Status", "status", "status"),
        Column("Where it is", "decision"),
        Column("What brought it", "cause", link="/console/backfills/{backfill}"),
        Column("Found", "dtFound", "instant", sort="dtFound"),
    ),
    empty=("No late usage", "Usage that comes after the bill of a closed period stands here."),
    filters=(
        ListFilter("period", "Period", type="month"),
        status_filter(LateUsageStatus),
    ),
    complete=_say_decisions,
)


async def list_late_usage(visit: Visit) -> Response:
    """One page of late usage, with what one can decide."""
    settings = await visit.api.find("/organizationconfig") or {}
    return await show_list(
        visit,
        _LISTING,
        "data_in/late_usage.html",
        unbilled=UNBILLED,
        policy=settings.get("lateUsage", LateUsagePolicy.REPORT.value),
        policies=_POLICIES,
    )


async def change_late_usage(visit: Visit) -> Response:
    """Make the bills of ticked rows again, or choose what is done with late usage from now on."""
    match visit.field("action"):
        case "recalculate":
            ids = list(dict.fromkeys(visit.form.get("bill", [])))
            if not ids:
                raise ApiRefusalError(400, "No bill was ticked. Tick those that you mean.")
            return await recalculate(visit, ids, LATE)
        case "policy":
            settings = await visit.api.get("/organizationconfig")
            chosen = visit.field("policy")
            await visit.api.send("PUT", "/organizationconfig", {**settings, "lateUsage": chosen})
            said = "You chose what is done with late usage, also with what is open now."
        case _:
            raise visit.unknown_action("late usage")
    return visit.go(visit.link(), said)


ROUTES: Final = (*page_routes(LATE, list_late_usage, change_late_usage, "ConsoleLateUsage"),)
