"""Rules of meters and simple aggregations."""

from collections.abc import Iterator

from meterlake.model.catalog.catalog import (
    ANY_VALUE,
    Aggregation,
    DataField,
    DerivedField,
    Meter,
    Reduce,
)
from meterlake.model.catalog.plans import Pricing
from meterlake.model.errors import Invalid
from meterlake.model.measurements.measurement import Category
from meterlake.model.rules.catalog.compound import aggregations_in_reach, compounds_of
from meterlake.model.rules.catalog.plans import segment_exists
from meterlake.model.rules.proposed import Proposed, changes, check_dependents
from meterlake.model.values import wire


def field_codes_differ(new: Proposed[Meter]) -> None:
    """Field codes are unique in all categories together, whatever the case of their letters."""
    seen: dict[str, str] = {}
    for location, field in _fields_with_place(new.entity):
        other = seen.get(field.code.casefold())
        if other is not None:
            rule = f"field {other!r} has this code in other letter case; choose a different code"
            raise Invalid(f"{location}.code", field.code, rule)
        seen[field.code.casefold()] = field.code


def field_codes_keep_their_case(new: Proposed[Meter]) -> None:
    """A field keeps its code's letters: the lake tells no columns apart that differ in their case."""
    if not changes(new, "data_fields", "derived_fields"):
        return
    assert new.before is not None
    known = {(each.category, each.code.casefold()): each.code for each in new.before.all_fields}
    for location, field in _fields_with_place(new.entity):
        before = known.get((field.category, field.code.casefold()), field.code)
        if before != field.code:
            rule = (
                f"the lake knows the field as {before!r}, whatever the letter case; keep {before!r}"
            )
            raise Invalid(f"{location}.code", field.code, rule)


def _fields_with_place(meter: Meter) -> Iterator[tuple[str, DataField | DerivedField]]:
    """The fields of a meter, each with its place."""
    yield from ((f"dataFields[{index}]", each) for index, each in enumerate(meter.data_fields))
    yield from (
        (f"derivedFields[{index}]", each) for index, each in enumerate(meter.derived_fields)
    )


def aggregated_fields_stay(new: Proposed[Meter]) -> None:
    """A field that an aggregation targets or segments by is not removed and keeps its category."""
    if not changes(new, "data_fields", "derived_fields"):
        return
    assert new.before is not None
    for record in new.configuration.where(Aggregation, "meter_id", new.id):
        for field in (record.entity.target_field, *record.entity.segmented_fields):
            before, after = new.before.category(field), new.entity.category(field)
            if before is not None and after is not before:
                name = record.entity.code or record.entity.name
                rule = (
                    f"aggregation {name!r} reads it as a field of category {before}; keep that, or"
                    " change the aggregation first"
                )
                raise Invalid("dataFields", field, rule)


def compounds_reach_meter(new: Proposed[Meter]) -> None:
    """A meter goes to no product whose aggregations a compound aggregation must not read."""
    if not changes(new, "product_id"):
        return
    product_id = new.entity.product_id
    for aggregation in new.configuration.where(Aggregation, "meter_id", new.id):
        compounds = compounds_of(aggregation.entity, new.configuration)
        check_dependents(
            compounds, aggregations_in_reach, new.configuration, "productId", product_id
        )


def target_field_fits(new: Proposed[Aggregation]) -> None:
    """The field exists; COUNT and CUSTOM_SQL read every field, UNIQUE texts, all others numbers."""
    meter = new.configuration.get(Meter, new.entity.meter_id).entity
    category = meter.category(new.entity.target_field)
    if category is None:
        raise Invalid(
            "targetField", new.entity.target_field, f"it must be a field of meter {meter.code!r}"
        )
    reduce = new.entity.aggregation
    if reduce in {Reduce.COUNT, Reduce.CUSTOM_SQL}:
        return
    if category.numeric is (reduce is Reduce.UNIQUE):
        expected = "text" if reduce is Reduce.UNIQUE else "numbers"
        rule = f"it must be a field of {expected} for {reduce}; it is a {category} field"
        raise Invalid("targetField", new.entity.target_field, rule)


