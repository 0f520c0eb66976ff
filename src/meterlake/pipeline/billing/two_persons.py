"""Two-person approval: who calculated a bill last, or changed its prices, does not approve it.

The organization decides whether it wants that. It is about people and programs by the name that
their changes have. What the worker does by itself, such as bills and approvals by schedule, is
nobody's work: a calculation of it that changes nothing takes the last one from nobody.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from meterlake.model.catalog.counters import CounterPricing
from meterlake.model.catalog.plans import Plan, PlanGroup, PlanTemplate, Pricing
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Forbidden
from meterlake.model.values.ids import UNNAMED
from meterlake.model.values.plurals import counted
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.bulk_approval import (
    BillWork,
    DatedChange,
    entities_changed_by,
    read_work,
)

# Whose calculations count for nobody.
_NOBODY: Final = (SYSTEM, UNNAMED, "flow")
# What people mean by prices.
_PRICES: Final = (Pricing, CounterPricing, Plan, PlanTemplate, PlanGroup)
# No time zone is further ahead of UTC: a change on the first day counts wherever that begins.
_AHEAD: Final = timedelta(hours=14)


class OwnWork(NamedTuple):
    """A bill that somebody may not approve, and why."""

    bill_id: str
    account_code: str
    reason: str

    def to_wire(self) -> dict[str, Any]:
        """The bill as the API shows it."""
        return {
            "billId": self.bill_id,
            "accountCode": self.account_code,
            "reason": self.reason,
        }


def own_work(reader: Reader, author: str, bill_ids: Sequence[str]) -> list[OwnWork]:
    """Those of some bills that somebody may not approve; none if the organization does not mind."""
    [config] = reader.all(OrganizationConfig)
    if author == SYSTEM or not config.entity.two_person_approval or not bill_ids:
        return []
    works = read_work(reader, bill_ids, _NOBODY)
    if not works:
        return []
    first = min(each.first_day for each in works)
    since = datetime.combine(first, time(), UTC) - _AHEAD
    changed = entities_changed_by(reader, author, _PRICES, since)
    zone = ZoneInfo(config.entity.timezone)
    return [
        OwnWork(each.id, each.account_code, reason)
        for each in works
        if (reason := _reason(each, author, changed, zone)) is not None
    ]


def _reason(
    work: BillWork, author: str, changed: Mapping[str, list[DatedChange]], zone: ZoneInfo
) -> str | None:
    """Why a bill is somebody's own work; None if it is not."""
    if author == UNNAMED:
        return "you gave no name; say with `--as` who you are"
    if work.calculated_by == author:
        return "you had it calculated last"
    if author in work.memo_authors:
        return "you put a credit or a debit on it"
    since = datetime.combine(work.first_day, time(), UTC) - _AHEAD
    end = datetime.combine(work.end_day, time(), zone)
    # A price that ends, or goes on, after the bill's period is what it was within it.
    if any(
        each.at >= since and (each.since is None or each.since < end)
        for id_ in work.entity_ids & changed.keys()
        for each in changed[id_]
    ):
        return "you changed a price of it since its period began"
    return None


def refuse_own_work(reader: Reader, author: str, bill_ids: Sequence[str]) -> None:
    """Refuse an approval by somebody who calculated one of the bills last, or changed its prices.

    Raises:
        Forbidden: The organization wants two persons, and there is such a bill.
    """
    found = own_work(reader, author, bill_ids)
    if found:
        first = found[0]
        more = f", and {counted(len(found) - 1, 'bill')} more" if len(found) > 1 else ""
        raise Forbidden(
            f"the bill of {first.account_code!r} needs another person's approval: {first.reason}"
            f"{more}; the organization wants two persons (`twoPersonApproval`): ask a colleague"
        )


def check_approval(organization: Organization, author: str, bill_ids: Sequence[str]) -> list[Any]:
    """The bills that somebody may not approve, as the API shows them."""
    with organization.reading() as reader:
        return [each.to_wire() for each in own_work(reader, author, bill_ids)]
