"""Which organizations have something at all, in one statement for all of them."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, FromClause, literal, or_, select

from meterlake.model.values.entity import Entity
from meterlake.stores.state.core.tables import ENTITY, ORGANIZATION


def has_entities(*kinds: type[Entity]) -> ColumnElement[bool]:
    """Organizations that have entities of some kinds."""
    # One look at the index for each kind: with a list of kinds SQLite would read all entities.
    return or_(*(_has(ENTITY, ENTITY.c.kind == each.__name__) for each in kinds))


def has_number(kind: type[Entity], name: str) -> ColumnElement[bool]:
    """Organizations with an entity of a kind that has a whole number above 0, by its name in JSON.

    The text is matched, not read: a row that is no JSON would fail the question about all others.
    """
    is_set = ENTITY.c.body.regexp_match(f'"{name}": ?[1-9]')
    return _has(ENTITY, ENTITY.c.kind == kind.__name__, is_set)


def has_rows(table: FromClause) -> ColumnElement[bool]:
    """Organizations of which a table has rows."""
    return _has(table)


def _has(table: FromClause, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return select(literal(1)).where(table.c.org == ORGANIZATION.c.id, *conditions).exists()


def organizations_with(connection: Connection, *conditions: ColumnElement[bool]) -> Collection[str]:
    """The ids of the organizations that fulfil one of some conditions."""
    query = select(ORGANIZATION.c.id).where(or_(*conditions))
    return list(connection.execute(query).scalars())
