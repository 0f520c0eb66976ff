"""What was handed over of bills: by which integrations, and under which ids of the same bill."""

from collections import defaultdict
from collections.abc import Collection
from typing import Final

from sqlalchemy import and_, case, func, or_, select

from meterlake.model.configuration.integration_systems import BILL
from meterlake.model.configuration.integrations import RunAction, RunStatus
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.integrations.run_tables import INTEGRATION_RUN, INTEGRATION_TRY
from meterlake.stores.state.integrations.runs import RunContent
from meterlake.stores.state.jobs import JOB

_RUN: Final = INTEGRATION_RUN.c
_TRY: Final = INTEGRATION_TRY.c
_SENDS: Final = (_RUN.entity_type == BILL, _RUN.action == RunAction.SEND.value)
# A try that may have reached the other system: it answered, or nobody knows.
_REACHED: Final = or_(
    _TRY.status_code.is_not(None), and_(_TRY.error.is_not(None), _TRY.request != "")
)


def configs_that_took(reader: Reader, bill_ids: Collection[str]) -> dict[str, set[str]]:
    """The integrations that have runs which send some bills, by bill."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for some in chunks_of(bill_ids):
        query = select(_RUN.entity_id, _RUN.config_id).where(
            _RUN.org == reader.org_id,
            *_SENDS,
            _RUN.entity_id.in_(some),
            _RUN.config_id.is_not(None),
        )
        for row in reader.connection.execute(query.distinct()):
            found[row.entity_id].add(row.config_id)
    return found


def may_be_there(reader: Reader, run_id: str, content: RunContent) -> bool:
    """Whether the bill of a run may have reached the other system by the run's integration before.

    A try that nobody wrote down counts as one that arrived: whoever made it may have died after it.
    """
    mine = (_RUN.org == reader.org_id, *_SENDS, _RUN.entity_id == content.entity_id)
    tries = func.count(_TRY.number)
    reached = func.sum(case((_REACHED, 1), else_=0))
    # A run that is switched off ends without a try, and that of the run itself is only beginning.
    without = or_(_RUN.status == RunStatus.DISABLED.value, _RUN.id == run_id)
    unwritten = JOB.c.attempt > tries + case((without, 1), else_=0)
    query = (
        select(_RUN.id)
        .join(JOB, JOB.c.id == _RUN.id)
        .outerjoin(INTEGRATION_TRY, _TRY.run_id == _RUN.id)
        .where(*mine, _RUN.config_id == content.config_id)
        .group_by(_RUN.id, _RUN.status, JOB.c.attempt)
        .having(or_(reached > 0, unwritten))
    )
    return reader.connection.execute(query.limit(1)).first() is not None


def other_ids(reader: Reader, content: RunContent) -> list[str]:
    """The ids under which the bill of a run was sent to the same system before it was deleted."""
    if content.subject is None:
        return []
    query = select(_RUN.entity_id).where(
        _RUN.org == reader.org_id,
        *_SENDS,
        _RUN.subject == content.subject,
        _RUN.destination == content.destination,
        _RUN.entity_id != content.entity_id,
    )
    return sorted(reader.connection.execute(query.distinct()).scalars())
