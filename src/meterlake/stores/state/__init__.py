"""State: organizations, configuration with its history, access, jobs and bills, in one database."""

from meterlake.stores.state.core.reader import Past, Reader
from meterlake.stores.state.core.state import OrganizationRecord, State, new_id, utc_now
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.jobs import Job, Jobs, JobStatus

__all__ = [
    "Job",
    "JobStatus",
    "Jobs",
    "OrganizationRecord",
    "Past",
    "Reader",
    "State",
    "Transaction",
    "new_id",
    "utc_now",
]
