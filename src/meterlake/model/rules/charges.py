"""Rules of charges, and of what makes charges."""

from typing import Any

from meterlake.model.customers.balances import Balance
from meterlake.model.customers.charges import Charge, ChargeEntityType, ChargeLineItemType
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.spans import wire_text
from meterlake.model.values.entity import Configuration, Record

_LINE_TYPES = {
    ChargeEntityType.AD_HOC: ChargeLineItemType.AD_HOC,
    ChargeEntityType.BALANCE: ChargeLineItemType.BALANCE_FEE,
}


def charge_origin(record: Record[Charge], configuration: Configuration) -> dict[str, Any]:
    """The schedule that made a charge and the bill on which it stands, if there are such."""
    found = {
        "billId": configuration.bill_of_charge(record.entity.account_id, record.id),
        "scheduleId": configuration.schedule_of_charge(record.id),
    }
    return {name: value for name, value in found.items() if value is not None}


def amount_or_units(new: Proposed[Any]) -> None:
    """A charge is an amount, or units at a price."""
    amount, units, price = new.entity.amount, new.entity.units, new.entity.unit_price
    if amount is not None and (units is not None or price is not None):
        raise Invalid(
            "amount", amount, "units and unitPrice give the amount; leave it out, or leave them out"
        )
    if amount is None and (units is None or price is None):
        missing = "units" if units is None else "unitPrice"
        raise Invalid(missing, None, "give an amount, or both units and unitPrice")


def service_period_is_in_order(new: Proposed[Any]) -> None:
    """A service period does not end before it starts."""
    service_period(new.entity, "")


def service_period(entity: Any, location: str) -> None:
    """Refuse a service period that ends before it starts; an empty one is allowed.

    Raises:
        Invalid: It does.
    """
    start, end = entity.service_period_start_date, entity.service_period_end_date
    if end < start:
        rule = f"it must be servicePeriodStartDate {wire_text(start)} or later"
        raise Invalid(f"{location}servicePeriodEndDate", wire_text(end), rule)


def charge_fits_its_entity(new: Proposed[Charge]) -> None:
    """A charge for a balance names it and becomes a BALANCE_FEE; any other becomes an AD_HOC line."""
    charge = new.entity
    expected = _LINE_TYPES[charge.entity_type]
    if charge.line_item_type is not expected:
        rule = f"a charge of entityType {charge.entity_type} must have {expected}"
        raise Invalid("lineItemType", charge.line_item_type.value, rule)
    if charge.entity_type is ChargeEntityType.AD_HOC:
        if charge.entity_id is not None:
            raise Invalid(
                "entityId",
                charge.entity_id,
                "a charge of entityType AD_HOC is for no entity; leave it out",
            )
        return
    _balance_is_of_the_account(new)


def _balance_is_of_the_account(new: Proposed[Charge]) -> None:
    balance_id, rule = new.entity.entity_id, "give the id of a balance of the account"
    if balance_id is None:
        raise Invalid("entityId", None, f"{rule} for entityType BALANCE")
    if new.configuration.get(Balance, balance_id).entity.account_id != new.entity.account_id:
        raise Invalid("entityId", balance_id, rule)
