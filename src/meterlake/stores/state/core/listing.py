"""Lists and searches of entities: filters, terms and orders as SQL."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_origin

from sqlalchemy import ColumnElement, String, and_, func, literal, or_, select, type_coerce

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid
from meterlake.model.resources import Resource, wire_name
from meterlake.model.resources.listing import (
    FilterValues,
    Search,
    Term,
    is_day,
    is_instant,
    types_of,
)
from meterlake.model.values.entity import Entity, Record
from meterlake.stores.state.core import pages
from meterlake.stores.state.core.charges import made_by_schedules
from meterlake.stores.state.core.json_columns import (
    folded_text,
    instant_text,
    json_value,
    member_json,
    member_text,
    member_value,
)
from meterlake.stores.state.core.reader import Reader, record_of
from meterlake.stores.state.core.stored_configuration import refers
from meterlake.stores.state.core.tables import ENTITY

# Wire names of the envelope as columns.
_ENVELOPE: Final = {
    "id": ENTITY.c.id,
    "code": ENTITY.c.code,
    "createdBy": ENTITY.c.created_by,
    "dtCreated": ENTITY.c.created,
    "lastModifiedBy": ENTITY.c.modified_by,
    "dtLastModified": ENTITY.c.modified,
    "version": ENTITY.c.version,
}
# What a search calls otherwise than the entity does.
_SEARCHED: Final = {"ids": "id", "codes": "code", "productId": "productIds"}
# What a filter looks at that is no member of the entity.
_ELSEWHERE: Final = {"scheduleId": made_by_schedules}
_SEVERAL: Final = frozenset({"ids", "codes", "productIds"})
# What makes a field of one value of several types.
_ONE_VALUE: Final = frozenset({None, Annotated, Union, UnionType})
_SORTED_ENVELOPE: Final = _ENVELOPE.keys() - {"version"}
_JSON_NUMBER: Final = re.compile(r"true|false|-?[0-9]{1,60}(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,3})?")
# What is looked up by its beginning along an index.
_BEGINNINGS: Final[dict[type[Entity], frozenset[str]]] = {
    Account: frozenset({"name", "code", "emailAddress", "purchaseOrderNumber"})
}
_FEW: Final = 500
_LAST_CHARACTER: Final = "\U0010ffff"
_LIKE_ESCAPES: Final = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})


def list_entities(
    reader: Reader, resource: Resource, criteria: list[FilterValues], page: pages.Page
) -> tuple[list[Record[Any]], str | None]:
    """One page of a kind's entities, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave, or no field sorts by its name.
    """
    conditions = (_condition(reader, resource, each) for each in criteria)
    return read_page(reader, resource, conditions, page)


def read_page(
    reader: Reader,
    resource: Resource,
    conditions: Iterable[ColumnElement[bool]],
    page: pages.Page,
) -> tuple[list[Record[Any]], str | None]:
    """The same under conditions: the newest first, or as the page asks."""
    query, search = _all(reader, resource).where(*conditions), page.search
    if search is not None and search.terms:
        query = query.where(_terms(reader, resource, search))
    if search is not None and search.sort_by is not None:
        key = _sort_key(resource.entity, search.sort_by)
        rows, token = pages.read_sorted(reader.connection, query, key, ENTITY.c.id, page)
    else:
        rows, token = pages.read(reader.connection, query, ENTITY.c.created, ENTITY.c.id, page)
    return [record_of(row) for row in rows], token


def search_entities(
    reader: Reader, resource: Resource, search: Search
) -> tuple[list[Record[Any]], bool]:
    """The entities that a search finds, and whether there are more after them."""
    query = _all(reader, resource)
    if search.terms:
        query = query.where(_terms(reader, resource, search))
    for order in _order(resource.entity, search):
        query = query.order_by(order)
    rows = reader.connection.execute(query.offset(search.start).limit(search.size + 1)).all()
    return [record_of(row) for row in rows[: search.size]], len(rows) > search.size


def _all(reader: Reader, resource: Resource) -> Any:
    # The kind stands in the statement, as indexes of one kind need it.
    kind = literal(resource.kind, literal_execute=True)
    return select(ENTITY).where(ENTITY.c.org == reader.org_id, ENTITY.c.kind == kind)


def _terms(reader: Reader, resource: Resource, search: Search) -> ColumnElement[bool]:
    found = _found_by_index(reader, resource, search)
    if found is not None:
        return ENTITY.c.id.in_(found)
    conditions = [_term(reader, resource, term) for term in search.terms]
    return (and_ if search.every else or_)(*conditions)


def _found_by_index(reader: Reader, resource: Resource, search: Search) -> set[str] | None:
    """The ids of a few accounts whose texts begin or are as terms say; None if there are many.

    Databases go along the order of the list, which is good for many and reads everything for few.
    For a text within others they read the whole of an index, which is a tenth of the accounts.
    """
    known = _BEGINNINGS.get(resource.entity, frozenset())
    if search.every and len(search.terms) > 1:
        return None
    if any(each.comparator not in _TEXTUAL or each.field not in known for each in search.terms):
        return None
    found = set[str]()
    for term in search.terms:
        text = folded_text(_text(term.field))
        first = term.value.lower()
        query = _all(reader, resource).with_only_columns(ENTITY.c.id)
        if term.comparator == "*":
            # That it is above the empty text leads along its index.
            within = text.like(_pattern_within(first), escape="\\")
            query = query.where(text >= "", within).limit(_FEW + 1)
        else:
            query = query.where(text >= first, text < f"{first}{_LAST_CHARACTER}").limit(_FEW + 1)
        found.update(reader.connection.execute(query).scalars())
        if len(found) > _FEW:
            return None
    return found


def _text(name: str) -> ColumnElement[str]:
    """A text of an entity, as indexes have it."""
    if name == "code":
        return ENTITY.c.code
    return member_text(ENTITY.c.body, literal(name, literal_execute=True))


def _sort_key(kind: type[Entity], name: str) -> pages.SortKey:
    """What sorts by a field that has one value: texts whatever the case of letters.

    Raises:
        Invalid: There is no such field, or it has several values.
    """
    if name in _SORTED_ENVELOPE:
        column = type_coerce(_ENVELOPE[name], String)
        return pages.SortKey(column, column, literal)
    types = dict(_sortable_types(kind))
    if name not in types:
        rule = f"it must be one of {', '.join(sorted(types.keys() | _SORTED_ENVELOPE))}"
        raise Invalid("sortBy", name, rule)
    if types[name]:
        member = literal(name, literal_execute=True)
        written = member_json(ENTITY.c.body, member)
        return pages.SortKey(member_value(ENTITY.c.body, member), written, _number)
    text = folded_text(_text(name))
    return pages.SortKey(text, text, literal)


def _number(text: str) -> ColumnElement[Any]:
    """A number, or a truth, of a token."""
    if not _JSON_NUMBER.fullmatch(text):
        raise Invalid(pages.NEXT_TOKEN, text, pages.TOKEN_RULE)
    return json_value(literal(text))


def _sortable_types(kind: type[Entity]) -> Iterator[tuple[str, bool]]:
    """The fields of one value by their wire names, and whether each is no text."""
    for attribute, field in kind.model_fields.items():
        parts = list(types_of(field.annotation))
        if not {get_origin(each) for each in parts} <= _ONE_VALUE:
            continue
        types = {each for each in parts if isinstance(each, type)} - {NoneType}
        if types and all(issubclass(each, (Decimal, int)) for each in types):
            yield field.alias or attribute, True
        elif types and all(issubclass(each, (str, date)) for each in types):
            yield field.alias or attribute, False


def _order(kind: type[Entity], search: Search) -> Iterator[Any]:
    if search.sort_by is not None:
        column = _sortable(kind, search.sort_by)
        yield column.asc().nulls_last() if search.ascending else column.desc().nulls_last()
    newest = search.sort_by is not None or not search.ascending
    for column in (ENTITY.c.created, ENTITY.c.id):
        yield column.desc() if newest else column.asc()


def _sortable(kind: type[Entity], name: str) -> ColumnElement[Any]:
    if name in _ENVELOPE:
        return _ENVELOPE[name]
    known = {field.alias or attribute for attribute, field in kind.model_fields.items()}
    if name not in known:
        rule = f"it must be one of {', '.join(sorted(known | set(_ENVELOPE)))}"
        raise Invalid("sortBy", name, rule)
    return member_value(ENTITY.c.body, literal(name))


def _condition(reader: Reader, resource: Resource, criteria: FilterValues) -> ColumnElement[bool]:
    what, values = criteria
    if what.kind == "flag":
        text = member_text(ENTITY.c.body, literal(what.column))
        on = text.in_(["true", "1"])
        return on if values[0] else or_(text.is_(None), text.in_(["false", "0"]))
    texts = [str(value) for value in values]
    if what.column in _ELSEWHERE:
        return _ELSEWHERE[what.column](reader, texts)
    if what.active:
        at = texts[0]
        start, end = (_column(resource.entity, name) for name in what.active)
        moment = _as_stored(resource.entity, what.active[0], at)
        return and_(start <= moment, or_(end.is_(None), end > moment))
    target = _target(resource, what.column)
    if target is not None:
        return refers(reader.org_id, resource.entity, what.column, target, texts)
    column = _column(resource.entity, what.column)
    if what.op == "=":
        return column.in_([_as_stored(resource.entity, what.column, text) for text in texts])
    return compare(column, what.op, _as_stored(resource.entity, what.column, texts[0]))


def _target(resource: Resource, name: str) -> type[Entity] | None:
    return next((kind for path, kind in resource.refs.items() if wire_name(path) == name), None)


def _column(kind: type[Entity], name: str) -> ColumnElement[Any]:
    if name in _ENVELOPE:
        return _ENVELOPE[name]
    if is_instant(kind, name):
        return instant_text(ENTITY.c.body, literal(name))
    return member_text(ENTITY.c.body, literal(name))


def _as_stored(kind: type[Entity], name: str, text: str) -> str:
    """A date or an instant in the form in which texts of the field sort."""
    if is_day(kind, name):
        return text[: len("2026-10-01")]
    return text.removesuffix("Z") if is_instant(kind, name) else text


def starts_with(column: ColumnElement[Any], value: str) -> ColumnElement[bool]:
    """Whether a text begins with another, whatever the case of their letters."""
    pattern = value.lower().translate(_LIKE_ESCAPES) + "%"
    return func.lower(column).like(pattern, escape="\\")


def contains(column: ColumnElement[Any], value: str) -> ColumnElement[bool]:
    """Whether a text has another within it, whatever the case of their letters."""
    return folded_text(column).like(_pattern_within(value.lower()), escape="\\")


def _pattern_within(folded: str) -> str:
    return "%" + folded.translate(_LIKE_ESCAPES) + "%"


def compare(column: ColumnElement[Any], op: str, value: Any) -> ColumnElement[bool]:
    """A column against a value, by `<`, `<=`, `>` or `>=`."""
    found: ColumnElement[bool]
    match op:
        case "<":
            found = column < value
        case "<=":
            found = column <= value
        case ">":
            found = column > value
        case _:
            found = column >= value
    return found


def _searched_field(resource: Resource, name: str) -> str:
    """The field that a term means: `ids` are those of the entity, `productId` is one of several."""
    name = {"ids": "id", "codes": "code"}.get(name, name)
    several = f"{name}s"
    one_of_several = _target(resource, name) is None and _target(resource, several) is not None
    return several if one_of_several else name


def _term(reader: Reader, resource: Resource, term: Term) -> ColumnElement[bool]:
    name = _searched_field(resource, term.field)
    values = term.value.split(",") if term.field in {"ids", "codes", "productIds"} else [term.value]
    target = _target(resource, name)
    if target is not None and term.comparator == ":":
        return refers(reader.org_id, resource.entity, name, target, values)
    column = _column(resource.entity, name)
    if term.comparator == ":":
        return column.in_([_as_stored(resource.entity, name, value) for value in values])
    if term.comparator in _TEXTUAL:
        return _TEXTUAL[term.comparator](column, term.value)
    if name == "dtCreated":
        column = func.rtrim(type_coerce(column, String), "Z")
        return compare(column, term.comparator, term.value.removesuffix("Z"))
    return compare(column, term.comparator, _as_stored(resource.entity, name, term.value))


# How terms compare texts.
_TEXTUAL: Final[dict[str, Callable[[ColumnElement[Any], str], ColumnElement[bool]]]] = {
    "~": starts_with,
    "*": contains,
}
