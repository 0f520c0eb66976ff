"""Rules of contracts."""

from collections.abc import Iterable
from typing import Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.organization import BillGroupingKey
from meterlake.model.customers.contracts import Contract
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed, changes, display_name
from meterlake.model.values.entity import Configuration, Record

_KEY: Final = "bill_grouping_key_id"


def filtered_dimensions_exist(new: Proposed[Contract]) -> None:
    """A usage filter looks at a text field that a meter has; filters that stay are not asked again."""
    if not new.entity.usage_filters or (new.before and not changes(new, "usage_filters")):
        return
    known = _dimensions(record.entity for record in new.configuration.all(Meter))
    for index, usage_filter in enumerate(new.entity.usage_filters):
        if usage_filter.dimension_code not in known:
            location = f"usageFilters[{index}].dimensionCode"
            rule = "it must be a WHO, WHAT, WHERE or OTHER field of a meter"
            raise Invalid(location, usage_filter.dimension_code, rule)


def exclusive_key_has_one_contract(new: Proposed[Contract]) -> None:
    """An exclusive grouping key has one contract; a key that stays is not asked again."""
    key_id = new.entity.bill_grouping_key_id
    if key_id is None or not new.edited or (new.before and not changes(new, _KEY)):
        return
    key = new.configuration.get(BillGroupingKey, key_id).entity
    others = _contracts_with(key_id, new.configuration)
    other = next((each for each in others if each.id != new.id), None)
    if key.exclusive and other is not None:
        rule = f"the key is exclusive, and {display_name(other)} has it; choose another key"
        raise Invalid("billGroupingKeyId", key.code or key_id, rule)


def exclusive_key_is_of_one_contract(new: Proposed[BillGroupingKey]) -> None:
    """A grouping key of several contracts does not become exclusive."""
    if not new.entity.exclusive or not changes(new, "exclusive"):
        return
    users = _contracts_with(new.id, new.configuration)
    if len(users) > 1:
        names = " and ".join(display_name(each) for each in users[:2])
        raise Invalid(
            "exclusive",
            True,
            f"several contracts have it: {names}; give them other keys first, or send false",
        )


def _contracts_with(key_id: str, configuration: Configuration) -> list[Record[Contract]]:
    return configuration.where(Contract, _KEY, key_id)


def filtered_dimensions_stay(new: Proposed[Meter]) -> None:
    """A text field that a contract filters by is not taken from the last meter that has it."""
    if not changes(new, "data_fields", "derived_fields"):
        return
    assert new.before is not None
    left = _dimensions(record.entity for record in new.configuration.all(Meter))
    gone = _dimensions([new.before]) - left
    for record in new.configuration.all(Contract) if gone else ():
        for each in record.entity.usage_filters:
            if each.dimension_code in gone:
                rule = (
                    f"{display_name(record)} filters by it; keep it as a WHO, WHAT, WHERE or OTHER"
                    " field, or change the contract first"
                )
                raise Invalid("dataFields", each.dimension_code, rule)


def _dimensions(meters: Iterable[Meter]) -> set[str]:
    return {f.code for meter in meters for f in meter.all_fields if f.category.segmenting}
