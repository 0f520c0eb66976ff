"""The jobs of all kinds, in one table: who works on one until when, and how it ended."""

from meterlake.stores.state.jobs.jobs import (
    Job,
    Jobs,
    count_jobs,
    finish_job,
    is_known,
    newest_due,
    read_job,
    submit,
    unfinished_jobs,
)
from meterlake.stores.state.jobs.lease import LEASES, Lease, begun, takeable
from meterlake.stores.state.jobs.table import AGAIN, JOB, JobFilters, JobStatus, in_status

__all__ = [
    "AGAIN",
    "JOB",
    "LEASES",
    "Job",
    "JobFilters",
    "JobStatus",
    "Jobs",
    "Lease",
    "begun",
    "count_jobs",
    "finish_job",
    "in_status",
    "is_known",
    "newest_due",
    "read_job",
    "submit",
    "takeable",
    "unfinished_jobs",
]
