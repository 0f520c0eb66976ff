"""Members of a JSON text column, as SQL of the database at hand."""

from typing import Any, Final

from sqlalchemy import ColumnElement, String, func
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import NullType

# Functions of PostgreSQL: NULL of a text that is no JSON. A row that is damaged says nothing; a cast
# would fail every statement that meets it, and so whatever all other rows have to say.
READABLE_JSON: Final = "readable_json"
# The same for one member as text: the whole of it is not made a value first.
_READABLE_MEMBER: Final = "readable_member"


class member_text(FunctionElement[str]):  # noqa: N801
    """The member of a JSON object as text; NULL if it is absent. `member_text(column, name)`."""

    type = String()
    inherit_cache = True


class member_value(FunctionElement[Any]):  # noqa: N801
    """The member as something that sorts by its own kind: numbers as numbers, texts as texts."""

    type = NullType()
    inherit_cache = True


@compiles(member_text, "sqlite")
def _text_in_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, name = (compiler.process(each, **kwargs) for each in element.clauses)
    # As above: only what is JSON is read.
    return f"CASE WHEN json_valid({column}) THEN CAST(({column} ->> {name}) AS TEXT) END"


@compiles(member_text, "postgresql")
def _text_in_postgresql(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, name = (compiler.process(each, **kwargs) for each in element.clauses)
    return f"{_READABLE_MEMBER}({column}, {name}::text)"


@compiles(member_value, "sqlite")
def _value_in_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, name = (compiler.process(each, **kwargs) for each in element.clauses)
    return f"CASE WHEN json_valid({column}) THEN ({column} ->> {name}) END"


@compiles(member_value, "postgresql")
def _value_in_postgresql(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, name = (compiler.process(each, **kwargs) for each in element.clauses)
    return f"({READABLE_JSON}({column}) -> {name}::text)"


def instant_text(column: ColumnElement[Any], name: ColumnElement[str]) -> ColumnElement[str]:
    """An instant so that texts sort as instants do: without the `Z`, which sorts after a fraction."""
    return func.rtrim(member_text(column, name), "Z")
