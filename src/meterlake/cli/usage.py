"""`meterlake aggregate`, `aggregation try` and `explain`: quantities of a period, and what is behind them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.shell.options import (
    NO_OPTIONS,
    NO_ORGANIZATION_OPTIONS,
    Limit,
    Options,
    OrganizationOptions,
)
from meterlake.cli.shell.output import error_line, show_organizations
from meterlake.model.errors import Invalid
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meterlake.cli.quantities import QuantityNames
    from meterlake.cli.shell.output import Output
    from meterlake.model.bills.bill import Quantity
    from meterlake.model.customers.recurring_period import PeriodSpec
    from meterlake.pipeline.usage.aggregate import AggregateResult
    from meterlake.stages.usage.rows import SqlUsage


Frequency = Literal["daily", "weekly", "monthly", "annually"]
Function = Literal["sum", "min", "max", "count", "latest", "mean", "unique"]
_LISTED: Final = 20
Day = Annotated[str | None, Parameter(show_default=False)]


def register(app: App) -> None:
    """Add the commands."""
    app.command(aggregate)
    explain = App(name="explain", help="Explain a number by the data that it comes from.")
    explain.command(quantity)
    explain.command(number)
    app.command(explain)
    aggregation = App(
        name="aggregation", help="Aggregations, tried on usage that is there already."
    )
    aggregation.command(try_, name="try")
    app.command(aggregation)


def aggregate(
    month: Annotated[str | None, Parameter(name="--month", show_default=False)] = None,
    *,
    frequency: Annotated[Frequency | None, Parameter(show_default=False)] = None,
    on: Day = None,
    from_: Annotated[str | None, Parameter(name="--from", show_default=False)] = None,
    to: Day = None,
    options: OrganizationOptions = NO_ORGANIZATION_OPTIONS,
) -> int:
    """Aggregate the measurements of a period to quantities, and keep them in the lake.

    You get a quantity per account, aggregation and segment, in the organization's time zone. An
    account with an epoch or a plan of its own has the periods of its own that begin in the
    organization's period. If you run it again, it keeps nothing new unless measurements, plans or
    aggregations changed. The table sums up; with --json you get every quantity, and also with
    meterlake sql "FROM quantity_current".

    Example: `meterlake aggregate 2026-10`

    Example: `meterlake aggregate --frequency weekly --on 2026-10-05`

    Example: `meterlake aggregate --from 2026-10-01 --to 2026-10-15`

    Args:
        month: Such as 2026-10.
        frequency: The organization's period of this frequency that contains the day of --on.
        on: A day of the period, such as 2026-10-05.
        from_: The first day of an ad hoc period.
        to: The day after its last.
    """
    from meterlake.cli.quantities import QuantityNames, show_quantities
    from meterlake.pipeline.usage.aggregate import aggregate as fold

    period = _period_spec(month, (frequency, on), (from_, to))
    if options.all_orgs:
        from meterlake.pipeline.home.organizations import aggregate_organizations

        with options.open_all() as stores:
            ends = aggregate_organizations(stores, period)
        return show_organizations(
            ends, ("period", "quantities", "failed", "appended"), options.output
        )
    with options.open() as organization:
        result = fold(organization, period)
        names = QuantityNames.read(organization.state, organization.id)
        show_quantities(result, names, options.output)
    for name, reason in result.left_out:
        error_line("NotCalculated", f"aggregation {name!r}: {reason}", json=options.json)
    if result.failures:
        each = result.failures[0]
        message = (
            f"{counted(len(result.failures), 'quantity', 'quantities')}, the first: {each.detail}"
        )
        error_line("NotCalculated", message, json=options.json)
    for message in _describe_unmatched(result, names):
        error_line("Unmatched", message, json=options.json)
    if result.overflows:
        message = counted(len(result.overflows), "quantity has", "quantities have")
        message += " more digits than the lake keeps"
        error_line("Overflow", message, json=options.json)
    return 1 if result.overflows or result.failures else 0


def _describe_unmatched(result: "AggregateResult", names: "QuantityNames") -> list[str]:
    """One sentence for each aggregation with usage that is in none of its segments."""
    found: dict[str, list[Quantity]] = {}
    for each in result.unmatched:
        found.setdefault(names.of(each.aggregation_id, compound=False), []).append(each)
    return [
        f"aggregation {code!r} has no segment for"
        f" {counted(sum(each.measurements for each in quantities), 'measurement')}"
        f" of {counted(len({each.account_id for each in quantities}), 'account')}"
        for code, quantities in sorted(found.items())
    ]


def _period_spec(
    month: str | None, on: tuple[str | None, str | None], between: tuple[str | None, str | None]
) -> "PeriodSpec":
    from meterlake.model.catalog.plans import BillingFrequency
    from meterlake.model.customers.recurring_period import PeriodSpec, parse_day
    from meterlake.model.values.period import Month

    ways = [month is not None, any(on), any(between)]
    if sum(ways) != 1 or (any(on) and not all(on)) or (any(between) and not all(between)):
        rule = "give a month, or --frequency with --on, or --from with --to"
        raise Invalid("period", month, rule)
    if month is not None:
        return PeriodSpec.month(Month.parse(month))
    frequency, day = on
    if frequency is not None and day is not None:
        return PeriodSpec.on(BillingFrequency(frequency.upper()), parse_day("on", day))
    first, after = between
    assert first is not None
    assert after is not None
    return PeriodSpec.between(parse_day("from", first), parse_day("to", after))


@Parameter(name="*")
@dataclass(frozen=True)
class Only:
    """Options that choose among quantities of one name.

    Attributes:
        frequency: You need it if a day and a week begin alike.
        segment: `field=value`; you can give it several times.
        limit: The largest number of measurements that you want to see.
    """

    frequency: Annotated[Frequency | None, Parameter(show_default=False)] = None
    segment: tuple[str, ...] = ()
    limit: Limit = _LISTED


_ALL: Final = Only()


def quantity(
    account: str,
    aggregation: str,
    period: str,
    /,
    *,
    only: Only = _ALL,
    options: Options = NO_OPTIONS,
) -> None:
    """Show a quantity, the SQL that gave it, and the measurements behind it with file and row.

    For a compound aggregation you see its calculation, and the quantities in it.

    Example: `meterlake explain quantity acme tokens 2026-10`

    Args:
        account: Its code.
        aggregation: Its code.
        period: Its name: 2026, 2026-10, 2026-10-05, or 2026-10-05/2026-10-12 of an ad hoc one.
    """
    from meterlake.pipeline.usage.explain import QuantityFilter, explain

    criteria = QuantityFilter(
        account=account,
        aggregation=aggregation,
        period=period,
        frequency=only.frequency and only.frequency.upper(),
        segment=dict(_pair(each) for each in only.segment),
        limit=max(only.limit, 0),
    )
    with options.looked_at() as organization:
        found = explain(organization, criteria)
    for each in found:
        if options.json:
            options.output.line(each.to_wire())
        else:
            _show_explained(each.to_wire(), options.output)


@Parameter(name="*")
@dataclass(frozen=True)
class NumberOf:
    """Options that say which measurements make a number.

    Attributes:
        from_: The first day, by the clocks of the organization.
        to: The day after the last one.
        function: How the values become one.
        account: Only those of this account: its code.
        where: `field=value`; you can give it several times. Without a value: those that have none.
        limit: The largest number of measurements that you want to see.
        after: Go on after the measurements that you saw: what the list before named.
    """

    from_: Annotated[str, Parameter(name="--from")]
    to: Annotated[str, Parameter(name="--to")]
    function: Function = "sum"
    account: Annotated[str | None, Parameter(show_default=False)] = None
    where: tuple[str, ...] = ()
    limit: Limit = _LISTED
    after: Annotated[str | None, Parameter(show_default=False)] = None


def number(meter: str, field: str, /, *, of: NumberOf, options: Options = NO_OPTIONS) -> None:
    """Show a number of usage, the SQL that gives it, and its measurements with file and row.

    It is the number of a question to the Data Explorer, as the page Usage of the console asks it.

    Example: `meterlake explain number egress gb --from 2026-10-05 --to 2026-10-06 --account acme`

    Args:
        meter: Its code.
        field: The code of the field whose values become the number.
    """
    from meterlake.pipeline.explorer.number import explain_number, number_request
    from meterlake.stores.state.core.pages import Page

    where = {name: value or None for name, value in map(_condition, of.where)}
    with options.looked_at() as organization:
        request = number_request(
            organization, (meter, field, of.function.upper()), (of.from_, of.to), of.account, where
        )
        found = explain_number(organization, request, Page(max(of.limit, 1), of.after)).to_wire()
    if options.json:
        options.output.line(found)
        return
    options.output.record({**found["row"], "measurementCount": found["measurementCount"]})
    options.output.text(f"\n{found['sql']}\n")
    columns = ("file", "row", "ts", "value", "?account", "?uid", "?receivedAt=received at")
    options.output.rows(found["data"], columns, "Measurements")
    if found["nextToken"]:
        options.output.note(f"There are more: --after {found['nextToken']}")


def _condition(text: str) -> tuple[str, str]:
    return _pair(text, "where")


def _pair(text: str, option: str = "segment") -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Invalid(option, text, "write it as field=value")
    return name, value


def _show_explained(found: dict[str, Any], output: "Output") -> None:
    from meterlake.model.usage.quantity import quantity_text, units_text

    lists = ("measurements", "parts", "more", "statement", "parameters", "snapshotKept", "now")
    shown = {name: value for name, value in found.items() if name not in lists}
    unit = shown.pop("quantityUnit", None)
    shown["quantity"] = quantity_text(found["quantity"], unit)
    shown["units"] = units_text(found["units"], shown.pop("unit"))
    output.record(shown)
    if now := found.get("now"):
        output.note(
            f"Calculated now it is {quantity_text(now['quantity'], unit)}, of"
            f" {counted(now['measurementCount'], 'measurement')}: what it is made of changed since."
            " Aggregate the period again."
        )
    if "statement" in found:
        from meterlake.model.values import wire

        output.text(f"\n{found['statement']}\n\n{wire.dumps(found['parameters']).decode()}\n")
    if not found["snapshotKept"]:
        output.note("The snapshot is not kept any more; measurements are as they are now.")
    if found["measurements"]:
        columns = ("file", "row", "ts", "value", "?uid", "?receivedAt=received at")
        output.rows(found["measurements"], columns, "Measurements")
    if found["more"]:
        output.note(f"The first of {found['measurementCount']:,}; --limit gives more.")
    for part in found["parts"]:
        _show_explained(part, output)


def try_(
    code: str,
    /,
    *,
    month: Annotated[str, Parameter(name="--month")],
    sql: Annotated[str | None, Parameter(show_default=False)] = None,
    options: Options = NO_OPTIONS,
) -> int:
    """Evaluate an aggregation over a month, for every account, and keep nothing.

    With --sql you try SQL in its place. The table `measurements` has the measurements of one account in the month (and in one segment,
    if the aggregation has segments): ts, uid, ets, received_at, and a column per field code.

    Example: `meterlake aggregation try peak --month 2026-09 --sql "SELECT max(gb) FROM measurements"`

    Args:
        code: The code of the aggregation.
        month: Such as 2026-09.
        sql: SQL to try instead of the aggregation as it is.
    """
    from meterlake.model.customers.accounts import Account
    from meterlake.model.values.period import Month
    from meterlake.pipeline.usage.meter_rollup import trial

    with options.open() as organization:
        usage = trial(organization, code, Month.parse(month), sql)
        configuration = organization.configuration()
        codes = {each.id: each.entity.code or each.id for each in configuration.all(Account)}
    lines = sorted(_lines(usage, codes), key=lambda line: (line["account"], line["segment"]))
    if options.json:
        for line in lines:
            options.output.line(line)
    else:
        options.output.rows(lines, ("!account", "segment", "measurements", "value", "error"))
    if usage.failures:
        message = (
            f"{counted(len(usage.failures), 'account has', 'accounts have')} no value, the first: "
        )
        error_line("NotCalculated", message + usage.failures[0].detail, json=options.json)
    return 1 if usage.failures else 0


def _lines(usage: "SqlUsage", codes: dict[str, str]) -> "Iterator[dict[str, Any]]":
    for meter_usage in (one for found in usage.by_meter.values() for one in found):
        account = codes.get(meter_usage.account_id, meter_usage.account_id)
        for each in meter_usage.quantities:
            yield {
                "account": account,
                "segment": _segment(each.segment),
                "measurements": each.measurements,
                "value": each.value,
            }
        for each in meter_usage.unmatched:
            yield {
                "account": account,
                "segment": "(none matches)",
                "measurements": each.measurements,
                "value": each.value,
            }
    for failure in usage.failures:
        yield {
            "account": codes.get(failure.account_id, failure.account_id),
            "segment": _segment(failure.segment),
            "error": failure.detail,
        }


def _segment(segment: tuple[tuple[str, str], ...] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in segment or ())
