"""The document of a bill as plain data, read from the stores.

The lines and their usage are those of the bill, from what it pins. Who sends it and who pays it are
as they were when the bill was approved; a draft shows them as they are.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from meterlake.model.bills.document import AppendixDetail, BillDocument
from meterlake.model.bills.statement_content import (
    DEFAULT_DEFINITION,
    StatementContent,
    StatementLine,
)
from meterlake.model.bills.statement_orders import StatementOrder
from meterlake.model.catalog.counters import CounterPricing
from meterlake.model.catalog.pricing import Pricing
from meterlake.model.configuration.organization import Currency, CustomFields
from meterlake.model.configuration.statements import AggregationFrequency
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.values.entity import Entity
from meterlake.pipeline.billing.bill_documents import bill_response
from meterlake.pipeline.billing.line_usage import OF_USAGE
from meterlake.pipeline.documents.band_prices import read_band_prices
from meterlake.pipeline.documents.parties import customer_of, seller_of
from meterlake.pipeline.statements.content import ReadBill, read_bill, read_content
from meterlake.stages.document.document import build_document
from meterlake.stages.document.facts import (
    DocumentFacts,
    LineDraw,
    NamedAccount,
    ReferencedBill,
)
from meterlake.stages.document.texts import clean_text
from meterlake.stores import Stores
from meterlake.stores.state import Organization, Reader
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memos.lines import line_id
from meterlake.stores.state.billing.stored_bills import StoredBill

_E = TypeVar("_E", bound=Entity)

# Bills with more lines of usage have no appendix unless somebody asks for it: each is a query.
DAYS_MAX: Final = 100
_FREQUENCIES: Final = {
    AppendixDetail.DAY: AggregationFrequency.DAY,
    AppendixDetail.WEEK: AggregationFrequency.WEEK,
    AppendixDetail.MONTH: AggregationFrequency.MONTH,
    AppendixDetail.TOTAL: AggregationFrequency.WHOLE_PERIOD,
}


def read_document(
    stores: Stores, org_id: str, bill_id: str, detail: AppendixDetail = AppendixDetail.AUTO
) -> BillDocument:
    """The document of a bill.

    Raises:
        NotFound: There is no such bill.
        UnbalancedBill: Its numbers do not add up.
        Unavailable: A store failed.
    """
    with stores.state.reading(org_id) as reader:
        detail = _choose_detail(bills.get(reader, bill_id), detail)
        read = read_bill(reader, bill_id, usages=detail is not AppendixDetail.NONE)
        facts = _read_facts(reader, read, detail, stores.state.organization(org_id))
    content = facts.content
    if detail is not AppendixDetail.NONE:
        usage = _read_usage(stores, org_id, read, detail)
        content = replace(content, lines=usage.lines)
    return build_document(replace(facts, content=content))


def _choose_detail(bill: StoredBill, detail: AppendixDetail) -> AppendixDetail:
    if detail is not AppendixDetail.AUTO:
        return detail
    lines = sum(1 for each in bill.content.lines if each.body["lineItemType"] in OF_USAGE)
    return AppendixDetail.DAY if lines <= DAYS_MAX else AppendixDetail.NONE


def _read_usage(
    stores: Stores, org_id: str, read: ReadBill, detail: AppendixDetail
) -> StatementContent:
    """The lines with their usage, whatever the statements of the account show."""
    layout = DEFAULT_DEFINITION.model_copy(update={"aggregation_frequency": _FREQUENCIES[detail]})
    return read_content(stores, org_id, read, StatementOrder(read.bill.id), layout=layout)


def _read_facts(
    reader: Reader, read: ReadBill, detail: AppendixDetail, organization: Organization
) -> DocumentFacts:
    bill, at = read.bill, read.bill.approved
    shown = bill_response(bill, closed_before(reader), lines=False)
    lines = [StatementLine(each.shown) for each in read.lines]
    used = {bill.content.currency, *(each.body["currency"] for each in bill.content.lines)}
    [custom_fields] = reader.all(CustomFields)
    fields = _entity_at(reader, CustomFields, custom_fields.id, at)
    customer = _entity_at(reader, Account, bill.content.key.account_id, at)
    return DocumentFacts(
        content=StatementContent(shown, read.account_name, None, (), lines),
        seller=seller_of(organization.name, organization.code, fields.organization),
        customer=customer_of(customer, fields.account),
        detail=detail,
        accounts=dict(_read_accounts(reader, bill, at)),
        draws=_read_draws(bill),
        limits=dict(_read_limits(reader, bill)),
        band_prices=list(read_band_prices(reader, read)),
        bills=dict(_read_referenced(reader, bill)),
        decimals=_read_decimals(reader, used, at),
    )


def _entity_at(reader: Reader, kind: type[_E], id: str, at: datetime | None) -> _E:
    """An entity as it was at an instant; as it is, or was last, without one."""
    versions = [each for each in reader.history(kind, id) if each.entity is not None]
    if not versions:
        raise NotFound(kind.__name__, id)
    held = [each for each in versions if at is None or each.valid_from <= at]
    found = (held[-1] if held else versions[0]).entity
    assert isinstance(found, kind)
    return found


def _read_accounts(
    reader: Reader, bill: StoredBill, at: datetime | None
) -> Iterator[tuple[str, NamedAccount]]:
    ids = {each.body.get("childAccountId") for each in bill.content.lines} - {None}
    for id_ in sorted(ids):
        found = _entity_at(reader, Account, id_, at)
        yield id_, NamedAccount(clean_text(found.code), clean_text(found.name))


def _read_draws(bill: StoredBill) -> dict[str, list[LineDraw]]:
    """What the lines of commitments and balances pay; lines are kept by their keys."""
    found = {}
    for line in bill.content.lines:
        draws = line.pins.get("draws")
        if draws:
            found[line_id(bill.id, line.key)] = [
                LineDraw(line_id(bill.id, key), Decimal(amount)) for key, amount in draws
            ]
    return found


def _read_limits(reader: Reader, bill: StoredBill) -> Iterator[tuple[str, list[Decimal]]]:
    """Where the bands of each line's price begin, as its price was."""
    known: dict[tuple[str, Any, bool], list[Decimal]] = {}
    for line in bill.content.lines:
        pricing_id, bands = line.body.get("pricingId"), line.body.get("usagePerPricingBand")
        if pricing_id is None or not bands:
            continue
        is_overage = line.body["lineItemType"] == "OVERAGE_USAGE"
        key = pricing_id, line.pins.get("pricingVersion"), is_overage
        if key not in known:
            known[key] = _limits_of(reader, *key)
        yield line_id(bill.id, line.key), known[key]


