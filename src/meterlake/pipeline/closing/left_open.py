"""Bills that the approval of a month leaves open: somebody names each of them, with a reason."""

from collections.abc import Sequence
from typing import NamedTuple

from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.named_bills import find_bills
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.summaries import read_month_bills
from meterlake.stores.state.core.account_names import by_code


class LeftOpen(NamedTuple):
    """A bill that an approval leaves out, and why."""

    bill_id: str
    reason: str


def name_left_open(
    organization: Organization, month: Month, asked: Sequence[tuple[str, str]]
) -> tuple[LeftOpen, ...]:
    """The bills that somebody wants to leave open.

    Args:
        organization: The organization.
        month: The month that is approved.
        asked: What somebody calls the bills, and why they stay open: the code of an account means
            its bills of the month; else one bill, as `find_bills` takes it.

    Raises:
        NotFound: Nothing is called so.
        Invalid: It is no bill of the month, or none that waits for an approval.
    """
    with organization.reading() as reader:
        waiting = [
            each
            for each in read_month_bills(reader, str(month))
            if each.status is BillStatus.PENDING and not each.is_locked
        ]
        accounts = by_code(reader, [name for name, _ in asked])
    found: dict[str, str] = {}
    for name, reason in asked:
        account = accounts.get(name)
        if account is not None:
            ids = [each.id for each in waiting if each.account_id == account.id]
        else:
            named = find_bills(organization, [name])
            ids = [each.id for each in waiting if each.id in named]
        if not ids:
            rule = (
                f"it must be a bill of {month} that waits for an approval, or an account with one"
            )
            raise Invalid("leaveOpen", name, rule)
        found |= {id_: reason for id_ in ids if id_ not in found}
    return tuple(LeftOpen(*each) for each in found.items())
