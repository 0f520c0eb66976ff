"""Rules of contracts."""

from meterlake.model.catalog import Meter
from meterlake.model.contracts import Contract
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed


def filtered_dimensions_exist(new: Proposed[Contract]) -> None:
    """A usage filter looks at a text field that a meter has."""
    if not new.entity.usage_filters:
        return
    meters = [record.entity for record in new.around.all(Meter)]
    known = {f.code for meter in meters for f in meter.all_fields if f.category.segmenting}
    for index, usage_filter in enumerate(new.entity.usage_filters):
        if usage_filter.dimension_code not in known:
            place = f"usageFilters[{index}].dimensionCode"
            rule = "a WHO, WHAT, WHERE or OTHER field of a meter"
            raise Invalid(place, usage_filter.dimension_code, rule)
