"""What a process does beside the great works: a little of each, and what must be the same afterwards."""

from datetime import timedelta
from typing import Any

from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.model.work.export_request import KIND, ExportRequest, Source
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order, background
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.export.run import run_export, submit_export
from meterlake.pipeline.home.alerts import check_alerts
from meterlake.pipeline.ingest.uploads import announce, get_job, settle
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.stores.state.core.pages import Page
from tests.homes import HEADER, Home, csv_row

ID = "the-backfill"
BY_JOBS = "backfill-by-jobs"


def prepared(home: Home) -> None:
    """A home with something to do for each chore."""
    for number in range(3):
        home.drop(f"{number}.csv", HEADER + csv_row(f"u{number}") + csv_row(f"x{number}", "NaN"))
        home.work()
    [[source]] = home.query("SELECT DISTINCT identity FROM lake.source WHERE name = '0.csv'")
    wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)
    backfill.start(home.organization, Order(wanted, "ann", ID))
    body = {"fileName": "f.csv", "contentType": "text/csv", "contentLength": 7}
    made = announce(home.organization, "test", body, "")
    (home.stores.home / "job").write_text(made["jobId"])


def upkept(home: Home) -> dict[str, Any]:
    """Maintain the lake."""
    maintain(home.organization, kept_for=timedelta(0))
    return {}


def asked(home: Home) -> dict[str, Any]:
    """Have a backfill staged and applied by jobs, as the API and a worker do."""
    organization = home.organization
    attempts = sum(
        job.attempt for job in organization.state.jobs.recent(organization.id, background.KIND)
    )
    home.clock.advance(days=30 + attempts)
    [[source]] = home.query("SELECT DISTINCT identity FROM lake.source WHERE name = '1.csv'")
    order = Order(BackfillSpec(Mode.RETRACT, "wrong", source=source), "ann", BY_JOBS)
    known = {each.id: each.status for each in backfill.history(organization)}
    pending = background.pending_steps(organization)
    if known.get(BY_JOBS, BackfillStatus.STAGING) is BackfillStatus.STAGING and not pending:
        background.submit_start(organization, order)
    _run_steps(home)
    background.submit_step(organization, BY_JOBS, background.BackfillAction.APPLY, "ann")
    _run_steps(home)
    return {
        "status": backfill.show(organization, BY_JOBS).status.value,
        "pending": len(background.pending_steps(organization)),
        "retracted": home.query("SELECT uid, row FROM lake.retraction ORDER BY ALL"),
    }


def _run_steps(home: Home) -> None:
    for job in home.stores.state.jobs.waiting(home.org_id, background.KIND):
        background.run_step(home.stores, job.id)


def done(home: Home) -> dict[str, Any]:
    """Drop a backfill, give up an upload that never came, tell of both, and order an export."""
    organization = home.organization
    # Later than whoever died over the export: its lease has ended.
    home.clock.advance(
        days=30 + sum(job.attempt for job in organization.state.jobs.recent(organization.id, KIND))
    )
    backfill.drop(organization, ID, "ann")
    settle(organization)
    open_ = check_alerts(organization)
    if not organization.state.jobs.recent(organization.id, KIND):
        submit_export(organization, ExportRequest(source=Source.OPERATIONAL, types=("accounts",)))
    jobs = organization.state.jobs.recent(organization.id, KIND)
    run_export(organization.stores, jobs[0].id)
    told = list_events(organization, EventFilters(), Page(100, None))["data"]
    return {
        "backfill": backfill.show(organization, ID).status.value,
        "folder": (organization.lake_folder / "backfills" / ID).exists(),
        "upload": get_job(organization, (organization.stores.home / "job").read_text())[
            "failureReason"
        ],
        "incidents": sorted([each.name, each.subject] for each in open_),
        "told": sorted(each["eventName"] for each in told),
        "exports": [
            job.status.value for job in organization.state.jobs.recent(organization.id, KIND)
        ],
    }
