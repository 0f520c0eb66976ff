"""From the forty revisions before the baseline to the baseline, for the States that still have one.

A table that such a State lacks comes from the baseline, as a whole. So a step is for a table that was
there: it runs on a State of the revision that made the table, or a later one, up to the revision that
changed it.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from alembic import op
from alembic.migration import MigrationContext
from alembic.operations import Operations

from meterlake.model.values import wire
from meterlake.stores.state.core.migrations.versions import v0041_baseline as baseline

REVISIONS: Final = frozenset(f"{number:04}" for number in range(1, int(baseline.revision)))
_ID: Final = sa.String(36)
_INSTANT: Final = sa.String(27)
# Which revision made which of the baseline's tables; the first one made the others.
_TABLES: Final = {
    "0002": (
        *("signing_key", "person", "membership", "session", "session_grant", "one_time_token"),
        "resource_group_member",
    ),
    "0004": ("lookup_item", "lookup_job"),
    "0005": ("event", "event_notification"),
    "0007": ("upload",),
    "0008": ("inbox", "inbox_claim"),
    "0009": ("ledger_report", "incident"),
    "0011": ("backfill",),
    "0015": ("invoice_sequence", "bill_memo"),
    "0016": ("posting", "balance_note"),
    "0018": ("scheduled_charge",),
    "0019": ("balance_settlement",),
    "0021": ("event_position", "integration_run", "integration_try", "destination_health"),
    "0024": ("scheduled_moment", "scheduled_scan"),
    "0025": ("marketplace_record",),
    "0026": ("marketplace_bill",),
    "0027": ("refused_credentials",),
    "0030": ("bill_calculation", "bill_version", "bill_version_line"),
    "0031": ("lake_watch",),
    "0032": ("lake_file",),
    "0033": ("statement_job", "bill_statement"),
    "0034": ("late_usage", "late_usage_line"),
    "0035": ("unbilled_usage",),
}


class _Step(NamedTuple):
    """What one revision changed: States from `since` to the one before `until` lack it."""

    since: str
    until: str
    run: Callable[[], None]


def upgrade(connection: sa.Connection, found: str) -> None:
    """Bring a State of an earlier revision to the baseline, within a transaction of the caller.

    Args:
        connection: Of that transaction.
        found: The revision that the State has.
    """
    with Operations.context(MigrationContext.configure(connection)):
        later = {name for since, names in _TABLES.items() if since > found for name in names}
        baseline.create_tables([baseline.TABLES.tables[name] for name in sorted(later)])
        for step in STEPS:
            if step.since <= found < step.until:
                step.run()
    table = sa.table("alembic_version", sa.column("version_num"))
    connection.execute(table.update().values(version_num=baseline.revision))


def _index_principals() -> None:
    op.create_index("policy_grant_principal", "policy_grant", ["org", "principal_id"])


def _create_bill_configs() -> None:
    """Organizations that were there before bill configurations get theirs."""
    connection = op.get_bind()
    now = datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z"
    organizations = connection.execute(sa.text("SELECT id FROM organization")).scalars().all()
    for org in organizations:
        values = {"org": org, "id": str(uuid.uuid4()), "now": now}
        for statement in (_BILL_CONFIG, _BILL_CONFIG_HISTORY):
            connection.execute(sa.text(statement), values)


_BILL_CONFIG: Final = """
INSERT INTO entity (org, kind, id, version, code, body, created, created_by, modified, modified_by)
VALUES (:org, 'BillConfig', :id, 1, NULL, '{}', :now, 'SYSTEM', :now, 'SYSTEM')
"""
_BILL_CONFIG_HISTORY: Final = """
INSERT INTO entity_history (org, kind, id, version, valid_from, valid_to, body, author, created,
                            created_by)
