"""What waits for the person who looks: bills to approve, a month to review, backfills, failed runs."""

import asyncio
from datetime import timedelta
from typing import Any, Final, NamedTuple

from meterlake.console.shell.api import rows_of
from meterlake.console.shell.lists import start_of_day
from meterlake.console.shell.page import Visit, month_name
from meterlake.model.values.period import Month
from meterlake.model.values.plurals import counted

_COUNTED_MAX: Final = 100
# Failures that are older wait for nobody any more.
_FAILED_DAYS: Final = timedelta(days=7)


class Waiting(NamedTuple):
    """Something that waits for a person, and where it is done."""

    text: str
    target: str


async def find_waiting(
    visit: Visit, month: Month, closing: dict[str, Any], to_approve: int, for_others: int = 0
) -> list[Waiting]:
    """What waits for the person, as far as they may do something about it.

    Args:
        visit: Of the person.
        month: The last one that is over.
        closing: Of the month.
        to_approve: How many bills of the month they may approve.
        for_others: How many more of them another person has to approve.
    """
    since = start_of_day(visit, (visit.today - _FAILED_DAYS).isoformat())
    staged, failed, proposed, approved = await asyncio.gather(
        _count(visit, "ApplyBackfill", "/backfills", status="STAGED"),
        _count(visit, "RetryRun", "/runs", status="FAILED", dateCreatedStart=since),
        _count(visit, "ApproveChangeProposal", "/changeproposals", status="PROPOSED"),
        _count(visit, "ApplyChangeProposal", "/changeproposals", status="APPROVED"),
    )
    name = month_name(month)
    found = []
    # What the worker does now waits for nobody.
    is_free = not closing.get("pending")
    if is_free and closing.get("review") and visit.may("ApproveClosing"):
        found.append(Waiting(f"{name} to review", "#closing"))
    if is_free and to_approve and visit.may("ApproveBills"):
        what = f"{counted(to_approve, 'bill')} of {name} to approve"
        if for_others:
            what += f", {counted(for_others, 'more needs', 'more need')} another person"
        found.append(Waiting(what, f"/console/bills/selection?month={month}&status=PENDING"))
    if staged:
        text = f"{counted(staged, 'staged backfill')} to apply or to drop"
        found.append(Waiting(text, "/console/backfills?status=STAGED"))
    for count, status, what in ((proposed, "PROPOSED", "review"), (approved, "APPROVED", "apply")):
        if count:
            text = f"{counted(count, 'proposed change')} to {what}"
            found.append(Waiting(text, f"/console/catalogue/proposals?status={status}"))
    if failed:
        text = f"{counted(failed, 'run')} that failed in the last seven days"
        found.append(Waiting(text, "/console/runs?status=FAILED"))
    return found


async def _count(visit: Visit, operation: str, path: str, **query: Any) -> int:
    """How many rows a list has, up to a page of them; none of what the person may do nothing about."""
    if not visit.may(operation):
        return 0
    return len(rows_of(await visit.api.find(path, pageSize=_COUNTED_MAX, **query)))
