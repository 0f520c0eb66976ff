"""Pages of usage: a question about it as chart, table, SQL and file; and a quantity explained.

A question is its address: who gets the link asks the same. Days, weeks and months are those of the
organization's clocks.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from babel.numbers import format_decimal
from markupsafe import Markup
from starlette.responses import Response

from meterlake.console.shell.api import ApiRefusalError, rows_of
from meterlake.console.shell.charts import GROUPS, bar_chart
from meterlake.console.shell.dates import in_words
from meterlake.console.shell.lists import Column, Listing, show_list
from meterlake.console.shell.named_customers import customer_named
from meterlake.console.shell.page import Visit, locale_of, page_routes, words
from meterlake.model.configuration.queries import (
    DataExplorerUsageDataFrequency,
    TimePeriod,
    relative_period,
)
from meterlake.model.errors import Invalid
from meterlake.model.measurements.measurement import Category
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import format_instant

USAGE: Final = "/console/usage"
_SHOWN_MAX: Final = 200
_CHART_ROWS: Final = 20_000
_BARS_MAX: Final = 400
_LISTED_MAX: Final = 40
# Fewer bars are as plain as they can be.
_ZOOMED_MIN: Final = 8
_FILTERS: Final = 3
# Measurements of an explained quantity, on request.
_EXPLAINED_MAX: Final = 1_000
_NOT_FOUND: Final = 404
_WRONG: Final = 400
_GROUPS_MAX: Final = 2
_PERIOD: Final = TimePeriod.LAST_30_DAYS
_OF_TEXTS: Final = ("COUNT", "UNIQUE")
_OF_NUMBERS: Final = ("SUM", "MEAN", "MIN", "MAX", "LATEST", "COUNT")
# Values of groups that may be added up to one of the rest.
_SUMMABLE: Final = frozenset({"SUM", "COUNT"})
_STEPS: Final = {"HOUR": timedelta(hours=1), "DAY": timedelta(days=1), "WEEK": timedelta(days=7)}
_LABELS: Final = {"HOUR": "d MMM HH:mm", "MONTH": "MMM yyyy", "QUARTER": "MMM yyyy"}
_HEADINGS: Final = {
    "account": "Customer",
    "ts": "When",
    "ets": "Until",
    "receivedAt": "Received",
    "uid": "Uid",
    **{each.value.lower(): words(each.value) for each in DataExplorerUsageDataFrequency},
}
_FILES: Final = ("csv", "parquet", "json")
_QUERY: Final = "/usage/query"
# Members of an answer's rows that no question groups by.
_NAMES: Final = frozenset({"meterId", "meter", "account"})


@dataclass(frozen=True, slots=True)
class UsageQuestion:
    """What the address asks.

    Attributes:
        meter: The meter, as the API has it.
        field: The field that is folded; None if measurements are asked for as they were sent.
        function: How.
        by: The length of groups in time; empty without any.
        groups: `account`, and codes of fields.
        filters: Codes of fields with the values that are wanted.
        customers: Ids of accounts; all if none.
        times: A relative time, or the first day and the last one.
    """

    meter: Mapping[str, Any]
    field: Mapping[str, Any] | None
    function: str
    by: str
    groups: tuple[str, ...]
    filters: tuple[tuple[str, tuple[str, ...]], ...]
    customers: tuple[str, ...]
    times: TimePeriod | tuple[date, date]

    def document(self, visit: Visit) -> dict[str, Any]:
        """The question as the API takes it, from one instant to another."""
        zone = ZoneInfo(visit.session.zone)
        if isinstance(self.times, TimePeriod):
            found = relative_period(self.times, visit.now, zone)
            start, end = found.start, found.end
        else:
            first, last = self.times
            start, end = (
                datetime.combine(each, time.min, zone).astimezone(UTC)
                for each in (first, last + timedelta(days=1))
            )
        asked = self._what(visit.session.zone)
        return {**asked, "startDate": format_instant(start), "endDate": format_instant(end)}

    def saved(self, visit: Visit) -> dict[str, Any]:
        """The question as it is kept: a relative time stays one."""
        if isinstance(self.times, TimePeriod):
            return {**self._what(visit.session.zone), "timePeriod": self.times.value}
        return self.document(visit)

    def _what(self, zone: str) -> dict[str, Any]:
        id_ = self.meter["id"]
        found: dict[str, Any] = {"meterIds": [id_], "accountIds": list(self.customers)}
        found["dimensionFilters"] = [
            {"meterId": id_, "fieldCode": code, "values": list(values)}
            for code, values in self.filters
        ]
        if self.field is None:
            return found
        kind = "MEASURE" if Category(self.field["category"]).numeric else "DIMENSION"
        aggregation = {"meterId": id_, "fieldCode": self.field["code"], "fieldType": kind}
        return {
            **found,
            "aggregations": [{**aggregation, "function": self.function}],
            "groups": [*self._time_group(zone), *map(self._group, self.groups)],
        }

    def _time_group(self, zone: str) -> list[dict[str, str]]:
        group = {"groupType": "TIME", "frequency": self.by, "timezone": zone}
        return [group] if self.by else []

    def _group(self, name: str) -> dict[str, str]:
        if name == "account":
            return {"groupType": "ACCOUNT"}
        return {"groupType": "DIMENSION", "meterId": self.meter["id"], "fieldCode": name}


# --- The address ----------------------------------------------------------------------------------


async def _question(visit: Visit, meters: Sequence[Mapping[str, Any]]) -> UsageQuestion | None:
    """What the address asks; None if it names no meter and there are several, or none.

    Raises:
        ApiRefusalError: It names something that does not exist.
    """
    wanted = visit.query("meter")
    if wanted is None and len(meters) != 1:
        return None
    meter = next((each for each in meters if wanted in {None, each["code"], each["id"]}), None)
    if meter is None:
        raise ApiRefusalError(404, f"There is no meter {wanted!r}.")
    fields = fields_of(meter)
    code = visit.query("field")
    field = next((each for each in fields if each["code"] == code), None)
    if field is None and code != "-":
        field = next((each for each in fields if Category(each["category"]).numeric), fields[0])
    names = {"account", *(each["code"] for each in fields)}
    given = dict.fromkeys(
        found for name in ("group", "also") if (found := visit.query(name)) in names
    )
    return UsageQuestion(
        meter,
        field,
        _function(visit, field),
        _frequency(visit),
        tuple(each for each in given if each is not None),
        tuple(_filters(visit)),
        await _customers(visit),
        _times(visit),
    )


def fields_of(meter: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The data fields and the derived fields of a meter."""
    return [*meter["dataFields"], *meter.get("derivedFields", ())]


