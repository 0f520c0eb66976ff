"""The registry of work that waits: what runs a kind of job, and as which flow.

How long an attempt of a kind has its job is said where leases are taken, in `stores/state/jobs`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from meterlake.model.jobs import JobKind
from meterlake.model.receipt import Receipt
from meterlake.pipeline.backfill.background import backfill_round
from meterlake.pipeline.billing.round import bill_round
from meterlake.pipeline.export.round import export_round
from meterlake.pipeline.ingest.inbox import inbox_round
from meterlake.pipeline.ingest.uploads import upload_round
from meterlake.pipeline.jobs.runner import Runner
from meterlake.pipeline.jobs.turns import Stop
from meterlake.pipeline.statements.round import statement_round
from meterlake.settings import Settings
from meterlake.stores import Stores

Concurrency = Callable[[Settings], int]


def several(settings: Settings) -> int:
    """As many organizations at once as the settings say."""
    return settings.organizations_at_once


def one(_: Settings) -> int:
    """One organization after the other."""
    return 1


@dataclass(frozen=True, slots=True)
class JobSpec:
    """How the worker does what waits of a kind.

    Attributes:
        verb: Runs the jobs of an organization that wait, each by the runner that it is given.
        flow: The flow that a job is while a Prefect server answers, see `flows.kinds`.
        concurrency: How many organizations have their jobs run at the same time.
    """

    verb: Callable[[Runner, Stores, str, Stop], Iterable[Receipt]]
    flow: str
    concurrency: Concurrency = several


# One turn takes all files in the order in which they came, whatever they hold.
_FILES: Final = JobSpec(upload_round, "upload")

JOBS: Final[Mapping[str, JobSpec]] = MappingProxyType(
    {
        JobKind.UPLOAD: _FILES,
        JobKind.LOOKUP: _FILES,
        JobKind.INBOX_OBJECT: JobSpec(inbox_round, "inbox"),
        JobKind.BILL: JobSpec(bill_round, "bill_job"),
        JobKind.STATEMENT: JobSpec(statement_round, "statement"),
        JobKind.EXPORT: JobSpec(export_round, "export:export_job"),
        JobKind.BACKFILL: JobSpec(backfill_round, "backfill_job"),
    }
)
