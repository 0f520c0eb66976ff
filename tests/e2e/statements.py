"""A process that makes statements of bills, and what must be the same whoever dies over it."""

import hashlib
from typing import Any

from meterlake.model.bills.statements import KIND, StatementFormat, StatementOrder
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.jobs.waiting import run_all_waiting
from meterlake.pipeline.statements.files import forget_files, read_file
from meterlake.pipeline.statements.jobs import STATEMENT_JOBS, create, ensure_statement
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.statements.files import statement_files
from meterlake.stores.state.core.pages import Page
from tests.bills import price_egress, subscribe, use
from tests.homes import Home

SEPTEMBER = Month(2026, 9)


def prepared(home: Home) -> None:
    """A home with a bill whose statement as JSON is of an earlier calculation."""
    price_egress(home)
    subscribe(home, "acme")
    use(home, ("1", "acme", 40))
    bill(home.organization, SEPTEMBER)
    ensure_statement(home.organization, "test", StatementOrder(_bill_id(home)))
    use(home, ("2", "acme", "2.5"))
    home.clock.advance(hours=1)
    bill(home.organization, SEPTEMBER)


def _bill_id(home: Home) -> str:
    with home.organization.reading() as reader:
        [found] = bills.of_period(reader)
    return found.id


def _files(home: Home) -> dict[str, str]:
    """The digests of the bill's files by format; each is as it was written down."""
    bill_id, found = _bill_id(home), {}
    with home.organization.reading() as reader:
        files = statement_files(reader, [bill_id]).get(bill_id, {})
    for format_, file in files.items():
        found[format_.value] = hashlib.sha256(read_file(home.stores, file)).hexdigest()
        assert found[format_.value] == file.sha256
    return found


def made(home: Home) -> dict[str, Any]:
    """Have the statement made by a job, as the API and a worker do."""
    organization = home.organization
    seen, known = _files(home), organization.state.jobs.recent(organization.id, KIND)
    # Later than whoever died over it: its lease has ended.
    home.clock.advance(days=30 + sum(job.attempt for job in known))
    if len(known) == 1:
        body = {"billId": _bill_id(home), "includeCsvFormat": True}
        create(organization, "test", body)
    failed = [each.error for each in run_all_waiting(organization, STATEMENT_JOBS) if each.error]
    lost = forget_files(organization)
    names = list_events(organization, EventFilters(), Page(100, None))["data"]
    return {
        "seen": seen,
        "files": _files(home),
        "failed": len(failed),
        "lost": lost,
        "objects": len(list(organization.stores.objects.list(f"statements/{organization.id}/"))),
        "formats": len(StatementFormat),
        "jobs": [job.status.value for job in organization.state.jobs.recent(organization.id, KIND)],
        "events": sorted(
            each["eventName"] for each in names if "statementjob" in each["eventName"]
        ),
    }
