"""Forms of what a customer has: fields as a table, what they show, and the body that they become.

A field that a form does not have keeps its value: the body of an update is what is stored, with
what was typed in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from meterlake.console.shell.named_customers import customer_named
from meterlake.console.shell.numbers import typed_number, written_number
from meterlake.console.shell.page import Visit
from meterlake.model.values.period import format_instant, midnight

Kind = Literal[
    "text",
    "email",
    "area",
    "amount",
    "whole",
    "choice",
    "choices",
    "tick",
    "day",
    "last_day",
    "start",
    "last",
    "account",
]
Choices = Sequence[tuple[str, str]]

CUSTOM: Final = "customFields"
_ENVELOPE: Final = ("id", "createdBy", "dtCreated", "lastModifiedBy", "dtLastModified", "version")
_ONE_DAY: Final = timedelta(days=1)
_DATE: Final = len("2026-10-01")


@dataclass(frozen=True, slots=True)
class CustomerField:
    """One field of a form.

    Attributes:
        name: Its member of the API; dots lead into it: `address.country`.
        label: What people read.
        kind: What is typed. `start` is a day whose beginning is meant, `last` and `last_day` are the
            last day of what the API ends before the next one, `account` is the code or the name of a customer;
            of `choices` one ticks several.
        hint: What it means, where the label does not say it.
        required: Whether the API needs it.
        choices: What is offered: values and words, or the name of a list of the API.
        none: The words for nothing chosen.
    """

    name: str
    label: str
    kind: Kind = "text"
    hint: str = ""
    required: bool = False
    choices: tuple[tuple[str, str], ...] | str = ()
    none: str = "None"

    @property
    def path(self) -> tuple[str, ...]:
        """The members that lead to it; names of custom fields may have dots."""
        first, dot, rest = self.name.partition(".")
        if first == CUSTOM and dot:
            return first, rest
        return tuple(self.name.split("."))

    @property
    def type(self) -> str:
        """The type of the input that takes it."""
        days = {"day", "last_day", "start", "last"}
        if self.kind in days:
            return "date"
        return {"email": "email", "whole": "number"}.get(self.kind, "text")

    def shown(self, document: Mapping[str, Any], zone: str, decimal: str = ".") -> str:
        """What the field shows of a document; empty if nothing."""
        found: Any = document
        for name in self.path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is None or found == "":
            return ""
        match self.kind:
            case "start" | "last":
                return _day_of(str(found), zone, last=self.kind == "last")
            case "last_day":
                return str(date.fromisoformat(str(found)) - _ONE_DAY)
            case _:
                return written_number(found, decimal) if isinstance(found, Decimal) else str(found)

    def chosen(self, document: Mapping[str, Any], visit: Visit) -> Sequence[str]:
        """Which of several are ticked: those that were sent, if the form comes back."""
        if visit.refusal is not None:
            return [each for each in visit.form.get(self.name, []) if each]
        return [str(each) for each in document.get(self.name) or ()]

    def value(self, text: str, zone: str, decimal: str = ".") -> Any:
        """What a text becomes for the API; what is none stays a text, which the API refuses."""
        match self.kind:
            case "amount" | "whole":
                return typed_number(self.name, text, decimal)
            case "start" | "last":
                day = _day(text)
                if day is None:
                    return text
                shift = _ONE_DAY if self.kind == "last" else timedelta()
                return format_instant(midnight(day + shift, ZoneInfo(zone)))
            case "last_day":
                day = _day(text)
                return text if day is None else str(day + _ONE_DAY)
            case _:
                return text


def _day_of(text: str, zone: str, *, last: bool) -> str:
    """The day that an instant begins, or ends; the instant itself where it is within a day."""
    there = datetime.fromisoformat(text).astimezone(ZoneInfo(zone))
    if there.time() != time.min:
        return text
    return str(there.date() - _ONE_DAY if last else there.date())


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if len(text) == _DATE else None
    except ValueError:
        return None


async def load_choices(
    visit: Visit, fields: Sequence[CustomerField], customer: str = ""
) -> dict[str, Choices]:
    """What the fields of a form offer, by their names.

    Args:
        visit: Whose page it is.
        fields: The fields.
        customer: The id of the customer, whose own things are offered.
    """
    found: dict[str, Choices] = {}
    for each in fields:
        if each.kind not in {"choice", "choices"}:
            continue
        if not isinstance(each.choices, str):
            found[each.name] = each.choices
            continue
        query = {"accountId": customer} if each.choices == "/contracts" else {}
        rows = await visit.api.every(each.choices, **query)
        value = "code" if each.choices == "/picklists/currency" else "id"
        found[each.name] = sorted(
            ((str(row[value]), name_of(row)) for row in rows if row.get(value)),
            key=lambda pair: pair[1].lower(),
        )
    return found


def name_of(row: Mapping[str, Any]) -> str:
    """What people call a thing: its name with its code, or what it has of both."""
    name, code = row.get("name"), row.get("code")
    if name and code and name != code:
        return f"{name} ({code})"
    return str(name or code or row.get("id", ""))


async def body_of(
    visit: Visit,
    fields: Sequence[CustomerField],
    before: Mapping[str, Any] | None = None,
    computed: Sequence[str] = (),
) -> dict[str, Any]:
    """The body of what was typed.

    Args:
        visit: With the form.
        fields: Its fields.
        before: What is stored; None for something new.
        computed: Members that the API shows and nobody writes.

    Raises:
        ApiRefusalError: A code names no customer.
    """
    left_out = {*_ENVELOPE, *computed}
    body = {name: value for name, value in (before or {}).items() if name not in left_out}
    for each in fields:
        # Who may not see what there is to choose from was not asked.
        if each.kind == "choices" and each.name not in visit.form:
            continue
        value = await _typed(visit, each)
        _put(body, list(each.path), value)
    if before is not None:
        body["version"] = visit.version
    return body


async def _typed(visit: Visit, field: CustomerField) -> Any:
    if field.kind == "tick":
        return field.name in visit.form
    if field.kind == "choices":
        return [each for each in visit.form.get(field.name, []) if each] or None
    text = visit.field(field.name)
    if not text:
        return None
    if field.kind == "account":
        return (await customer_named(visit, field.label, text))["id"]
    return field.value(text, visit.session.zone, visit.decimal)


def _put(body: dict[str, Any], names: list[str], value: Any) -> None:
    """Set a member, or take it away; a member that others lie in goes with the last of them."""
    first, *rest = names
    if rest:
        inner = dict(body.get(first) or {})
        _put(inner, rest, value)
        value = inner or None
    if value is None:
        body.pop(first, None)
    else:
        body[first] = value
