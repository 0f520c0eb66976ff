"""What an account used on each day of a month, as a chart."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Final

from markupsafe import Markup
from starlette.requests import Request

from meterlake.console.shell.charts import bar_chart
from meterlake.console.shell.page import day, locale_of
from meterlake.model.values.period import Month

_ONE_DAY: Final = timedelta(days=1)


def day_chart(request: Request, usage: dict[str, Any], month: Month) -> Markup:
    """The days of a month as bars: what was used of one aggregation."""
    quantities = {each["date"]: each["quantity"] for each in usage["days"]}
    locale = locale_of(request)
    days = list(_days(month))
    title = f"{usage['name']} by day"
    values = [quantities.get(str(each)) for each in days]
    labels = [day(each, locale).striptags() for each in days]
    return bar_chart(title, labels, {usage["name"]: values}, locale, usage.get("unit", ""))


def _days(month: Month) -> Iterator[date]:
    at = month.first
    while at < month.after:
        yield at
        at += _ONE_DAY
