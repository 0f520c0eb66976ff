"""From the wire's words about usage to questions to the lake, one for each meter."""

from collections.abc import Iterable, Iterator
from typing import Final

from meterlake.model.catalog import DataField, DerivedField, Meter, Reduce
from meterlake.model.entity import Configuration, Record
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.measurement import NUMBER_TYPE, TEXT_TYPE, Field
from meterlake.model.queries import (
    DataExplorerAggregation,
    DataExplorerGroup,
    DataExplorerGroupType,
    Selection,
    UsageQueryRequest,
)
from meterlake.stages.aggregate import REDUCERS
from meterlake.stages.explore import (
    BY_ACCOUNT,
    Folding,
    Group,
    Question,
    StoredField,
    Unit,
    by_field,
    by_time,
)
from meterlake.stores.state import account_names
from meterlake.stores.state.reader import Reader

# What stands before the codes of derived fields, as in files.
DERIVED: Final = "derived"


def check_ids(query: Selection, reader: Reader, around: Configuration) -> None:
    """The meters and accounts that a query names exist.

    Raises:
        Invalid: One does not.
    """
    meters: dict[str, Iterable[str | None]] = {
        "meterIds": query.meter_ids,
        "dimensionFilters.meterId": [each.meter_id for each in query.dimension_filters],
        "aggregations.meterId": [each.meter_id for each in query.aggregations],
        "groups.meterId": [each.meter_id for each in query.groups],
    }
    for place, ids in meters.items():
        for each in filter(None, dict.fromkeys(ids)):
            try:
                around.get(Meter, each)
            except NotFound:
                raise Invalid(place, each, "the id of an existing Meter") from None
    known = account_names.by_id(reader, query.account_ids)
    for each in query.account_ids:
        if each not in known:
            raise Invalid("accountIds", each, "the id of an existing Account")


def questions_of(query: UsageQueryRequest, around: Configuration) -> list[Question]:
    """What a query asks of each meter, by the meters' codes."""
    wanted = dict.fromkeys(query.meter_ids)
    if query.aggregations:
        wanted = dict.fromkeys(each.meter_id for each in query.aggregations)
    meters = [around.get(Meter, id_) for id_ in wanted] if wanted else list(around.all(Meter))
    return [
        _question(query, meter)
        for meter in sorted(meters, key=lambda each: (each.entity.code, each.id))
    ]


def _question(query: UsageQueryRequest, meter: Record[Meter]) -> Question:
    fields = stored_fields(meter.entity)
    folds = _folds(query.aggregations, meter.id, fields)
    return Question(
        meter.id,
        meter.entity.code,
        tuple(fields.values()),
        filters=tuple(
            (fields[each.field_code], each.values)
            for each in query.dimension_filters
            if each.meter_id == meter.id
        ),
        groups=tuple(dict.fromkeys(_groups(query.groups, meter.id, fields))),
        folds=tuple({each.key: each for each in folds}.values()),
    )


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
                yield by_time(Unit(each.frequency.value))
            case _:
                if each.meter_id == meter_id:
                    yield by_field(fields[str(each.field_code)])


def _folds(
    aggregations: Iterable[DataExplorerAggregation], meter_id: str, fields: dict[str, StoredField]
) -> Iterator[Folding]:
    for each in aggregations:
        if each.meter_id == meter_id:
            yield fold_of(fields[each.field_code], Reduce(each.function.value))


def fold_of(field: StoredField, reduce: Reduce) -> Folding:
    """A folded field; the row has it as `measure.gb.SUM`."""
    return Folding(f"{field.key}.{reduce.value}", field, REDUCERS[reduce])
