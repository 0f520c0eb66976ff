"""Digests of rows that never change: one that was altered behind our back does not fit its own."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

# What a version of an entity says; when it ended is written later.
_OF_VERSION: Final = ("org", "kind", "id", "version", "body", "created_by", "author", "began")
_VERSION_INSTANTS: Final = ("valid_from", "created")
_OF_POSTING: Final = (
    *("id", "org", "from_account", "to_account", "amount", "currency", "kind", "source_id"),
    *("bill_id", "bill_version", "job_id", "reverses", "created_by", "began"),
)
_POSTING_INSTANTS: Final = ("applied", "created")


def digest_of_version(row: Mapping[str, Any]) -> str:
    """The digest of a version of an entity: of its row of the history."""
    return _digest(row, _OF_VERSION, _VERSION_INSTANTS)


def digest_of_posting(row: Mapping[str, Any]) -> str:
    """The digest of a posting of the ledger."""
    return _digest(row, _OF_POSTING, _POSTING_INSTANTS)


def _digest(row: Mapping[str, Any], names: Sequence[str], instants: Sequence[str]) -> str:
    values = [row[name] for name in names]
    values += [None if row[name] is None else row[name].timestamp() for name in instants]
    return sha256(repr(values).encode()).hexdigest()
