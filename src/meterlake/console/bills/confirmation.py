"""What nobody can undo, or what looks wrong, is asked for once more, with a second button."""

import asyncio
from typing import Final, NamedTuple

from starlette.responses import Response

from meterlake.console.bills.approval_check import check_approval
from meterlake.console.shell.page import Visit
from meterlake.model.values.plurals import counted

# What the second button sends beside what was sent before.
_SURE: Final = "sure"
# Bills that the page names; the rest is counted.
_NAMED_MAX: Final = 100


class Confirmation(NamedTuple):
    """What one is asked before something happens for ever.

    Attributes:
        operation: What it takes; the API itself refuses who may not.
        verb: What happens to the bills, as title and button begin.
        end: How the title ends.
        explained: What it means.
        only_outdated: Whether nobody is asked unless one of the bills is out of date.
    """

    operation: str
    verb: str
    end: str
    explained: str
    only_outdated: bool = False


_QUESTIONS: Final = {
    "approve": Confirmation(
        "ApproveBills",
        "Approve",
        "",
        "The bills are approved with the amounts that stand here. To have those that are out of date"
        " calculated again first, go back. You can take an approval back until a bill is locked.",
        only_outdated=True,
    ),
    "lock": Confirmation(
        "LockBill",
        "Lock",
        " for ever",
        "A locked bill never changes again; nobody can undo this. What turns out to be wrong later"
        " goes on a later bill of the customer, as a credit or a charge.",
    ),
    "delete": Confirmation(
        "DeleteBill",
        "Delete",
        "",
        "The lines that people put on the bill go with it, and its invoice number is not given again."
        " What it drew from balances and commitments goes back to them. Nobody can undo this: the"
        " next run of its month makes the bill again, with a new id.",
    ),
    "send": Confirmation(
        "SendBill",
        "Send",
        " by e-mail",
        "The PDF of each bill goes to its customer. A letter that is sent cannot be called back.",
    ),
}


async def ask_first(visit: Visit, search: str, back: str) -> Response | None:
    """The page that asks once more; None if the action needs none, or the person said yes to it.

    An approval needs it where bills are out of date: locked, they would be wrong for ever.

    Args:
        visit: What was sent.
        search: Finds the bills that it is about.
        back: Where one goes who changes their mind.
    """
    question = _QUESTIONS.get(visit.field("action"))
    if question is None or not visit.may(question.operation) or visit.field(_SURE) == "yes":
        return None
    if question.only_outdated and not await _are_outdated(visit, search):
        return None
    rows, totals = await asyncio.gather(
        visit.api.get(
            "/bills/search",
            searchQuery=search,
            sortBy="billTotal",
            sortOrder="DESC",
            excludeLineItems=True,
            pageSize=_NAMED_MAX,
        ),
        visit.api.get("/bills/totals", searchQuery=search),
    )
    check = None
    if visit.field("action") in {"approve", "lock"}:
        every = await visit.api.every("/bills/search", searchQuery=search, excludeLineItems=True)
        check = await check_approval(visit, every)
    count = sum(int(each["bills"]) for each in totals["data"])
    what = f"{question.verb} {counted(count, 'bill')}{question.end}"
    return visit.page(
        "bills/confirm.html",
        what=what,
        explained=question.explained,
        is_danger=visit.field("action") in {"lock", "delete"},
        to=visit.field("to"),
        rows=rows["data"],
        check=check,
        totals=totals["data"],
        more=count - len(rows["data"]),
        sent={**visit.form, _SURE: ["yes"]},
        back=back,
    )


async def _are_outdated(visit: Visit, search: str) -> bool:
    """Whether bills are among some that are not calculated from what holds now."""
    found = await visit.api.get(
        "/bills/search", searchQuery=f"{search}$recalculationDue:true", excludeLineItems=True
    )
    return bool(found["data"])
