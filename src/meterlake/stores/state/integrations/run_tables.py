"""The tables of the runs of integrations, and of how their destinations are doing."""

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
    text,
)

from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText, UntrustedText

# How far a reader of the event log is; written with what it made of the events.
EVENT_POSITION: Final = Table(
    "event_position",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("reader", String(40), primary_key=True),
    Column("seq", BigInteger, nullable=False),
)

# What a run has beyond its job, whose `not_before` is when the next try is due.
INTEGRATION_RUN: Final = Table(
    "integration_run",
    METADATA,
    Column("id", String(36), ForeignKey("job.id", name="run_job"), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("status", String(40), nullable=False),
    Column("config_id", String(36)),
    Column("config_version", Integer),
    Column("entity_type", String(80), nullable=False),
    Column("entity_id", StorableText(200), nullable=False),
    Column("destination", StorableText(80), nullable=False),
    Column("destination_id", String(36)),
    # What it is about is handed over once, whoever asks for it again.
    Column("run_key", StorableText(400), nullable=False),
    Column("account_id", String(36)),
    Column("event_id", String(36)),
    Column("rule_version", Integer),
    Column("parent_id", String(36)),
    Column("replayed_from", String(36)),
    # What is done there: SEND, or DELETE of what was sent and is deleted here.
    Column("action", String(20), nullable=False, server_default="SEND"),
    # What the entity is, whatever its id: of a bill its account, date, period and key.
    Column("subject", StorableText(200)),
    # The exact text that is sent, where it does not depend on the time of the try.
    Column("body", StorableText),
    Column("external_id", UntrustedText),
    Column("url", UntrustedText),
    Column("created", InstantText, nullable=False),
    # Runs to one destination wait for each other, and for nobody else.
    Column("queue", StorableText(80)),
    # When somebody is to look at it: for the next try, or because whoever tried is dead by then.
    Column("due", InstantText),
    Index("integration_run_key", "org", "run_key", unique=True),
    Index("integration_run_entity", "org", "entity_type", "entity_id", "created", "id"),
    Index("integration_run_subject", "org", "subject"),
    Index("integration_run_destination", "org", "destination_id", "created", "id"),
    Index("integration_run_config", "org", "config_id", "created", "id"),
    Index("integration_run_event", "org", "event_id"),
    Index(
        "integration_run_due",
        "queue",
        "due",
        sqlite_where=text("due IS NOT NULL"),
        postgresql_where=text("due IS NOT NULL"),
    ),
)

# Every try of a run: what was sent and what was answered, without secrets.
INTEGRATION_TRY: Final = Table(
    "integration_try",
    METADATA,
    Column("run_id", String(36), ForeignKey("integration_run.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("started", InstantText, nullable=False),
    Column("ended", InstantText),
    Column("request", UntrustedText, nullable=False),
    Column("status_code", Integer),
    Column("response", UntrustedText),
    Column("error", UntrustedText),
)

# How a destination is doing; without a row, all that was sent there arrived.
DESTINATION_HEALTH: Final = Table(
    "destination_health",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    # A webhook, or the configuration of an integration.
    Column("destination_id", String(36), primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("failing_since", InstantText),
    # Nothing is sent before: its last answers were failures.
    Column("paused_until", InstantText),
    Column("disabled", InstantText),
    Column("reason", UntrustedText),
)

# Which destinations refused the credentials that they were sent last.
REFUSED_CREDENTIALS: Final = Table(
    "refused_credentials",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    # As in `destination_health`.
    Column("destination_id", String(36), primary_key=True),
    # When the try began.
    Column("refused", InstantText, nullable=False),
)

# What was reported to marketplaces: one record for a customer, a dimension and an hour.
MARKETPLACE_RECORD: Final = Table(
    "marketplace_record",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("customer", StorableText(200), primary_key=True),
    # The product's code, `-` and the dimension.
    Column("dimension", StorableText(300), primary_key=True),
    Column("hour", InstantText, primary_key=True),
    Column("system", String(80), nullable=False),
    Column("account_id", String(36), nullable=False),
    Column("bill_id", String(36), nullable=False),
    Column("run_key", StorableText(400), nullable=False),
    Column("quantity", BigInteger, nullable=False),
    # Written down before it is sent; false until the marketplace has taken it.
    Column("accepted", Boolean, nullable=False),
    Index("marketplace_record_account", "org", "account_id", "dimension"),
    Index("marketplace_record_bill", "org", "bill_id"),
)

# The bills that marketplaces are told of, also those of which nothing is to be reported now.
MARKETPLACE_BILL: Final = Table(
    "marketplace_bill",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("dimension", StorableText(300), primary_key=True),
    Column("bill_id", String(36), primary_key=True),
    Column("account_id", String(36), nullable=False),
    Index("marketplace_bill_account", "org", "account_id", "dimension"),
)