VALUES (:org, 'BillConfig', :id, 1, :now, NULL, '{}', 'SYSTEM', :now, 'SYSTEM')
"""


def _index_newest_entities() -> None:
    op.create_index("entity_newest", "entity", ["org", "kind", "created", "id"])


def _add_data_versions() -> None:
    op.add_column("lookup_job", sa.Column("data_version", sa.BigInteger))


def _add_kinds_of_uploads() -> None:
    """All files so far hold measurements."""
    kind = sa.Column("kind", sa.String(20), nullable=False, server_default="measurements")
    op.add_column("upload", kind)


def _add_snapshots_of_bills() -> None:
    """Take over what the bills pin."""
    op.add_column("bill", sa.Column("snapshot", sa.BigInteger))
    pins = "pins" if op.get_bind().dialect.name == "sqlite" else "pins::jsonb"
    op.execute(f"UPDATE bill SET snapshot = CAST({pins} ->> 'snapshot' AS BIGINT)")
    op.drop_index("bill_period", "bill")
    op.create_index("bill_period", "bill", ["org", "period", "frequency", "snapshot"])


def _let_jobs_wait() -> None:
    """Jobs so far began when they were made."""
    op.add_column("job", sa.Column("version", sa.Integer, nullable=False, server_default="1"))
    op.add_column("job", sa.Column("author", sa.Text))
    op.add_column("job", sa.Column("schedule_id", _ID))
    op.add_column("job", sa.Column("due", _INSTANT))
    op.add_column("job", sa.Column("progress", sa.Text))
    op.add_column(
        "job", sa.Column("cancel_asked", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.create_index("job_due", "job", ["schedule_id", "due"], unique=True)
    op.create_index("job_of_kind", "job", ["org", "kind", "status", "created"])


def _let_jobs_belong_to_nobody() -> None:
    with op.batch_alter_table("job") as job:
        # Of the object of an inbox that was removed nobody knows any more whose it was.
        job.alter_column("org", existing_type=_ID, nullable=True)
        job.add_column(sa.Column("not_before", _INSTANT))
        job.drop_index("job_recent")
        job.create_index("job_newest", ["org", "kind", "created", "id"])


def _make_jobs_of_uploads() -> None:
    op.execute(_JOBS_OF_UPLOADS)
    with op.batch_alter_table("upload") as upload:
        upload.drop_index("upload_newest")
        upload.drop_index("upload_waiting")
        for name in (
            *("org", "status", "version", "created", "created_by", "lease_until", "attempt"),
            *("outcome", "finished", "kind"),
        ):
            upload.drop_column(name)
        upload.create_foreign_key("upload_job", "job", ["id"], ["id"])


# A file that is there and was never worked on, or was given back, waits; one with a lease is worked
# on until it is over. The version is the one that the API has shown.
_JOBS_OF_UPLOADS: Final = """
INSERT INTO job (id, org, kind, status, parameters, lease_until, attempt, result, created, finished,
                 version, author)
SELECT id, org, CASE kind WHEN 'lookup' THEN 'lookup' ELSE 'upload' END,
       CASE status WHEN 'notUploaded' THEN 'AWAITING_FILE' WHEN 'failed' THEN 'FAILED'
                   WHEN 'succeeded' THEN 'COMPLETE'
                   ELSE CASE WHEN lease_until IS NULL THEN 'PENDING' ELSE 'RUNNING' END END,
       '{}', lease_until, attempt, outcome, created, finished, version, created_by
FROM upload
"""


def _make_jobs_of_lookups() -> None:
    op.execute(_JOBS_OF_LOOKUPS)
    with op.batch_alter_table("lookup_job") as lookup_job:
        lookup_job.drop_index("lookup_job_revision")
        for name in ("org", "status", "created"):
            lookup_job.drop_column(name)
        lookup_job.create_index("lookup_job_revision", ["revision_id"])
        lookup_job.create_foreign_key("lookup_job_job", "job", ["id"], ["id"])


# Those without a file were done by the transaction that wrote them down.
_JOBS_OF_LOOKUPS: Final = """
INSERT INTO job (id, org, kind, status, parameters, attempt, created, finished)
SELECT id, org, 'lookup', CASE status WHEN 'FAILED' THEN 'FAILED' ELSE 'COMPLETE' END,
       '{}', 0, created, created
FROM lookup_job WHERE id NOT IN (SELECT id FROM upload)
"""


def _make_jobs_of_claims() -> None:
    op.execute(_JOBS_OF_CLAIMS)
    with op.batch_alter_table("inbox_claim") as claim:
        claim.drop_index("inbox_claim_due")
        for name in ("status", "attempt", "lease_until", "received", "report", "error", "finished"):
            claim.drop_column(name)
        claim.create_foreign_key("inbox_claim_job", "job", ["id"], ["id"])


_JOBS_OF_CLAIMS: Final = """
INSERT INTO job (id, org, kind, status, parameters, lease_until, attempt, result, error, created,
                 finished)
SELECT claim.id, inbox.org, 'inbox_object',
       CASE claim.status WHEN 'DONE' THEN 'COMPLETE' WHEN 'FAILED' THEN 'FAILED'
                         WHEN 'GONE' THEN 'CANCELLED' ELSE 'RUNNING' END,
       '{}', claim.lease_until, claim.attempt, claim.report, claim.error, claim.received,
       claim.finished
