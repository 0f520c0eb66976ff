"""The table of jobs; what a kind of job has of its own lies in a table by the job's id."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    false,
    text,
)

from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText, UntrustedText

JOB: Final = Table(
    "job",
    METADATA,
    Column("id", String(36), primary_key=True),
    # Absent where nobody knows it any more: an object of an inbox that was removed.
    Column("org", String(36), ForeignKey("organization.id")),
    Column("kind", String(40), nullable=False),
    Column("status", String(20), nullable=False),
    Column("parameters", StorableText, nullable=False),
    Column("lease_until", InstantText),
    # Nobody takes it before.
    Column("not_before", InstantText),
    Column("attempt", Integer, nullable=False),
    # How often its lease ran out: who gives it back, or ends it, leaves none.
    Column("deaths", Integer, nullable=False, server_default="0"),
    Column("snapshot", BigInteger),
    Column("result", StorableText),
    Column("error", UntrustedText),
    Column("created", InstantText, nullable=False),
    Column("started", InstantText),
    Column("finished", InstantText),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("author", Text),
    Column("schedule_id", String(36)),
    Column("due", InstantText),
    Column("progress", StorableText),
    Column("cancel_asked", Boolean, nullable=False, server_default=false()),
    # No run of a schedule is doubled.
    Index("job_due", "schedule_id", "due", unique=True),
    # What waits.
    Index("job_of_kind", "org", "kind", "status", "created"),
    # What waits of all organizations: those that have ended are not in it.
    Index(
        "job_unfinished",
        *("kind", "status", "org"),
        sqlite_where=text("finished IS NULL"),
        postgresql_where=text("finished IS NULL"),
    ),
    # Lists.
    Index("job_newest", "org", "kind", "created", "id"),
)
