"""`meterlake revenue`: what bills charge for, by month, customer and product."""

from typing import Annotated, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options


def register(app: App) -> None:
    """Add the command."""
    app.command(revenue)


def revenue(
    *,
    by: Annotated[tuple[str, ...], Parameter(show_default=False)] = ("month",),
    month: Annotated[str | None, Parameter(show_default=False)] = None,
    since: Annotated[str | None, Parameter(show_default=False)] = None,
    reporting: str | None = None,
    limit: Limit = 100,
    options: Options = NO_OPTIONS,
) -> None:
    """Show revenue: what bills charge for, drafts and approved ones, with credits and debits.

    What balances and commitments pay of a bill takes nothing away from revenue, and what is charged
    ahead for them is none yet; the column billed is what bills come to. A bill counts for the month of its last day. Without --since you see twelve months, or with other
    groups than months the month alone.

    Example: `meterlake revenue --by customer --month 2026-10 --reporting EUR`

    Args:
        by: What is told apart: month, customer, product. You can give it several times.
        month: The last month, such as 2026-10, `last` or `current`; the current one by default.
        since: The first month.
        reporting: Convert all amounts into this currency, by the conversions of the organization.
        limit: The largest number of rows that you want to see; the largest amounts come first.
    """
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.billing.revenue import RevenueGroup, RevenueRequest
    from meterlake.pipeline.billing.revenue import revenue as find_revenue
    from meterlake.stores.state.core.pages import Page

    for each in by:
        if each not in set(RevenueGroup):
            raise Invalid("--by", each, f"it must be one of {', '.join(RevenueGroup)}")
    groups = tuple(map(RevenueGroup, by))
    first = since or (None if RevenueGroup.MONTH in groups else month or "current")
    request = RevenueRequest(groups=groups, first=first, last=month, reporting=reporting)
    with options.open() as organization:
        found = find_revenue(organization, request, Page(limit))
    if options.json:
        for each in found["data"]:
            options.output.line(each)
        return
    columns = (
        *(name for group, name in _HEADS if group in by),
        *(
            "currency",
            "?approvedAmount=approved",
            "?draftAmount=draft",
            "?billedAmount=billed",
            "amount",
        ),
        *(() if reporting is None else (f"reportingAmount={reporting}",)),
    )
    options.output.rows(found["data"], columns, empty="No bills.")
    if found.get("missingRates"):
        codes = ", ".join(found["missingRates"])
        options.output.note(
            f"There is no rate from {codes} to {reporting}: add it, or leave it out."
        )


_HEADS: Final = (
    ("month", "!month"),
    ("customer", "!accountCode=customer"),
    ("product", "!productCode=product"),
)