def _limits_of(reader: Reader, id: str, version: int | None, is_overage: bool) -> list[Decimal]:
    found = reader.at_version(Pricing, id, version)
    priced = found or reader.at_version(CounterPricing, id, version)
    bands = () if priced is None else priced.pricing_bands
    if is_overage and found is not None:
        bands = found.overage_pricing_bands or bands
    return sorted(each.lower_limit for each in bands)


def _read_referenced(reader: Reader, bill: StoredBill) -> Iterator[tuple[str, ReferencedBill]]:
    ids = {each.body.get("referencedBillId") for each in bill.content.lines} - {None}
    for id_ in sorted(ids):
        with suppress(NotFound):
            found = bills.get(reader, id_)
            numbers = {
                line_id(found.id, line.key): number
                for number, line in enumerate(found.content.lines, start=1)
            }
            yield id_, ReferencedBill(found.invoice_number, found.content.key.bill_date, numbers)


def _read_decimals(reader: Reader, used: Collection[str], at: datetime | None) -> dict[str, int]:
    """The decimals of the currencies that a bill uses."""
    found = {each.entity.code or each.entity.name: each.id for each in reader.all(Currency)}
    return {
        code: _entity_at(reader, Currency, id_, at).max_decimal_places
        for code, id_ in found.items()
        if code in used
    }
