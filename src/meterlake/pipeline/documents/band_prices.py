"""What the bands of a bill's lines have to come to, by what the lines were made from."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.bill import LineItemType
from meterlake.model.catalog.pricing import Pricing
from meterlake.model.configuration.organization import Currency
from meterlake.pipeline.statements.content import BillLine, ReadBill
from meterlake.stages.bill.pricing.currencies import MODE_DEFAULT, PLACES_DEFAULT
from meterlake.stages.document.facts import BandPrice, CurrencyRounding
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.past import deleted_records

_DEFAULT: Final = CurrencyRounding(PLACES_DEFAULT, MODE_DEFAULT)


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
    currencies = _read_roundings(reader, read.bill)
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


def _read_roundings(reader: Reader, bill: StoredBill) -> dict[str, CurrencyRounding]:
    """How the bill rounded each currency; without those that nobody had described."""
    versions = bill.content.pins["versions"]
    found = {}
    for record in (*reader.all(Currency), *deleted_records(reader, Currency)):
        entity = reader.at_version(Currency, record.id, versions.get(record.id))
        if entity is not None and entity.code:
            found[entity.code] = CurrencyRounding(entity.max_decimal_places, entity.rounding_mode)
    return found
