"""Quantities that somebody has calculated over the API: a job, since a large month takes minutes."""

from typing import Any, Final

from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.errors import TooManyJobs
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.jobs.job_spec import JobSpec, one
from meterlake.pipeline.jobs.run_job import JobRun
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores import Organization
from meterlake.stores.state import Job
from meterlake.stores.state.jobs import submit, unfinished_jobs

KIND: Final = JobKind.QUANTITIES
_UNFINISHED_MAX: Final = 10
_RETRY_S: Final = 30


def submit_quantities(
    organization: Organization, author: str, frequency: BillingFrequency, period: str
) -> Document:
    """Have the worker calculate a period; what waits or runs already is not asked for twice.

    Raises:
        Invalid: There is no such period.
        TooManyJobs: As many jobs as may be are unfinished.
    """
    PeriodSpec.named(frequency, period)
    parameters = {"frequency": frequency.value, "period": period}
    with organization.transaction(author) as transaction:
        unfinished = unfinished_jobs(transaction.connection, organization.id, KIND)
        for each in unfinished:
            if each.parameters == parameters:
                return _document(each)
        if len(unfinished) >= _UNFINISHED_MAX:
            raise TooManyJobs("jobs of quantities", _UNFINISHED_MAX, _RETRY_S)
        job = Job(
            id=transaction.new_id(),
            org_id=organization.id,
            kind=KIND,
            parameters=parameters,
            created=transaction.now,
            author=author,
        )
        submit(transaction.connection, job)
    return _document(job)


def get_quantities_job(organization: Organization, id: str) -> Document:
    """A job of quantities.

    Raises:
        NotFound: The organization has no such job.
    """
    return _document(organization.state.jobs.find(organization.id, id, KIND))


def _document(job: Job) -> Document:
    found = {
        "id": job.id,
        "status": job.status.value,
        **job.parameters,
        **job.result,
        "error": job.error,
        "createdBy": job.author,
        "dtCreated": job.created,
    }
    return {name: value for name, value in found.items() if value is not None}


def _calculate(run: JobRun[None]) -> None:
    job = run.job
    frequency = BillingFrequency(job.parameters["frequency"])
    found = aggregate(
        run.stores.organization(job.org_id), PeriodSpec.named(frequency, job.parameters["period"])
    )
    job.result = {
        "quantities": len(found.rows),
        "changed": found.appended,
        "snapshot": found.snapshot,
        "runId": found.run_id,
    }


def _describe(_: Any, job: Job) -> str:
    return f"quantities of {job.parameters['period']}"


QUANTITIES: Final = JobSpec(
    kinds=(KIND,),
    name="job of quantities",
    work=_calculate,
    concurrency=one,
    # It is one question to the lake, and nothing is kept before its end.
    stops=False,
    describe=_describe,
)
