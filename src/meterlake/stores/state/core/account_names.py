"""What people call accounts, and single fields of them, without reading the accounts."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, select

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ENTITY


class AccountName(NamedTuple):
    """An account as people know it."""

    id: str
    code: str
    name: str


def by_id(reader: Reader, ids: Iterable[str]) -> dict[str, AccountName]:
    """The accounts of some ids; those that are gone are not among them."""
    return {each.id: each for each in _find_names(reader, ENTITY.c.id, ids)}


def by_code(reader: Reader, codes: Iterable[str]) -> dict[str, AccountName]:
    """The accounts of some codes, as far as there are any."""
    return {each.code: each for each in _find_names(reader, ENTITY.c.code, codes)}


def ids_of(reader: Reader, codes: Iterable[str]) -> tuple[str, ...]:
    """The ids of the accounts of some codes.

    Raises:
        NotFound: There is no such account.
    """
    chosen = list(dict.fromkeys(codes))
    known = by_code(reader, chosen)
    for code in chosen:
        if code not in known:
            raise NotFound("account", code)
    return tuple(known[code].id for code in chosen)


def codes(reader: Reader) -> list[tuple[str, str]]:
    """Id and code of every account."""
    query = select(ENTITY.c.id, ENTITY.c.code).where(
        ENTITY.c.org == reader.org_id, ENTITY.c.kind == Account.__name__
    )
    return [(id_, code) for id_, code in reader.connection.execute(query)]


def count_accounts(reader: Reader) -> int:
    """How many accounts there are."""
    query = select(func.count()).where(
        ENTITY.c.org == reader.org_id, ENTITY.c.kind == Account.__name__
    )
    return int(reader.connection.scalar(query) or 0)


def _find_names(
    reader: Reader, column: ColumnElement[str], values: Iterable[str]
) -> list[AccountName]:
    name = member_text(ENTITY.c.body, "name").label("name")
    found = []
    for chunk in chunks_of(values):
        query = select(ENTITY.c.id, ENTITY.c.code, name).where(
            ENTITY.c.org == reader.org_id,
            ENTITY.c.kind == Account.__name__,
            column.in_(chunk),
        )
        found += [AccountName(*row) for row in reader.connection.execute(query)]
    return found


def parents(reader: Reader, ids: Iterable[str]) -> dict[str, str]:
    """The parents of those of some accounts that have one."""
    parent = member_text(ENTITY.c.body, "parentAccountId").label("parent")
    found: dict[str, str] = {}
    for chunk in chunks_of(sorted(ids)):
        query = select(ENTITY.c.id, parent).where(
            ENTITY.c.org == reader.org_id,
            ENTITY.c.kind == Account.__name__,
            ENTITY.c.id.in_(chunk),
            parent.is_not(None),
        )
        found |= {row.id: row.parent for row in reader.connection.execute(query)}
    return found


class AccountFields(NamedTuple):
    """One account's own custom fields, and the version of the account that has them."""

    id: str
    version: int
    values: dict[str, str | Decimal]


def account_fields(reader: Reader) -> Iterator[AccountFields]:
    """The accounts that carry custom fields."""
    fields = member_text(ENTITY.c.body, "customFields")
    query = select(ENTITY.c.id, ENTITY.c.version, fields.label("fields")).where(
        ENTITY.c.org == reader.org_id,
        ENTITY.c.kind == Account.__name__,
        fields.is_not(None),
        fields != "{}",
    )
    for row in reader.connection.execute(query):
        values = wire.loads(row.fields)
        yield AccountFields(
            row.id, row.version, {name: typed_value(values[name]) for name in values}
        )


def typed_value(value: str | int | Decimal) -> str | Decimal:
    """A value of JSON as calculations have it: a text, or an exact number."""
    return value if isinstance(value, str) else Decimal(value)