FROM inbox_claim AS claim LEFT JOIN inbox ON inbox.id = claim.inbox
"""


def _let_bills_say_who_changed_them() -> None:
    """The last change of a locked bill locked it, that of an approved one approved it."""
    op.add_column("bill", sa.Column("approved", _INSTANT))
    op.add_column("bill", sa.Column("approved_by", sa.Text))
    op.add_column("bill", sa.Column("locked_at", _INSTANT))
    op.add_column("bill", sa.Column("locked_by", sa.Text))
    op.add_column("bill", sa.Column("calculated", _INSTANT))
    op.add_column("bill", sa.Column("job_id", _ID))
    op.add_column("bill", sa.Column("invoice_number", sa.Text))
    op.execute("UPDATE bill SET locked_at = modified, locked_by = modified_by WHERE locked")
    op.execute(
        "UPDATE bill SET approved = modified, approved_by = modified_by"
        " WHERE status = 'APPROVED' AND NOT locked"
    )
    op.execute(
        "UPDATE bill SET calculated = CASE status WHEN 'PENDING' THEN modified ELSE created END"
    )
    op.create_index("bill_newest", "bill", ["org", "created", "id"])
    op.create_index("bill_dated", "bill", ["org", "bill_date"])


def _make_postings_of_transactions() -> None:
    """A transaction of a balance becomes a posting; what people wrote to it stays beside it."""
    rows = op.get_bind().execute(sa.text(_TRANSACTIONS)).mappings().all()
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        op.bulk_insert(baseline.TABLES.tables["posting"], [_posting(row) for row in batch])
        op.bulk_insert(baseline.TABLES.tables["balance_note"], [_note(row) for row in batch])
    op.drop_table("balance_transaction")


_BATCH: Final = 1000
# A balance with transactions cannot be deleted.
_TRANSACTIONS: Final = """
SELECT t.*, e.body FROM balance_transaction AS t
JOIN entity AS e ON e.org = t.org AND e.kind = 'Balance' AND e.id = t.balance_id
ORDER BY t.created, t.balance_id, t.sequence
"""


def _posting(row: Any) -> dict[str, Any]:
    balance = wire.loads(row["body"])
    accounts = [f"customer:{balance['accountId']}", f"balance:{row['balance_id']}"]
    is_debit = row["amount"].startswith("-")
    return {
        "id": row["id"],
        "org": row["org"],
        "from_account": accounts[is_debit],
        "to_account": accounts[not is_debit],
        "amount": row["amount"].removeprefix("-"),
        "currency": balance["currency"],
        "kind": "manual" if is_debit else "credit",
        "source_id": row["balance_id"],
        # One without a date of its own was applied when it was booked.
        "applied": None if row["applied"] == row["created"] else row["applied"],
        "created": row["created"],
        "created_by": row["created_by"],
    }


def _note(row: Any) -> dict[str, Any]:
    names = (
        *("id", "org", "description", "paid", "currency_paid", "transaction_type_id"),
        *("transacted", "entity_type", "entity_id"),
    )
    return {name: row[name] for name in names}


def _add_grouping_keys() -> None:
    """Bills of before have none."""
    identity = ["org", "account_id", "bill_date", "frequency", "interval", "grouping_key"]
    with _parts_of_bills_aside(), op.batch_alter_table("bill") as bill:
        bill.add_column(sa.Column("grouping_key", _ID, nullable=False, server_default=""))
        bill.drop_constraint("bill_identity", type_="unique")
        bill.create_unique_constraint("bill_identity", identity)


@contextmanager
def _parts_of_bills_aside() -> Iterator[None]:
    """Keep what refers to bills elsewhere: SQLite makes the table anew, which would break it."""
    if op.get_bind().dialect.name != "sqlite":
        yield
        return
    parts = ("bill_line", "bill_memo")
    for name in parts:
        op.execute(f"CREATE TABLE {name}_aside AS SELECT * FROM {name}")
        op.execute(f"DELETE FROM {name}")
    yield
    for name in parts:
        op.execute(f"INSERT INTO {name} SELECT * FROM {name}_aside")
        op.execute(f"DROP TABLE {name}_aside")


def _add_outdated_bills() -> None:
    op.add_column("bill", sa.Column("outdated_by", _ID))


def _begin_notifications() -> None:
    """Events of the past are not evaluated."""
    op.add_column("event", sa.Column("category", sa.String(40)))
    op.add_column("event", sa.Column("base_id", _ID))
    op.execute(
        "INSERT INTO event_position SELECT org, 'notifications', max(seq) FROM event GROUP BY org"
    )


def _add_inputs_of_bills() -> None:
    op.add_column("bill", sa.Column("inputs", sa.String(80)))


def _queue_runs() -> None:
    """What waits goes on waiting."""
    op.add_column("integration_run", sa.Column("queue", sa.String(80)))
    op.add_column("integration_run", sa.Column("due", _INSTANT))
    op.execute(
        "UPDATE integration_run SET queue = COALESCE(destination_id, config_id, destination)"
    )
    op.execute("""
    UPDATE integration_run SET due = (
      SELECT COALESCE(lease_until, not_before, created) FROM job
      WHERE job.id = integration_run.id AND job.status IN ('PENDING', 'RUNNING')
    )
    """)
    where = baseline.where("due IS NOT NULL")
    op.create_index("integration_run_due", "integration_run", ["queue", "due"], **where)


def _let_events_be_written_later() -> None:
    op.add_column("event", sa.Column("written", _INSTANT))
    op.create_index("event_seq", "event", ["org", "seq"])
    op.create_index("event_written", "event", ["org", "written"])


def _note_marketplace_bills() -> None:
    """Of each of these bills something was reported."""
    op.execute("""
    INSERT INTO marketplace_bill (org, dimension, bill_id, account_id)
    SELECT org, dimension, bill_id, min(account_id) FROM marketplace_record
    GROUP BY org, dimension, bill_id
    """)


def _index_mapped_ids() -> None:
    """Write down the key of each external mapping that there is."""
    connection = op.get_bind()
    query = sa.text("SELECT org, id, body FROM entity WHERE kind = 'ExternalMapping'")
    rows = [mapped_id(*found) for found in connection.execute(query)]
    if rows:
        connection.execute(baseline.TABLES.tables["entity_reference"].insert(), rows)


def mapped_id(org: str, id: str, body: str) -> dict[str, str]:
    """The row of references by which an external mapping is found."""
    namespace = uuid.UUID("6f4c8a8e-2d0b-5b8e-9c55-3f1a7f0b9a11")
    target = str(uuid.uuid5(namespace, f"indexed\x1fm3ter_id\x1f{json.loads(body)['m3terId']}"))
    place = {"org": org, "kind": "ExternalMapping", "id": id, "field": "=m3ter_id"}
    return {**place, "target_kind": "=", "target_id": target}


def _index_unfinished_jobs() -> None:
    where = baseline.where("finished IS NULL")
    op.create_index("job_unfinished", "job", ["kind", "status", "org"], **where)


def _number(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


def _number_transactions() -> None:
    """What is there has the number 0: it came before the first transaction that has one."""
    op.add_column("organization", _number("transactions"))
    op.add_column("entity_history", _number("began"))
    op.add_column("entity_history", sa.Column("ended", sa.BigInteger))
    op.add_column("entity_history", sa.Column("digest", sa.String(64)))
    op.execute("UPDATE entity_history SET ended = 0 WHERE valid_to IS NOT NULL")
    op.create_index("entity_history_ended", "entity_history", ["org", "ended"])
    _write_digests(
        "entity_history",
        ("org", "kind", "id", "version"),
        ("org", "kind", "id", "version", "body", "created_by", "author", "began"),
        ("valid_from", "created"),
    )


def _number_postings() -> None:
    op.add_column("posting", _number("began"))
    op.add_column("posting", sa.Column("digest", sa.String(64)))


def _write_digests_of_postings() -> None:
    _write_digests(
        "posting",
        ("sequence",),
        (
            *("id", "org", "from_account", "to_account", "amount", "currency", "kind"),
            *("source_id", "bill_id", "bill_version", "job_id", "reverses", "created_by", "began"),
        ),
        ("applied", "created"),
    )


def _write_digests(
    name: str, key: tuple[str, ...], names: tuple[str, ...], instants: tuple[str, ...]
) -> None:
    """Of everything there the digest is what it says now."""
    columns = dict.fromkeys((*key, *names, *instants))
    table = sa.table(name, *map(sa.column, (*columns, "digest")))
    connection = op.get_bind()
    order = [table.c[each] for each in key]
    query = sa.select(*(table.c[each] for each in columns)).order_by(*order).limit(_CHUNK)
    same = (table.c[each] == sa.bindparam(f"key_{each}") for each in key)
    statement = sa.update(table).where(*same).values(digest=sa.bindparam("found"))
    rows = connection.execute(query).mappings().all()
    while rows:
        found = [
            {f"key_{each}": row[each] for each in key} | {"found": _digest(row, names, instants)}
            for row in rows
        ]
        connection.execute(statement, found)
        last = sa.tuple_(*(rows[-1][each] for each in key))
        rows = connection.execute(query.where(sa.tuple_(*order) > last)).mappings().all()


_CHUNK: Final = 5_000


def _digest(row: Any, names: Iterable[str], instants: Iterable[str]) -> str:
    values = [row[name] for name in names]
    texts = (row[name] for name in instants)
    values += [None if each is None else datetime.fromisoformat(each).timestamp() for each in texts]
    return sha256(repr(values).encode()).hexdigest()


def _number_bills() -> None:
    """Bills of before do not know which transactions their calculation saw."""
    op.add_column("bill", _number("began"))
    op.add_column(
        "bill", sa.Column("content_version", sa.Integer, nullable=False, server_default="1")
    )
    op.add_column("bill", sa.Column("locked_in", sa.BigInteger))
    op.add_column("bill", sa.Column("calculation_id", _ID))
    op.add_column("bill", sa.Column("ledger_at", sa.BigInteger))
    op.execute("UPDATE bill SET content_version = version")
    op.execute("UPDATE bill SET locked_in = 0 WHERE locked")
    op.create_index("bill_calculated", "bill", ["org", "calculation_id"])


def _name_subjects_of_runs() -> None:
    """Runs of bills are told which bills they are about."""
    action = sa.Column("action", sa.String(20), nullable=False, server_default="SEND")
    op.add_column("integration_run", action)
    op.add_column("integration_run", sa.Column("subject", sa.String(200)))
    unknown = " WHERE entity_type = 'Bill' AND subject IS NULL"
    for table, column in (("bill", "id"), ("bill_version", "bill_id")):
        op.execute(_BILL_IDENTITY.format(table, column) + unknown)
    op.execute("UPDATE integration_run SET subject = entity_id" + unknown)
    op.create_index("integration_run_subject", "integration_run", ["org", "subject"])


# What `BillKey.identity` gives.
_BILL_IDENTITY: Final = """
UPDATE integration_run SET subject = (
  SELECT b.account_id || ' ' || b.bill_date || ' ' || b.frequency || ' '
         || CAST(b."interval" AS VARCHAR(20)) || ' ' || b.grouping_key
  FROM {} b WHERE b.{} = integration_run.entity_id LIMIT 1
)
"""


def _take_memos_back() -> None:
    """Of rows that are there nobody knows more."""
    op.add_column("late_usage", sa.Column("ledger_at", sa.BigInteger))
    op.add_column("late_usage_line", sa.Column("taken_back", _ID))
    op.create_index("late_usage_line_taken_back", "late_usage_line", ["taken_back"])


def _add_authors_of_inboxes() -> None:
    """Of inboxes that are there nobody knows who."""
    op.add_column("inbox", sa.Column("author", sa.Text))


def _count_deaths_of_jobs() -> None:
    """Nobody counted before."""
    op.add_column("job", sa.Column("deaths", sa.Integer, nullable=False, server_default="0"))


# In the order of the revisions, which is that of the columns.
STEPS: Final = (
    _Step("0001", "0002", _index_principals),
    _Step("0001", "0003", _create_bill_configs),
    _Step("0001", "0006", _index_newest_entities),
    _Step("0004", "0010", _add_data_versions),
    _Step("0007", "0010", _add_kinds_of_uploads),
    _Step("0001", "0012", _add_snapshots_of_bills),
    _Step("0001", "0013", _let_jobs_wait),
    _Step("0001", "0014", _let_jobs_belong_to_nobody),
    # Before those of lookup tables, whose files are uploads.
    _Step("0007", "0014", _make_jobs_of_uploads),
    _Step("0004", "0014", _make_jobs_of_lookups),
    _Step("0008", "0014", _make_jobs_of_claims),
    _Step("0001", "0015", _let_bills_say_who_changed_them),
    _Step("0003", "0016", _make_postings_of_transactions),
    _Step("0001", "0017", _add_grouping_keys),
    _Step("0001", "0020", _add_outdated_bills),
    _Step("0005", "0021", _begin_notifications),
    _Step("0001", "0022", _add_inputs_of_bills),
    _Step("0021", "0023", _queue_runs),
    _Step("0005", "0024", _let_events_be_written_later),
    _Step("0025", "0026", _note_marketplace_bills),
    _Step("0001", "0028", _index_mapped_ids),
    _Step("0001", "0029", _index_unfinished_jobs),
    _Step("0001", "0030", _number_transactions),
    _Step("0016", "0030", _number_postings),
    # Postings that were transactions until a moment ago have none either.
    _Step("0003", "0030", _write_digests_of_postings),
    _Step("0001", "0030", _number_bills),
    _Step("0021", "0036", _name_subjects_of_runs),
    _Step("0034", "0037", _take_memos_back),
    _Step("0008", "0038", _add_authors_of_inboxes),
    _Step("0001", "0040", _count_deaths_of_jobs),
)
