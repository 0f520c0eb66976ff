"""The tables of bucket inboxes and of the claims on their objects."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, String, Table

from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText

INBOX: Final = Table(
    "inbox",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("url", StorableText, nullable=False),
    Column("afterwards", String(20), nullable=False),
    Column("created", InstantText, nullable=False),
    Column("author", StorableText),
    Index("inbox_org", "org", "created"),
)

# The id of its job is made of inbox, key and version: who inserts it first has the object. An inbox
# that was removed and is added again knows its claims, so they outlive it. No index by inbox: what
# is asked for are the newest or the unfinished ones, which the indexes of jobs have.
INBOX_CLAIM: Final = Table(
    "inbox_claim",
    METADATA,
    Column("id", String(36), ForeignKey("job.id", name="inbox_claim_job"), primary_key=True),
    Column("inbox", String(36), nullable=False),
    Column("key", StorableText, nullable=False),
    Column("version", StorableText, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
)
