"""The tables of State as SQLAlchemy sees them; `migrations/` is how a database gets them."""

from datetime import UTC, date, datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DontWrapMixin
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import TypeEngine

from meterlake.model.bills.bill import LINE_KEY_BYTES_MAX
from meterlake.model.errors import Invalid
from meterlake.model.values.fields import is_storable
from meterlake.model.values.ids import derived_id
from meterlake.model.values.untrusted import storable


class InstantText(TypeDecorator[datetime]):
    """An aware instant as UTC text of one width, so that the order of texts is the order of time."""

    impl = String(27)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """Write `2026-10-01T00:00:00.000000Z`."""
        del dialect
        if value is None:
            return None
        assert value.tzinfo is not None, value
        return value.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Read it back."""
        del dialect
        return None if value is None else datetime.fromisoformat(value)


class RecordInstant(InstantText):
    """The same; what is none is read as it is, so that whoever reads the row can name it."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Read it back, or what stands there."""
        try:
            return super().process_result_value(value, dialect)
        except ValueError:
            return value


class DayText(TypeDecorator[date]):
    """A date as ISO text."""

    impl = String(10)
    cache_ok = True

    def process_bind_param(self, value: date | None, dialect: Dialect) -> str | None:
        """Write `2026-10-01`."""
        del dialect
        return None if value is None else value.isoformat()

    def process_result_value(self, value: Any, dialect: Dialect) -> date | None:
        """Read it back."""
        del dialect
        return None if value is None else date.fromisoformat(value)


class RecordDay(DayText):
    """The same; what is none is read as it is, as `RecordInstant` does."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Read it back, or what stands there."""
        try:
            return super().process_result_value(value, dialect)
        except ValueError:
            return value


class UntrustedText(TypeDecorator[str]):
    """Words that strangers chose, or that repeat theirs: what no database can store is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write what can be stored of it."""
        del dialect
        return None if value is None else storable(value)


class Unstorable(Invalid, DontWrapMixin):
    """A text that no database can store, or that is longer than its column."""


