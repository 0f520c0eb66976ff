"""The verbs of the first Data Explorer about usage: series, values of dimensions, meters with data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.catalog.catalog import Meter, Reduce
from meterlake.model.configuration.statements import AggregationFrequency
from meterlake.model.errors import Invalid
from meterlake.model.rules.queries import check_dates
from meterlake.model.usage.explorer import (
    ACCOUNT,
    AccountAttribute,
    DataFieldMeasureQuery,
    DimensionQuery,
    QueryDimensionValuesRequest,
    QueryMeterDimensionsRequest,
    QueryMetersRequest,
    QueryUsageDataRequest,
)
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period, format_instant
from meterlake.pipeline.explorer.explore import Stop, answer, reading
from meterlake.pipeline.explorer.usage_questions import reduction_of, stored_fields
from meterlake.stages.usage.explore import (
    ACCOUNT_ID,
    BY_ACCOUNT,
    ExplorerScope,
    Group,
    Question,
    StoredField,
    Unit,
    by_field,
    by_time,
    values,
)
from meterlake.stores import Organization
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.account_names import AccountName
from meterlake.stores.state.core.reader import Reader

Document = dict[str, Any]

# More accounts than an organization has.
_ACCOUNTS_MAX: Final = 1_000_000_000
_FOLDS: Final = (Reduce.SUM, Reduce.MIN, Reduce.MAX, Reduce.COUNT, Reduce.LATEST, Reduce.MEAN)


@dataclass(frozen=True, slots=True)
class _UsageRequest:
    """One meter and its fields by code."""

    meter: Record[Meter]
    fields: dict[str, StoredField]

    def question(self, **parts: Any) -> Question:
        return Question(self.meter.id, self.meter.entity.code, tuple(self.fields.values()), **parts)

    def dimension(self, code: str) -> StoredField | None:
        """The field of a code, if usage can be split by it."""
        category = self.meter.entity.category(code)
        return self.fields[code] if category is not None and category.segmenting else None

    def numeric(self, code: str) -> bool:
        category = self.meter.entity.category(code)
        return category is not None and category.numeric


def series(
    organization: Organization, query: QueryUsageDataRequest, stop: Stop | None = None
) -> Document:
    """Folded fields of meters, split by dimensions and periods: `{values, hasMoreData}`.

    Raises:
        Invalid: A meter does not exist, or what is asked does not fit any of them.
    """
    period = check_dates(query.start_date, query.end_date)
    with organization.reading() as reader:
        meters = _meters(reader, query.meter_codes)
        accounts = _wanted_accounts(reader, query.dimensions)
    _check_measures(query.measures, meters)
    _check_dimensions(query.dimensions, meters)
    questions = [
        each.question(
            filters=tuple(
                (each.fields[one.name], one.wanted)
                for one in query.dimensions
                if one.name != ACCOUNT and one.wanted is not None
            ),
            groups=tuple(dict.fromkeys(_groups(query, each))),
            rollups=tuple(
                reduction_of(each.fields[measure.name], reduce)
                for measure in query.measures
                if each.numeric(measure.name)
                for reduce in dict.fromkeys(measure.aggregations)
            ),
        )
        for each in meters
        if any(each.numeric(measure.name) for measure in query.measures)
        # The meter has every dimension of which only some values are wanted.
        and all(
            one.name == ACCOUNT or one.wanted is None or each.dimension(one.name) is not None
            for one in query.dimensions
        )
    ]
    found = answer(organization, questions, ExplorerScope(period, query.limit + 1, accounts), stop)
    names = _account_names(organization, (row.get(ACCOUNT_ID) for row in found.documents()))
    shape = _Shape(query, period, {each.meter.id: each for each in meters}, names)
    return {
        "values": [shape.document(row) for row in found.documents()],
        "hasMoreData": found.more,
    }


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a row of an answer is shown in a series."""

    query: QueryUsageDataRequest
    period: Period
    meters: dict[str, _UsageRequest]
    names: dict[str, AccountName]

    def document(self, row: Document) -> Document:
        frequency = self.query.aggregation_frequency
        whole = frequency is AggregationFrequency.WHOLE_PERIOD
        request = self.meters[row["meterId"]]
        # A measure may be named more than once.
        measures: dict[str, Document] = {}
        for measure in self.query.measures:
            if request.numeric(measure.name):
                key = request.fields[measure.name].key
                rollups = {each.value: row[f"{key}.{each.value}"] for each in measure.aggregations}
                measures.setdefault(measure.name, {}).update(rollups)
        dimensions: dict[str, Any] = {}
        for each in self.query.dimensions:
            if each.name != ACCOUNT:
                field = request.dimension(each.name)
                dimensions[each.name] = row[field.key] if field else None
                continue
            dimensions[ACCOUNT] = row[ACCOUNT]
            name = self.names.get(row[ACCOUNT_ID])
            if AccountAttribute.ID in each.attributes:
                dimensions["accountId"] = row[ACCOUNT_ID]
            if AccountAttribute.NAME in each.attributes:
                dimensions["accountName"] = name and name.name
        return {
            "meterCode": row["meter"],
            "date": format_instant(self.period.start) if whole else row[frequency.value.lower()],
            "dimensions": dimensions,
            "measures": measures,
        }


