"""A bill beside the one before it, line by line: what costs more, and whether more was used.

`differences` says why one bill changed; here are two bills, mostly those of two months.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Final

from meterlake.model.errors import Invalid, NotFound
from meterlake.model.values.money import ZERO, RoundingMode, divide, exact, round_amount
from meterlake.pipeline.billing.bills import get_bill
from meterlake.pipeline.config.entities import Document
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills import lists
from meterlake.stores.state.billing.bills.lists import BillFilters

# Lines of two bills are about the same thing if these agree.
_SAME: Final = (
    *("lineItemType", "productId", "aggregationId", "compoundAggregationId", "counterId"),
    *("childAccountId", "segment"),
)
# A line that counts nothing is known by its text.
_COUNTS: Final = ("aggregationId", "compoundAggregationId", "counterId")
# Earlier bills that are looked through for one of the same frequency.
_LISTED: Final = 50


def compare_bills(organization: Organization, id: str, other: str | None = None) -> Document:
    """What a bill has against another one, thing by thing, the largest change first.

    Where both bills count something, `byQuantity` is what the change of the quantity costs at the
    former bill's average price, and `byPrice` the rest; together they are the difference, exactly.

    Args:
        organization: The organization.
        id: The bill.
        other: The bill that it is compared with; the customer's one before it if None.

    Raises:
        NotFound: There is no such bill, or none before it.
        Invalid: The bills are in different currencies.
    """
    bill = get_bill(organization, id)
    former = get_bill(organization, other or _bill_before(organization, bill))
    if bill["currency"] != former["currency"]:
        rule = f"it must be in the currency of the bill, {bill['currency']}"
        raise Invalid("with", former["currency"], rule)
    before, after = (_by_thing(each["lineItems"]) for each in (former, bill))
    things = [_compared(before.get(key), after.get(key)) for key in {**before, **after}]
    things.sort(key=lambda each: (-abs(each["difference"]), each["description"]))
    with exact():
        difference = bill["billTotal"] - former["billTotal"]
    return {
        "billId": bill["id"],
        "billDate": bill["billDate"],
        "formerBillId": former["id"],
        "formerBillDate": former["billDate"],
        "accountCode": bill["accountCode"],
        "currency": bill["currency"],
        "before": former["billTotal"],
        "after": bill["billTotal"],
        "difference": difference,
        "lines": things,
    }


def _bill_before(organization: Organization, bill: Mapping[str, Any]) -> str:
    filters = BillFilters(
        account_ids=(bill["accountId"],), date_before=date.fromisoformat(str(bill["billDate"]))
    )
    with organization.reading() as reader:
        for each in lists.bills_by_date(reader, filters, _LISTED):
            if each.content.key.frequency == bill["billingFrequency"]:
                return each.id
    raise NotFound("bill before", bill["id"])


def _by_thing(lines: Iterable[Mapping[str, Any]]) -> dict[str, Document]:
    """The lines of a bill, those about the same thing together."""
    found: dict[str, Document] = {}
    for line in lines:
        text = "" if any(line.get(name) for name in _COUNTS) else line.get("description")
        key = repr([*(line.get(name) for name in _SAME), text])
        thing = found.setdefault(key, {"line": line, "amount": ZERO, "units": ZERO})
        with exact():
            thing["amount"] += line["convertedSubtotal"]
            thing["units"] += line.get("units") or ZERO
    return found


def _compared(before: Document | None, after: Document | None) -> Document:
    shown = after or before
    assert shown is not None
    line, counts = shown["line"], any(shown["line"].get(name) for name in _COUNTS)
    row = {
        name: line[name]
        for name in ("lineItemType", "productName", "childAccountCode", "unit", "segment")
        if line.get(name) is not None
    }
    row["description"] = line.get("description") or line["lineItemType"]
    sides = {"before": before, "after": after}
    with exact():
        row |= {name: each["amount"] if each else ZERO for name, each in sides.items()}
        row["difference"] = row["after"] - row["before"]
        if counts:
            row |= {
                f"units{name.capitalize()}": each["units"] if each else ZERO
                for name, each in sides.items()
            }
        if counts and before and after and before["units"]:
            grown = before["amount"] * (after["units"] - before["units"])
            places = -min(0, *(int(row[name].as_tuple().exponent) for name in sides))
            by_quantity = round_amount(
                divide(grown, before["units"]), places, RoundingMode.HALF_EVEN
            )
            row |= {"byQuantity": by_quantity, "byPrice": row["difference"] - by_quantity}
    return row
