"""Late usage of bills as people and programs ask for it: noted by runs, or not yet."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from meterlake.model.bills.late_usage import LateUsage, LateUsageStatus, merge_sources, total_of
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.late_usage.findings import read_unnoted
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.late_usage.carried import carried_amounts
from meterlake.stores.state.billing.late_usage.late_bills import late_bills_by_id
from meterlake.stores.state.billing.late_usage.lists import (
    bills_with_undecided,
    list_late_usage,
)
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.pages import Page, key_of, key_token

if TYPE_CHECKING:
    from meterlake.pipeline.billing.late_usage.comparison import LateComparison


_ALL = 1000
# Of bills, by their ids.
Unnoted = Mapping[str, LateUsage]


def list_late(
    organization: Organization,
    *,
    period: str | None = None,
    account_codes: Collection[str] | None = None,
) -> list[LateUsage]:
    """All late usage of bills, by bill date, with the dates of the bills that carry it.

    Raises:
        NotFound: There is no such account.
        Unavailable: State cannot be reached.
    """
    with organization.reading() as reader:
        ids = None if account_codes is None else account_names.ids_of(reader, account_codes)
        found: list[LateUsage] = []
        page: Page | None = Page(_ALL)
        while page is not None:
            some, token = list_late_usage(reader, page, period=period, account_ids=ids)
            found += some
            page = Page(_ALL, token) if token else None
        shown = with_carriers(reader, found)
    return sorted(shown, key=_by_bill)


def list_all_late(
    organization: Organization,
    *,
    period: str | None = None,
    account_codes: Collection[str] | None = None,
) -> list[LateUsage]:
    """As `list_late`, with what came since, of which no run has taken note yet.

    Raises:
        NotFound: There is no such account.
        Unavailable: A store failed.
    """
    noted = list_late(organization, period=period, account_codes=account_codes)
    with organization.reading() as reader:
        ids = None if account_codes is None else account_names.ids_of(reader, account_codes)
    unnoted = find_unnoted(organization, period, ids)
    found = complete_noted(noted, unnoted)
    known = {each.bill_id for each in found if each.is_open and not each.is_correction}
    found += [each for each in unnoted.values() if each.bill_id not in known]
    return sorted(with_differences(organization, found, unnoted), key=_by_bill)


def _by_bill(late: LateUsage) -> tuple[date, str, datetime]:
    return late.bill_date, late.account_code, late.found


def with_carriers(reader: Reader, found: Sequence[LateUsage]) -> list[LateUsage]:
    """Late usage with the dates of the bills that carry it, as far as they are there."""
    ids = {line.memo_bill_id for each in found for line in each.lines if line.memo_bill_id}
    dates = {id_: bill.key.bill_date for id_, bill in late_bills_by_id(reader, ids, {}).items()}
    return [
        replace(
            each,
            carriers={
                line.memo_bill_id: dates[line.memo_bill_id]
                for line in each.lines
                if line.memo_bill_id in dates
            },
        )
        for each in found
    ]


def list_page(
    organization: Organization,
    page: Page,
    *,
    period: str | None = None,
    account_id: str | None = None,
    status: str | None = None,
) -> Document:
    """One page of late usage, also of what no run has taken note of yet.

    Raises:
        Invalid: There is no such status or month, or the token is none that a list gave.
    """
    if period is not None:
        try:
            Month.parse(period)
        except Invalid as error:
            raise Invalid("period", period, error.args[2]) from error
    known = [each.value for each in LateUsageStatus]
    if status is not None and status not in known:
        raise Invalid("status", status, f"it must be one of {', '.join(known)}")
    chosen = None if status is None else LateUsageStatus(status)
    ids = None if account_id is None else [account_id]
    unnoted = find_unnoted(organization, period, ids)
    with organization.reading() as reader:
        found, token = list_late_usage(reader, page, period=period, account_ids=ids, status=chosen)
        undecided = bills_with_undecided(reader, unnoted)
    found = complete_noted(found, unnoted)
    # What no run has decided is open, or has come to nothing: that is calculated below.
    if chosen in {None, LateUsageStatus.OPEN, LateUsageStatus.UNCHANGED}:
        behind = key_of(page.token) if page.token else None
        found += [
            each
            for each in unnoted.values()
            if each.bill_id not in undecided and (behind is None or _is_behind(each, behind, page))
        ]
    if len(found) > page.size:
        found = sorted(found, key=_place, reverse=not page.oldest_first)[: page.size]
        token = key_token(*_place(found[-1]))
    shown = with_differences(
        organization, sorted(found, key=_place, reverse=not page.oldest_first), unnoted
    )
    return envelope([each.to_wire() for each in shown if chosen in {None, each.status}], token)


def _is_behind(late: LateUsage, place: tuple[datetime, str], page: Page) -> bool:
    return _place(late) > place if page.oldest_first else _place(late) < place


def _place(late: LateUsage) -> tuple[datetime, str]:
    return late.found, late.id


def find_unnoted(
    organization: Organization, period: str | None, account_ids: Collection[str] | None
) -> Unnoted:
    """What came late since a run looked for it, by bill.

    Args:
        organization: The organization.
        period: Only of bills of this month; of all if None.
        account_ids: Only of these accounts; of all if None.
    """
    return {
        each.bill_id: each
        for each in read_unnoted(organization)
        if (period is None or each.period == period)
        and (account_ids is None or each.account_id in account_ids)
    }


def complete_noted(noted: Sequence[LateUsage], unnoted: Unnoted) -> list[LateUsage]:
    """Noted late usage, with what came since as long as nothing was done about it for good.

    A run adds that to it, too: so each bill that lacks something is listed once.
    """
    found = []
    for each in noted:
        more = unnoted.get(each.bill_id)
        if more is not None and each.is_open and not each.is_correction:
            sources = merge_sources(each.sources, more.sources)
            found.append(replace(each, sources=sources, until=more.until))
        else:
            found.append(each)
    return found


def with_differences(
    organization: Organization, found: Sequence[LateUsage], unnoted: Unnoted
) -> list[LateUsage]:
    """Late usage with what its bills lack, calculated for those that something came for since."""
    ids = {each.bill_id for each in found if _is_new(each, unnoted)}
    if not ids:
        return list(found)
    # Who looks where nothing came late loads nothing that calculates bills.
    from meterlake.pipeline.billing.late_usage.comparison import compare_with_usage  # noqa: PLC0415 - loads what calculates bills

    with organization.reading() as reader:
        bills = late_bills_by_id(reader, ids, {})
    snapshot = organization.lake.snapshot()
    compared = {
        each.bill.id: each
        for each in compare_with_usage(organization, list(bills.values()), snapshot)
    }
    with organization.reading() as reader:
        return [
            _with_difference(reader, each, compared[each.bill_id])
            if _is_new(each, unnoted) and each.bill_id in compared
            else each
            for each in found
        ]


def _is_new(late: LateUsage, unnoted: Unnoted) -> bool:
    """Whether something came for it that no run has noted."""
    return late.bill_id in unnoted and late.until == unnoted[late.bill_id].until and late.is_open


def _with_difference(reader: Reader, late: LateUsage, comparison: "LateComparison") -> LateUsage:
    from meterlake.pipeline.billing.late_usage.carrying import line_to_carry  # noqa: PLC0415 - loads what calculates bills
    from meterlake.stages.bill.late_usage import find_differences  # noqa: PLC0415 - loads what calculates bills

    if comparison.failure is not None:
        return replace(late, reason=comparison.failure)
    bill = comparison.bill
    carried = carried_amounts(reader, bill)
    lines = [
        line_to_carry(bill, each)
        for each in find_differences(comparison.billed, comparison.due, carried)
    ]
    status = late.status
    if not lines and bill.content_version == late.bill_version:
        # As the next run decides it: what came and went again, or is free, is nothing to do.
        status = LateUsageStatus.UNCHANGED
    return replace(late, status=status, difference=total_of(lines), lines=lines)
