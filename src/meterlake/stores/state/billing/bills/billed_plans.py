"""For which times account plans stand on bills."""

from collections import defaultdict
from collections.abc import Collection
from datetime import date, datetime

from sqlalchemy import literal, select

from meterlake.model.bills.bill import BilledTime
from meterlake.model.values.period import Period
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE


def billed_plans(
    reader: Reader, account_ids: Collection[str], after: date
) -> dict[str, list[BilledTime]]:
    """The bills of some accounts after a day, by the ids of the account plans that stand on them."""
    plan_id = member_text(BILL_LINE.c.pins, literal("accountPlanId"))
    times = (
        member_text(BILL.c.body, literal(name)) for name in ("startDateTimeUTC", "endDateTimeUTC")
    )
    found: dict[str, list[BilledTime]] = defaultdict(list)
    for ids in chunks_of(account_ids):
        query = (
            select(plan_id, BILL.c.bill_date, *times)
            .join(BILL_LINE, BILL_LINE.c.bill_id == BILL.c.id)
            .where(
                BILL.c.org == reader.org_id,
                BILL.c.account_id.in_(ids),
                BILL.c.bill_date > after,
                plan_id.is_not(None),
            )
            .distinct()
        )
        for id_, bill_date, start, end in reader.connection.execute(query):
            period = Period(*(datetime.fromisoformat(each) for each in (start, end)))
            found[id_].append(BilledTime(bill_date, period))
    return dict(found)
