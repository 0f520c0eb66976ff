"""People, and the organizations that they are users of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Row,
    Select,
    String,
    and_,
    func,
    insert,
    literal,
    or_,
    select,
    type_coerce,
    update,
)

from meterlake.model.configuration.access import PermissionStatement
from meterlake.model.errors import Invalid, NotFound, StaleVersion
from meterlake.model.values import wire
from meterlake.stores.state.access.access_tables import MEMBERSHIP, PERSON
from meterlake.stores.state.core.json_columns import folded_text
from meterlake.stores.state.core.listing import contains, starts_with
from meterlake.stores.state.core.pages import Page, SortKey, read, read_sorted
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.transaction import Transaction

# What lists of users are ordered and narrowed by, as the wire calls it.
_TEXTS: Final = {
    "email": PERSON.c.email,
    "firstName": PERSON.c.first_name,
    "lastName": PERSON.c.last_name,
    "dtCreated": type_coerce(MEMBERSHIP.c.created, String),
}
NAMES_OF_USERS: Final = frozenset(_TEXTS) - {"dtCreated"}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who can sign in; of the password only its Argon2id hash is known."""

    id: str
    email: str
    first_name: str
    last_name: str
    contact_number: str | None
    password_hash: str | None = field(repr=False)
    support_user: bool
    first_accepted_terms: datetime | None
    last_accepted_terms: datetime | None
    created: datetime


@dataclass(frozen=True, slots=True)
class User:
    """A person as a user of one organization."""

    person: Person
    org_id: str
    version: int
    statements: tuple[PermissionStatement, ...]
    end_access: datetime | None
    created: datetime
    created_by: str
    modified: datetime
    modified_by: str
    signed_out: datetime | None

    def has_access(self, now: datetime) -> bool:
        """Whether the access has not ended."""
        return self.end_access is None or now < self.end_access

    def is_signed_out(self, began: datetime) -> bool:
        """Whether a sign-in that began at some time was ended for the organization."""
        return self.signed_out is not None and began <= self.signed_out


def canonical(email: str) -> str:
    """The form of an address under which a person is stored and found."""
    return email.strip().casefold()


def person(connection: Connection, id: str) -> Person | None:
    """A person by id, or None."""
    return _person(connection.execute(select(PERSON).where(PERSON.c.id == id)).first())


def person_by_email(connection: Connection, email: str) -> Person | None:
    """A person by address, in whatever case it is written, or None."""
    query = select(PERSON).where(PERSON.c.email == canonical(email))
    return _person(connection.execute(query).first())


def add_person(connection: Connection, made: Person) -> None:
    """Store a new person."""
    row = {name: getattr(made, name) for name in made.__dataclass_fields__}
    connection.execute(insert(PERSON), row | {"email": canonical(made.email)})


def change_person(connection: Connection, id: str, **values: Any) -> None:
    """Set some columns of a person."""
    connection.execute(update(PERSON).where(PERSON.c.id == id).values(**values))


def user(reader: Reader, id: str) -> User:
    """One user of an organization.

    Raises:
        NotFound: There is none.
    """
    row = reader.connection.execute(_users(reader).where(PERSON.c.id == id)).first()
    if row is None:
        raise NotFound("user", id)
    return _user(row)


def users(reader: Reader, page: Page, ids: Sequence[str] = ()) -> tuple[list[User], str | None]:
    """One page of an organization's users, and the token of the next.

    Raises:
        Invalid: Nothing orders users by the field that the page names.
    """
    query, search = _users(reader), page.search
    if ids:
        query = query.where(PERSON.c.id.in_(ids))
    if search is not None and search.terms:
        found = (
            (contains if each.comparator == "*" else starts_with)(_TEXTS[each.field], each.value)
            for each in search.terms
        )
        query = query.where((and_ if search.every else or_)(*found))
    if search is not None and search.sort_by is not None:
        if search.sort_by not in _TEXTS:
            raise Invalid("sortBy", search.sort_by, f"it must be one of {', '.join(_TEXTS)}")
        text = folded_text(_TEXTS[search.sort_by])
        key = SortKey(text, text, literal)
        rows, token = read_sorted(reader.connection, query, key, PERSON.c.id, page)
        return [_user(row) for row in rows], token
    rows, token = read(reader.connection, query, MEMBERSHIP.c.created, PERSON.c.id, page)
    return [_user(row) for row in rows], token


