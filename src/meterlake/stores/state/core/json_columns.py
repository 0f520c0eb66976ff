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


class member_json(FunctionElement[str]):  # noqa: N801
    """The member as JSON text, digit by digit: what `json_value` makes a value of again."""

    type = String()
    inherit_cache = True


class json_value(FunctionElement[Any]):  # noqa: N801
    """A JSON text as `member_value` has it: `json_value(text)`."""

    type = NullType()
    inherit_cache = True


class folded_text(FunctionElement[str]):  # noqa: N801
    """A text in small letters, in the same order on every database: `folded_text(text)`."""

    type = String()
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


@compiles(member_json, "sqlite")
def _json_in_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, name = (compiler.process(each, **kwargs) for each in element.clauses)
    return f"CASE WHEN json_valid({column}) THEN ({column} -> {name}) END"


@compiles(member_json, "postgresql")
def _json_in_postgresql(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, name = (compiler.process(each, **kwargs) for each in element.clauses)
    return f"({READABLE_JSON}({column}) -> {name}::text)::text"


@compiles(json_value, "sqlite")
def _json_value_in_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    return f"({compiler.process(element.clauses, **kwargs)} ->> '$')"


@compiles(json_value, "postgresql")
def _json_value_in_postgresql(element: Any, compiler: Any, **kwargs: Any) -> str:
    return f"({compiler.process(element.clauses, **kwargs)})::jsonb"


@compiles(folded_text, "sqlite")
def _folded_in_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    return f"lower({compiler.process(element.clauses, **kwargs)})"


@compiles(folded_text, "postgresql")
def _folded_in_postgresql(element: Any, compiler: Any, **kwargs: Any) -> str:
    return f'(lower({compiler.process(element.clauses, **kwargs)}) COLLATE "C")'


def instant_text(column: ColumnElement[Any], name: ColumnElement[str]) -> ColumnElement[str]:
    """An instant so that texts sort as instants do: without the `Z`, which sorts after a fraction."""
    return func.rtrim(member_text(column, name), "Z")
