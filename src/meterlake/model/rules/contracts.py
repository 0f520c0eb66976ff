"""Rules of contracts."""

from collections.abc import Iterable

from meterlake.model.catalog import Meter
from meterlake.model.contracts import Contract
from meterlake.model.errors import Invalid
from meterlake.model.rules.dependents import changes, display_name
from meterlake.model.rules.proposed import Proposed


def filtered_dimensions_exist(new: Proposed[Contract]) -> None:
    """A usage filter looks at a text field that a meter has; filters that stay are not asked again."""
    if not new.entity.usage_filters or (new.before and not changes(new, "usage_filters")):
        return
    known = _dimensions(record.entity for record in new.configuration.all(Meter))
    for index, usage_filter in enumerate(new.entity.usage_filters):
        if usage_filter.dimension_code not in known:
            location = f"usageFilters[{index}].dimensionCode"
            rule = "a WHO, WHAT, WHERE or OTHER field of a meter"
            raise Invalid(location, usage_filter.dimension_code, rule)


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
                rule = f"a WHO, WHAT, WHERE or OTHER field as long as {display_name(record)} filters by it"
                raise Invalid("dataFields", each.dimension_code, rule)


def _dimensions(meters: Iterable[Meter]) -> set[str]:
    return {f.code for meter in meters for f in meter.all_fields if f.category.segmenting}
