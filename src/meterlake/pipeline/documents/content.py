"""The document of a bill as plain data, read from the stores.

The lines and their usage are those of the bill, from what it pins. Who sends it and who pays it are
as they were when the bill was approved; a draft shows them as they are.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeVar

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.document import AppendixDetail, BillDocument, DocumentParty
from meterlake.model.bills.statements import (
    DEFAULT_DEFINITION,
    StatementContent,
    StatementLine,
    StatementOrder,
)
from meterlake.model.catalog.counters import CounterPricing
from meterlake.model.catalog.plans import Pricing
from meterlake.model.configuration.organization import Currency, CustomFields
from meterlake.model.configuration.statements import AggregationFrequency
from meterlake.model.customers.accounts import Account, Address
from meterlake.model.errors import NotFound
from meterlake.model.values.entity import Entity
from meterlake.model.values.money import plain
from meterlake.pipeline.billing.bill_documents import bill_response
from meterlake.pipeline.billing.line_usage import OF_USAGE
from meterlake.pipeline.statements.content import (
    BillLine,
    ContentOrder,
    ReadBill,
    read_bill,
    read_contents,
)
from meterlake.stages.bill.pricing.currencies import MODE_DEFAULT, PLACES_DEFAULT
from meterlake.stages.document.document import build_document
from meterlake.stages.document.document_data import (
    BandPrice,
    CurrencyRounding,
    DocumentFacts,
    LineDraw,
    NamedAccount,
    ReferencedBill,
    clean_lines,
    clean_text,
)
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.entity_history import deleted_records

_E = TypeVar("_E", bound=Entity)

# Bills with more lines of usage have no appendix unless somebody asks for it: each is a query.
DAYS_MAX: Final = 100
_FREQUENCIES: Final = {
    AppendixDetail.DAY: AggregationFrequency.DAY,
    AppendixDetail.WEEK: AggregationFrequency.WEEK,
    AppendixDetail.MONTH: AggregationFrequency.MONTH,
    AppendixDetail.TOTAL: AggregationFrequency.WHOLE_PERIOD,
}
Fields = Mapping[str, str | Decimal]

SELLER_NAME: Final = "sellerName"
SELLER_ADDRESS: Final = "sellerAddress"
SELLER_EMAIL: Final = "sellerEmail"
SELLER_TAX_ID: Final = "sellerTaxId"
CUSTOMER_TAX_ID: Final = "taxId"
# Of an address: those that stand in lines of their own before the place, and after it.
_STREET: Final = ("address_line1", "address_line2", "address_line3", "address_line4")
_DEFAULT: Final = CurrencyRounding(PLACES_DEFAULT, MODE_DEFAULT)


def read_document(
    organization: Organization, bill_id: str, detail: AppendixDetail = AppendixDetail.AUTO
) -> BillDocument:
    """The document of a bill; see `read_documents`."""
    [found] = read_documents(organization, [bill_id], detail)
    return found


def read_documents(
    organization: Organization,
    bill_ids: Sequence[str],
    detail: AppendixDetail = AppendixDetail.AUTO,
) -> list[BillDocument]:
    """The documents of some bills. What they share in the lake is read once.

    Raises:
        NotFound: There is no such bill.
        UnbalancedBill: The numbers of one do not add up.
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        read = [_read_bill(reader, organization, each, detail) for each in bill_ids]
    wanted = [
        ContentOrder(
            each.read,
            StatementOrder(each.read.bill.id),
            # The lines with their usage, whatever the statements of the account show.
            DEFAULT_DEFINITION.model_copy(
                update={"aggregation_frequency": _FREQUENCIES[each.facts.detail]}
            ),
        )
        for each in read
        if each.facts.detail is not AppendixDetail.NONE
    ]
    contents = read_contents(organization, wanted) if wanted else []
    lines = {each.bill["id"]: each.lines for each in contents}
    return [build_document(each.with_lines(lines)) for each in read]


class _ReadDocument(NamedTuple):
    """A bill, and what its document says but for its usage."""

    read: ReadBill
    facts: DocumentFacts

    def with_lines(self, lines: Mapping[str, Sequence[StatementLine]]) -> DocumentFacts:
        """What the document says, with the lines of its bill where they have usage."""
        content = self.facts.content
        shown = lines.get(self.read.bill.id, content.lines)
        return replace(self.facts, content=replace(content, lines=shown))


def _read_bill(
    reader: Reader, organization: Organization, bill_id: str, detail: AppendixDetail
) -> _ReadDocument:
    detail = _choose_detail(bills.get(reader, bill_id), detail)
    read = read_bill(reader, bill_id, usages=detail is not AppendixDetail.NONE)
    return _ReadDocument(read, _read_facts(reader, read, detail, organization))


