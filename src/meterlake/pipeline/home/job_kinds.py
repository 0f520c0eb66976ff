"""The table of kinds of jobs: what each is to the engine, to the worker and to its flows.

It stands above the rooms that say it of their own kinds. Three kinds have no row, because nobody
runs one of their jobs by itself: an object of an inbox is found by a listing, not by its row; the
closing of a month is taken step by step by who closes it; what is sent to other systems is sent by
one loop of all organizations.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from meterlake.pipeline.backfill.background import BACKFILL_STEPS
from meterlake.pipeline.billing.jobs.jobs import BILL_JOBS
from meterlake.pipeline.billing.jobs.quantities import QUANTITIES
from meterlake.pipeline.closing.closing_requests import CLOSING_STEPS
from meterlake.pipeline.documents.bill_emails import BILL_LETTERS
from meterlake.pipeline.documents.bundle_jobs import BILL_DOCUMENTS
from meterlake.pipeline.export.run import EXPORT_JOBS
from meterlake.pipeline.ingest.uploads import ARRIVALS
from meterlake.pipeline.jobs.job_spec import JobSpec
from meterlake.pipeline.statements.jobs import STATEMENT_JOBS

_SPECS: Final[tuple[JobSpec[Any], ...]] = (
    ARRIVALS,
    BILL_JOBS,
    STATEMENT_JOBS,
    BILL_LETTERS,
    BILL_DOCUMENTS,
    EXPORT_JOBS,
    BACKFILL_STEPS,
    CLOSING_STEPS,
    QUANTITIES,
)

JOB_KINDS: Final[Mapping[str, JobSpec[Any]]] = MappingProxyType(
    {kind: spec for spec in _SPECS for kind in spec.kinds}
)
