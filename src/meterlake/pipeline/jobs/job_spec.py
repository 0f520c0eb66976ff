"""What a kind of job is to the engine that runs it: its work, and what becomes of it.

Each room says it of its own kinds; `pipeline/home/job_kinds.py` has the table of all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from meterlake.model.work.jobs import JobKind
from meterlake.settings import Settings
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Job, Transaction

if TYPE_CHECKING:
    from meterlake.pipeline.jobs.run_job import JobRun

T = TypeVar("T")

# Notes the event of a job, as it is and as it was.
NoteEvent = Callable[[Transaction, Job, Job], None]
Concurrency = Callable[[Settings], int]


def several(settings: Settings) -> int:
    """As many organizations at once as the settings say."""
    return settings.organizations_at_once


def one(_: Settings) -> int:
    """One organization after the other."""
    return 1


@dataclass(frozen=True, slots=True)
class JobPins:
    """What the first attempt at a job decides for all of them.

    Attributes:
        snapshot: Of the lake; None if the job reads none, or ever the newest.
        parameters: What was asked for, with what was left open; None if nothing was.
    """

    snapshot: int | None = None
    parameters: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class WhenUnavailable:
    """What becomes of a job if a store or another system fails: it waits to be run again.

    Attributes:
        tries: After so many attempts that ended so the job fails; None if it waits for ever.
        pause: How long it waits at least.
    """

    tries: int | None = None
    pause: timedelta | None = None


# What fails is our own: State, the lake, a disk. Whoever runs the jobs pauses, so none of them has to.
_OUR_STORES: Final = WhenUnavailable()


def _nothing(*_: Any) -> None:
    pass


def pin_newest_snapshot(stores: Stores, job: Job) -> JobPins:
    """Pin the newest snapshot of the lake, and nothing else."""
    return JobPins(stores.lake(job.org_id).snapshot())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec(Generic[T]):
    """How a kind of job is run. How long its lease is, the store of leases says (`LEASES`).

    Attributes:
        kinds: The kinds of jobs; several if they differ only in their work.
        name: What messages call such a job.
        work: Does it; what it returns goes to whoever runs the job. It may end the job itself, in
            the transaction of what it makes (`JobRun.finish_in`).
        flow: The flow that a job is while a Prefect server answers, see `flows.kinds`; None if it
            is none.
        batch: What several of them are called, if one flow run takes all that wait of an
            organization; None if each has a run of its own.
        concurrency: How many organizations have their jobs run at the same time.
        pin: What the first attempt pins.
        lacks: What this process lacks for a job that another one may have; it leaves it alone.
        turn: What has to be had before a job is taken, so that who waits for it holds no lease.
        hold: What an attempt has to itself, such as a folder, from before its beginning until after
            its end.
        note_event: Notes the event of the end, in its transaction.
        when_unavailable: How long it waits for a world that fails.
        waits_after_errors: Whether a job waits for its error to be mended instead of failing:
            so it is with what others gave us and cannot ask for again.
        stops: Whether its work looks at whether it is to stop; if not, it is cancelled only while it
            waits.
        after_failure: Tells elsewhere why it failed.
        find: The jobs that wait, the oldest first.
        is_due: Whether the worker is to run one that waits.
        describe: What people know a job by: the name of its flow run.
        warnings: What the log says of one that has ended.
        taken: The kill step of a job that is taken.
        finished: The kill step of a job that has ended well.
    """

    kinds: tuple[JobKind, ...]
    name: str
    work: Callable[["JobRun[T]"], T]
    flow: str | None = None
    batch: str | None = None
    concurrency: Concurrency = several
    pin: Callable[[Stores, Job], JobPins] = lambda *_: JobPins()
    lacks: Callable[[Stores, Job], str | None] = _nothing
    turn: Callable[[Stores, Job], AbstractContextManager[object]] = lambda *_: nullcontext()
    hold: Callable[["JobRun[T]"], AbstractContextManager[object]] = nullcontext
    note_event: NoteEvent = _nothing
    when_unavailable: WhenUnavailable = _OUR_STORES
    waits_after_errors: bool = False
    stops: bool = True
    after_failure: Callable[[Stores, Job], None] = _nothing
    find: Callable[[Organization], Sequence[Job]] | None = None
    is_due: Callable[[Stores, Job], bool] = lambda *_: True
    describe: Callable[[Stores, Job], str]
    warnings: Callable[[Job], Sequence[str]] | None = None
    taken: Callable[[], None] = _nothing
    finished: Callable[[], None] = _nothing

    @property
    def kind(self) -> JobKind:
        """The kind that its flow runs go by."""
        return self.kinds[0]

    def waiting(self, organization: Organization) -> Sequence[Job]:
        """The jobs of an organization that wait, the oldest first."""
        if self.find is not None:
            return self.find(organization)
        jobs = organization.state.jobs
        return [job for kind in self.kinds for job in jobs.waiting(organization.id, kind)]
