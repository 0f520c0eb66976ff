"""What is decided about a month over the API, and what must be the same whoever died on the way.

A month is reviewed and rejected, reviewed again and approved, opened again, reviewed and approved.
Each life goes on as somebody would who looks at the month, and at nothing else.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from meterlake.model.values.period import Month, zone
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.closing.close_month import OPERATIONS, Closing
from meterlake.pipeline.closing.closing_bills import reject_shown
from meterlake.pipeline.closing.closing_requests import (
    CLOSING_STEPS,
    ClosingAction,
    ClosingRequest,
    describe_closing,
    submit_closing,
)
from meterlake.pipeline.closing.reopening import reopen_month
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.worker.flow_runs import Executor
from tests.bills import price_egress, subscribe
from tests.homes import HEADER, Home, csv_row

ACCOUNTS = ("acme", "bolt")


def prepared(home: Home) -> None:
    """A home whose month of usage is over; exports need one in which the configuration was made."""
    now = datetime.now(UTC)
    month = Month(now.year, now.month)
    (home.stores.home / "month").write_text(str(month))
    home.clock.time = month.period(zone("UTC")).end
    price_egress(home)
    subscribe(home, *ACCOUNTS, start=f"{month}-01T00:00:00Z")
    home.ingest("a.csv", HEADER + csv_row("one", 40, "acme", ts=f"{month}-03T10:00:00Z"))


def decided(home: Home) -> dict[str, Any]:
    """Go on from wherever the one before was, and have the worker do what it is asked for."""
    month = _begin_life(home)
    executor = Executor(home.stores.settings)
    while _go_on(home, month):
        list(run_round(CLOSING_STEPS, executor, home.organization, lambda: False))
    found = describe_closing(home.organization, month)
    jobs = home.stores.state.jobs
    return {
        "status": found["status"],
        "steps": [each["step"] for each in found["steps"]],
        "bills": [[each["account"], str(each["total"]), each["status"]] for each in found["bills"]],
        "reopenings": [each["reason"] for each in found["reopenings"]],
        "failed": found.get("failed"),
        "exports": [each.status.value for each in jobs.recent(home.org_id, JobKind.EXPORT)],
        "asked": sorted(
            f"{each.parameters['action']} {each.status.value}"
            for each in jobs.recent(home.org_id, JobKind.CLOSING_STEP)
        ),
    }


def _begin_life(home: Home) -> Month:
    """Months later than the life before, whose leases are over then."""
    month = Month.parse((home.stores.home / "month").read_text())
    lives = home.stores.home / "lives"
    lives.write_text((lives.read_text() if lives.exists() else "") + "x")
    days = timedelta(days=2 + len(lives.read_text()))
    home.clock.time = month.period(zone("UTC")).end + days
    return month


def _go_on(home: Home, month: Month) -> bool:
    """Decide what is next; False if nothing is."""
    found = describe_closing(home.organization, month)
    assert "failed" not in found, found["failed"]
    closing = Closing(home.organization, month, "ann", OPERATIONS)
    rejected = home.stores.home / "rejected"
    if "pending" in found:
        return True
    match found["status"]:
        case "IN_REVIEW" if rejected.exists():
            _ask(home, month, ClosingRequest(ClosingAction.APPROVE, review=found["review"]))
        case "IN_REVIEW":
            reject_shown(closing, "a price")
        case "CLOSED" if found["reopenings"]:
            return False
        case "CLOSED":
            reopen_month(closing, "a file was forgotten")
        case status:
            if status == "REJECTED":
                rejected.touch()
            _ask(home, month, ClosingRequest(ClosingAction.REVIEW))
    return True


def _ask(home: Home, month: Month, request: ClosingRequest) -> None:
    submit_closing(home.organization, month, request, "ann")