class StorableText(TypeDecorator[str]):
    """Words that strangers chose and that mean nothing in part: kept whole, or refused.

    The doors they come through refuse them before. What gets past a door is an error of its own
    writer, the same on every database, and by name.
    """

    impl = Text
    cache_ok = True

    def __init__(self, length: int | None = None, *, at_most: int | None = None) -> None:
        """Keep texts.

        Args:
            length: Of a `VARCHAR` of so many characters.
            at_most: Of a `TEXT`, but of no more characters. Whatever is in an index needs one of
                both: PostgreSQL has no indexes of more than 2,704 bytes.
        """
        super().__init__()
        if length is not None:
            # What is bound is the column's own type: a `VARCHAR` is not compared with a `TEXT`.
            self.impl = String(length)  # type: ignore[assignment] # an instance, as SQLAlchemy makes it
        self.at_most = length if at_most is None else at_most

    def coerce_compared_value(self, op: OperatorType | None, value: Any) -> TypeEngine[Any]:
        """What is only compared may be any text: nothing is equal to one that is not kept."""
        del op, value
        return Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write all of it."""
        del dialect
        if value is None:
            return None
        if not is_storable(value):
            raise Unstorable("text", value, "text without NUL characters and lone surrogates")
        if self.at_most is not None and len(value) > self.at_most:
            raise Unstorable("text", value, f"text of at most {self.at_most} characters")
        return value


METADATA: Final = MetaData()


def _org() -> Column[str]:
    return Column("org", String(36), ForeignKey("organization.id"), primary_key=True)


ORGANIZATION: Final = Table(
    "organization",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("code", StorableText(80), nullable=False, unique=True),
    Column("name", StorableText, nullable=False),
    Column("created", InstantText, nullable=False),
    # How many transactions have written what bills are made of; their order, and so that of all
    # that has their numbers.
    Column("transactions", BigInteger, nullable=False, server_default="0"),
)

ENTITY: Final = Table(
    "entity",
    METADATA,
    _org(),
    Column("kind", String(80), primary_key=True),
    Column("id", String(36), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("code", StorableText(80)),
    Column("body", StorableText, nullable=False),
    Column("created", RecordInstant, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("modified", RecordInstant, nullable=False),
    Column("modified_by", Text, nullable=False),
    UniqueConstraint("org", "kind", "code", name="entity_code"),
    # Accounts have five more, in the order of expressions: `v0046_accounts_in_order`.
    Index("entity_newest", "org", "kind", "created", "id"),
)

# Which entity refers to which; kept in the transaction that writes the referring one.
ENTITY_REFERENCE: Final = Table(
    "entity_reference",
    METADATA,
    _org(),
    Column("kind", String(80), primary_key=True),
    Column("id", String(36), primary_key=True),
    Column("field", StorableText(200), primary_key=True),
    Column("target_kind", String(80), nullable=False),
    Column("target_id", StorableText(36), nullable=False),
    Index("entity_reference_target", "org", "target_kind", "target_id"),
)

# The kind of target of a value that is looked up as a reference is, although it refers to nothing.
INDEXED: Final = "="


def index_key(field: str, value: str) -> str:
    """What a value of a field is found by: as long as an id, however long it is."""
    return derived_id("indexed", field, value)


# Every version that ever was; a row without a body is a deletion. It was written by the transaction
# `began`, and holds until the transaction `ended`; what was there before numbers has 0.
ENTITY_HISTORY: Final = Table(
    "entity_history",
    METADATA,
    _org(),
    Column("kind", String(80), primary_key=True),
    Column("id", String(36), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("valid_from", InstantText, nullable=False),
    Column("valid_to", InstantText),
    Column("body", StorableText),
    Column("author", Text, nullable=False),
    Column("created", InstantText, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("began", BigInteger, nullable=False, server_default="0"),
    Column("ended", BigInteger),
    # Of what the row said when it was written.
    Column("digest", String(64)),
    Index("entity_history_time", "org", "valid_from"),
    Index("entity_history_ended", "org", "ended"),
)

ACCESS_KEY: Final = Table(
    "access_key",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("service_user_id", String(36), nullable=False),
    Column("secret_sha256", String(64), nullable=False),
    Column("status", String(20), nullable=False),
    Column("created", InstantText, nullable=False),
    Index("access_key_user", "org", "service_user_id"),
)

POLICY_GRANT: Final = Table(
    "policy_grant",
    METADATA,
    _org(),
    Column("policy_id", String(36), primary_key=True),
    Column("principal_type", String(20), primary_key=True),
    Column("principal_id", String(36), primary_key=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("created", InstantText, nullable=False),
    Column("created_by", Text, nullable=False),
    Index("policy_grant_principal", "org", "principal_id"),
)

BILL: Final = Table(
    "bill",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("account_id", String(36), nullable=False),
    Column("bill_date", DayText, nullable=False),
    Column("frequency", String(20), nullable=False),
    Column("interval", Integer, nullable=False),
    # What tells bills of contracts apart: the id of a contract or of a grouping key, else empty.
    Column("grouping_key", String(36), nullable=False, server_default=""),
    Column("period", StorableText(40), nullable=False),
    Column("version", Integer, nullable=False),
    Column("status", String(20), nullable=False),
    Column("locked", Boolean, nullable=False),
    Column("currency", StorableText(80), nullable=False),
    Column("total", Text, nullable=False),
    Column("body", StorableText, nullable=False),
    Column("pins", StorableText, nullable=False),
    # The one of `pins`, so that the oldest of a period is found without reading the bills.
    Column("snapshot", BigInteger),
    Column("approved", InstantText),
    Column("approved_by", Text),
    Column("locked_at", InstantText),
    Column("locked_by", Text),
    # The last calculation, even if nothing differed, and the job that did it.
    Column("calculated", InstantText),
    Column("job_id", String(36)),
    Column("invoice_number", StorableText),
    # The job that changed what bills before it draw from the same sources; None if none did since
    # it was calculated.
    Column("outdated_by", String(36)),
    # The version that was calculated last, and the digest of what it was calculated from: another
    # calculation from the same gives the same. None if nobody knows.
    Column("inputs", String(80)),
    # The transaction that wrote the content, the version that it made, and the one that locked it.
    Column("began", BigInteger, nullable=False, server_default="0"),
    Column("content_version", Integer, nullable=False, server_default="1"),
    Column("locked_in", BigInteger),
    # The calculation that the content is of, and the last transaction that its ledger has.
    Column("calculation_id", String(36)),
    Column("ledger_at", BigInteger),
    Column("created", InstantText, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("modified", InstantText, nullable=False),
    Column("modified_by", Text, nullable=False),
    UniqueConstraint(
        *("org", "account_id", "bill_date", "frequency", "interval", "grouping_key"),
        name="bill_identity",
    ),
    Index("bill_period", "org", "period", "frequency", "snapshot"),
    Index("bill_newest", "org", "created", "id"),
    # With all that lists of the newest dates are in the order of.
    Index("bill_dated", "org", "bill_date", "created", "id"),
    # What bills come to is read of the index alone.
    Index("bill_sums", "org", "currency", "status", "locked", "total"),
    Index("bill_calculated", "org", "calculation_id"),
)

# What bills were calculated from, one row for all bills of one reading; rows never change.
BILL_CALCULATION: Final = Table(
    "bill_calculation",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    # The last transaction that it sees.
    Column("at", BigInteger, nullable=False),
    Column("snapshot", BigInteger, nullable=False),
    Column("selection", StorableText, nullable=False),
    Column("code", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created", InstantText, nullable=False),
    Column("created_by", Text, nullable=False),
    Index("bill_calculation_newest", "org", "created"),
)

# The files of measurements that bills were made from, with what they were when that was first so.
LAKE_FILE: Final = Table(
    "lake_file",
    METADATA,
    _org(),
    # Below the root of the lake's files.
    Column("path", StorableText(400), primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    # None where a store of objects does not tell it.
    Column("sha256", String(64)),
    Column("noted", InstantText, nullable=False),
)

# What bills said before they were made again, or deleted; rows are added, never changed.
BILL_VERSION: Final = Table(
    "bill_version",
    METADATA,
    Column("bill_id", String(36), primary_key=True),
    # The version that brought the content; later ones with the same content have no row.
    Column("version", Integer, primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("account_id", String(36), nullable=False),
    Column("bill_date", DayText, nullable=False),
    Column("frequency", String(20), nullable=False),
    Column("interval", Integer, nullable=False),
    Column("grouping_key", String(36), nullable=False),
    Column("period", StorableText(40), nullable=False),
    Column("currency", StorableText(80), nullable=False),
    Column("total", Text, nullable=False),
    Column("body", StorableText, nullable=False),
    Column("pins", StorableText, nullable=False),
    Column("snapshot", BigInteger),
    Column("began", BigInteger, nullable=False),
    Column("ended", BigInteger, nullable=False),
    Column("calculation_id", String(36)),
    Column("ledger_at", BigInteger),
    Column("created", InstantText, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("modified", InstantText, nullable=False),
    Column("modified_by", Text, nullable=False),
    # When it ended, and who ended it.
    Column("replaced", InstantText, nullable=False),
    Column("replaced_by", Text, nullable=False),
    Index("bill_version_account", "org", "account_id", "ended"),
    Index("bill_version_dated", "org", "bill_date"),
)

BILL_VERSION_LINE: Final = Table(
    "bill_version_line",
    METADATA,
    Column("bill_id", String(36), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("key", StorableText, nullable=False),
    Column("body", StorableText, nullable=False),
    Column("pins", StorableText, nullable=False),
)

BILL_LINE: Final = Table(
    "bill_line",
    METADATA,
    Column("bill_id", String(36), ForeignKey("bill.id"), primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("key", StorableText(at_most=LINE_KEY_BYTES_MAX), nullable=False),
    Column("body", StorableText, nullable=False),
    Column("pins", StorableText, nullable=False),
    UniqueConstraint("bill_id", "key", name="bill_line_key"),
)

# Lines that people put on a bill; `line` is what the bill shows of it, behind the calculated lines.
BILL_MEMO: Final = Table(
    "bill_memo",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("bill_id", String(36), ForeignKey("bill.id"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("position", Integer, nullable=False),
    Column("key", StorableText, nullable=False),
    Column("reason_id", String(36)),
    Column("version", Integer, nullable=False),
    Column("body", StorableText, nullable=False),
    Column("line", StorableText, nullable=False),
    Column("created", InstantText, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("modified", InstantText, nullable=False),
    Column("modified_by", Text, nullable=False),
    UniqueConstraint("bill_id", "position", name="bill_memo_position"),
    Index("bill_memo_reason", "org", "reason_id"),
)

# The last number that a bill of an organization got; it never goes back.
INVOICE_SEQUENCE: Final = Table(
    "invoice_sequence",
    METADATA,
    _org(),
    Column("last", BigInteger, nullable=False),
)

# The ledger of balances and commitments; rows are added, never changed.
POSTING: Final = Table(
    "posting",
    METADATA,
    Column("sequence", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("from_account", StorableText, nullable=False),
    Column("to_account", StorableText, nullable=False),
    Column("amount", Text, nullable=False),
    Column("currency", StorableText(80), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("source_id", String(36), nullable=False),
    Column("bill_id", String(36)),
    Column("bill_version", Integer),
    Column("job_id", String(36)),
    Column("reverses", String(36), unique=True),
    Column("applied", InstantText),
    Column("created", InstantText, nullable=False),
    Column("created_by", Text, nullable=False),
    # The transaction that made it, and the digest of what it said then.
    Column("began", BigInteger, nullable=False, server_default="0"),
    Column("digest", String(64)),
    Index("posting_source", "org", "source_id", "sequence"),
    Index("posting_bill", "bill_id"),
)

# What people or schedules say of a posting of a balance, by its id.
# The charges that schedules made; they stay when a charge is deleted, so that it is not made again.
SCHEDULED_CHARGE: Final = Table(
    "scheduled_charge",
    METADATA,
    Column("charge_id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("schedule_id", String(36), nullable=False),
    Column("service_start", InstantText, nullable=False),
    Column("service_end", InstantText, nullable=False),
    Column("due", InstantText, nullable=False),
    Column("created", InstantText, nullable=False),
    Index("scheduled_charge_run", "org", "schedule_id", "service_start", unique=True),
)

# Up to where balances are settled: what was left at their ends is posted.
BALANCE_SETTLEMENT: Final = Table(
    "balance_settlement",
    METADATA,
    Column("balance_id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    # Of the balance; how many of its ends were over; how many postings were about it.
    Column("version", Integer, nullable=False),
    Column("ends", Integer, nullable=False),
    Column("postings", Integer, nullable=False),
)

BALANCE_NOTE: Final = Table(
    "balance_note",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("description", StorableText),
    Column("paid", Text),
    Column("currency_paid", String(80)),
    Column("transaction_type_id", String(36)),
    Column("transacted", InstantText),
    Column("entity_type", String(20), nullable=False),
    Column("entity_id", StorableText(at_most=200), nullable=False),
    # When the schedule that made it was due.
    Column("due", InstantText),
    Index("balance_note_type", "org", "transaction_type_id"),
    Index("balance_note_run", "org", "entity_id", "due", unique=True),
)
