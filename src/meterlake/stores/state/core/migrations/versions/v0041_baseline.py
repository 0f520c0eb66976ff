"""The tables of State, as the revisions 0001 to 0041 made them one after another."""

from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = None
branch_labels = None
depends_on = None

TABLES: Final = sa.MetaData()
_ID: Final = sa.String(36)
_INSTANT: Final = sa.String(27)
_DAY: Final = sa.String(10)
_CODE: Final = sa.String(80)
_WORD: Final = sa.String(20)
_SHA256: Final = sa.String(64)
_SERIAL: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# SQLite reads JSON by functions of its own. Servers before version 16 can only try; whether a text
# is JSON depends on nothing else. Of what is none, and of what has no such member, both give NULL.
_FUNCTIONS: Final = (
    """
CREATE OR REPLACE FUNCTION readable_json(body text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN body::jsonb;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$
""",
    """
CREATE OR REPLACE FUNCTION readable_member(body text, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN body::json ->> name;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$
""",
)


def upgrade() -> None:
    """Create every table, and the functions of PostgreSQL."""
    create_tables(TABLES.sorted_tables)


def create_tables(tables: list[sa.Table]) -> None:
    """Create some of the tables, which may not be there yet, and the functions of PostgreSQL."""
    connection = op.get_bind()
    TABLES.create_all(connection, tables, checkfirst=False)
    if connection.dialect.name == "postgresql":
        for statement in _FUNCTIONS:
            op.execute(statement)


