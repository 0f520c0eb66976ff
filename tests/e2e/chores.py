"""What a process does beside the great works: a little of each, and what must be the same afterwards."""

from datetime import timedelta
from typing import Any

from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.model.work.export_request import KIND, ExportRequest, Source
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order, background
from meterlake.pipeline.events.alerts import check_alerts
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.export.run import run_export, submit_export
from meterlake.pipeline.home.maintain import maintain
from meterlake.pipeline.ingest.uploads import announce, get_job, settle
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
    backfill.start(home.stores, home.org_id, Order(wanted, "ann", ID))
    body = {"fileName": "f.csv", "contentType": "text/csv", "contentLength": 7}
    made = announce(home.stores, home.org_id, "test", body, "")
    (home.stores.home / "job").write_text(made["jobId"])


def upkept(home: Home) -> dict[str, Any]:
    """Maintain the lake."""
    maintain(home.stores, home.org_id, kept_for=timedelta(0))
    return {}


def asked(home: Home) -> dict[str, Any]:
    """Have a backfill staged and applied by jobs, as the API and a worker do."""
    stores, org_id = home.stores, home.org_id
    attempts = sum(job.attempt for job in stores.state.jobs.recent(org_id, background.KIND))
    home.clock.advance(days=30 + attempts)
    [[source]] = home.query("SELECT DISTINCT identity FROM lake.source WHERE name = '1.csv'")
    order = Order(BackfillSpec(Mode.RETRACT, "wrong", source=source), "ann", BY_JOBS)
    known = {each.id: each.status for each in backfill.history(stores, org_id)}
    pending = background.pending_steps(stores, org_id)
    if known.get(BY_JOBS, BackfillStatus.STAGING) is BackfillStatus.STAGING and not pending:
        background.submit_start(stores, org_id, order)
    _run_steps(home)
    background.submit_step(stores, org_id, BY_JOBS, background.BackfillAction.APPLY, "ann")
    _run_steps(home)
    return {
        "status": backfill.show(stores, org_id, BY_JOBS).status.value,
        "pending": len(background.pending_steps(stores, org_id)),
        "retracted": home.query("SELECT uid, row FROM lake.retraction ORDER BY ALL"),
    }


def _run_steps(home: Home) -> None:
    for job in home.stores.state.jobs.waiting(home.org_id, background.KIND):
        background.run_step(home.stores, job.id)


def done(home: Home) -> dict[str, Any]:
    """Drop a backfill, give up an upload that never came, tell of both, and order an export."""
    stores, org_id = home.stores, home.org_id
    # Later than whoever died over the export: its lease has ended.
    home.clock.advance(days=30 + sum(job.attempt for job in stores.state.jobs.recent(org_id, KIND)))
    backfill.drop(stores, org_id, ID, "ann")
    settle(stores, org_id)
    open_ = check_alerts(stores, org_id)
    if not stores.state.jobs.recent(org_id, KIND):
        submit_export(stores, org_id, ExportRequest(source=Source.OPERATIONAL, types=("accounts",)))
    jobs = stores.state.jobs.recent(org_id, KIND)
    run_export(stores, jobs[0].id)
    told = list_events(stores, org_id, EventFilters(), Page(100, None))["data"]
    return {
        "backfill": backfill.show(stores, org_id, ID).status.value,
        "folder": (stores.lake_folder(org_id) / "backfills" / ID).exists(),
        "upload": get_job(stores, org_id, (stores.home / "job").read_text())["failureReason"],
        "incidents": sorted([each.name, each.subject] for each in open_),
        "told": sorted(each["eventName"] for each in told),
        "exports": [job.status.value for job in stores.state.jobs.recent(org_id, KIND)],
    }