def dimension_values(
    organization: Organization, query: QueryDimensionValuesRequest, stop: Stop | None = None
) -> list[Document]:
    """The different values of a dimension over meters: `{dimensionAttribute, dimensionValue}`.

    Raises:
        Invalid: A meter does not exist, or none of them has the dimension.
    """
    period = check_dates(query.start_date, query.end_date)
    with organization.reading() as reader:
        meters = _meters(reader, query.meter_codes)
    name = query.dimension_name
    _check_dimension("dimensionName", name, meters)
    # Accounts are in the order of their codes, which the lake does not know.
    scope, found = ExplorerScope(period, _ACCOUNTS_MAX if name == ACCOUNT else query.limit), set()
    with reading(organization.explored_lake, stop or Stop()) as snapshot:
        for each in meters:
            field = each.dimension(name)
            if field is None and name != ACCOUNT:
                continue
            question = each.question()
            present = snapshot.columns(question)
            if present:
                rows = snapshot.rows(*values(question, field, present, scope)) or []
                found |= {row[0] for row in rows}
    if name != ACCOUNT:
        return [_dimension(name, value) for value in sorted(found)[: query.limit]]
    names = _account_names(organization, found)
    attributes = query.attributes or (AccountAttribute.CODE,)
    known = sorted(names.values(), key=lambda each: each.code)[: query.limit]
    return [
        _dimension(word.value, getattr(each, word.value)) for each in known for word in attributes
    ]


def _dimension(attribute: str, value: str) -> Document:
    return {"dimensionAttribute": attribute, "dimensionValue": value}


def meter_dimensions(
    organization: Organization, query: QueryMeterDimensionsRequest, stop: Stop | None = None
) -> Document:
    """The different values of a dimension of one meter, with what was asked.

    Raises:
        Invalid: There is no such meter, or it has no such dimension.
    """
    request = QueryDimensionValuesRequest(
        meter_codes=(query.meter_code,), **query.model_dump(exclude={"meter_code"})
    )
    return {
        "meterCode": query.meter_code,
        "dimensionName": query.dimension_name,
        "dimensionValues": dimension_values(organization, request, stop),
    }


def values_of_dimension(
    organization: Organization, query: QueryDimensionValuesRequest, stop: Stop | None = None
) -> Document:
    """The different values of a dimension over several meters, with what was asked.

    Raises:
        Invalid: A meter does not exist, or none of them has the dimension.
    """
    return {
        "meterCodes": query.meter_codes,
        "dimensionName": query.dimension_name,
        "dimensionValues": dimension_values(organization, query, stop),
    }