def where(condition: str) -> dict[str, Any]:
    """What an index says that has only rows of a condition."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _org(*, nullable: bool = False, primary_key: bool = False) -> "sa.Column[str]":
    organization = sa.ForeignKey("organization.id")
    return sa.Column("org", _ID, organization, nullable=nullable, primary_key=primary_key)


def _key(type_: Any, *names: str) -> "Iterator[sa.Column[Any]]":
    return (sa.Column(name, type_, primary_key=True) for name in names)


def _required(type_: Any, *names: str) -> "Iterator[sa.Column[Any]]":
    return (sa.Column(name, type_, nullable=False) for name in names)


def _optional(type_: Any, *names: str) -> "Iterator[sa.Column[Any]]":
    return (sa.Column(name, type_) for name in names)


sa.Table(
    "organization",
    TABLES,
    *_key(_ID, "id"),
    sa.Column("code", _CODE, nullable=False, unique=True),
    *_required(sa.Text, "name"),
    *_required(_INSTANT, "created"),
    sa.Column("transactions", sa.BigInteger, nullable=False, server_default="0"),
)
sa.Table(
    "entity",
    TABLES,
    _org(primary_key=True),
    *_key(_CODE, "kind"),
    *_key(_ID, "id"),
    *_required(sa.Integer, "version"),
    *_optional(_CODE, "code"),
    *_required(sa.Text, "body"),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    *_required(_INSTANT, "modified"),
    *_required(sa.Text, "modified_by"),
    sa.UniqueConstraint("org", "kind", "code", name="entity_code"),
    sa.Index("entity_newest", "org", "kind", "created", "id"),
)
sa.Table(
    "entity_reference",
    TABLES,
    _org(primary_key=True),
    *_key(_CODE, "kind"),
    *_key(_ID, "id"),
    *_key(sa.String(200), "field"),
    *_required(_CODE, "target_kind"),
    *_required(_ID, "target_id"),
    sa.Index("entity_reference_target", "org", "target_kind", "target_id"),
)
sa.Table(
    "entity_history",
    TABLES,
    _org(primary_key=True),
    *_key(_CODE, "kind"),
    *_key(_ID, "id"),
    *_key(sa.Integer, "version"),
    *_required(_INSTANT, "valid_from"),
    *_optional(_INSTANT, "valid_to"),
    *_optional(sa.Text, "body"),
    *_required(sa.Text, "author"),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    sa.Column("began", sa.BigInteger, nullable=False, server_default="0"),
    *_optional(sa.BigInteger, "ended"),
    *_optional(_SHA256, "digest"),
    sa.Index("entity_history_ended", "org", "ended"),
    sa.Index("entity_history_time", "org", "valid_from"),
)
sa.Table(
    "access_key",
    TABLES,
    *_key(_ID, "id"),
    _org(),
    *_required(_ID, "service_user_id"),
    *_required(_SHA256, "secret_sha256"),
    *_required(_WORD, "status"),
    *_required(_INSTANT, "created"),
    sa.Index("access_key_user", "org", "service_user_id"),
)
sa.Table(
    "policy_grant",
    TABLES,
    _org(primary_key=True),
    *_key(_ID, "policy_id"),
    *_key(_WORD, "principal_type"),
    *_key(_ID, "principal_id"),
    sa.Column("id", _ID, nullable=False, unique=True),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    sa.Index("policy_grant_principal", "org", "principal_id"),
)
sa.Table(
    "job",
    TABLES,
    *_key(_ID, "id"),
    _org(nullable=True),
    *_required(sa.String(40), "kind"),
    *_required(_WORD, "status"),
    *_required(sa.Text, "parameters"),
    *_optional(_INSTANT, "lease_until"),
    *_required(sa.Integer, "attempt"),
    *_optional(sa.BigInteger, "snapshot"),
    *_optional(sa.Text, "result", "error"),
    *_required(_INSTANT, "created"),
    *_optional(_INSTANT, "started", "finished"),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    *_optional(sa.Text, "author"),
    *_optional(_ID, "schedule_id"),
    *_optional(_INSTANT, "due"),
    *_optional(sa.Text, "progress"),
    sa.Column("cancel_asked", sa.Boolean, nullable=False, server_default=sa.false()),
    *_optional(_INSTANT, "not_before"),
    sa.Column("deaths", sa.Integer, nullable=False, server_default="0"),
    sa.Index("job_due", "schedule_id", "due", unique=True),
    sa.Index("job_newest", "org", "kind", "created", "id"),
    sa.Index("job_of_kind", "org", "kind", "status", "created"),
    sa.Index("job_unfinished", "kind", "status", "org", **where("finished IS NULL")),
)
sa.Table(
    "bill",
    TABLES,
    *_key(_ID, "id"),
    _org(),
    *_required(_ID, "account_id"),
    *_required(_DAY, "bill_date"),
    *_required(_WORD, "frequency"),
    *_required(sa.Integer, "interval"),
    *_required(sa.String(40), "period"),
    *_required(sa.Integer, "version"),
    *_required(_WORD, "status"),
    *_required(sa.Boolean, "locked"),
    *_required(_CODE, "currency"),
    *_required(sa.Text, "total", "body", "pins"),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    *_required(_INSTANT, "modified"),
    *_required(sa.Text, "modified_by"),
    *_optional(sa.BigInteger, "snapshot"),
    *_optional(_INSTANT, "approved"),
    *_optional(sa.Text, "approved_by"),
    *_optional(_INSTANT, "locked_at"),
    *_optional(sa.Text, "locked_by"),
    *_optional(_INSTANT, "calculated"),
    *_optional(_ID, "job_id"),
    *_optional(sa.Text, "invoice_number"),
    sa.Column("grouping_key", _ID, nullable=False, server_default=""),
    *_optional(_ID, "outdated_by"),
    *_optional(_CODE, "inputs"),
    sa.Column("began", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("content_version", sa.Integer, nullable=False, server_default="1"),
    *_optional(sa.BigInteger, "locked_in"),
    *_optional(_ID, "calculation_id"),
    *_optional(sa.BigInteger, "ledger_at"),
    sa.UniqueConstraint(
        "org",
        "account_id",
        "bill_date",
        "frequency",
        "interval",
        "grouping_key",
        name="bill_identity",
    ),
    sa.Index("bill_calculated", "org", "calculation_id"),
    sa.Index("bill_dated", "org", "bill_date"),
    sa.Index("bill_newest", "org", "created", "id"),
    sa.Index("bill_period", "org", "period", "frequency", "snapshot"),
)
sa.Table(
    "bill_line",
    TABLES,
    sa.Column("bill_id", _ID, sa.ForeignKey("bill.id"), primary_key=True),
    *_key(sa.Integer, "sequence"),
    *_required(sa.Text, "key", "body", "pins"),
    sa.UniqueConstraint("bill_id", "key", name="bill_line_key"),
)
sa.Table(
    "signing_key",
    TABLES,
    *_key(_ID, "kid"),
    *_required(sa.Text, "private_key"),
    *_required(_INSTANT, "created"),
    *_optional(_INSTANT, "not_after"),
)
sa.Table(
    "person",
    TABLES,
    *_key(_ID, "id"),
    sa.Column("email", sa.String(320), nullable=False, unique=True),
    *_required(sa.Text, "first_name", "last_name"),
    *_optional(sa.Text, "contact_number", "password_hash"),
    *_required(sa.Boolean, "support_user"),
    *_optional(_INSTANT, "first_accepted_terms", "last_accepted_terms"),
    *_required(_INSTANT, "created"),
)
sa.Table(
    "membership",
    TABLES,
    _org(primary_key=True),
    sa.Column("person_id", _ID, sa.ForeignKey("person.id"), primary_key=True),
    *_required(sa.Integer, "version"),
    *_required(sa.Text, "permission_policy"),
    *_optional(_INSTANT, "end_access"),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    *_required(_INSTANT, "modified"),
    *_required(sa.Text, "modified_by"),
    sa.Index("membership_person", "person_id"),
)
sa.Table(
    "session",
    TABLES,
    *_key(_ID, "id"),
    sa.Column("token_sha256", _SHA256, nullable=False, unique=True),
    sa.Column("person_id", _ID, sa.ForeignKey("person.id"), nullable=False),
    *_required(_INSTANT, "created", "expires"),
    sa.Index("session_person", "person_id"),
)
sa.Table(
    "session_grant",
    TABLES,
    *_key(_SHA256, "token_sha256"),
    *_required(_WORD, "kind"),
    sa.Column("session_id", _ID, sa.ForeignKey("session.id", ondelete="CASCADE"), nullable=False),
    _org(),
    *_optional(sa.Text, "redirect_uri"),
    *_optional(sa.String(128), "challenge"),
    *_required(_INSTANT, "expires"),
    *_optional(_INSTANT, "used"),
    sa.Index("session_grant_session", "session_id"),
)
sa.Table(
    "one_time_token",
    TABLES,
    *_key(_SHA256, "token_sha256"),
    *_required(_WORD, "purpose"),
    _org(),
    *_required(_ID, "subject_id"),
    *_required(_INSTANT, "expires"),
    *_optional(_INSTANT, "used"),
    sa.Index("one_time_token_subject", "subject_id"),
)
sa.Table(
    "resource_group_member",
    TABLES,
    _org(primary_key=True),
    *_key(_ID, "group_id", "target_id"),
    *_required(_DAY, "target_type"),
    sa.Column("id", _ID, nullable=False, unique=True),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    sa.Index("resource_group_member_target", "org", "target_id"),
)
sa.Table(
    "lookup_item",
    TABLES,
    _org(primary_key=True),
    *_key(_ID, "revision_id"),
    *_key(sa.Text, "key"),
    *_required(sa.Text, "body"),
)
sa.Table(
    "lookup_job",
    TABLES,
    sa.Column("id", _ID, sa.ForeignKey("job.id", name="lookup_job_job"), primary_key=True),
    *_required(_ID, "revision_id"),
    *_optional(_ID, "destination_id"),
    *_required(_WORD, "type"),
    *_optional(sa.BigInteger, "data_version"),
    sa.Index("lookup_job_revision", "revision_id"),
)
sa.Table(
    "event",
    TABLES,
    sa.Column("seq", _SERIAL, primary_key=True),
    sa.Column("id", _ID, nullable=False, unique=True),
    _org(),
    *_required(sa.String(400), "name"),
    *_required(_CODE, "kind"),
    *_optional(sa.String(200), "resource_id"),
    *_optional(_ID, "account_id"),
    *_required(_INSTANT, "time"),
    *_optional(_INSTANT, "actioned"),
    *_required(sa.Text, "body"),
    *_optional(sa.String(40), "category"),
    *_optional(_ID, "base_id"),
    *_optional(_INSTANT, "written"),
    sa.Index("event_account", "org", "account_id", "time", "seq"),
    sa.Index("event_name", "org", "name", "time", "seq"),
    sa.Index("event_resource", "org", "resource_id", "time", "seq"),
    sa.Index("event_seq", "org", "seq"),
    sa.Index("event_time", "org", "time", "seq"),
    sa.Index("event_written", "org", "written"),
    sqlite_autoincrement=True,
)
sa.Table(
    "event_notification",
    TABLES,
    *_key(_ID, "notification_id"),
    sa.Column("event_id", _ID, sa.ForeignKey("event.id"), primary_key=True),
    sa.Index("event_notification_event", "event_id"),
)
sa.Table(
    "upload",
    TABLES,
    sa.Column("id", _ID, sa.ForeignKey("job.id", name="upload_job"), primary_key=True),
    *_required(sa.String(100), "name", "content_type"),
    *_required(sa.BigInteger, "content_length"),
    *_required(_INSTANT, "start_until"),
    *_optional(_INSTANT, "arrived"),
    *_optional(_SHA256, "sha256"),
)
sa.Table(
    "inbox",
    TABLES,
    *_key(_ID, "id"),
    _org(),
    *_required(sa.Text, "url"),
    *_required(_WORD, "afterwards"),
    *_required(_INSTANT, "created"),
    *_optional(sa.Text, "author"),
    sa.Index("inbox_org", "org", "created"),
)
sa.Table(
    "inbox_claim",
    TABLES,
    sa.Column("id", _ID, sa.ForeignKey("job.id", name="inbox_claim_job"), primary_key=True),
    *_required(_ID, "inbox"),
    *_required(sa.Text, "key", "version"),
    *_required(sa.BigInteger, "size_bytes"),
)
sa.Table(
    "ledger_report",
    TABLES,
    _org(primary_key=True),
    *_required(sa.BigInteger, "reported"),
)
sa.Table(
    "incident",
    TABLES,
    _org(primary_key=True),
    *_key(_CODE, "name"),
    *_key(sa.String(200), "subject"),
    *_required(_ID, "event_id"),
    *_required(_INSTANT, "since"),
)
sa.Table(
    "backfill",
    TABLES,
    _org(primary_key=True),
    *_key(_ID, "id"),
    *_required(_WORD, "status"),
    *_required(sa.Text, "wanted", "author"),
    *_required(_INSTANT, "created"),
    *_required(sa.BigInteger, "snapshot"),
    *_optional(sa.BigInteger, "applied"),
    *_required(sa.Text, "summary", "history"),
    sa.Index("backfill_newest", "org", "created", "id"),
)
sa.Table(
    "invoice_sequence",
    TABLES,
    _org(primary_key=True),
    *_required(sa.BigInteger, "last"),
)
sa.Table(
    "bill_memo",
    TABLES,
    *_key(_ID, "id"),
    _org(),
    sa.Column("bill_id", _ID, sa.ForeignKey("bill.id"), nullable=False),
    *_required(_WORD, "kind"),
    *_required(sa.Integer, "position"),
    *_required(sa.Text, "key"),
    *_optional(_ID, "reason_id"),
    *_required(sa.Integer, "version"),
    *_required(sa.Text, "body", "line"),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    *_required(_INSTANT, "modified"),
    *_required(sa.Text, "modified_by"),
    sa.UniqueConstraint("bill_id", "position", name="bill_memo_position"),
    sa.Index("bill_memo_reason", "org", "reason_id"),
)
sa.Table(
    "posting",
    TABLES,
    sa.Column("sequence", _SERIAL, primary_key=True),
    sa.Column("id", _ID, nullable=False, unique=True),
    _org(),
    *_required(sa.Text, "from_account", "to_account", "amount"),
    *_required(_CODE, "currency"),
    *_required(_WORD, "kind"),
    *_required(_ID, "source_id"),
    *_optional(_ID, "bill_id"),
    *_optional(sa.Integer, "bill_version"),
    *_optional(_ID, "job_id"),
    sa.Column("reverses", _ID, nullable=True, unique=True),
    *_optional(_INSTANT, "applied"),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    sa.Column("began", sa.BigInteger, nullable=False, server_default="0"),
    *_optional(_SHA256, "digest"),
    sa.Index("posting_bill", "bill_id"),
    sa.Index("posting_source", "org", "source_id", "sequence"),
)
sa.Table(
    "balance_note",
    TABLES,
    *_key(_ID, "id"),
    _org(),
    *_optional(sa.Text, "description", "paid"),
    *_optional(_CODE, "currency_paid"),
    *_optional(_ID, "transaction_type_id"),
    *_optional(_INSTANT, "transacted"),
    *_required(_WORD, "entity_type"),
    *_required(sa.Text, "entity_id"),
    *_optional(_INSTANT, "due"),
    sa.Index("balance_note_run", "org", "entity_id", "due", unique=True),
    sa.Index("balance_note_type", "org", "transaction_type_id"),
)
sa.Table(
    "scheduled_charge",
    TABLES,
    *_key(_ID, "charge_id"),
    _org(),
    *_required(_ID, "schedule_id"),
    *_required(_INSTANT, "service_start", "service_end", "due", "created"),
    sa.Index("scheduled_charge_run", "org", "schedule_id", "service_start", unique=True),
)
sa.Table(
    "balance_settlement",
    TABLES,
    *_key(_ID, "balance_id"),
    _org(),
    *_required(sa.Integer, "version", "ends", "postings"),
)
sa.Table(
    "event_position",
    TABLES,
    _org(primary_key=True),
    *_key(sa.String(40), "reader"),
    *_required(sa.BigInteger, "seq"),
)
sa.Table(
    "integration_run",
    TABLES,
    sa.Column("id", _ID, sa.ForeignKey("job.id", name="run_job"), primary_key=True),
    _org(),
    *_required(sa.String(40), "status"),
    *_optional(_ID, "config_id"),
    *_optional(sa.Integer, "config_version"),
    *_required(_CODE, "entity_type"),
    *_required(sa.String(200), "entity_id"),
    *_required(_CODE, "destination"),
    *_optional(_ID, "destination_id"),
    *_required(sa.String(400), "run_key"),
    *_optional(_ID, "account_id", "event_id"),
    *_optional(sa.Integer, "rule_version"),
    *_optional(_ID, "parent_id", "replayed_from"),
    *_optional(sa.Text, "body", "external_id", "url"),
    *_required(_INSTANT, "created"),
    *_optional(_CODE, "queue"),
    *_optional(_INSTANT, "due"),
    sa.Column("action", _WORD, nullable=False, server_default="SEND"),
    *_optional(sa.String(200), "subject"),
    sa.Index("integration_run_config", "org", "config_id", "created", "id"),
    sa.Index("integration_run_destination", "org", "destination_id", "created", "id"),
    sa.Index("integration_run_due", "queue", "due", **where("due IS NOT NULL")),
    sa.Index("integration_run_entity", "org", "entity_type", "entity_id", "created", "id"),
    sa.Index("integration_run_key", "org", "run_key", unique=True),
    sa.Index("integration_run_subject", "org", "subject"),
)
sa.Table(
    "integration_try",
    TABLES,
    sa.Column("run_id", _ID, sa.ForeignKey("integration_run.id"), primary_key=True),
    *_key(sa.Integer, "number"),
    *_required(_INSTANT, "started"),
    *_optional(_INSTANT, "ended"),
    *_required(sa.Text, "request"),
    *_optional(sa.Integer, "status_code"),
    *_optional(sa.Text, "response", "error"),
)
sa.Table(
    "destination_health",
    TABLES,
    _org(primary_key=True),
    *_key(_ID, "destination_id"),
    *_required(sa.Integer, "failures"),
    *_optional(_INSTANT, "failing_since", "paused_until", "disabled"),
    *_optional(sa.Text, "reason"),
)
sa.Table(
    "scheduled_moment",
    TABLES,
    _org(primary_key=True),
    *_key(_ID, "config_id", "entity_id"),
    *_key(_INSTANT, "due"),
    *_optional(_INSTANT, "fired"),
    sa.Index("scheduled_moment_due", "org", "fired", "due"),
    sa.Index("scheduled_moment_entity", "org", "entity_id"),
)
sa.Table(
    "scheduled_scan",
    TABLES,
    _org(primary_key=True),
    *_key(_ID, "config_id"),
    *_required(sa.Integer, "version"),
    *_required(_CODE, "zone"),
    *_required(_ID, "last_id"),
    *_required(sa.Boolean, "complete"),
)
sa.Table(
    "marketplace_record",
    TABLES,
    _org(primary_key=True),
    *_key(sa.String(200), "customer"),
    *_key(sa.String(300), "dimension"),
    *_key(_INSTANT, "hour"),
    *_required(_CODE, "system"),
    *_required(_ID, "account_id", "bill_id"),
    *_required(sa.String(400), "run_key"),
    *_required(sa.BigInteger, "quantity"),
    *_required(sa.Boolean, "accepted"),
    sa.Index("marketplace_record_account", "org", "account_id", "dimension"),
    sa.Index("marketplace_record_bill", "org", "bill_id"),
)
sa.Table(
    "marketplace_bill",
    TABLES,
    _org(primary_key=True),
    *_key(sa.String(300), "dimension"),
    *_key(_ID, "bill_id"),
    *_required(_ID, "account_id"),
    sa.Index("marketplace_bill_account", "org", "account_id", "dimension"),
)
sa.Table(
    "refused_credentials",
    TABLES,
    _org(primary_key=True),
    *_key(_ID, "destination_id"),
    *_required(_INSTANT, "refused"),
)
sa.Table(
    "bill_calculation",
    TABLES,
    *_key(_ID, "id"),
    _org(),
    *_required(sa.BigInteger, "at", "snapshot"),
    *_required(sa.Text, "selection", "code"),
    *_required(_SHA256, "digest"),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    sa.Index("bill_calculation_newest", "org", "created"),
)
sa.Table(
    "bill_version",
    TABLES,
    *_key(_ID, "bill_id"),
    *_key(sa.Integer, "version"),
    _org(),
    *_required(_ID, "account_id"),
    *_required(_DAY, "bill_date"),
    *_required(_WORD, "frequency"),
    *_required(sa.Integer, "interval"),
    *_required(_ID, "grouping_key"),
    *_required(sa.String(40), "period"),
    *_required(_CODE, "currency"),
    *_required(sa.Text, "total", "body", "pins"),
    *_optional(sa.BigInteger, "snapshot"),
    *_required(sa.BigInteger, "began", "ended"),
    *_optional(_ID, "calculation_id"),
    *_optional(sa.BigInteger, "ledger_at"),
    *_required(_INSTANT, "created"),
    *_required(sa.Text, "created_by"),
    *_required(_INSTANT, "modified"),
    *_required(sa.Text, "modified_by"),
    *_required(_INSTANT, "replaced"),
    *_required(sa.Text, "replaced_by"),
    sa.Index("bill_version_account", "org", "account_id", "ended"),
    sa.Index("bill_version_dated", "org", "bill_date"),
)
sa.Table(
    "bill_version_line",
    TABLES,
    *_key(_ID, "bill_id"),
    *_key(sa.Integer, "version", "sequence"),
    *_required(sa.Text, "key", "body", "pins"),
)
sa.Table(
    "lake_watch",
    TABLES,
    _org(primary_key=True),
    *_required(_INSTANT, "looked"),
    *_optional(_INSTANT, "due"),
    *_required(_CODE, "mark"),
    *_required(sa.Text, "limits", "configured"),
)
sa.Table(
    "lake_file",
    TABLES,
    _org(primary_key=True),
    *_key(sa.String(400), "path"),
    *_required(sa.BigInteger, "size_bytes"),
    *_optional(_SHA256, "sha256"),
    *_required(_INSTANT, "noted"),
)
sa.Table(
    "statement_job",
    TABLES,
    sa.Column("id", _ID, sa.ForeignKey("job.id", name="statement_job_job"), primary_key=True),
    _org(),
    *_required(_ID, "bill_id"),
    sa.Index("statement_job_bill", "org", "bill_id"),
)
sa.Table(
    "bill_statement",
    TABLES,
    sa.Column("bill_id", _ID, sa.ForeignKey("bill.id"), primary_key=True),
    *_key(sa.String(4), "format"),
    _org(),
    *_required(_ID, "job_id"),
    *_required(sa.Text, "key"),
    *_required(sa.BigInteger, "size"),
    *_required(_SHA256, "sha256"),
    *_required(_INSTANT, "calculated", "made"),
    *_required(sa.Boolean, "filtered"),
    sa.Column("outdated", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("bill_statement_org", "org"),
)
sa.Table(
    "late_usage",
    TABLES,
    *_key(_ID, "id"),
    _org(),
    *_required(_ID, "bill_id", "account_id"),
    *_required(_DAY, "bill_date"),
    *_required(_WORD, "frequency"),
    *_required(sa.Integer, "interval"),
    *_required(_ID, "grouping_key"),
    *_required(sa.String(40), "period"),
    *_required(_CODE, "currency"),
    *_required(sa.BigInteger, "since", "until"),
    *_required(_WORD, "status"),
    *_required(sa.Integer, "bill_version"),
    *_required(sa.Text, "sources"),
    *_optional(sa.Text, "difference"),
    *_optional(sa.Integer, "new_version"),
    *_optional(sa.Text, "reason"),
    *_required(_INSTANT, "found"),
    *_optional(_INSTANT, "decided"),
    *_optional(sa.BigInteger, "ledger_at"),
    sa.Index("late_usage_account", "org", "account_id", "bill_date"),
    sa.Index("late_usage_bill", "org", "bill_id"),
    sa.Index("late_usage_status", "org", "status"),
)
sa.Table(
    "late_usage_line",
    TABLES,
    sa.Column("late_usage_id", _ID, sa.ForeignKey("late_usage.id"), primary_key=True),
    *_key(sa.Integer, "position"),
    *_required(sa.Text, "key"),
    *_optional(_ID, "line_id"),
    *_required(sa.Text, "description", "amount"),
    *_optional(_ID, "memo_bill_id", "memo_id"),
    *_optional(sa.Text, "memo_amount"),
    *_optional(_CODE, "memo_currency"),
    *_optional(_ID, "taken_back"),
    sa.Index("late_usage_line_memo", "memo_bill_id"),
    sa.Index("late_usage_line_taken_back", "taken_back"),
)
sa.Table(
    "unbilled_usage",
    TABLES,
    _org(primary_key=True),
    *_key(sa.String(7), "month"),
    *_key(_ID, "account_id"),
    *_key(sa.Integer, "position"),
    *_required(sa.BigInteger, "snapshot"),
    *_required(_INSTANT, "found"),
    *_required(sa.Text, "body"),
)
