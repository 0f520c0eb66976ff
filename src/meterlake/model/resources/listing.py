"""What a caller asks of a list or of a search."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Literal, NamedTuple

from meterlake.model.errors import Invalid
from meterlake.model.resources.resource import Filter
from meterlake.model.values.entity import Entity

Comparator = Literal[">=", "<=", ">", "<", ":", "~", "*"]

_TERM: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)(>=|<=|>|<|:|~|\*)(.*)", re.DOTALL)
_TERMS_MAX: Final = 50


class FilterValues(NamedTuple):
    """One filter with the values that a caller gave; text, dates and instants as the wire has them."""

    filter: Filter
    values: tuple[str | bool, ...]


class Term(NamedTuple):
    """One condition of a search: `currency:USD`."""

    field: str
    comparator: Comparator
    value: str


@dataclass(frozen=True, slots=True)
class Search:
    """A search of one kind of entity.

    Attributes:
        every: All terms must hold, or any of them.
        sort_by: The wire name of a field; None for the newest first.
        start: How many entities to pass over.
    """

    terms: tuple[Term, ...]
    every: bool
    sort_by: str | None
    ascending: bool
    start: int
    size: int


def terms(query: str, fields: frozenset[str]) -> tuple[Term, ...]:
    """Read a search query: terms `<field><comparator><value>`, joined by `$`.

    Raises:
        Invalid: A term has no comparator or names a field that cannot be searched by.

    >>> terms("name~Premium On$currency:USD", frozenset({"name", "currency"}))
    (Term(field='name', comparator='~', value='Premium On'), Term(field='currency', comparator=':', value='USD'))
    """
    found = tuple(_term(text, fields) for text in query.split("$") if text)
    if len(found) > _TERMS_MAX:
        raise Invalid(
            "searchQuery", f"{len(found)} terms", f"it must be at most {_TERMS_MAX} terms"
        )
    return found


def _term(text: str, fields: frozenset[str]) -> Term:
    match = _TERM.fullmatch(text)
    if match is None:
        rule = "it must be terms such as name~Acme$currency:USD; comparators are > >= : < <= ~ *"
        raise Invalid("searchQuery", text, rule)
    field, comparator, value = match.groups()
    if field not in fields:
        raise Invalid(
            "searchQuery", field, f"it must be one of the fields {', '.join(sorted(fields))}"
        )
    return Term(field, comparator, value)  # type: ignore[arg-type]


def is_day(kind: type[Entity], name: str) -> bool:
    """Whether a field, by its wire name, holds dates; otherwise instants or something else."""
    annotations = {
        field.alias or attribute: field.annotation for attribute, field in kind.model_fields.items()
    }
    return any(each is date for each in types_of(annotations.get(name)))


def is_instant(kind: type[Entity], name: str) -> bool:
    """Whether a field, by its wire name, holds instants."""
    annotations = {
        field.alias or attribute: field.annotation for attribute, field in kind.model_fields.items()
    }
    return any(each is datetime for each in types_of(annotations.get(name)))


def types_of(annotation: object) -> Iterator[object]:
    """An annotation with all that stands within it: of `str | None` the union and both."""
    yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from types_of(inner)
