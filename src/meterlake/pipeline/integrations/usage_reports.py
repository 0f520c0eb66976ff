"""What was reported to marketplaces, bill by bill."""

from datetime import date

from meterlake.model.values.period import format_instant
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores import Stores
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.marketplace import MarketplaceRecord, list_reports


def usage_reports(
    stores: Stores, org_id: str, filters: dict[str, str], since: date | None, page: Page
) -> Document:
    """One page of bills with what the marketplace took of each, by dimension and hour.

    Raises:
        Invalid: The token is none that a list gave.
    """
    with stores.state.reading(org_id) as reader:
        found, token = list_reports(reader, filters, since, page.size, page.token)
    return envelope([_report(bill_id, records) for bill_id, records in found], token)


def _report(bill_id: str, records: list[MarketplaceRecord]) -> Document:
    usage: dict[str, dict[str, int]] = {}
    for each in records:
        usage.setdefault(each.dimension, {})[format_instant(each.hour)] = each.quantity
    first = records[0]
    return {
        "accountId": first.account_id,
        "billId": bill_id,
        "externalSystem": first.system,
        "reportedUsage": usage,
    }
