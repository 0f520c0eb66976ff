"""The tables of statements: which files a bill has, and which jobs are about which bill."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    String,
    Table,
    false,
)

from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText

# What a job about a statement has of its own.
STATEMENT_JOB: Final = Table(
    "statement_job",
    METADATA,
    Column("id", String(36), ForeignKey("job.id", name="statement_job_job"), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    # Of a bill that may be deleted by now.
    Column("bill_id", String(36), nullable=False),
    Index("statement_job_bill", "org", "bill_id"),
)

# The newest file of each format that a bill has.
BILL_STATEMENT: Final = Table(
    "bill_statement",
    METADATA,
    Column("bill_id", String(36), ForeignKey("bill.id"), primary_key=True),
    Column("format", String(4), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("job_id", String(36), nullable=False),
    # Where the bytes are in the object store.
    Column("key", StorableText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    # When the bill was calculated that the file shows.
    Column("calculated", InstantText, nullable=False),
    Column("made", InstantText, nullable=False),
    # Whether it has the usage of some meters only.
    Column("filtered", Boolean, nullable=False),
    # Whether the lines of the bill have changed since, without a calculation.
    Column("outdated", Boolean, nullable=False, server_default=false()),
    Index("bill_statement_org", "org"),
)
