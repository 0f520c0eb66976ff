"""Ctrl-C and SIGTERM while a job runs: what a command ran is cancelled, anything else is given back.

Each kind of job is interrupted at one step by default, and at every step that it reaches in the
slow suite.
"""

import os
import signal
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from meterlake.cli import run
from meterlake.cli.shell.signals import terminable
from meterlake.model.catalog.lookups import LookupTable, LookupTableRevision
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.model.work.export_request import ExportRequest, Source
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.backfill import Order, background
from meterlake.pipeline.billing.jobs.jobs import bill, create
from meterlake.pipeline.closing.closing_requests import (
    ClosingAction,
    ClosingRequest,
    submit_closing,
)
from meterlake.pipeline.export.run import submit_export
from meterlake.pipeline.home.job_kinds import JOB_KINDS
from meterlake.pipeline.ingest import uploads
from meterlake.pipeline.jobs.file_jobs import key
from meterlake.pipeline.jobs.run_job import run_job
from meterlake.pipeline.lookups import jobs as lookup_jobs
from meterlake.pipeline.lookups.lookups import At
from meterlake.pipeline.statements.jobs import create as create_statement
from meterlake.stores.state import JobStatus
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.ingest.uploads import find
from tests.bills import price_egress, subscribe, use
from tests.databases import copy_home
from tests.homes import HEADER, configure, csv_row, new_home, open_home
from tests.organizations import Clock

MONTH = "2026-09"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
ITEMS = "country,rate\nUS,2\n"
STOPPED = {130, 143}


