"""What one should know of bills before they are approved, or locked for ever."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from meterlake.console.shell.page import Visit, words
from meterlake.model.values.plurals import counted

_POINTS: Final = {
    "LateUsage": ("bill with usage that came late", "bills with usage that came late"),
    "OutdatedBill": ("bill that is out of date", "bills that are out of date"),
    "TotalJumped": ("bill far from what is usual", "bills far from what is usual"),
    "UnpricedUsage": ("bill with usage that has no price", "bills with usage that has no price"),
}
# The same of the one bill that a person looks at.
_OF_THIS: Final = {
    "LateUsage": "this bill has usage that came late",
    "OutdatedBill": "this bill is out of date",
    "TotalJumped": "this bill is far from what is usual",
    "UnpricedUsage": "this bill has usage that has no price",
}


class ApprovalCheck(NamedTuple):
    """What one knows of bills before they are approved or locked.

    Attributes:
        own: Why the person may not approve some of them, by their ids: another person is to do it.
        points: What is open about them: how much, in words, and the month whose page shows more.
        unnumbered: How many of them have no invoice number.
        next: What comes next for one of them at least: `approve`, else `lock`.
        outdated: Those that are not calculated from what their balances and commitments hold now.
    """

    own: dict[str, str]
    points: list[tuple[str, str]]
    unnumbered: int
    next: str
    outdated: list[Mapping[str, Any]]


async def check_approval(visit: Visit, rows: Sequence[Mapping[str, Any]]) -> ApprovalCheck:
    """Ask what the person should know before bills are approved or locked; locked ones stay."""
    open_ = [each for each in rows if not each.get("locked")]
    pending = {each["id"] for each in open_ if each["status"] == "PENDING"}
    next_ = "approve" if pending else "lock"
    outdated = [each for each in open_ if each.get("recalculationDue")]
    if not open_ or not visit.may("CheckBillApproval"):
        return ApprovalCheck({}, [], 0, next_, outdated)
    unnumbered = sum(not each.get("sequentialInvoiceNumber") for each in open_)
    asked = {"billIds": [each["id"] for each in open_]}
    found = await visit.api.send("POST", "/bills/approve/check", asked)
    refused = {each["billId"]: each["reason"] for each in found["refused"]}
    told = _of_this if len(rows) == 1 else _point_in_words
    points = [(told(each), each["month"]) for each in found.get("points", ())]
    own = {id_: reason for id_, reason in refused.items() if id_ in pending}
    return ApprovalCheck(own, points, unnumbered, next_, outdated)


def _point_in_words(point: Mapping[str, Any]) -> str:
    one, several = _POINTS.get(point["kind"], (words(point["kind"]), words(point["kind"])))
    return counted(int(point["count"]), one, several)


def _of_this(point: Mapping[str, Any]) -> str:
    return _OF_THIS.get(point["kind"]) or _point_in_words(point)


def message_in_words(message: str) -> str:
    """What the API says of an approval: its counts of open points in words, without the command."""
    told = re.sub(r" \(meterlake [^)]*\)", "", message)
    return re.sub(
        r"\b(\d+) ([A-Z][A-Za-z]+)",
        lambda found: _point_in_words({"count": found[1], "kind": found[2]}),
        told,
    )
