"""One table of jobs: those of files, lookup tables and inbox objects have rows of it, too.

Their own tables keep what a file, a lookup table or an object has, by the id of the job.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_UPLOAD_COLUMNS = (
    *("org", "status", "version", "created", "created_by", "lease_until", "attempt", "outcome"),
    *("finished", "kind"),
)
_CLAIM_COLUMNS = ("status", "attempt", "lease_until", "received", "report", "error", "finished")
_LOOKUP_COLUMNS = ("org", "status", "created")


def upgrade() -> None:
    """Move who works on what, and how it ended."""
    with op.batch_alter_table("job") as job:
        # Of the object of an inbox that was removed nobody knows any more whose it was.
        job.alter_column("org", existing_type=sa.String(36), nullable=True)
        job.add_column(sa.Column("not_before", sa.String(27)))
        job.drop_index("job_recent")
        job.create_index("job_newest", ["org", "kind", "created", "id"])
    for move in (_MOVE_UPLOADS, _MOVE_LOOKUP_JOBS, _MOVE_CLAIMS):
        op.execute(move)
    with op.batch_alter_table("upload") as upload:
        upload.drop_index("upload_newest")
        upload.drop_index("upload_waiting")
        for name in _UPLOAD_COLUMNS:
            upload.drop_column(name)
        upload.create_foreign_key("upload_job", "job", ["id"], ["id"])
    with op.batch_alter_table("lookup_job") as lookup_job:
        lookup_job.drop_index("lookup_job_revision")
        for name in _LOOKUP_COLUMNS:
            lookup_job.drop_column(name)
        lookup_job.create_index("lookup_job_revision", ["revision_id"])
        lookup_job.create_foreign_key("lookup_job_job", "job", ["id"], ["id"])
    with op.batch_alter_table("inbox_claim") as claim:
        claim.drop_index("inbox_claim_due")
        for name in _CLAIM_COLUMNS:
            claim.drop_column(name)
        claim.create_foreign_key("inbox_claim_job", "job", ["id"], ["id"])


# A file that is there and was never worked on, or was given back, waits; one with a lease is worked
# on until it is over. The version is the one that the API has shown.
_MOVE_UPLOADS = """
INSERT INTO job (id, org, kind, status, parameters, lease_until, attempt, result, created, finished,
                 version, author)
SELECT id, org, CASE kind WHEN 'lookup' THEN 'lookup' ELSE 'upload' END,
       CASE status WHEN 'notUploaded' THEN 'AWAITING_FILE' WHEN 'failed' THEN 'FAILED'
                   WHEN 'succeeded' THEN 'COMPLETE'
                   ELSE CASE WHEN lease_until IS NULL THEN 'PENDING' ELSE 'RUNNING' END END,
       '{}', lease_until, attempt, outcome, created, finished, version, created_by
FROM upload
"""
# Those without a file were done by the transaction that wrote them down.
_MOVE_LOOKUP_JOBS = """
INSERT INTO job (id, org, kind, status, parameters, attempt, created, finished)
SELECT id, org, 'lookup', CASE status WHEN 'FAILED' THEN 'FAILED' ELSE 'COMPLETE' END,
       '{}', 0, created, created
FROM lookup_job WHERE id NOT IN (SELECT id FROM upload)
"""
_MOVE_CLAIMS = """
INSERT INTO job (id, org, kind, status, parameters, lease_until, attempt, result, error, created,
                 finished)
SELECT claim.id, inbox.org, 'inbox_object',
       CASE claim.status WHEN 'DONE' THEN 'COMPLETE' WHEN 'FAILED' THEN 'FAILED'
                         WHEN 'GONE' THEN 'CANCELLED' ELSE 'RUNNING' END,
       '{}', claim.lease_until, claim.attempt, claim.report, claim.error, claim.received,
       claim.finished