def organizations_with_users(connection: Connection) -> frozenset[str]:
    """The ids of the organizations of a home that have users."""
    return frozenset(connection.execute(select(MEMBERSHIP.c.org).distinct()).scalars())


def has_users(reader: Reader) -> bool:
    """Whether the organization has a user."""
    query = select(MEMBERSHIP.c.org).where(MEMBERSHIP.c.org == reader.org_id).limit(1)
    return reader.connection.execute(query).first() is not None


def users_named(reader: Reader, name: str) -> list[User]:
    """The users of an id, of an address, or of a first and a last name."""
    table = PERSON.c
    full = func.lower(table.first_name + " " + table.last_name)
    query = _users(reader).where(
        or_(table.id == name, table.email == canonical(name), full == name.strip().lower())
    )
    found = [_user(row) for row in reader.connection.execute(query.order_by(table.email))]
    return [each for each in found if each.person.email == canonical(name)] or found


def memberships(connection: Connection, person_id: str) -> list[tuple[str, datetime | None]]:
    """The organizations that a person is a user of, and when the access ends."""
    table = MEMBERSHIP.c
    query = (
        select(table.org, table.end_access)
        .where(table.person_id == person_id)
        .order_by(table.created, table.org)
    )
    return [(row.org, row.end_access) for row in connection.execute(query)]


def add_user(transaction: Transaction, person_id: str, end_access: datetime | None) -> User:
    """Make a person a user of the organization; one who is a user again starts anew."""
    row = {
        "org": transaction.org_id,
        "person_id": person_id,
        "version": 1,
        "permission_policy": "[]",
        "end_access": end_access,
        "created": transaction.now,
        "created_by": transaction.author,
        "modified": transaction.now,
        "modified_by": transaction.author,
    }
    transaction.connection.execute(insert(MEMBERSHIP), row)
    return user(transaction, person_id)


def change_user(
    transaction: Transaction,
    id: str,
    version: int,
    statements: tuple[PermissionStatement, ...],
    end_access: datetime | None,
) -> User:
    """Replace what an organization says about its user.

    Raises:
        NotFound: There is no such user.
        StaleVersion: Someone changed it since the caller read it.
    """
    before = user(transaction, id)
    table = MEMBERSHIP.c
    documents = [statement.model_dump(by_alias=True) for statement in statements]
    query = update(MEMBERSHIP).where(
        table.org == transaction.org_id, table.person_id == id, table.version == version
    )
    result = transaction.connection.execute(
        query.values(
            version=version + 1,
            permission_policy=wire.dumps_sorted(documents),
            end_access=end_access,
            modified=transaction.now,
            modified_by=transaction.author,
        )
    )
    if result.rowcount != 1:
        raise StaleVersion("user", id, before.version, version)
    return user(transaction, id)


def sign_out(connection: Connection, org_id: str, id: str, now: datetime) -> None:
    """Have no sign-in of a user that began until now lead into the organization."""
    table = MEMBERSHIP.c
    query = update(MEMBERSHIP).where(table.org == org_id, table.person_id == id)
    connection.execute(query.values(signed_out=now))


def _users(reader: Reader) -> Select[Any]:
    joined = MEMBERSHIP.join(PERSON, MEMBERSHIP.c.person_id == PERSON.c.id)
    columns = (column.label(f"person_{column.name}") for column in PERSON.c)
    query = select(*(c for c in MEMBERSHIP.c if c.name != "person_id"), *columns)
    return query.select_from(joined).where(MEMBERSHIP.c.org == reader.org_id)


def _person(row: Row[Any] | None, prefix: str = "") -> Person | None:
    if row is None:
        return None
    names = Person.__dataclass_fields__
    return Person(**{name: getattr(row, prefix + name) for name in names})


def _user(row: Row[Any]) -> User:
    someone = _person(row, "person_")
    assert someone is not None
    statements = map(PermissionStatement.model_validate, wire.loads(row.permission_policy))
    return User(
        someone,
        row.org,
        row.version,
        tuple(statements),
        row.end_access,
        row.created,
        row.created_by,
        row.modified,
        row.modified_by,
        row.signed_out,
    )