@contextmanager
def opened(path, org_id):
    """The home, now: the command line has the machine's clock."""
    clock = Clock()
    clock.time = datetime.now(UTC)
    with open_home(path, org_id, clock, prefect_url="") as home:
        yield home


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A home with a bill, an ingested file, and a lookup table whose columns are known."""
    path = tmp_path_factory.mktemp("interrupted") / "home"
    org_id = new_home(path)
    fields = [{"name": "country", "type": "STRING"}, {"name": "rate", "type": "NUMBER"}]
    with opened(path, org_id) as home:
        organization = home.stores.organization(org_id)
        price_egress(home)
        subscribe(home, "acme")
        use(home, ("1", "acme", 40))
        home.ingest("again.csv", HEADER + csv_row("r1"))
        bill(organization, Month(2026, 9))
        configure(
            organization,
            lookupTables=[{"code": "rates", "name": "Rates"}],
            lookupTableRevisions=[
                {"lookupTableId": "rates", "name": "First", "fields": fields, "keys": ["country"]}
            ],
        )
    return path, org_id


# What a person gives as a command and waits for.


def command(*words):
    def act(path, _org_id):
        (path.parent / "items.csv").write_text(ITEMS)
        places = {"OUT": path.parent / "out", "ITEMS": path.parent / "items.csv"}
        line = [str(places.get(word, word)) for word in words]
        code = run([*line, "--home", str(path), "--json"])
        if code in STOPPED:
            raise KeyboardInterrupt
        assert code == 0

    return act


# What somebody asks for over the API, and a worker or a flow does.


def worked(kind, submit):
    """Submit a job unless one waits, and run what waits."""

    def act(path, org_id):
        with terminable(), opened(path, org_id) as home:
            spec = JOB_KINDS[kind]
            if not home.stores.state.jobs.waiting(org_id, kind):
                submit(home)
            for job in home.stores.state.jobs.waiting(org_id, kind):
                run_job(home.stores, spec, job.id)

    return act


def submit_bill(home):
    create(home.organization, "ann", {"billDate": "2026-10-01"})


def submit_statement(home):
    with home.organization.reading() as reader:
        [found] = bills.of_period(reader)
    create_statement(home.organization, "ann", {"billId": found.id})


def submit_operational(home):
    to = str(home.stores.home.parent / "out")
    request = ExportRequest(source=Source.OPERATIONAL, types=("accounts",), to=to)
    submit_export(home.organization, request)


def submit_backfill(home):
    query = "SELECT DISTINCT identity FROM lake.source WHERE name = 'again.csv'"
    [[source]] = home.query(query)
    spec = BackfillSpec(Mode.RETRACT, "wrong", source=source)
    background.submit_start(home.organization, Order(spec, "ann", "the-backfill"))


def submit_review(home):
    request = ClosingRequest(ClosingAction.REVIEW)
    submit_closing(home.organization, Month.parse(MONTH), request, "ann")


def arrived(home, job_id, data):
    with home.stores.state.reading_home() as connection:
        upload = find(connection, home.org_id, job_id)
    home.stores.objects.put_bytes(key(upload), data.encode())
    uploads.settle(home.organization)


def submit_file(home):
    data = HEADER + csv_row("u1")
    body = {"fileName": "f.csv", "contentType": "text/csv", "contentLength": len(data)}
    arrived(home, uploads.announce(home.organization, "ann", body, "")["jobId"], data)


def submit_items(home):
    with home.organization.reading() as reader:
        [table], [revision] = reader.all(LookupTable), reader.all(LookupTableRevision)
    body = {"fileName": "i.csv", "contentType": "text/csv", "contentLength": len(ITEMS)}
    at = At(table.id, revision.id)
    made = lookup_jobs.announce(home.organization, "ann", at, body, "")
    arrived(home, made["jobId"], ITEMS)


@dataclass(frozen=True)
class Case:
    """One way to have a kind of job run.

    Attributes:
        step: Where it is interrupted by default.
    """

    kind: JobKind
    step: str
    act: Callable[[Path, str], None]
    is_command: bool = False


CASES = {
    "bill": Case(JobKind.BILL, "bill.folded", command("bill", "--month", MONTH), True),
    "export": Case(
        JobKind.EXPORT, "export.file_put", command("export", "usage", "--to", "OUT"), True
    ),
    "statement": Case(
        JobKind.STATEMENT, "statement.put", command("bill", "statement", "acme", MONTH), True
    ),
    "lookup load": Case(
        JobKind.LOOKUP, "lookups.checked", command("lookup", "load", "rates", "ITEMS"), True
    ),
    "close-month": Case(JobKind.CLOSING, "bill.folded", command("close-month", MONTH)),
    "bill job": Case(JobKind.BILL, "bill.folded", worked(JobKind.BILL, submit_bill)),
    "statement job": Case(
        JobKind.STATEMENT, "statement.put", worked(JobKind.STATEMENT, submit_statement)
    ),
    "export job": Case(
        JobKind.EXPORT, "export.file_put", worked(JobKind.EXPORT, submit_operational)
    ),
    "backfill step": Case(
        JobKind.BACKFILL, "backfill.taken", worked(JobKind.BACKFILL, submit_backfill)
    ),
    "closing step": Case(
        JobKind.CLOSING_STEP, "bill.folded", worked(JobKind.CLOSING_STEP, submit_review)
    ),
    "upload": Case(JobKind.UPLOAD, "ingest.staged", worked(JobKind.UPLOAD, submit_file)),
    "items": Case(JobKind.LOOKUP, "lookups.checked", worked(JobKind.LOOKUP, submit_items)),
}


@contextmanager
def hooked(hook):
    before, failpoint.hook = failpoint.hook, hook
    try:
        yield
    finally:
        failpoint.hook = before


def interrupted(case, place, step, number):
    """Do it, interrupted where it first reaches a step."""
    left = [step]

    def hook(reached):
        if reached in left:
            left.clear()
            os.kill(os.getpid(), number)

    # Whoever runs the tests may have it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with hooked(hook), pytest.raises(KeyboardInterrupt):
            case.act(*place)
    finally:
        signal.signal(signal.SIGINT, before)
    assert left == [], f"{step} was not reached"


def jobs_of(home, *kinds):
    return [job for kind in kinds for job in home.stores.state.jobs.recent(home.org_id, kind, 100)]


def check_left(case, place, known):
    """Nobody waits for a lease; what a command ran is ended, and anything else waits at once."""
    with opened(*place) as home:
        now = home.clock()
        every = [job for job in jobs_of(home, *JobKind) if job.id not in known]
        assert [job.id for job in every if job.lease_until and job.lease_until > now] == []
        mine = [job for job in every if job.kind == case.kind]
        if case.is_command:
            assert {job.status for job in mine} <= {JobStatus.CANCELLED, JobStatus.COMPLETE}
        else:
            waiting = {job.id for job in home.stores.state.jobs.waiting(home.org_id, case.kind)}
            open_ = {job.id for job in mine if job.finished is None}
            assert open_ - waiting == set()
        # What a job made by another one of these has is nobody's to go on with.
        if case.kind is not JobKind.BILL:
            inner = {job.status for job in every if job.kind == JobKind.BILL}
            assert inner <= {JobStatus.CANCELLED, JobStatus.COMPLETE}


def check_ended(case, place, known):
    with opened(*place) as home:
        mine = [job for job in jobs_of(home, case.kind) if job.id not in known]
        # One whose file was on its way is announced, and never comes.
        mine = [job for job in mine if job.status is not JobStatus.AWAITING_FILE]
        ended = {JobStatus.COMPLETE} | ({JobStatus.CANCELLED} if case.is_command else set())
        if case.kind is not JobKind.CLOSING:  # It waits for a review.
            assert JobStatus.COMPLETE in {job.status for job in mine}
            assert {job.status for job in mine} <= ended
        home.check()


def check_interrupted(case, template, folder, step, number):
    place = copy_of(template, folder)
    with opened(*place) as home:
        known = {job.id for job in jobs_of(home, *JobKind)}
    interrupted(case, place, step, number)
    check_left(case, place, known)
    case.act(*place)
    check_ended(case, place, known)


def copy_of(template, folder):
    path, org_id = template
    copy_home(path, folder / "home")
    return folder / "home", org_id


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_interrupted_job_is_cancelled_or_given_back(template, tmp_path, case, number):
    check_interrupted(case, template, tmp_path, case.step, number)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "number"),
    # Each signal at one step of each case is tried above.
    [(case, SIGNALS[place % len(SIGNALS)]) for place, case in enumerate(CASES.values())],
    ids=CASES,
)
def test_wherever_a_job_is_interrupted_it_is_cancelled_or_given_back(
    template, tmp_path, case, number
):
    reached = []
    (tmp_path / "undisturbed").mkdir()
    with hooked(reached.append):
        case.act(*copy_of(template, tmp_path / "undisturbed"))
    assert case.step in reached
    for place, step in enumerate(dict.fromkeys(reached)):
        folder = tmp_path / str(place)
        folder.mkdir()
        check_interrupted(case, template, folder, step, number)
