"""Rules of meters and aggregations."""

from meterlake.model.catalog import Aggregation, Meter, Reduce
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed


def field_codes_differ(new: Proposed[Meter]) -> None:
    """Field codes are unique in all categories together, whatever the case of their letters."""
    seen: dict[str, str] = {}
    for index, data_field in enumerate(new.entity.data_fields):
        other = seen.get(data_field.code.casefold())
        if other is not None:
            rule = f"different from field {other!r}, letter case apart"
            raise Invalid(f"dataFields[{index}].code", data_field.code, rule)
        seen[data_field.code.casefold()] = data_field.code


def aggregated_fields_stay(new: Proposed[Meter]) -> None:
    """A field that an aggregation reads is not removed and keeps its category."""
    if new.before is None:
        return
    for record in new.around.where(Aggregation, "meter_id", new.id):
        field = record.entity.target_field
        before, after = new.before.category(field), new.entity.category(field)
        if before is not None and after is not before:
            name = record.entity.code or record.entity.name
            rule = f"a field of category {before} as long as aggregation {name!r} reads it"
            raise Invalid("dataFields", field, rule)


def target_field_fits(new: Proposed[Aggregation]) -> None:
    """The field exists; COUNT reads every field, UNIQUE texts, all others numbers."""
    meter = new.around.get(Meter, new.entity.meter_id).entity
    category = meter.category(new.entity.target_field)
    if category is None:
        raise Invalid(
            "targetField", new.entity.target_field, f"a data field of meter {meter.code!r}"
        )
    reduce = new.entity.aggregation
    if reduce is not Reduce.COUNT and category.numeric is (reduce is Reduce.UNIQUE):
        wanted = "text" if reduce is Reduce.UNIQUE else "numbers"
        rule = f"a field of {wanted} for {reduce}; it is a {category} field"
        raise Invalid("targetField", new.entity.target_field, rule)
