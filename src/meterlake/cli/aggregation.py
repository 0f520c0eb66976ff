"""`meterlake aggregation try`: an aggregation over usage that is there already."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.cli.shell.output import error_line
from meterlake.model.values.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meterlake.stages.usage.rows import SqlUsage


def register(app: App) -> None:
    """Add the command."""
    aggregation = App(
        name="aggregation", help="Aggregations, tried on usage that is there already."
    )
    aggregation.command(try_, name="try")
    app.command(aggregation)


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
