"""Lists: a table with filters, sorting, pages and a download, declared by its columns.

A room declares a `Listing` and answers with `show_list`. Everything that a person chooses is in the
address, so that a list can be sent. The download has all rows of all pages, in the API's own text;
times are in the organization's time zone.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from string import Formatter
from typing import Any, Final, Literal
from urllib.parse import quote
from zoneinfo import ZoneInfo

from starlette.responses import Response, StreamingResponse

from meterlake.console.shell.api import ApiRefusalError
from meterlake.console.shell.files import csv_text, saved_as
from meterlake.console.shell.page import Visit, is_instant, refusal_of, words
from meterlake.console.shell.people import author_name
from meterlake.console.shell.session import api_of
from meterlake.model.errors import MeterlakeError
from meterlake.model.values.ids import is_id

PAGE: Final = 50
_ORDERS: Final = ("ASC", "DESC")
_INVALID: Final = 400
_ID: Final = re.compile(r"(^i|I)d(entity)?$")
# What means something in the terms of a search, or ends one.
SIGNS: Final = re.compile(r"[~*:<>$&|]")
_DOWNLOAD_PAGE: Final = 100
# Of a filter in the name of a file.
_NAME_MAX: Final = 40

# `starts` and `ends` are instants, shown as the first and the last day if they are midnights.
Days = Literal["day", "instant", "starts", "ends"]
Kind = Literal["text", "code", "number", "money", "status", "words", "author"] | Days
_INSTANTS: Final = frozenset({"instant", "starts", "ends"})
# Adds members to the rows of one page: names beside ids.
Completion = Callable[[Visit, list[dict[str, Any]]], Awaitable[None]]


class _Quoted(dict[str, Any]):
    """The members of a row as parts of an address; those alone that the address has are quoted."""

    def __getitem__(self, name: str) -> str:
        return quote(str(super().__getitem__(name)), safe="")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list.

    Attributes:
        title: Its head.
        member: The member of a row; dots lead into it: `address.country`.
        kind: How it is shown.
        link: Where it leads, with members of the row in braces: `/console/plans/{id}`.
        currency: For money, the member with the currency.
        sort: The field that the API sorts by; empty if it does not.
    """

    title: str
    member: str
    kind: Kind = "text"
    link: str = ""
    currency: str = "currency"
    sort: str = ""

    def value(self, row: dict[str, Any]) -> Any:
        """What a row has in the column; None if nothing."""
        found: Any = row
        for name in self.member.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def target(self, row: dict[str, Any]) -> str:
        """Where a cell leads; empty if nowhere."""
        try:
            return self.link.format_map(_Quoted(row)) if self.link else ""
        except KeyError:
            return ""

    @property
    def linked(self) -> tuple[str, ...]:
        """The members that the link has: ids, most of all."""
        parts = Formatter().parse(self.link)
        return tuple(name for _, name, _, _ in parts if name is not None)


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What people narrow a list by.

    Attributes:
        name: The parameter of the API, and of the address.
        label: What people read.
        choices: Values and their words; without any, people type one.
        is_open: There are values beside the choices, such as people who have left.
        fields: One of these fields has within it what people type.
        type: The type of the input, without choices.
        is_instant: The API takes an instant for the day that one chooses: its first one in the
            organization's time zone.
        nothing: What the choice of nothing means.
    """

    name: str
    label: str
    choices: tuple[tuple[str, str], ...] = ()
    type: Literal["text", "date", "month", "number", "search"] = "text"
    is_instant: bool = False
    nothing: str = "All"
    is_open: bool = False
    fields: tuple[str, ...] = ()

    def value(self, visit: Visit) -> str | None:
        """What the person chose, as the API takes it; None for nothing.

        Raises:
            ApiRefusalError: It is none of the choices.
        """
        chosen = visit.query(self.name)
        if chosen and self.choices and not self.is_open:
            refuse_others(self.label, chosen, [value for value, _ in self.choices])
        return start_of_day(visit, chosen) if chosen and self.is_instant else chosen

    def parameters(self, visit: Visit) -> dict[str, str | None]:
        """The parameters of the API for what the person chose."""
        chosen = self.value(visit)
        if not self.fields:
            return {self.name: chosen}
        text = SIGNS.sub(" ", chosen or "").strip()
        terms = [f"{name}*{text}" for name in self.fields] if text else []
        return {"searchQuery": "$".join(terms), "operator": "OR"} if terms else {}


def called_by(*fields: str) -> ListFilter:
    """The filter of what things are called by, such as their names."""
    first, *others = [words(fields[0]), *(words(each).lower() for each in fields[1:])]
    label = " or ".join([", ".join([first, *others[:-1]]), *others[-1:]])
    return ListFilter("called", f"{label} contains", type="search", fields=fields)


NAMED: Final = called_by("name", "code")


def status_filter(statuses: Iterable[str]) -> ListFilter:
    """The filter of how things of a list stand."""
    return ListFilter("status", "Status", tuple((str(each), words(each)) for each in statuses))


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of things of one kind.

    Attributes:
        title: The heading.
        path: The API's path; members in braces come from the page's own path.
        columns: What is shown; the first one heads the row.
        empty: What an empty list says: a title, and how something comes here.
        intro: A sentence below the heading.
        filters: What people narrow it by.
        fixed: Parameters of each call of the API.
        create: A label and an address for something new, and the operation that this takes.
        complete: Adds to the rows what the API's list has not.
        links: Labels and addresses of pages that belong to it.
        sort: The field by which it is sorted if nobody chose another.
    """

    title: str
    path: str
    columns: tuple[Column, ...]
    empty: tuple[str, str]
    intro: str = ""
    filters: tuple[ListFilter, ...] = ()
    fixed: tuple[tuple[str, Any], ...] = ()
    create: tuple[str, str, str] | None = None
    complete: Completion | None = None
    links: tuple[tuple[str, str], ...] = ()
    sort: str | None = None

    def parameters(self, visit: Visit) -> dict[str, Any]:
        """What the person chose, as parameters of the API.

        Raises:
            ApiRefusalError: A filter has no such value, or no column sorts by that.
        """
        found = dict(self.fixed)
        for each in self.filters:
            found |= each.parameters(visit)
        return found | self.order(visit)

    def sorted_by(self, visit: Visit) -> tuple[str | None, str]:
        """The field that the person chose as order and its direction; None for that of the API."""
        return visit.query("sort") or self.sort, visit.query("order") or "ASC"

    def order(self, visit: Visit) -> dict[str, str]:
        """The order that the list has; nothing for that of the API.

        Raises:
            ApiRefusalError: No column sorts by that, or there is no such direction.
        """
        sort, order = self.sorted_by(visit)
        if sort is None:
            return {}
        refuse_others("sort", sort, [each.sort for each in self.columns if each.sort])
        refuse_others("order", order, _ORDERS)
        return {"sortBy": sort, "sortOrder": order}

    async def page(
        self, visit: Visit, size: int, token: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """One page of rows with what is added to them, and the token of the next page."""
        path = self.path.format_map(visit.request.path_params)
        answer = await visit.api.get(path, pageSize=size, nextToken=token, **self.parameters(visit))
        rows = answer["data"]
        if self.complete is not None and rows:
            await self.complete(visit, rows)
        return rows, answer.get("nextToken")


def refuse_others(label: str, value: str, known: Sequence[str]) -> None:
    """Say that a value of an address is none of those that there are.

    Raises:
        ApiRefusalError: It is none.
    """
    if value not in known:
        reason = f"{label}: {value!r} is none of its values; choose {', '.join(known) or 'nothing'}"
        raise ApiRefusalError(400, reason)


def start_of_day(visit: Visit, day: str) -> str:
    """The first instant of a day in the organization's time zone; another text as it is."""
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return day
    return datetime.combine(found, time.min, ZoneInfo(visit.session.zone)).isoformat()


async def shown_rows(visit: Visit, listing: Listing) -> tuple[list[dict[str, Any]], str | None]:
    """The page of rows that the address asks for, without filters whose values are refused.

    The page has its form then, with what was typed and why that narrows nothing.

    Raises:
        ApiRefusalError: It is refused, and no filter is the reason.
    """
    while True:
        try:
            return await listing.page(visit, PAGE, visit.query("page"))
        except (MeterlakeError, ApiRefusalError, OverflowError) as error:
            refusal = refusal_of(error)
            chosen = [each for each in listing.filters if visit.query(each.name)]
            if refusal.status != _INVALID or not chosen:
                raise
            named = (each for each in chosen if refusal.reason.startswith((each.name, each.label)))
            visit.refused[next(named, chosen[0]).name] = refusal.reason


async def show_list(
    visit: Visit, listing: Listing, template: str = "list.html", **values: Any
) -> Response:
    """A page of a list, or with `format=csv` the file with all of it."""
    if visit.query("format") == "csv":
        headers = saved_as(_file_name(visit, listing))
        lines = _lines(visit, listing)
        # The first page is asked for before the answer begins: what is refused is refused.
        first = await anext(lines)
        return StreamingResponse(_after(first, lines), headers=headers, media_type="text/csv")
    rows, later = await shown_rows(visit, listing)
    return visit.page(template, listing=listing, rows=rows, later=later, **values)


def _file_name(visit: Visit, listing: Listing) -> str:
    """What a list is of, what narrows it, and its month, or else the day on which it was made."""
    chosen = [visit.query(each.name) or "" for each in listing.filters]
    narrowed = [each[:_NAME_MAX] for each in chosen if each and not is_id(each)]
    day = [] if visit.query("month") else [f"{visit.today}"]
    return "_".join([visit.request.url.path.rpartition("/")[2], *narrowed, *day]) + ".csv"


async def _lines(visit: Visit, listing: Listing) -> AsyncIterator[str]:
    token: str | None = None
    ids = _ids(listing.columns)
    head = [*(each.title for each in listing.columns), *ids.values()]
    # The answer is still sent when the page's own client is closed.
    async with api_of(visit.request, visit.session.token, visit.session.org_id) as api:
        later = replace(visit, api=api)
        has_authors = any(each.kind == "author" for each in listing.columns)
        people = await later.people() if has_authors else {}
        while True:
            rows, token = await listing.page(later, _DOWNLOAD_PAGE, token)
            cells = [
                [
                    *(_written(each, row, people, visit.session.zone) for each in listing.columns),
                    *(row.get(each) for each in ids),
                ]
                for row in rows
            ]
            yield csv_text([head, *cells] if head else cells)
            head = []
            if not token:
                return


def _ids(columns: Sequence[Column]) -> dict[str, str]:
    """What a file has behind the names in columns: ids of things and of people, with their heads."""
    shown = {each.member for each in columns if each.kind != "author"}
    linked = (name for each in columns for name in each.linked if name not in shown)
    found = {name: words(name) for name in linked if _ID.search(name)}
    authors = {each.member: f"{each.title} id" for each in columns if each.kind == "author"}
    return found | authors


def _written(column: Column, row: dict[str, Any], people: dict[str, str], zone: str) -> Any:
    """A cell of a file: as the API has it, with names of people, and times by the clocks of the page.

    A time keeps its distance from UTC, so it is still the same instant.
    """
    value = column.value(row)
    if column.kind == "author":
        return author_name(value, people)
    if column.kind in _INSTANTS and isinstance(value, str) and is_instant(value):
        return datetime.fromisoformat(value).astimezone(ZoneInfo(zone)).isoformat()
    return value


async def _after(first: str, later: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for each in later:
        yield each
