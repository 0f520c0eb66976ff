"""The custom fields that accounts carry themselves, without reading the accounts."""

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import select

from meterlake.model.customers.accounts import Account
from meterlake.model.values import wire
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ENTITY


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
