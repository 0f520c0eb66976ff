"""The verb `report`: how much was used, by whom and how well it arrives, as one HTML page.

The page holds its data and its scripts, asks no network for anything, and opens from a disk.
"""

import importlib.resources
import importlib.util
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
from jinja2 import Environment, StrictUndefined

from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Unavailable
from meterlake.model.usage.quantity import quantity_unit
from meterlake.model.values import wire
from meterlake.model.values.money import exact
from meterlake.model.values.period import Month, zone
from meterlake.model.values.sql import identifier
from meterlake.pipeline.publish.views import create_views
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.publish.meters import PublishedMeter, column_name, measured_meters
from meterlake.stages.report import charts, queries
from meterlake.stages.report.content import (
    FIELDS_MAX,
    METERS_MAX,
    ROWS_MAX,
    BilledMonth,
    Day,
    Freshness,
    Report,
    Series,
    Step,
    Total,
    Usage,
    step_of,
)
from meterlake.stages.report.queries import LATEST, rollup_of
from meterlake.stores import Organization
from meterlake.stores.files.durable import write_durably
from meterlake.stores.lake.rejected import count_open
from meterlake.stores.lake.tables import newest_snapshot
from meterlake.stores.state.billing.bills.totals import read_month_totals
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_EVER: Final = (datetime(1, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001 - the lake's are naive

# Which kinds of aggregations each field has, by meter id and code.
_Kinds = dict[tuple[str, str], set[Reduce]]


@dataclass(frozen=True, slots=True)
class Span:
    """What a report is about: naive UTC, the end exclusive, and how time is divided."""

    start: datetime
    end: datetime
    step: Step
    zone: tzinfo

    @property
    def bounds(self) -> dict[str, Any]:
        """The parameters of queries over it."""
        return {"start": self.start, "end": self.end}


def report(organization: Organization, month: Month | None = None, out: Path | None = None) -> Path:
    """Write the usage report of an organization.

    Args:
        organization: The organization.
        month: Only a month of the organization's calendar; everything when None.
        out: The file; by default `report.html`, or `report-2026-10.html`, beside the published file.

    Returns:
        The file.

    Raises:
        NotFound: There is no such organization.
        Unavailable: The disk or the memory failed.
    """
    page = page_of(gather_report(organization, month))
    name = "report.html" if month is None else f"report-{month}.html"
    target = out or organization.stores.home / "published" / organization.code / name
    with write_durably(target.absolute()) as path:
        path.write_text(page, "utf-8")
    return target


def gather_report(organization: Organization, month: Month | None = None) -> Report:
    """Add up what the report says, from one snapshot of the lake.

    Raises:
        NotFound: There is no such organization.
        Unavailable: The disk or the memory failed.
    """
    lake = organization.lake
    with lake.apart() as connection:
        connection.execute("BEGIN")  # one snapshot for all questions
        create_views(connection, organization, lambda _: False)
        return _gather(connection, organization, month)


def _gather(
    connection: duckdb.DuckDBPyConnection, organization: Organization, month: Month | None
) -> Report:
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        config = configuration.single(OrganizationConfig).entity
        timezone = config.timezone
        currencies = Currencies.of(configuration, config)
        billed = [
            BilledMonth(
                *(each.month, each.currency, each.bills, each.approved, each.total),
                *(each.approved_total, currencies.rounding(each.currency)[0]),
            )
            for each in read_month_totals(reader, None if month is None else str(month))[:ROWS_MAX]
        ]
        meters = list(measured_meters(reader.all(Meter)))
        kinds: _Kinds = defaultdict(set)
        for each in reader.all(Aggregation):
            kinds[each.entity.meter_id, each.entity.target_field].add(each.entity.aggregation)
        # What the quantities of each simple aggregation are numbers of, by its id.
        entities = {each.meter.id: each.meter.entity for each in meters}
        quantity_units = {
            each.id: quantity_unit(each.entity, entities.get(each.entity.meter_id))
            for each in reader.all(Aggregation)
        }
    known = [(each, _one(connection, queries.freshness(each.name))) for each in meters]
    span = _span(month, zone(timezone), [row for _, row in known])
    # The meters with most measurements; the others only say how fresh they are.
    largest = sorted(known, key=lambda item: (-item[1][0], item[0].name))[:METERS_MAX]
    usage = [_usage(connection, each, span, kinds) for each, row in largest if row[0]]
    starts = [row[1] for _, row in known if row[1]]
    ends = [row[2] for _, row in known if row[2]]
    if meters:
        query = queries.count_accounts([each.name for each in meters])
        accounts = int(_one(connection, query, span.bounds)[0])
    else:
        accounts = 0
    start, end = (span.start, span.end) if month else _EVER
    rows = connection.execute(queries.DAYS, {"start": start, "end": end}).fetchall()
    days = [Day(*row) for row in reversed(rows)]
    return Report(
        organization=organization.name,
        code=organization.code,
        timezone=timezone,
        first=_aware(span.start if month else min(starts, default=None)),
        last=_aware(span.end if month else max(ends, default=None)),
        month=None if month is None else str(month),
        snapshot=newest_snapshot(connection),
        made=organization.now().astimezone(UTC),
        step=span.step,
        accounts=accounts,
        usage=[each for each in usage if each.steps],
        meters=[
            Freshness(each.name, row[0], _aware(row[2]), _aware(row[3])) for each, row in known
        ],
        rejected=_rejected(connection, month, zone(timezone)),
        days=days,
        totals=list(_totals(connection, month, quantity_units)),
        billed=billed,
    )


def _rejected(
    connection: duckdb.DuckDBPyConnection, month: Month | None, tz: tzinfo
) -> list[tuple[str, int]]:
    """The rows that wait to be mended, by reason; of a month those that a review of it counts."""
    if month is None:
        return connection.execute(queries.REJECTED).fetchall()
    counts = {reason: found.rows for reason, found in count_open(connection, month, tz).items()}
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ROWS_MAX]


def _span(month: Month | None, tz: tzinfo, known: Sequence[Sequence[Any]]) -> Span:
    if month is not None:
        period = month.period(tz)
        start, end = (each.replace(tzinfo=None) for each in (period.start, period.end))
        return Span(start, end, "day", tz)
    starts = [row[1] for row in known if row[1]]
    ends = [row[2] for row in known if row[2]]
    step: Step = step_of(min(starts), max(ends)) if starts else "day"
    return Span(*_EVER, step, tz)


def _usage(
    connection: duckdb.DuckDBPyConnection, meter: PublishedMeter, span: Span, kinds: _Kinds
) -> Usage:
    fields = [each for each in meter.meter.entity.all_fields if each.category.numeric][:FIELDS_MAX]
    rollups = [rollup_of(kinds.get((meter.meter.id, each.code), ())) for each in fields]
    names = [
        f"{rollup.word} {each.name}".strip() for each, rollup in zip(fields, rollups, strict=True)
    ]
    amounts = [
        rollup.sql.format(identifier(column_name(each)))
        for each, rollup in zip(fields, rollups, strict=True)
    ]
    # Latest values of all accounts need a query of their own.
    sums = "".join(
        ", NULL, NULL" if rollup is LATEST else f", {amount}"
        for amount, rollup in zip(amounts, rollups, strict=True)
    )
    step = queries.step_of_rows(span.step, span.zone)
    query = queries.steps(meter.name, step, sums)
    rows = connection.execute(query, span.bounds).fetchall()[::-1]
    series = [Series("measurements", None, [row[1] for row in rows])]
    for i, (each, rollup) in enumerate(zip(fields, rollups, strict=True)):
        values = [_whole(row[2 + 2 * i], row[3 + 2 * i]) for row in rows]
        if rollup is LATEST:
            query = queries.latest_of_all(meter.name, step, column_name(each))
            known = {row[0]: row[1:] for row in connection.execute(query, span.bounds).fetchall()}
            values = _carried(known, [row[0] for row in rows])
        series.append(Series(names[i] + rollup.of, each.unit, values))
    ranked_by = charts.with_unit(names[0], fields[0].unit) if fields else "measurements"
    amount = amounts[0] if fields else "count(*), 0"
    top = queries.largest_accounts(meter.name, amount)
    accounts = [
        (account, total)
        for account, whole, part in connection.execute(top, span.bounds).fetchall()
        if (total := _whole(whole, part)) is not None
    ]
    return Usage(
        meter.meter.entity.code,
        meter.meter.entity.name,
        [row[0] for row in rows],
        series,
        ranked_by,
        accounts,
    )


def _carried(
    known: Mapping[str, tuple[Any, Any]], steps: Sequence[str]
) -> list[Decimal | int | None]:
    """The sum at the end of each step: that of the last one before in which something changed."""
    changed = sorted(known)
    places = (bisect_right(changed, step) for step in steps)
    return [_whole(*known[changed[at - 1]]) if at else None for at in places]


def _whole(whole: Any, part: Any) -> Decimal | int | None:
    if whole is None:
        return None
    if not part:
        return int(whole)
    with exact():
        return Decimal(whole) + Decimal(part)


def _totals(
    connection: duckdb.DuckDBPyConnection,
    month: Month | None,
    quantity_units: Mapping[str, str | None],
) -> Iterator[Total]:
    for row in connection.execute(queries.totals(month)).fetchall():
        month_name, aggregation, unit, accounts, adds_up, *parts, aggregation_id = row
        total, units = (
            Decimal(_whole(*each) or 0) if adds_up else None for each in (parts[:2], parts[2:])
        )
        of = quantity_units.get(aggregation_id)
        yield Total(month_name, aggregation, unit, accounts, total, of, units)


def _one(
    connection: duckdb.DuckDBPyConnection, query: str, values: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    row = connection.execute(query, values or {}).fetchone()
    assert row is not None, query
    return row


def _aware(instant: datetime | None) -> datetime | None:
    return instant and instant.replace(tzinfo=UTC)


def page_of(content: Report) -> str:
    """The page as HTML, with all scripts and data in it.

    Raises:
        Unavailable: The library that draws is not installed.
    """
    usage = list(charts.usage_charts(content))
    others = [charts.rejected_chart(content), charts.ingest_chart(content)]
    drawn = [chart for _, *both in usage for chart in both] + [each for each in others if each.rows]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"number": charts.number_text, "amount": charts.amount_text}
    # Within a script, only `<` could end it.
    figures = wire.dumps([chart.figure for chart in drawn]).decode().replace("<", "\\u003c")
    return environment.from_string(_file("page.html")).render(
        report=content,
        usage=usage,
        others=others,
        figures=figures,
        style=_file("page.css"),
        script=_file("page.js"),
        plotly=_plotly(),
        age=lambda instant: charts.age_text(instant, content.made),
    )


def _file(name: str) -> str:
    return importlib.resources.files("meterlake.stages.report").joinpath(name).read_text("utf-8")


def _plotly() -> str:
    # The file itself: importing the package would load pandas and take a second.
    spec = importlib.util.find_spec("plotly")
    for place in (spec.submodule_search_locations if spec else None) or ():
        path = Path(place, "package_data", "plotly.min.js")
        if path.is_file():
            return path.read_text("utf-8")
    raise Unavailable(
        "plotly", "the package that draws charts is not installed", "install it: pip install plotly"
    )