def _choose_detail(bill: StoredBill, detail: AppendixDetail) -> AppendixDetail:
    if detail is not AppendixDetail.AUTO:
        return detail
    lines = sum(1 for each in bill.content.lines if each.body["lineItemType"] in OF_USAGE)
    return AppendixDetail.DAY if lines <= DAYS_MAX else AppendixDetail.NONE


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
    accounts: dict[str, NamedAccount] = {}
    ids = {each.body.get("childAccountId") for each in bill.content.lines} - {None}
    for id_ in sorted(ids):
        found = _entity_at(reader, Account, id_, at)
        accounts[id_] = NamedAccount(clean_text(found.code), clean_text(found.name))
    # Where the bands of each line's price begin, as its price was.
    limits: dict[str, list[Decimal]] = {}
    known: dict[tuple[str, Any, bool], list[Decimal]] = {}
    for line in bill.content.lines:
        pricing_id, bands = line.body.get("pricingId"), line.body.get("usagePerPricingBand")
        if pricing_id is None or not bands:
            continue
        is_overage = line.body["lineItemType"] == "OVERAGE_USAGE"
        key = pricing_id, line.pins.get("pricingVersion"), is_overage
        if key not in known:
            known[key] = _limits_of(reader, *key)
        limits[line_id(bill.id, line.key)] = known[key]
    return DocumentFacts(
        content=StatementContent(shown, read.account_name, None, (), lines),
        seller=seller_of(organization.name, organization.code, fields.organization),
        customer=customer_of(customer, fields.account),
        detail=detail,
        accounts=accounts,
        draws=_read_draws(bill),
        limits=limits,
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


def seller_of(name: str, code: str, fields: Fields) -> DocumentParty:
    """The organization; what its custom fields do not say is not there."""
    texts = _texts(fields)
    return DocumentParty(
        name=clean_text(texts.get(SELLER_NAME) or name),
        code=clean_text(code),
        address=clean_lines(texts.get(SELLER_ADDRESS, "")),
        email=_optional(texts, SELLER_EMAIL),
        taxId=_optional(texts, SELLER_TAX_ID),
        fields=texts,
    )


def customer_of(account: Account, defaults: Fields) -> DocumentParty:
    """The account that is billed, with its custom fields, or what they are by default."""
    texts = _texts({**defaults, **account.custom_fields})
    return DocumentParty(
        name=clean_text(account.name),
        code=clean_text(account.code),
        address=address_lines(account.address),
        email=clean_text(account.email_address),
        taxId=_optional(texts, CUSTOMER_TAX_ID),
        fields=texts,
    )


def _texts(fields: Fields) -> dict[str, str]:
    """Custom fields as texts; one of several lines keeps them."""
    return {
        clean_text(name): "\n".join(clean_lines(value)) if isinstance(value, str) else plain(value)
        for name, value in sorted(fields.items())
    }


def _optional(texts: Mapping[str, str], name: str) -> str | None:
    return clean_text(texts.get(name, "")) or None


def address_lines(address: Address | None) -> list[str]:
    """An address as it stands on a letter."""
    if address is None:
        return []
    city = " ".join(filter(None, (address.post_code, address.locality)))
    lines = [*(getattr(address, name) for name in _STREET), city, address.region, address.country]
    return [line for each in lines if each for line in clean_lines(each)]


def read_band_prices(reader: Reader, read: ReadBill) -> Iterator[BandPrice]:
    """The lines whose bands say what they cost, alone or together.

    A line of usage that was cut where its sources ran dry adds up with the rest of it. If the rest
    has bands of its own, what stays is what sources paid. A usage credit is at most what its bands
    come to.
    """
    groups: dict[tuple[Any, ...], list[BillLine]] = defaultdict(list)
    for each in read.lines:
        if _type_of(each) is not LineItemType.USAGE_CREDIT:
            groups[each.sharing].append(each)
    # How the bill rounded each currency; without those that nobody had described.
    versions = read.bill.content.pins["versions"]
    currencies = {}
    for record in (*reader.all(Currency), *deleted_records(reader, Currency)):
        entity = reader.at_version(Currency, record.id, versions.get(record.id))
        if entity is not None and entity.code:
            currencies[entity.code] = CurrencyRounding(
                entity.max_decimal_places, entity.rounding_mode
            )
    for lines in groups.values():
        beyond = [each for each in lines if _type_of(each) is LineItemType.OVERAGE_USAGE]
        repriced = [each for each in beyond if _has_bands_beyond(reader, each)]
        if beyond and not repriced:
            parts = [lines] if any(map(_has_bands, lines)) else []
        else:
            parts = [[each] for each in repriced or lines if _has_bands(each)]
        for part in parts:
            yield _price(part, read.bill, currencies, is_cut=bool(beyond) and not repriced)


def _has_bands(line: BillLine) -> bool:
    return bool(line.shown.get("usagePerPricingBand"))


def _type_of(line: BillLine) -> LineItemType:
    return LineItemType(line.shown["lineItemType"])


def _price(
    lines: Sequence[BillLine],
    bill: StoredBill,
    currencies: Mapping[str, CurrencyRounding],
    *,
    is_cut: bool,
) -> BandPrice:
    first = lines[0]
    return BandPrice(
        line_ids=[each.shown["id"] for each in lines],
        days=(first.line.pins.get("activeDays", 1), first.line.pins.get("periodDays", 1)),
        own=None if is_cut else currencies.get(first.shown["currency"], _DEFAULT),
        billed=currencies.get(bill.content.currency, _DEFAULT),
    )


def _has_bands_beyond(reader: Reader, line: BillLine) -> bool:
    """Whether usage beyond sources is priced by bands of its own, as the pricing was."""
    if Decimal(line.shown["units"]) <= 0:
        return False
    version = line.line.pins.get("pricingVersion")
    pricing = reader.at_version(Pricing, line.shown["pricingId"], version)
    return pricing is not None and bool(pricing.overage_pricing_bands)