def custom_sql_for_custom_sql(new: Proposed[Aggregation]) -> None:
    """CUSTOM_SQL needs a query, and nothing else has one."""
    query = (new.entity.custom_sql or "").strip()
    if bool(query) is not (new.entity.aggregation is Reduce.CUSTOM_SQL):
        kind = new.entity.aggregation.value
        rule = (
            f"the aggregation {kind} has no query; leave it out, or choose CUSTOM_SQL"
            if query
            else "the aggregation CUSTOM_SQL needs a query; give one"
        )
        raise Invalid("customSql", new.entity.custom_sql, rule)


def percentile_for_percentile(new: Proposed[Aggregation]) -> None:
    """PERCENTILE needs to know which one, and nothing else has one."""
    percentile = new.entity.percentile
    if (percentile is not None) is not (new.entity.aggregation is Reduce.PERCENTILE):
        rule = (
            "the aggregation PERCENTILE needs a number above 0, at most 100; give one"
            if percentile is None
            else f"the aggregation {new.entity.aggregation.value} has none; leave it out"
        )
        raise Invalid("percentile", percentile, rule)


def segmented_fields_fit(new: Proposed[Aggregation]) -> None:
    """Usage is segmented by texts that the meter has, each named once."""
    meter = new.configuration.get(Meter, new.entity.meter_id).entity
    fields = new.entity.segmented_fields
    for index, field in enumerate(fields):
        location = f"segmentedFields[{index}]"
        category = meter.category(field)
        if category is None:
            raise Invalid(location, field, f"it must be a field of meter {meter.code!r}")
        if not category.segmenting:
            kinds = ", ".join(each for each in Category if each.segmenting)
            raise Invalid(
                location, field, f"it must be a field of {kinds}; it is a {category} field"
            )
        if field in fields[:index]:
            raise Invalid(location, field, "it must be a field that is not named before")


def segments_fit(new: Proposed[Aggregation]) -> None:
    """A segment gives values of segmented fields, and no two segments match the same usage."""
    fields = new.entity.segmented_fields
    if fields and not new.entity.segments:
        rule = 'it must be at least one segment with segmentedFields, such as {"region": "*"}'
        raise Invalid("segments", [], rule)
    seen = set()
    for index, segment in enumerate(new.entity.segments):
        strange = [name for name in segment if name not in fields]
        if strange:
            raise Invalid(
                f"segments[{index}].{strange[0]}", strange[0], "it must be one of segmentedFields"
            )
        values = tuple(segment.get(field, ANY_VALUE) for field in fields)
        if not segment or values in seen:
            rule = f"it must be values of segmentedFields that no other segment has; {ANY_VALUE!r} if left out"
            raise Invalid(f"segments[{index}]", wire.dumps_sorted(segment), rule)
        seen.add(values)


def compounds_reach_aggregation(new: Proposed[Aggregation]) -> None:
    """An aggregation goes to no meter that a compound aggregation must not read."""
    if changes(new, "meter_id"):
        compounds = compounds_of(new.entity, new.configuration)
        check_dependents(
            compounds, aggregations_in_reach, new.configuration, "meterId", new.entity.meter_id
        )


def priced_segments_stay(new: Proposed[Aggregation]) -> None:
    """A segment that has a price through a compound aggregation is not taken away."""
    if not changes(new, "segments"):
        return
    text = wire.dumps_sorted(new.entity.segments)
    for compound in compounds_of(new.entity, new.configuration):
        pricings = new.configuration.where(Pricing, "compound_aggregation_id", compound.id)
        check_dependents(pricings, segment_exists, new.configuration, "segments", text)


def referenced_code_stays(new: Proposed[Aggregation]) -> None:
    """An aggregation that a compound aggregation names by its code keeps the code."""
    if not changes(new, "code"):
        return
    assert new.before is not None
    for record in compounds_of(new.before, new.configuration):
        name = record.entity.code or record.entity.name
        rule = (
            f"compound aggregation {name!r} names it by {new.before.code!r}; keep that, or change"
            " its calculation first"
        )
        raise Invalid("code", new.entity.code, rule)
