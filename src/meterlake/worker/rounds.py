"""The worker's rounds: what the one long-lived process looks at again and again.

A round is a row of `ROUNDS`: its name, how often it looks, and what it does. Each has a thread and
stores of its own, so that what is submitted never waits for a large file. Nearly all give
organizations their turns, some at once (`turns`), so that none waits long for another one. Which
organizations have something to do, one question finds for all of them (`questions`).

`python -m meterlake.worker` runs them; `meterlake serve` starts it as a child. Drop folders
and segments are ingested directly, without Prefect. The uploads that wait of an organization, what waits in its inboxes, an export, a bill
job, and a step of a backfill are flow runs while a Prefect server answers, in processes that are kept warm.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from meterlake.model.errors import Unavailable
from meterlake.model.measurements.receipt import Receipt
from meterlake.model.resources.events import BILL_JOB, STATEMENT_JOB
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.billing.balances.scheduled_transactions import (
    book_due_transactions,
    make_due_charges,
)
from meterlake.pipeline.billing.jobs.auto_approval import approve_due
from meterlake.pipeline.billing.jobs.documents import BillJobSource
from meterlake.pipeline.billing.jobs.schedule import submit_scheduled
from meterlake.pipeline.events.scheduled import SOURCES, fire_scheduled
from meterlake.pipeline.export.jobs import forget_downloads
from meterlake.pipeline.export.schedules import submit_due
from meterlake.pipeline.home.alerts import LakeWatch
from meterlake.pipeline.home.email_outbox import try_letters
from meterlake.pipeline.home.job_kinds import JOB_KINDS
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder, left_alone
from meterlake.pipeline.ingest.inbox import inbox_round
from meterlake.pipeline.ingest.reporting import report
from meterlake.pipeline.ingest.segments import LostSegments, ingest_segments
from meterlake.pipeline.integrations.sender import prepare_runs, send_runs
from meterlake.pipeline.jobs.fair_turns import PAUSE_S, Stop, give_turns, rest
from meterlake.pipeline.jobs.job_spec import Concurrency, one, several
from meterlake.pipeline.jobs.waiting import run_round
from meterlake.pipeline.statements.files import forget_files
from meterlake.pipeline.statements.jobs import StatementJobSource
from meterlake.settings import Settings
from meterlake.stores import Organization, Stores
from meterlake.worker.flow_runs import Executor
from meterlake.worker.waiting_work import (
    QuestionMaker,
    ask_approvals,
    ask_balances,
    ask_dates,
    ask_drops,
    ask_events,
    ask_inboxes,
    ask_jobs,
    ask_lakes,
    ask_schedules,
    ask_segments,
)

_log: Final = logging.getLogger("meterlake.worker")


@dataclass(frozen=True, slots=True)
class Loop:
    """What one round works with.

    Attributes:
        stores: Its own.
        executor: Runs jobs, for all rounds of the worker.
        stop: Whether the worker ends.
        warned: What was logged already, and is not logged at every look.
    """

    stores: Stores
    executor: Executor
    stop: Stop
    warned: set[Path] = field(default_factory=set)


# What one look does for an organization; asks whether to begin nothing more.
Look = Callable[[Loop, Organization, Stop], Iterable[Receipt]]


@dataclass(frozen=True, slots=True)
class Round:
    """One loop of the worker.

    Attributes:
        name: What its thread is called.
        every: Seconds from the end of a look to the next one, or the setting that says so.
        function: Looks every so many seconds until the loop is to stop.
    """

    name: str
    every: float | Callable[[Settings], float]
    function: Callable[[Loop, float], None]

    @property
    def key(self) -> str:
        """What it is switched off by."""
        return self.name.replace(" ", "-")

    def run(self, loop: Loop, every: float | None = None) -> None:
        """Go round until the worker ends; what has begun is finished.

        A failing world (a full disk, a locked catalog) is logged and tried again, more slowly.

        Args:
            loop: What to work with.
            every: Seconds between two looks, instead of the round's own.
        """
        if every is None:
            every = (
                self.every if isinstance(self.every, float) else self.every(loop.stores.settings)
            )
        self.function(loop, every)


def by_turns(
    look: Look, make_question: QuestionMaker, concurrency: Concurrency = several
) -> Callable[[Loop, float], None]:
    """The loop that gives organizations their turns that have something to do.

    Args:
        look: What a turn does.
        make_question: Finds out which have.
        concurrency: How many organizations have a turn at the same time.
    """

    def run(loop: Loop, every: float) -> None:
        def take_turn(organization: Organization, stop: Stop) -> Iterable[Receipt]:
            return look(loop, organization, stop)

        stores = loop.stores
        question = make_question(stores)
        give_turns(stores, take_turn, loop.stop, every, concurrency(stores.settings), question)

    return run


def jobs_of(kind: JobKind) -> Callable[[Loop, float], None]:
    """The loop that runs what waits of a kind, as the table of kinds says."""
    spec = JOB_KINDS[kind]

    def run_waiting(loop: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
        return run_round(spec, loop.executor, organization, stop)

    return by_turns(run_waiting, ask_jobs(*spec.kinds), spec.concurrency)


def ingest_dropped(loop: Loop, organization: Organization, stop: Stop) -> Iterator[Receipt]:
    """Ingest what lies in the drop folder."""
    folder = drop_folder(loop.stores, organization.code)
    warned = loop.warned
    found = {folder.inbox / name for name in left_alone(folder.inbox)}
    for path in sorted(found - warned):
        _log.warning("%s is left alone: it is no file", path)
    warned |= found
    return ingest_inbox(organization, folder, stop=stop)


def ingest_submitted(_: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
    """Ingest the closed segments."""
    return ingest_segments(organization, stop)


def submit_schedules(loop: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
    """Make the jobs of exports and of bills that are due, as the organization says."""
    without = loop.stores.settings.without
    if stop():
        return ()
    if "scheduled-exports" not in without:
        submit_due(organization)
    if "scheduled-bills" not in without:
        submit_scheduled(organization)
    return ()


def approve_bills(_: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
    """Approve the bills whose grace period is over."""
    if not stop():
        approve_due(organization)
    return ()


def poll(loop: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
    """Ingest what lies in the inboxes."""
    return inbox_round(loop.executor, organization, stop)


def book_scheduled(_: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
    """Book the transactions and make the charges of balances that are due; settle what ended."""
    if not stop():
        book_due_transactions(organization)
        make_due_charges(organization)
        settle_ended_balances(organization)
    return ()


def evaluate_events(_: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
    """Have what happened make notifications go out, and runs of integrations."""
    prepare_runs(organization, stop)
    return ()


# What scheduled events read beside the resources.
_DATED: Final = {
    **SOURCES,
    BILL_JOB: BillJobSource(),
    STATEMENT_JOB: StatementJobSource(),
}


def fire_dates(_: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
    """Write the scheduled events that have fallen due."""
    fire_scheduled(organization, stop, _DATED)
    return ()


def check_organization(loop: Loop, organization: Organization, stop: Stop) -> Iterable[Receipt]:
    """Report what was not reported yet, look for what is not as it should be, and tidy up."""
    if not stop():
        report(organization)
        LakeWatch(loop.stores).look(organization.id)
        forget_downloads(organization)
        forget_files(organization)
    return ()


def keep_runners_warm(loop: Loop, every: float) -> None:
    """See to it that jobs find a process that runs them at once."""
    while not loop.stop():
        loop.executor.keep_warm()
        rest(every, loop.stop)


def send_integrations(loop: Loop, every: float) -> None:
    """Send to other systems what is due, of all organizations at the same time."""
    send_runs(loop.stores, loop.stop, every)


def take_over_lost(loop: Loop, every: float) -> None:
    """Take over the submitted measurements of machines that are lost."""
    lost = LostSegments(loop.stores)
    while not loop.stop():
        try:
            lost.look()
        except Unavailable as error:
            _log.warning("%s; copies of segments are looked at again soon", error)
            rest(PAUSE_S, loop.stop)
        except Exception:  # noqa: BLE001 - logged whole: the next look may go well
            _log.exception("the copies of segments")
            rest(PAUSE_S, loop.stop)
        rest(every, loop.stop)


def send_mail(loop: Loop, every: float) -> None:
    """Hand the letters of the outbox to the mail server."""
    while not loop.stop():
        is_well = try_letters(loop.stores, loop.stop)
        rest(every if is_well else max(every, PAUSE_S), loop.stop)


DROPS: Final = Round("drops", 1.0, by_turns(ingest_dropped, ask_drops))
# A measurement can be queried within seconds of its answer.
SEGMENTS: Final = Round("segments", 0.25, by_turns(ingest_submitted, ask_segments))
LOST_SEGMENTS: Final = Round(
    "lost segments", lambda settings: settings.segment_lost_seconds / 4, take_over_lost
)
# Nor is a small upload much later than its file.
UPLOADS: Final = Round("uploads", 0.25, jobs_of(JobKind.UPLOAD))
INBOXES: Final = Round(
    "inboxes", lambda settings: settings.inbox_seconds, by_turns(poll, ask_inboxes)
)
# Apart from the exports, so that one that takes long keeps no other from being due.
SCHEDULES: Final = Round("schedules", 1.0, by_turns(submit_schedules, ask_schedules, one))
EXPORTS: Final = Round("exports", 1.0, jobs_of(JobKind.EXPORT))
BILLS: Final = Round("bills", 1.0, jobs_of(JobKind.BILL))
STATEMENTS: Final = Round("statements", 1.0, jobs_of(JobKind.STATEMENT))
BACKFILLS: Final = Round("backfills", 1.0, jobs_of(JobKind.BACKFILL))
CLOSINGS: Final = Round("closings", 1.0, jobs_of(JobKind.CLOSING_STEP))
BALANCES: Final = Round("balances", 10.0, by_turns(book_scheduled, ask_balances, one))
APPROVALS: Final = Round("approvals", 60.0, by_turns(approve_bills, ask_approvals, one))
# A receiver hears of an event about a second later.
NOTIFICATIONS: Final = Round("notifications", 0.5, by_turns(evaluate_events, ask_events, one))
SCHEDULED_EVENTS: Final = Round("scheduled events", 5.0, by_turns(fire_dates, ask_dates, one))
ALERTS: Final = Round("alerts", 60.0, by_turns(check_organization, ask_lakes, one))
DELIVERIES: Final = Round("deliveries", 0.25, send_integrations)
BILL_DOCUMENTS: Final = Round("bill documents", 1.0, jobs_of(JobKind.BILL_DOCUMENTS))
QUANTITIES: Final = Round("quantities", 1.0, jobs_of(JobKind.QUANTITIES))
BILL_LETTERS: Final = Round("bill letters", 1.0, jobs_of(JobKind.BILL_LETTER))
LETTERS: Final = Round("letters", 5.0, send_mail)
RUNNERS: Final = Round("runners", 1.0, keep_runners_warm)

ROUNDS: Final[tuple[Round, ...]] = (
    DROPS,
    SEGMENTS,
    LOST_SEGMENTS,
    UPLOADS,
    INBOXES,
    SCHEDULES,
    EXPORTS,
    BILLS,
    STATEMENTS,
    BACKFILLS,
    CLOSINGS,
    BALANCES,
    APPROVALS,
    NOTIFICATIONS,
    SCHEDULED_EVENTS,
    ALERTS,
    DELIVERIES,
    BILL_DOCUMENTS,
    QUANTITIES,
    BILL_LETTERS,
    LETTERS,
    RUNNERS,
)


def rounds_of(settings: Settings) -> tuple[Round, ...]:
    """The rounds that are not switched off."""
    return tuple(each for each in ROUNDS if each.key not in settings.without)