def meters_with_data(
    organization: Organization, query: QueryMetersRequest, stop: Stop | None = None
) -> Document:
    """The meters that have a measurement in a time: `{meterCodes, meters}`."""
    period = check_dates(query.start_date, query.end_date)
    with organization.reading() as reader:
        meters = _meters(reader, ())
    found = []
    with reading(organization.explored_lake, stop or Stop()) as snapshot:
        for each in meters:
            question = each.question()
            present = snapshot.columns(question)
            if present and snapshot.rows(
                *values(question, None, present, ExplorerScope(period, 1))
            ):
                found.append(each.meter)
    return {
        "meterCodes": [meter.entity.code for meter in found],
        "meters": [
            {"id": meter.id, "code": meter.entity.code, "name": meter.entity.name}
            for meter in found
        ],
    }


def _meters(reader: Reader, codes: Sequence[str]) -> list[_UsageRequest]:
    records = [reader.find(Meter, code) for code in dict.fromkeys(codes)]
    for code, record in zip(dict.fromkeys(codes), records, strict=True):
        if record is None:
            raise Invalid("meterCodes", code, "it must be the code of an existing Meter")
    chosen = [each for each in records if each] if codes else reader.all(Meter)
    ordered = sorted(chosen, key=lambda each: (each.entity.code, each.id))
    return [_UsageRequest(meter, stored_fields(meter.entity)) for meter in ordered]


def _wanted_accounts(
    reader: Reader, dimensions: Iterable[DimensionQuery]
) -> tuple[str, ...] | None:
    """The ids of the accounts that all filters let through; None for every account."""
    ids: set[str] | None = None
    for each in dimensions:
        if each.name == ACCOUNT and each.wanted is not None:
            known = account_names.by_code(reader, each.wanted)
            for code in each.wanted:
                if code not in known:
                    raise Invalid(
                        "dimensions.filter", code, "it must be the code of an existing Account"
                    )
            new = {name.id for name in known.values()}
            ids = new if ids is None else ids & new
    return None if ids is None else tuple(sorted(ids))


def _check_measures(measures: Iterable[DataFieldMeasureQuery], meters: list[_UsageRequest]) -> None:
    for index, each in enumerate(measures):
        for reduce in each.aggregations:
            if reduce not in _FOLDS:
                location = f"measures[{index}].aggregations"
                raise Invalid(
                    location, reduce.value, "it must be SUM, MIN, MAX, COUNT, LATEST or MEAN"
                )
        if not any(meter.numeric(each.name) for meter in meters):
            rule = "it must be the code of a numeric field of one of the meters"
            raise Invalid(f"measures[{index}].name", each.name, rule)


def _check_dimensions(dimensions: Sequence[DimensionQuery], meters: list[_UsageRequest]) -> None:
    for index, each in enumerate(dimensions):
        location = f"dimensions[{index}]"
        _check_dimension(f"{location}.name", each.name, meters)
        known = set(AccountAttribute) if each.name == ACCOUNT else set()
        for attribute in each.attributes:
            if attribute not in known:
                rule = "it must be id, code or name of the dimension account"
                raise Invalid(f"{location}.attributes", attribute, rule)


def _check_dimension(location: str, name: str, meters: list[_UsageRequest]) -> None:
    if name != ACCOUNT and not any(meter.dimension(name) for meter in meters):
        rule = "it must be account, or the code of a text field, other than METADATA, of one of the meters"
        raise Invalid(location, name, rule)


def _groups(query: QueryUsageDataRequest, request: _UsageRequest) -> Iterator[Group]:
    for each in query.dimensions:
        if each.name == ACCOUNT:
            yield BY_ACCOUNT
        elif field := request.dimension(each.name):
            yield by_field(field)
    if query.aggregation_frequency is not AggregationFrequency.WHOLE_PERIOD:
        yield by_time(Unit(query.aggregation_frequency.value))


def _account_names(organization: Organization, ids: Iterable[str | None]) -> dict[str, AccountName]:
    wanted = {id_ for id_ in ids if id_ is not None}
    with organization.reading() as reader:
        return account_names.by_id(reader, wanted)
