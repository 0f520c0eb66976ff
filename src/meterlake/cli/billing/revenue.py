"""`meterlake revenue`: what bills charge for, by month, customer and product."""

from typing import Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options


def register(app: App) -> None:
    """Add the command."""
    app.command(revenue)


def revenue(  # noqa: PLR0913 - a command has as many options as it has
    *,
    by: Annotated[tuple[str, ...], Parameter(show_default=False)] = ("month",),
    month: Annotated[str | None, Parameter(show_default=False)] = None,
    since: Annotated[str | None, Parameter(show_default=False)] = None,
    reporting: str | None = None,
    margin: Annotated[bool, Parameter(negative="")] = False,
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
        margin: Show the costs, by measures of category COST, and what is left after them: of one
            month, by product or by customer. The last rows are the sums.
        limit: The largest number of rows that you want to see; the largest amounts come first.
    """
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.billing.revenue import RevenueGroup, RevenueRequest
    from meterlake.pipeline.billing.revenue import revenue as find_revenue
    from meterlake.stores.state.core.pages import Page

    for each in by:
        if each not in set(RevenueGroup):
            raise Invalid("--by", each, f"it must be one of {', '.join(RevenueGroup)}")
    if margin:
        if since is not None:
            raise Invalid("--since", since, "margins are of one month; leave it out")
        _show_margins(by, month, reporting, limit, options)
        return
    groups = tuple(map(RevenueGroup, by))
    first = since or (None if RevenueGroup.MONTH in groups else month or "current")
    request = RevenueRequest(groups=groups, first=first, last=month, reporting=reporting)
    with options.open() as organization:
        found = find_revenue(organization, request, Page(limit))
    _show_revenue(found, by, reporting, options)


def _show_revenue(
    found: dict[str, Any], by: tuple[str, ...], reporting: str | None, options: Options
) -> None:
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
        *(
            ()
            if reporting is None
            else (
                f"reportingBilledAmount=billed, {reporting}",
                f"reportingAmount={reporting}",
            )
        ),
    )
    options.output.rows(found["data"], columns, empty="No bills.")
    for code, rate in found.get("rates", {}).items():
        if code != reporting:
            options.output.note(f"1 {code} = {rate} {reporting}, by the currency conversions.")
    if found.get("missingRates"):
        codes = ", ".join(found["missingRates"])
        options.output.note(
            f"There is no rate from {codes} to {reporting}: add it, or leave it out."
        )


def _show_margins(
    by: tuple[str, ...], month: str | None, reporting: str | None, limit: int, options: Options
) -> None:
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.billing.margins import margins
    from meterlake.pipeline.billing.revenue import RevenueGroup
    from meterlake.stores.state.core.pages import Page

    # Months are what is shown without any group.
    group = "product" if by == ("month",) else ",".join(by)
    if group not in {RevenueGroup.PRODUCT, RevenueGroup.CUSTOMER}:
        raise Invalid("--by", group, "margins are by product or by customer; name one of them")
    with options.open() as organization:
        found = margins(
            organization, month or "current", RevenueGroup(group), reporting, Page(limit)
        )
    if options.json:
        for each in found["data"]:
            options.output.line(each)
        return
    columns = (
        *(name for head, name in _HEADS if head == group),
        *("currency", "revenue", "cost", "?margin", "?other=other costs", "customers"),
    )
    name = "productCode" if group == RevenueGroup.PRODUCT else "accountCode"
    sums = [{**each, name: f"all of {each['currency']}"} for each in found["totals"]]
    rows = [{**each, "other": _words(each["otherCosts"])} for each in (*found["data"], *sums)]
    nothing = "No bills." if found["measures"] else "No meter has a measure of category COST."
    options.output.rows(rows, columns, empty=nothing)
    for each in found["unbilled"]:
        account = each.get("accountCode", each["accountId"])
        options.output.note(f"No bill has the costs of {account}: {each['cost']} {each['unit']}")
    for each in found["measures"]:
        if not each["isMeasured"]:
            options.output.note(f"{each['name']}: nothing was measured in this month.")


def _words(others: list[dict[str, Any]]) -> str | None:
    return ", ".join(f"{each['cost']} {each['unit']}" for each in others) or None


_HEADS: Final = (
    ("month", "!month"),
    ("customer", "!accountCode=customer"),
    ("product", "!productCode=product"),
)
