"""Killing a Dask worker, or the scheduler, costs time only."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from meterlake.model.errors import Unavailable
from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.billing import run
from meterlake.pipeline.billing.jobs import bucket_tasks
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.verification.ledger_check import check_ledger
from meterlake.pipeline.export.run import export
from meterlake.pipeline.export.verify import verify
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, subscribe, use
from tests.databases import copy_home
from tests.doubles.dask import dask_cluster, kill
from tests.e2e.backfilling import ID, METER, SEPTEMBER
from tests.homes import HEADER, configure, csv_row, open_home

pytestmark = pytest.mark.slow
MONTH = Month(2026, 9)
WINDOW = replace(SEPTEMBER, start=SEPTEMBER.start.replace(month=5))
EXPORT = ExportRequest(
    source=Source.OPERATIONAL,
    format=Format.JSONL,
    types=("accounts", "meters", "plans", "aggregations", "pricings"),
)
# What the last export of each home came to.
EXPORTED = {}


def fill(home):
    """Accounts to bill, measurements of five months, and a derived field that came after them."""
    codes = [f"c{n}" for n in range(6)]
    accounts = [{"code": code, "name": code, "emailAddress": "c@d.example"} for code in codes]
    configure(home.organization, accounts=accounts)
    subscribe(home, *codes)
    use(home, *((code, code, n) for n, code in enumerate(codes)))
    rows = [csv_row(f"m{n}", n, ts=f"2026-0{n}-11T00:00:00Z") for n in range(5, 9)]
    home.ingest("months.csv", HEADER + "".join(rows))
    configure(home.organization, meters=[METER])


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    with a_home_to_bill(tmp_path_factory.mktemp("billed")) as home:
        fill(home)
        return home.stores.home, home.org_id


@pytest.fixture
def opened(template, tmp_path, monkeypatch):
    """Opens copies of the home, with a runner."""
    monkeypatch.setattr(bucket_tasks, "_LEAST", 1)
    monkeypatch.setattr(run, "BATCH", 1)

    def open_copy(name, runner):
        path, org_id = template
        home = tmp_path / name
        if not home.exists():
            copy_home(path, home)
        return open_home(home, org_id, runner=runner, runner_workers=4)

    return open_copy


def stored(home):
    with home.organization.reading() as reader:
        found = [each.content for each in bills.of_period(reader)]
    return sorted(repr(replace(each, calculation_id=None)) for each in found)


def make_bills(home):
    assert bill(home.organization, MONTH).failures == []


def have_bill(home):
    return bool(stored(home))


def stage(home):
    order = Order(BackfillSpec(Mode.REDERIVE, window=WINDOW), "ann", ID)
    assert backfill.start(home.organization, order).status is BackfillStatus.STAGED


def have_month(home):
    folder = home.organization.lake.folder / "backfills" / ID / "rows"
    return any(folder.glob("*-2026-*"))


def write_export(home):
    EXPORTED[home.stores.home] = export(home.organization, EXPORT)


def have_file(home):
    staged = (home.stores.home / "staging" / "exports").rglob("*.gz")
    return any("parts" in path.parts for path in staged)


def exported(home):
    """The files of the export: what the manifest says of them, and their bytes."""
    done = EXPORTED[home.stores.home]
    assert verify(home.stores.settings, done.manifest_url) == []
    assert not (home.stores.home / "staging" / "exports" / done.job_id).exists()
    files = done.manifest["files"]
    totals = [{name: value for name, value in each.items() if name != "key"} for each in files]
    return totals, [Path(done.url, each["key"]).read_bytes() for each in files]


def come_to(home, work):
    """What a work came to, when it is done to its end."""
    assert check_reconciliation(home.organization).balanced
    if work is write_export:
        return exported(home)
    if work is make_bills:
        assert check_ledger(home.organization).differences == ()
        return stored(home)
    backfill.apply(home.organization, ID, "ann")
    assert check_reconciliation(home.organization).balanced
    found = backfill.show(home.organization, ID)
    return found.summary, home.measurements(of_source=True), home.uids()


WORKS = pytest.mark.parametrize(
    ("work", "has_begun"),
    [(make_bills, have_bill), (stage, have_month), (write_export, have_file)],
    ids=["bill", "backfill", "export"],
)


def kill_when(home, has_begun, process):
    end = time.monotonic() + 120
    while not has_begun(home):
        assert time.monotonic() < end
        time.sleep(0.05)
    kill(process.pid)


@WORKS
def test_a_worker_that_is_killed_costs_time_only(opened, tmp_path, work, has_begun):
    with opened("whole", None) as home:
        work(home)
        expected = come_to(home, work)
    with (
        dask_cluster(tmp_path, slow=True) as cluster,
        opened("killed", cluster.runner) as home,
        ThreadPoolExecutor(1) as pool,
    ):
        working = pool.submit(work, home)
        kill_when(home, has_begun, cluster.workers[0])
        working.result(300)

        assert cluster.workers[0].wait(180) == -9
        assert come_to(home, work) == expected


@WORKS
def test_a_scheduler_that_is_killed_is_told_and_the_next_run_does_the_rest(
    opened, tmp_path, work, has_begun
):
    with opened("whole", None) as home:
        work(home)
        expected = come_to(home, work)
    with (
        dask_cluster(tmp_path, slow=True) as cluster,
        opened("killed", cluster.runner) as home,
        ThreadPoolExecutor(1) as pool,
    ):
        working = pool.submit(work, home)
        kill_when(home, has_begun, cluster.scheduler)
        with pytest.raises(Unavailable, match="it was lost; what is done stays"):
            working.result(300)
    with dask_cluster(tmp_path) as cluster, opened("killed", cluster.runner) as home:
        work(home)
        assert come_to(home, work) == expected
