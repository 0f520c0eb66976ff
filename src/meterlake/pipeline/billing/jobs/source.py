"""Bill jobs as scheduled events read them."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import select

from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.billing.jobs.documents import job_document
from meterlake.pipeline.events.scheduled import CurrentEntity
from meterlake.stores.state import Reader
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.jobs.jobs import job_of
from meterlake.stores.state.jobs.table import JOB


class BillJobSource:
    """Reads bill jobs."""

    def ids_after(self, reader: Reader, last_id: str, most: int) -> Sequence[str]:
        """The next ids in the order of ids."""
        query = select(JOB.c.id).where(
            JOB.c.org == reader.org_id, JOB.c.kind == JobKind.BILL.value, JOB.c.id > last_id
        )
        return list(reader.connection.execute(query.order_by(JOB.c.id).limit(most)).scalars())

    def read(self, reader: Reader, ids: Collection[str]) -> Mapping[str, CurrentEntity]:
        """Those that there are of some, by id."""
        found: dict[str, CurrentEntity] = {}
        for some in chunks_of(ids):
            query = select(JOB).where(JOB.c.org == reader.org_id, JOB.c.id.in_(some))
            for row in reader.connection.execute(query):
                found[row.id] = CurrentEntity("BillJob", None, job_document(job_of(row)))
        return found
