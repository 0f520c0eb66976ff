"""Late usage of bills as people and programs ask for it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date, datetime

from meterlake.model.bills.late_usage import LateUsage, LateUsageStatus
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.late_usage.unnoted import (
    complete_noted,
    find_unnoted,
    with_differences,
)
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.late_usage.late_bills import late_bills_by_id
from meterlake.stores.state.billing.late_usage.lists import (
    bills_with_undecided,
    list_late_usage,
)
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.pages import Page, key_of, key_token

_ALL = 1000


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