FROM inbox_claim AS claim LEFT JOIN inbox ON inbox.id = claim.inbox
"""


def downgrade() -> None:
    """Move it back."""
    _restore_uploads()
    _restore_lookup_jobs()
    _restore_claims()
    op.execute("DELETE FROM job WHERE kind IN ('upload', 'lookup', 'inbox_object')")
    with op.batch_alter_table("job") as job:
        job.drop_index("job_newest")
        job.create_index("job_recent", ["org", "created"])
        job.drop_column("not_before")
        job.alter_column("org", existing_type=sa.String(36), nullable=False)


def _restore_uploads() -> None:
    _add_columns(
        "upload",
        sa.Column("org", sa.String(36)),
        sa.Column("status", sa.String(20)),
        sa.Column("version", sa.Integer),
        sa.Column("created", sa.String(27)),
        sa.Column("created_by", sa.Text),
        sa.Column("lease_until", sa.String(27)),
        sa.Column("attempt", sa.Integer),
        sa.Column("outcome", sa.Text),
        sa.Column("finished", sa.String(27)),
        sa.Column("kind", sa.String(20), nullable=False, server_default="measurements"),
    )
    op.execute("""
    UPDATE upload SET (org, status, version, created, created_by, lease_until, attempt, outcome,
                       finished, kind) =
    (SELECT org, CASE status WHEN 'AWAITING_FILE' THEN 'notUploaded' WHEN 'FAILED' THEN 'failed'
                             WHEN 'COMPLETE' THEN 'succeeded' ELSE 'running' END,
            version, created, author, lease_until, attempt, result, finished,
            CASE kind WHEN 'lookup' THEN 'lookup' ELSE 'measurements' END
     FROM job WHERE job.id = upload.id)
    """)
    with op.batch_alter_table("upload") as upload:
        for name, type_ in (("org", sa.String(36)), ("status", sa.String(20)), *_UPLOAD_REQUIRED):
            upload.alter_column(name, existing_type=type_, nullable=False)
        upload.create_foreign_key("upload_org_fkey", "organization", ["org"], ["id"])
        upload.create_index("upload_newest", ["org", "created", "id"])
        upload.create_index("upload_waiting", ["org", "status", "created"])


_UPLOAD_REQUIRED = (
    ("version", sa.Integer()),
    ("created", sa.String(27)),
    ("created_by", sa.Text()),
    ("attempt", sa.Integer()),
)


def _restore_lookup_jobs() -> None:
    _add_columns(
        "lookup_job",
        sa.Column("org", sa.String(36)),
        sa.Column("status", sa.String(20)),
        sa.Column("created", sa.String(27)),
    )
    op.execute("""
    UPDATE lookup_job SET (org, status, created) =
    (SELECT org, CASE WHEN status = 'FAILED' THEN 'FAILED' WHEN status = 'COMPLETE'
                 THEN 'SUCCEEDED' ELSE 'PENDING' END, created
     FROM job WHERE job.id = lookup_job.id)
    """)
    with op.batch_alter_table("lookup_job") as lookup_job:
        for name, size in (("org", 36), ("status", 20), ("created", 27)):
            lookup_job.alter_column(name, existing_type=sa.String(size), nullable=False)
        lookup_job.create_foreign_key("lookup_job_org_fkey", "organization", ["org"], ["id"])
        lookup_job.drop_index("lookup_job_revision")
        lookup_job.create_index("lookup_job_revision", ["org", "revision_id", "created"])


def _restore_claims() -> None:
    _add_columns(
        "inbox_claim",
        sa.Column("status", sa.String(20)),
        sa.Column("attempt", sa.Integer),
        sa.Column("lease_until", sa.String(27)),
        sa.Column("received", sa.String(27)),
        sa.Column("report", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("finished", sa.String(27)),
    )
    op.execute("""
    UPDATE inbox_claim SET (status, attempt, lease_until, received, report, error, finished) =
    (SELECT CASE status WHEN 'COMPLETE' THEN 'DONE' WHEN 'FAILED' THEN 'FAILED'
                        WHEN 'CANCELLED' THEN 'GONE'
                        ELSE CASE WHEN result IS NULL THEN 'TAKEN' ELSE 'INGESTED' END END,
            attempt, COALESCE(not_before, lease_until), created, result, error, finished
     FROM job WHERE job.id = inbox_claim.id)
    """)
    with op.batch_alter_table("inbox_claim") as claim:
        for name, type_ in (("status", sa.String(20)), ("attempt", sa.Integer())):
            claim.alter_column(name, existing_type=type_, nullable=False)
        claim.alter_column("received", existing_type=sa.String(27), nullable=False)
        claim.create_index("inbox_claim_due", ["inbox", "status", "lease_until"])


def _add_columns(table: str, *columns: "sa.Column[Any]") -> None:
    with op.batch_alter_table(table) as altered:
        altered.drop_constraint(f"{table}_job", type_="foreignkey")
        for column in columns:
            altered.add_column(column)