def functions_of(field: Mapping[str, Any]) -> tuple[str, ...]:
    """How the values of a field can become one."""
    return _OF_NUMBERS if Category(field["category"]).numeric else _OF_TEXTS


def _function(visit: Visit, field: Mapping[str, Any] | None) -> str:
    if field is None:
        return ""
    fitting, found = functions_of(field), visit.query("function")
    return found if found in fitting else fitting[0]


def _frequency(visit: Visit) -> str:
    found = visit.query("by") or "DAY"
    return found if found in set(DataExplorerUsageDataFrequency) else ""


def _filters(visit: Visit) -> Iterable[tuple[str, tuple[str, ...]]]:
    for number in range(_FILTERS):
        code, text = visit.query(f"where{number}"), visit.query(f"is{number}")
        if code and text:
            yield code, tuple(each.strip() for each in text.split(",") if each.strip())


async def _customers(visit: Visit) -> tuple[str, ...]:
    codes = [each.strip() for each in (visit.query("customer") or "").split(",") if each.strip()]
    if not codes:
        return ()
    found = await visit.api.every("/accounts", codes=",".join(codes))
    ids = {each["code"]: each["id"] for each in found}
    for code in codes:
        if code not in ids:
            raise ApiRefusalError(404, f"There is no customer with the code {code!r}.")
    return tuple(ids[code] for code in codes)


