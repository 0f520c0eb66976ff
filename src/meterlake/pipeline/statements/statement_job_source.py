"""Statement jobs as scheduled events read them."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import select

from meterlake.model.bills.statement_orders import KIND, StatementOrder
from meterlake.pipeline.events.scheduled import CurrentEntity
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.statements.files import (
    NO_FILES,
    statement_files,
)
from meterlake.stores.state.billing.statements.jobs import job_document
from meterlake.stores.state.core.chunks import chunks_of
from meterlake.stores.state.jobs.job import Job, job_of
from meterlake.stores.state.jobs.table import JOB


class StatementJobSource:
    """Reads statement jobs."""

    def ids_after(self, reader: Reader, last_id: str, most: int) -> Sequence[str]:
        """The next ids in the order of ids."""
        query = select(JOB.c.id).where(
            JOB.c.org == reader.org_id, JOB.c.kind == KIND.value, JOB.c.id > last_id
        )
        return list(reader.connection.execute(query.order_by(JOB.c.id).limit(most)).scalars())

    def read(self, reader: Reader, ids: Collection[str]) -> Mapping[str, CurrentEntity]:
        """Those that there are of some, by id."""
        jobs: list[Job] = []
        for some in chunks_of(ids):
            query = select(JOB).where(JOB.c.org == reader.org_id, JOB.c.id.in_(some))
            jobs += map(job_of, reader.connection.execute(query))
        bill_ids = {each.id: StatementOrder.from_wire(each.parameters).bill_id for each in jobs}
        files = statement_files(reader, set(bill_ids.values()))
        found: dict[str, CurrentEntity] = {}
        for job in jobs:
            bill_id = bill_ids[job.id]
            document = job_document(job, files.get(bill_id, NO_FILES))
            found[job.id] = CurrentEntity("StatementJob", None, document)
        return found
