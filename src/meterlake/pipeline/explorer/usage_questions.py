"""From the wire's words about usage to questions to the lake, one for each meter."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from typing import Final

from meterlake.model.catalog.catalog import DataField, DerivedField, Meter, Reduce
from meterlake.model.configuration.queries import (
    DataExplorerGroup,
    DataExplorerGroupType,
    Part,
    Selection,
    UsageQueryRequest,
)
from meterlake.model.errors import Invalid
from meterlake.model.measurements.measurement import NUMBER_TYPE, TEXT_TYPE, Field
from meterlake.model.rules.references import existing
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import zone
from meterlake.stages.usage.aggregate import REDUCERS
from meterlake.stages.usage.explore import (
    BY_ACCOUNT,
    FieldRollup,
    Group,
    Question,
    StoredField,
    Unit,
    by_field,
    by_time,
)
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.reader import Reader

# What stands before the codes of derived fields, as in files.
DERIVED: Final = "derived"


def check_ids(query: Selection, reader: Reader, configuration: Configuration) -> None:
    """The meters and accounts that a query names exist.

    Raises:
        Invalid: One does not.
    """
    for location, id_ in _meters_named(query):
        existing(Meter, location, id_, configuration)
    known = account_names.by_id(reader, query.account_ids)
    for number, id_ in enumerate(query.account_ids):
        if id_ not in known:
            raise Invalid(f"accountIds[{number}]", id_, "it must be the id of an existing Account")


def _meters_named(query: Selection) -> Iterator[tuple[str, str]]:
    """Where a query names a meter, and which."""
    for number, id_ in enumerate(query.meter_ids):
        yield f"meterIds[{number}]", id_
    parts: dict[str, Sequence[Part]] = {
        "dimensionFilters": query.dimension_filters,
        "aggregations": query.aggregations,
        "groups": query.groups,
    }
    for name, named in parts.items():
        for number, part in enumerate(named):
            if part.meter_id is not None:
                yield f"{name}[{number}].meterId", part.meter_id


def questions_of(query: UsageQueryRequest, configuration: Configuration) -> list[Question]:
    """What a query asks of each meter, by the meters' codes."""
    meter_ids = dict.fromkeys(query.meter_ids)
    if query.aggregations:
        meter_ids = dict.fromkeys(each.meter_id for each in query.aggregations)
    meters = (
        [configuration.get(Meter, id_) for id_ in meter_ids]
        if meter_ids
        else list(configuration.all(Meter))
    )
    questions: list[Question] = []
    for meter in sorted(meters, key=lambda each: (each.entity.code, each.id)):
        fields = stored_fields(meter.entity)
        rollups = (
            reduction_of(fields[each.field_code], Reduce(each.function.value))
            for each in query.aggregations
            if each.meter_id == meter.id
        )
        questions.append(
            Question(
                meter.id,
                meter.entity.code,
                tuple(fields.values()),
                filters=tuple(
                    (fields[each.field_code], each.values)
                    for each in query.dimension_filters
                    if each.meter_id == meter.id
                ),
                groups=tuple(dict.fromkeys(_groups(query.groups, meter.id, fields))),
                rollups=tuple({each.key: each for each in rollups}.values()),
            )
        )
    return questions


def stored_fields(meter: Meter) -> dict[str, StoredField]:
    """The fields of a meter by code, with the keys of files: `measure.gb`, `derived.total`."""
    return {
        each.code: StoredField(
            _key(each),
            Field(each.category, each.code).column,
            NUMBER_TYPE if each.category.numeric else TEXT_TYPE,
        )
        for each in meter.all_fields
    }


def _key(field: DataField | DerivedField) -> str:
    if isinstance(field, DerivedField):
        return f"{DERIVED}.{field.code}"
    return Field(field.category, field.code).column


def _groups(
    groups: Iterable[DataExplorerGroup], meter_id: str, fields: dict[str, StoredField]
) -> Iterator[Group]:
    for each in groups:
        match each.group_type:
            case DataExplorerGroupType.ACCOUNT:
                yield BY_ACCOUNT
            case DataExplorerGroupType.TIME:
                assert each.frequency is not None
                yield by_time(
                    Unit(each.frequency.value), zone(each.timezone) if each.timezone else UTC
                )
            case _:
                if each.meter_id == meter_id:
                    yield by_field(fields[str(each.field_code)])


def reduction_of(field: StoredField, reduce: Reduce) -> FieldRollup:
    """A folded field; the row has it as `measure.gb.SUM`."""
    return FieldRollup(f"{field.key}.{reduce.value}", field, REDUCERS[reduce])
