"""State: organizations, configuration with its history, access, jobs and bills, in one database."""

from meterlake.stores.state.jobs import Job, Jobs, JobStatus
from meterlake.stores.state.reader import Past, Reader
from meterlake.stores.state.state import Organization, State, new_id, utc_now
from meterlake.stores.state.transaction import Transaction

__all__ = [
    "Job",
    "JobStatus",
    "Jobs",
    "Organization",
    "Past",
    "Reader",
    "State",
    "Transaction",
    "new_id",
    "utc_now",
]
