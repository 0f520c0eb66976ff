"""What a calculation of chosen bills touches beside them, before it, and what it changed, after it."""

from collections.abc import Sequence
from typing import Any, Final

from meterlake.model.bills.jobs import CHANGED, KIND, BillOrder, BillRelation
from meterlake.model.errors import NotFound
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.config.entities import Document
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.billing.bills.related import RelatedBill, related_bills
from meterlake.stores.state.billing.bills.versions import list_versions

_CHANGING: Final = frozenset({BillOutcome.CREATED, BillOutcome.UPDATED})


def check_recalculation(organization: Organization, ids: Sequence[str]) -> Document:
    """The other bills that have to do with bills that somebody calculates again.

    Raises:
        NotFound: One of the bills does not exist.
    """
    with organization.reading() as reader:
        for id_ in ids:
            bills.get(reader, id_)
        return {"data": [_related_to_wire(each) for each in related_bills(reader, ids)]}


def _related_to_wire(bill: RelatedBill) -> dict[str, Any]:
    """A related bill; it is calculated if it draws after the others and may still change."""
    return {
        "billId": bill.id,
        "accountId": bill.account_id,
        "accountCode": bill.account_code,
        "billDate": bill.bill_date,
        "currency": bill.currency,
        "billTotal": bill.total,
        "status": bill.status.value,
        "locked": bill.is_closed,
        "relation": bill.relation.value,
        "recalculated": bill.relation is BillRelation.DRAWS_AFTER and not bill.is_closed,
    }


def changed_versions(result: BillResult) -> list[list[Any]]:
    """The bills of a run that changed: each with the first and the last version that it made."""
    found: dict[str, list[Any]] = {}
    for each in result.bills:
        if each.stored in _CHANGING:
            first = found.get(each.bill_id, [each.bill_id, each.version])[1]
            found[each.bill_id] = [each.bill_id, first, each.version]
    return list(found.values())


def list_changed_bills(organization: Organization, job_id: str) -> Document:
    """The bills that a job changed which made chosen bills again, with both totals.

    Raises:
        NotFound: The organization has no such job.
    """
    job = organization.state.jobs.find(organization.id, job_id, KIND)
    chosen = BillOrder.from_wire(job.parameters).bill_ids
    with organization.reading() as reader:
        changed = [_changed_to_wire(reader, *each) for each in job.result.get(CHANGED, ())]
    found = [{**each, "chosen": each["billId"] in chosen} for each in changed if each]
    return {"data": sorted(found, key=lambda each: (not each["chosen"], each["accountCode"]))}


def _changed_to_wire(reader: Reader, id_: str, first: int, last: int) -> dict[str, Any]:
    """A bill before and after versions that a job made; nothing of one that there is not any more."""
    try:
        versions = list_versions(reader, id_)
    except NotFound:
        return {}
    before = [each for each in versions if each.version < first]
    after = [each for each in versions if each.version <= last][-1]
    found = {
        "billId": id_,
        "accountId": after.content.key.account_id,
        "accountCode": str(after.content.body.get("accountCode", "")),
        "billDate": after.content.key.bill_date,
        "currency": after.content.currency,
        "before": before[-1].content.total if before else None,
        "billTotal": after.content.total,
        "version": after.version,
    }
    return {name: value for name, value in found.items() if value is not None}
