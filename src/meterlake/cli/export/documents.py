"""What people say when they export: codes, names and days, instead of ids and instants."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from meterlake.cli.shell.options import as_options
from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.exports import (
    ExportDestination,
    OperationalDataType,
    ScheduleType,
)
from meterlake.model.configuration.queries import (
    DataExplorerAggregationFunction,
    DataExplorerUsageDataFrequency,
    TimePeriod,
    UsageQueryRequest,
    relative_period,
)
from meterlake.model.customers.recurring_period import parse_day
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.rules.queries import check_dates, check_question
from meterlake.model.values.entity import Entity
from meterlake.model.values.period import midnight, parse_instant
from meterlake.model.values.problems import read
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.closing.close_month import Closing, ClosingStep
from meterlake.pipeline.config.entities import id_of
from meterlake.pipeline.config.months import month_named, month_text
from meterlake.stages.export.exported_columns import (
    BILLS,
    FOCUS,
    LINES,
    MEASUREMENTS,
    QUANTITIES,
    exports_of,
    operational,
)
from meterlake.stores import Organization
from meterlake.stores.objects.destination import split_url
from meterlake.stores.state import Reader
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

# As the setting has it.
_FILE_BYTES_MIN: Final = 1 << 10
_EVERY: Final = re.compile(r"(?:([0-9]{1,9}) )?(minute|hour|day)s?")
# Nothing, or a URL with a typing mistake.
_NO_FOLDER: Final = re.compile(r"$|(?:s3|gs|file):(?!//)")
# What is of a month, and not as of now.
_DATED: Final = frozenset(each.name for each in (MEASUREMENTS, QUANTITIES, BILLS, LINES, FOCUS))
_FIELD: Final = "a meter and one of its fields, such as egress.region"
K = TypeVar("K", bound=Entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """Which usage, in words.

    Attributes:
        meters: Codes.
        accounts: Codes.
        filters: `meter.field=value`; of several values of a field, one is enough.
        aggregations: `meter.field:FUNCTION`.
        groups: `account`, `hour` to `quarter`, or `meter.field`.
    """

    meters: Sequence[str] = ()
    accounts: Sequence[str] = ()
    filters: Sequence[str] = ()
    aggregations: Sequence[str] = ()
    groups: Sequence[str] = ()


ALL: Final = Selected()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """An export in words; None and empty mean that it was not said.

    Attributes:
        destinations: Codes or ids.
        month: `2026-10`, `last` or `current`: instead of `since` and `until`.
        since: The first instant or day, in UTC.
        until: The instant or day after the last.
        time_period: A time relative to now, as schedules have it, such as `YESTERDAY`.
    """

    source: str
    format: str = Format.CSV.value
    to: str | None = None
    destinations: Sequence[str] = ()
    types: tuple[str, ...] = ()
    month: str | None = None
    since: str | None = None
    until: str | None = None
    time_period: str | None = None
    selected: Selected = ALL
    changes_since: str | None = None
    file_bytes: int | None = None
    spreadsheet: bool = False
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDefinition:
    """A schedule in words.

    Attributes:
        every: `15 minutes`, `6 hours`, `day`: instead of `cron`.
        offset: Minutes into the hour, or hours into the day.
        types: Names of operational types, as `meterlake export operational --type` takes them.
    """

    code: str
    name: str | None = None
    source: str
    format: str = Format.CSV.value
    every: str | None = None
    offset: int | None = None
    cron: str | None = None
    destinations: Sequence[str] = ()
    types: tuple[str, ...] = ()
    time_period: str | None = None
    selected: Selected = ALL
    enabled: bool = True


def subject(options: ExportOptions) -> str:
    """What is exported, in a few words.

    >>> subject(ExportWords(source="usage", format="csv", month="last"))
    'usage of last month as csv'
    """
    of_month = f" of {month_text(options.month)}" if options.month else ""
    return f"{options.source}{of_month} as {options.format}"


@as_options()
def resolve_export(organization: Organization, options: ExportOptions) -> ExportRequest:
    """What the words ask for.

    Raises:
        Invalid: They break a rule, or name a time twice.
        NotFound: They name something that is not there.
    """
    with organization.reading() as reader:
        usage = _usage(reader, options, organization.now())
        check_question(usage, StoredConfiguration(reader))
        destinations = _ids(reader, ExportDestination, options.destinations)
    month = None if options.month is None else month_named(organization, options.month)
    since = instant("--changes-since", options.changes_since)
    if since is not None and since > organization.now():
        raise Invalid("--changes-since", options.changes_since, "it must be now or earlier")
    _check_written(options)
    # Quantities and bills are of months: what selects measurements leaves them out.
    types = options.types or (("measurements",) if usage != UsageQueryRequest() else ())
    source = Source(options.source)
    exports_of(source, types)
    _check_quantities(types, options.selected)
    if options.file_bytes is not None and options.file_bytes < _FILE_BYTES_MIN:
        raise Invalid("--file-bytes", options.file_bytes, f"it must be at least {_FILE_BYTES_MIN}")
    return ExportRequest(
        source=source,
        format=Format(options.format),
        to=options.to,
        destination_ids=destinations,
        types=types,
        month=month,
        usage=usage,
        changes_since=since,
        file_bytes=options.file_bytes,
        spreadsheet=options.spreadsheet,
        keep=options.keep,
    )


def resolve_closing_exports(
    closing: Closing, format: str, to: str | None
) -> dict[ClosingStep, ExportRequest]:
    """What is exported of a month that is closed, by step.

    Args:
        closing: The closing.
        format: `csv`, `jsonl` or `parquet`.
        to: A folder or a bucket; the home's exports if None.

    Raises:
        Invalid: It cannot be exported there.
    """
    words = ExportOptions(source="operational", format=format, to=to)
    usage = replace(words, source="usage", month=str(closing.month))
    chosen = {ClosingStep.EXPORT_USAGE: usage, ClosingStep.EXPORT_OPERATIONAL: words}
    return {step: resolve_export(closing.organization, each) for step, each in chosen.items()}


def _check_written(options: ExportOptions) -> None:
    if options.to is not None and _NO_FOLDER.match(options.to):
        raise Invalid(
            "--to", options.to, "it must be a folder, s3://bucket/prefix or gs://bucket/prefix"
        )
    if options.to is not None and "://" in options.to:
        split_url(options.to, "--to")
    if options.spreadsheet and options.format != Format.CSV.value:
        raise Invalid("--spreadsheet", True, f"leave it out where --format is {options.format}")
    if options.month is not None and options.types and not _DATED.intersection(options.types):
        rule = f"leave it out where --type is {', '.join(options.types)}: it is as of now, and not of a month"
        raise Invalid("--month", options.month, rule)


def _check_quantities(types: tuple[str, ...], selected: Selected) -> None:
    """Quantities are of all measurements of a meter."""
    foreign = {
        "--filter": selected.filters,
        "--aggregate": selected.aggregations,
        "--group": selected.groups,
    }
    for option, given in foreign.items():
        if given and QUANTITIES.name in types:
            rule = f"leave it out where --type has {QUANTITIES.name}: they are of all measurements"
            raise Invalid(option, given[0], rule)


def schedule_document(reader: Reader, options: ScheduleDefinition) -> dict[str, Any]:
    """A schedule as the API takes it.

    Raises:
        Invalid: The words are none that can be understood.
        NotFound: They name something that is not there.
    """
    document = {
        "name": options.name or options.code,
        "code": options.code,
        "sourceType": options.source.upper(),
        "exportFileFormat": options.format.upper(),
        "destinationIds": list(_ids(reader, ExportDestination, options.destinations)),
        "cronExpression": options.cron,
        "offset": options.offset,
        "timePeriod": options.time_period and _time_period(options.time_period).value,
        "enabled": options.enabled,
        **_every(options.every),
        **_selection(reader, options.selected),
    }
    if FOCUS.name in options.types:
        document["focus"] = True
    types = [_data_type(each) for each in options.types if each != FOCUS.name]
    if types:
        document["operationalDataTypes"] = types
    return {name: value for name, value in document.items() if value is not None}


def _every(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    match = _EVERY.fullmatch(text.strip().lower())
    if match is None:
        raise Invalid(
            "--every", text, "it must be a number of minutes, hours or days, such as 6 hours"
        )
    number, unit = match.groups()
    return {"scheduleType": ScheduleType(unit.upper()).value, "period": int(number or 1)}


def _data_type(name: str) -> str:
    known = {operational(each).name: each.value for each in OperationalDataType}
    if name not in known:
        raise Invalid(
            "--type", name, f"it must be one of {', '.join(sorted([*known, FOCUS.name]))}"
        )
    return known[name]


def _usage(reader: Reader, options: ExportOptions, now: datetime) -> UsageQueryRequest:
    ways = [options.month, options.since or options.until, options.time_period]
    if len([way for way in ways if way is not None]) > 1:
        rule = "give a month, or since and until, or a period"
        raise Invalid(
            "--period" if options.time_period else "--month",
            options.time_period or options.month,
            rule,
        )
    start, end = instant("--since", options.since), instant("--until", options.until)
    if start or end:
        check_dates(start, end)
    if options.time_period is not None:
        period = relative_period(_time_period(options.time_period), now)
        start, end = period.start, period.end
    document = {"startDate": start, "endDate": end, **_selection(reader, options.selected)}
    found: UsageQueryRequest = read(UsageQueryRequest, document)
    return found


def instant(option: str, text: str | None) -> datetime | None:
    """An instant, or the beginning of a day, in UTC.

    Raises:
        Invalid: It is neither.
    """
    if text is None:
        return None
    try:
        return parse_instant(text) or midnight(parse_day(option, text), UTC)
    except Invalid as error:
        rule = f"{error.args[2]}, or an instant such as 2026-10-05T10:30:00Z"
        raise Invalid(option, text, rule) from None


def _time_period(text: str) -> TimePeriod:
    name = text.upper().replace("-", "_")
    if name not in TimePeriod.__members__:
        names = ", ".join(TimePeriod).lower().replace("_", "-")
        raise Invalid("--period", text, f"it must be one of {names}")
    return TimePeriod(name)


def _selection(reader: Reader, selected: Selected) -> dict[str, Any]:
    meters = _ids(reader, Meter, selected.meters)
    filters: dict[tuple[str, str], list[str]] = {}
    for each in selected.filters:
        name, equals, value = each.partition("=")
        if not equals:
            raise Invalid("--filter", each, "write it as meter.field=value")
        named = _Named("--filter", name, "--meter", meters)
        filters.setdefault(named.resolve(reader)[:2], []).append(value)
    aggregations = [_aggregation(reader, each, meters) for each in selected.aggregations]
    aggregated = [each["meterId"] for each in aggregations]
    known = account_names.by_code(reader, selected.accounts)
    for code in selected.accounts:
        if code not in known:
            raise NotFound("account", code)
    account_ids = tuple(known[code].id for code in dict.fromkeys(selected.accounts))
    return {
        "meterIds": meters,
        "accountIds": account_ids,
        "dimensionFilters": [
            {"meterId": meter, "fieldCode": field, "values": values}
            for (meter, field), values in filters.items()
        ],
        "aggregations": aggregations,
        "groups": [_group(reader, each, aggregated) for each in selected.groups],
    }


def _aggregation(reader: Reader, text: str, meters: Collection[str]) -> dict[str, Any]:
    name, _, function = text.rpartition(":")
    if function.upper() not in DataExplorerAggregationFunction.__members__:
        functions = ", ".join(DataExplorerAggregationFunction)
        raise Invalid(
            "--aggregate", text, f"write it as meter.field:FUNCTION, with one of {functions}"
        )
    meter, field, numeric = _Named("--aggregate", name, "--meter", meters).resolve(reader)
    kind = "MEASURE" if numeric else "DIMENSION"
    return {"meterId": meter, "fieldCode": field, "fieldType": kind, "function": function.upper()}


def _group(reader: Reader, text: str, meters: Collection[str]) -> dict[str, Any]:
    if text == "account":
        return {"groupType": "ACCOUNT"}
    if text.upper() in DataExplorerUsageDataFrequency.__members__:
        return {"groupType": "TIME", "frequency": text.upper()}
    if "." not in text:
        times = ", ".join(DataExplorerUsageDataFrequency).lower()
        raise Invalid("--group", text, f"it must be account, {times}, or {_FIELD}")
    meter, field, _ = _Named("--group", text, "--aggregate", meters).resolve(reader)
    return {"groupType": "DIMENSION", "meterId": meter, "fieldCode": field}


@dataclass(frozen=True, slots=True)
class _Named:
    """A field of a meter as an option names it; of another option's meters, if that names any."""

    option: str
    text: str
    other: str
    meters: Collection[str]

    def resolve(self, reader: Reader) -> tuple[str, str, bool]:
        """The id of the meter, the code of its field, and whether that holds numbers."""
        code, dot, field = self.text.rpartition(".")
        meter = reader.find(Meter, code) if dot else None
        category = meter.entity.category(field) if meter else None
        if meter is None or category is None:
            raise Invalid(self.option, self.text, f"it must be {_FIELD}")
        if self.meters and meter.id not in self.meters:
            raise Invalid(
                self.option, self.text, f"it must be a field of a meter that {self.other} names"
            )
        return meter.id, field, category.numeric


def _ids(reader: Reader, kind: type[K], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(id_of(reader, kind, each) for each in dict.fromkeys(names))