def _times(visit: Visit) -> TimePeriod | tuple[date, date]:
    first, last = visit.query("from"), visit.query("to")
    if first is None and last is None:
        found = visit.query("time") or _PERIOD
        if found not in set(TimePeriod):
            raise Invalid("time", found, f"it must be one of {', '.join(TimePeriod)}")
        return TimePeriod(found)
    days = [_day(name, text) for name, text in (("from", first), ("to", last)) if text]
    return days[0], days[-1]


def _day(name: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Invalid(name, text, "it must be a date such as 2026-10-01") from None


def address_of_question(saved: Mapping[str, Any], codes: Mapping[str, str]) -> str:
    """The address of a saved question; that of its id if the form cannot ask it.

    Args:
        saved: The saved query, as the API has it.
        codes: The codes of meters by id.
    """
    query = saved["usageQuery"]
    folded, groups = query.get("aggregations", ()), query.get("groups", ())
    fields = [each["fieldCode"] for each in groups if each["groupType"] == "DIMENSION"]
    named = [
        *(["account"] if any(each["groupType"] == "ACCOUNT" for each in groups) else []),
        *fields,
    ]
    times = [each["frequency"] for each in groups if each["groupType"] == "TIME"]
    meters = {*query.get("meterIds", ()), *(each["meterId"] for each in folded)}
    fits = len(folded) == 1 and len(meters) == 1 and len(named) <= _GROUPS_MAX and len(times) <= 1
    if not fits or query.get("accountIds") or "timePeriod" not in query:
        return f"{USAGE}?saved={saved['id']}"
    asked = {"meter": codes.get(folded[0]["meterId"], folded[0]["meterId"])}
    asked |= {"field": folded[0]["fieldCode"], "function": folded[0]["function"]}
    asked |= {"by": times[0] if times else "-", "time": query["timePeriod"]}
    asked |= dict(zip(("group", "also"), named, strict=False))
    for number, each in enumerate(query.get("dimensionFilters", ())[:_FILTERS]):
        asked |= {f"where{number}": each["fieldCode"], f"is{number}": ",".join(each["values"])}
    return f"{USAGE}?{urlencode(asked)}"


# --- The answer -----------------------------------------------------------------------------------


async def show_usage(visit: Visit) -> Response:
    """The question of the address: its form, chart, table and SQL; or a file with its rows."""
    found, saved = await asyncio.gather(
        visit.api.every("/meters"), visit.api.every("/usage/savedqueries")
    )
    meters = sorted(found, key=lambda each: str(each["name"]).lower())
    codes = {each["id"]: each["code"] for each in meters}
    values: dict[str, Any] = {
        "meters": meters,
        "saved": [(each, address_of_question(each, codes)) for each in saved],
        "periods": [(each.value, words(each.value)) for each in TimePeriod],
        "frequencies": [(each.value, words(each.value)) for each in DataExplorerUsageDataFrequency],
        "filters": range(_FILTERS),
        "question": None,
    }
    if (id_ := visit.query("saved")) is not None:
        answer = await visit.api.send("POST", f"/usage/savedqueries/{id_}/query")
        return visit.page("usage/usage.html", **values, **_shown(visit, answer, None))
    question = await _question(visit, meters)
    if question is None:
        return visit.page("usage/usage.html", **values)
    document = question.document(visit)
    if (kind := visit.query("format")) in _FILES:
        # A spreadsheet would take the instant at which a day begins for the day before.
        path = f"{_QUERY}/download/{kind}"
        file = await visit.api.send("POST", path, document, clocks="true")
        return visit.go(file["downloadUrl"])
    answer = await visit.api.send("POST", _QUERY, {**document, "limit": _CHART_ROWS})
    values |= {
        "question": question,
        "fields": fields_of(question.meter),
        "functions": functions_of(question.field) if question.field else (),
        "document": document,
        "statements": await _statements(visit, document),
    }
    return visit.page(
        "usage/usage.html",
        **values,
        **_shown(visit, answer, question),
        **_links(visit, values, answer),
    )


def _links(visit: Visit, values: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Which member of an answer's rows is the number, and where that of each row is explained."""
    question, rows = values["question"], answer["data"][:_SHOWN_MAX]
    if question.field is None or not rows or not visit.may("PostUsageDataQueryExplain"):
        return {}
    value = _value_of(rows[0], question)
    links = [_number_link(visit, values["document"], row, value) for row in rows]
    return {"number": value, "links": links}


def _value_of(row: Mapping[str, Any], question: UsageQuestion) -> str:
    """The member of a row that has its number."""
    return next(name for name in reversed(list(row)) if name.endswith(f".{question.function}"))


async def _statements(visit: Visit, document: Mapping[str, Any]) -> list[Any]:
    if visit.query("sql") is None:
        return []
    answer = await visit.api.send("POST", f"{_QUERY}/sql", document)
    return list(answer["data"])


def _shown(
    visit: Visit, answer: Mapping[str, Any], question: UsageQuestion | None
) -> dict[str, Any]:
    """The rows of an answer as a table and a chart."""
    rows = answer["data"]
    hidden = {"meterId", "accountId", *(["meter"] if question else [])}
    names = dict.fromkeys(name for row in rows for name in row if name not in hidden)
    return {
        "rows": rows[:_SHOWN_MAX],
        "columns": [(name, _heading(name, question)) for name in names],
        "count": len(rows),
        "has_more": answer.get("hasMoreData"),
        "chart": _chart(visit, rows, question) if question else Markup(""),
    }


def _heading(name: str, question: UsageQuestion | None) -> str:
    """What people call a member of an answer's rows."""
    if question and question.field and name.endswith(f".{question.function}"):
        return f"{words(question.function)} of {question.field['name']}"
    category, _, code = name.partition(".")
    if category in _HEADINGS:
        return _HEADINGS[category]
    fields = fields_of(question.meter) if question else []
    return next((str(each["name"]) for each in fields if each["code"] == code), name)


def _chart(visit: Visit, rows: Sequence[Mapping[str, Any]], question: UsageQuestion) -> Markup:
    """Bars by time, stacked by group; without groups in time, a bar for each group."""
    locale, zone = locale_of(visit.request), ZoneInfo(visit.session.zone)
    if question.field is None or not rows:
        return Markup("")
    value = _value_of(rows[0], question)
    unit = "" if question.function in _OF_TEXTS else str(question.field.get("unit") or "")
    title = f"{words(question.function)} of {question.field['name']}"
    names = [name for name in rows[0] if name not in {"meterId", "meter", "accountId", value}]
    at = question.by.lower()
    if not at:
        bars = rows[:_LISTED_MAX]
        labels = [_label(row, names) for row in bars]
        return bar_chart(title, labels, {"": [row[value] for row in bars]}, locale, unit)
    names.remove(at)
    times = _every_time({str(row[at]) for row in rows}, question.by, zone)
    place = {text: number for number, text in enumerate(times)}
    series: dict[str, list[Decimal | None]] = {}
    for row in rows:
        series.setdefault(_label(row, names), [None] * len(times))[place[str(row[at])]] = row[value]
    pattern = _LABELS.get(question.by, "d MMM")
    shown = [in_words(datetime.fromisoformat(each).astimezone(zone), pattern) for each in times]
    groups = _largest(series, question.function)
    chart = bar_chart(title, shown, groups, locale, unit)
    if len(times) < _ZOOMED_MIN or not chart:
        return chart
    told = {
        "title": title,
        "labels": shown,
        "days": [str(datetime.fromisoformat(each).astimezone(zone).date()) for each in times],
        "groups": [
            {
                "name": name,
                "values": [None if each is None else f"{Decimal(each):f}" for each in values],
                "shown": [
                    None
                    if each is None
                    else format_decimal(each, locale=locale, decimal_quantization=False)
                    for each in values
                ],
            }
            for name, values in groups.items()
        ],
    }
    return Markup('<div data-zoom="{}">{}</div>').format(json.dumps(told), chart)


def _label(row: Mapping[str, Any], names: Iterable[str]) -> str:
    return " · ".join("none" if row[name] is None else str(row[name]) for name in names)


def _every_time(found: set[str], by: str, zone: ZoneInfo) -> list[str]:
    """The beginnings of all units of time between the first and the last one."""
    step = _STEPS.get(by)
    # Hours pass evenly in UTC, days and weeks by the clocks of the zone.
    clock: tzinfo = UTC if by == "HOUR" else zone
    first, last = (datetime.fromisoformat(each(found)).astimezone(clock) for each in (min, max))
    if step is None or (last - first) / step > _BARS_MAX:
        return sorted(found)
    count = (last - first) // step + 1
    return [format_instant((first + step * number).astimezone(UTC)) for number in range(count)]


def _largest(
    series: Mapping[str, list[Decimal | None]], function: str
) -> dict[str, list[Decimal | None]]:
    """The largest groups; the others together, where values may be added."""
    with exact():
        sizes = {
            name: sum((abs(each or ZERO) for each in values), ZERO)
            for name, values in series.items()
        }
        order = sorted(series, key=lambda name: (-sizes[name], name))
        if len(order) <= GROUPS:
            return {name: series[name] for name in order}
        shown, rest = order[: GROUPS - 1], order[GROUPS - 1 :]
        found = {name: series[name] for name in shown}
        if function in _SUMMABLE:
            columns = zip(*(series[name] for name in rest), strict=True)
            found["others"] = [sum((each or ZERO for each in column), ZERO) for column in columns]
        return found


# --- Questions that are kept, and quantities explained --------------------------------------------


async def change_usage(visit: Visit) -> Response:
    """Keep the question of the address under a name, or forget one."""
    match visit.field("action"):
        case "save":
            question = await _question(visit, await visit.api.every("/meters"))
            if question is None:
                raise ApiRefusalError(400, "There is no question to save yet. Choose a meter.")
            body = {"name": visit.field("name"), "usageQuery": question.saved(visit)}
            await visit.api.send("POST", "/usage/savedqueries", body)
            return visit.go(visit.link(), f"You saved the question as {body['name']}.")
        case "forget":
            gone = await visit.api.send("DELETE", f"/usage/savedqueries/{visit.field('id')}")
            said = f"You deleted the question {gone.get('name', '')}. No number changed."
            return visit.go(visit.link(), said)
        case _:
            raise visit.unknown_action("a question")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberListing(Listing):
    """The measurements of one number.

    Attributes:
        body: The question and the group.
        told: What the API said last of the number.
    """

    body: Mapping[str, Any]
    told: dict[str, Any]

    async def page(
        self, visit: Visit, size: int, token: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """One page of measurements, and the token of the next one."""
        query = {"pageSize": size, "nextToken": token}
        self.told.update(await visit.api.send("POST", f"{_QUERY}/explain", self.body, **query))
        return self.told["data"], self.told.get("nextToken")


def _number_link(
    visit: Visit, document: Mapping[str, Any], row: Mapping[str, Any], value: str
) -> str:
    """Where the number of a row is explained; the time of the question stays that of the answer."""
    group = {name: each for name, each in row.items() if name not in {*_NAMES, value}}
    query = {"of": json.dumps(group), "start": document["startDate"], "end": document["endDate"]}
    return f"{USAGE}/number?{urlencode({**visit.request.query_params, **query})}"


async def explain_number(visit: Visit) -> Response:
    """A number of the table under a chart: its SQL, and its measurements by file and row."""
    question = await _question(visit, await visit.api.every("/meters"))
    try:
        group = json.loads(visit.query("of") or "{}")
    except ValueError:
        group = None
    if question is None or question.field is None or not isinstance(group, dict):
        raise ApiRefusalError(_WRONG, "The address names no number. Follow the link of one.")
    document = question.document(visit)
    times = {"startDate": visit.query("start"), "endDate": visit.query("end")}
    body = {**document, **{name: at for name, at in times.items() if at}, "group": group}
    is_number = Category(question.field["category"]).numeric
    source = "/console/data-in/sources/{source}" if visit.may("ListSources") else ""
    listing = _NumberListing(
        f"{words(question.function)} of {question.field['name']}",
        "",
        (
            Column("When", "ts", "instant"),
            Column("Customer", "account", "code"),
            Column("Value", "value", "number" if is_number else "text"),
            Column("File", "file", link=source),
            Column("Row", "row", "number"),
            Column("Uid", "uid", "code"),
            Column("Received", "receivedAt", "instant"),
        ),
        empty=("No measurements", "There are none behind this page."),
        body=body,
        told={},
    )
    others = {"of": None, "start": None, "end": None, "page": None}
    query = visit.link(**others).partition("?")[2]
    return await show_list(
        visit,
        listing,
        "usage/number.html",
        question=question,
        told=listing.told,
        body=body,
        headings=lambda name: _heading(name, question),
        back=f"{USAGE}?{query}",
    )


async def explain_quantity(visit: Visit) -> Response:
    """A stored quantity with its statement and its measurements, by file and row."""
    asked = {name: visit.query(name) for name in ("account", "aggregation", "period", "frequency")}
    aggregations, compounds = await asyncio.gather(
        visit.api.every("/aggregations"), visit.api.every("/compoundaggregations")
    )
    named = [each for each in (*aggregations, *compounds) if each.get("code")]
    found: list[Any] = []
    missing: ApiRefusalError | None = None
    may_be_there = False
    rows = _EXPLAINED_MAX if visit.query("rows") else None
    if asked["account"] and asked["aggregation"] and asked["period"]:
        try:
            if visit.may("ListAccounts"):
                asked["account"] = (await customer_named(visit, "Customer", asked["account"]))[
                    "code"
                ]
            answer = await visit.api.get("/usage/explain", **asked, rows=rows)
        except ApiRefusalError as refusal:
            # The form comes back with what was typed, and says why.
            if refusal.status not in {_WRONG, _NOT_FOUND}:
                raise
            missing = refusal
            customers = rows_of(await visit.api.find("/accounts", codes=asked["account"]))
            may_be_there = bool(customers) and asked["aggregation"] in {
                each["code"] for each in named
            }
        else:
            found = answer["data"]
    return visit.page(
        "usage/explain.html",
        missing.status if missing else 200,
        asked=asked,
        aggregations=sorted(named, key=lambda each: str(each["name"]).lower()),
        quantities=found,
        missing=missing,
        shows_all=rows is not None,
        rows_max=_EXPLAINED_MAX,
        outdated=may_be_there or any("now" in each for each in found),
    )


async def calculate_quantities(visit: Visit) -> Response:
    """Calculate the quantities of the period of the address, of all customers."""
    if visit.field("action") != "calculate":
        raise visit.unknown_action("a quantity")
    body = {"period": visit.field("period")}
    body |= {"frequency": found} if (found := visit.field("frequency")) else {}
    job = await visit.api.send("POST", "/usage/quantities", body)
    said = (
        f"The worker calculates the quantities of {job['period']}. Load this page again to see them;"
        " “Runs” shows how far it is. No bill changes."
    )
    return visit.go(visit.link(), said)


ROUTES: Final = (
    *page_routes(USAGE, show_usage, change_usage, "ConsoleUsage"),
    *page_routes(f"{USAGE}/number", explain_number, None, "ConsoleUsageNumber"),
    *page_routes(
        f"{USAGE}/explain",
        explain_quantity,
        calculate_quantities,
        "ConsoleUsageExplain",
        "ExplainQuantity",
    ),
)
