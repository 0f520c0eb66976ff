"""Accounts at ingest: the ids of all codes, and skeleton accounts for codes that are new."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sqlalchemy import Integer, column, func, insert, select

from meterlake.model.customers.accounts import Account
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.row_digests import digest_of_version
from meterlake.stores.state.core.state import State
from meterlake.stores.state.core.tables import ENTITY, ENTITY_HISTORY
from meterlake.stores.state.core.transaction import Transaction

AUTHOR: Final = "ingest"


class AccountIds(NamedTuple):
    """The id of every account by its code, as some state of the history led there.

    Attributes:
        changes: How many changes of accounts there were.
        newest: The number of the history's newest row, where the database numbers rows.
    """

    changes: int
    ids: dict[str, str]
    newest: int | None = None


def account_ids(state: State, org_id: str) -> dict[str, str]:
    """The id of every account by its code, without reading the accounts themselves."""
    return newer_account_ids(state, org_id, None).ids


def newer_account_ids(state: State, org_id: str, known: AccountIds | None) -> AccountIds:
    """The ids of all accounts; what is known already if no account has changed since.

    Every change of an account, its deletion too, adds a row to the history, which only grows: as
    long as it has as many rows, nothing has changed, whatever the clocks say.
    """
    now = ENTITY.c
    query = select(now.code, now.id).where(now.org == org_id, now.kind == Account.__name__)
    with state.reading(org_id) as reader:
        newest = _newest(reader)
        if known is not None and newest is not None and known.newest == newest:
            return known
        past = ENTITY_HISTORY.c
        count = select(func.count()).where(past.org == org_id, past.kind == Account.__name__)
        changes = int(reader.connection.execute(count).scalar_one())
        if known is not None and known.changes == changes:
            return known._replace(newest=newest)
        rows = reader.connection.execute(query).tuples()
        return AccountIds(changes, dict(rows.all()), newest)


def _newest(reader: Reader) -> int | None:
    """The last row's number: counting takes longer the more accounts there are. SQLite only."""
    if reader.connection.dialect.name != "sqlite":
        return None
    newest = select(func.max(column("_rowid_", Integer))).select_from(ENTITY_HISTORY)
    found: int | None = reader.connection.execute(newest).scalar()
    return found


def create_auto_accounts(state: State, org_id: str, account_ids_of: dict[str, str]) -> int | None:
    """Create accounts for new codes, with given ids; all of them, or none.

    Args:
        state: The State.
        org_id: The organization.
        account_ids_of: Ids by code.

    Returns:
        How many were created; None if one of the codes, or of the ids, belongs to another account.
    """
    with state.transaction(org_id, AUTHOR) as transaction:
        known = dict(_known_codes(transaction, account_ids_of))
        if any(account_ids_of[code] != known[code] for code in known):
            return None
        new = {code: account_ids_of[code] for code in account_ids_of if code not in known}
        if any(_taken_ids(transaction, new.values())):
            return None
        returning = _with_history(transaction, new.values())
        for code in [code for code in new if new[code] in returning]:
            transaction.create(_skeleton(code, new[code]), new[code])
        _insert(transaction, {code: new[code] for code in new if new[code] not in returning})
        return len(new)


def _skeleton(code: str, id: str) -> Account:
    # The contract's form of name and address; the hash hides the code, it need not be secret.
    mailbox = hashlib.sha256(id.encode()).hexdigest()[:16]
    return Account(
        name=f"{code}-autocreated", code=code, email_address=f"{mailbox}-autocreated@example.com"
    )


def _known_codes(transaction: Transaction, codes: Iterable[str]) -> Iterator[tuple[str, str]]:
    for chunk in chunks_of(codes):
        query = select(ENTITY.c.code, ENTITY.c.id).where(
            ENTITY.c.org == transaction.org_id,
            ENTITY.c.kind == Account.__name__,
            ENTITY.c.code.in_(chunk),
        )
        yield from ((row.code, row.id) for row in transaction.connection.execute(query))


def _taken_ids(transaction: Transaction, ids: Iterable[str]) -> Iterator[str]:
    for chunk in chunks_of(ids):
        query = select(ENTITY.c.id).where(
            ENTITY.c.org == transaction.org_id,
            ENTITY.c.kind == Account.__name__,
            ENTITY.c.id.in_(chunk),
        )
        yield from transaction.connection.execute(query).scalars()


def _with_history(transaction: Transaction, ids: Iterable[str]) -> set[str]:
    """Ids that had an account once: their history goes on where it stopped."""
    found: set[str] = set()
    for chunk in chunks_of(ids):
        query = select(ENTITY_HISTORY.c.id).where(
            ENTITY_HISTORY.c.org == transaction.org_id,
            ENTITY_HISTORY.c.kind == Account.__name__,
            ENTITY_HISTORY.c.id.in_(chunk),
        )
        found.update(transaction.connection.execute(query).scalars())
    return found


def _insert(transaction: Transaction, new: dict[str, str]) -> None:
    if not new:
        return
    records = [_record(transaction, code, new[code]) for code in new]
    rows = [
        {
            "org": transaction.org_id,
            "kind": Account.__name__,
            "id": record.id,
            "version": record.version,
            "code": record.entity.code,
            "body": wire.dumps_sorted(record.entity.to_wire()),
        }
        for record in records
    ]
    created = {"created": transaction.now, "created_by": transaction.author}
    modified = {"modified": transaction.now, "modified_by": transaction.author}
    past = {
        "valid_from": transaction.now,
        "author": transaction.author,
        "began": transaction.number,
    }
    connection = transaction.connection
    connection.execute(insert(ENTITY), [row | created | modified for row in rows])
    for row in rows:
        del row["code"]
    versions = [row | created | past for row in rows]
    for version in versions:
        version["digest"] = digest_of_version(version)
    connection.execute(insert(ENTITY_HISTORY), versions)
    for record in records:
        transaction.journal.note_change(record)


def _record(transaction: Transaction, code: str, id: str) -> Record[Account]:
    now, author = transaction.now, transaction.author
    return Record(id, 1, _skeleton(code, id), now, author, now, author)
