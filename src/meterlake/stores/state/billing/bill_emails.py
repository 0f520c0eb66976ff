"""Letters that brought bills to somebody: each is a job, whose id follows from the bill and its number.

So two that ask for the first letter of a bill at the same time ask for the same job.
"""

from itertools import count
from typing import Final
from uuid import NAMESPACE_OID, uuid5

from sqlalchemy import select

from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.jobs.jobs import Job, job_of
from meterlake.stores.state.jobs.table import JOB

KIND: Final = JobKind.BILL_LETTER


def letter_id(bill_id: str, number: int) -> str:
    """The id of a letter of a bill, which are numbered from 1."""
    return str(uuid5(NAMESPACE_OID, f"letter of bill {bill_id} {number}"))


def letters_of(reader: Reader, bill_id: str) -> list[Job]:
    """The letters of a bill, the first one first."""
    found: list[Job] = []
    for number in count(1):
        mine = JOB.c.id == letter_id(bill_id, number)
        row = reader.connection.execute(select(JOB).where(JOB.c.org == reader.org_id, mine)).first()
        if row is None:
            break
        found.append(job_of(row))
    return found
