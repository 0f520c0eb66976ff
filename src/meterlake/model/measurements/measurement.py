"""A measurement: its fields, its limits, and its columns in the lake."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from meterlake.model.measurements.rejection import Rejection
from meterlake.model.values.ids import is_ident

if TYPE_CHECKING:  # Polars takes a third of a second to import; most of the model does without.
    import polars as pl

BATCH_MAX: Final = 1000
UID_MAX: Final = 50
METADATA_MAX: Final = 256
TEXT_MAX: Final = 1024


class Category(StrEnum):
    """The categories of a meter's fields; their lower-case names are the wire's keys."""

    WHO = "WHO"
    WHERE = "WHERE"
    WHAT = "WHAT"
    OTHER = "OTHER"
    METADATA = "METADATA"
    MEASURE = "MEASURE"
    INCOME = "INCOME"
    COST = "COST"

    @property
    def numeric(self) -> bool:
        """Whether fields of the category hold numbers."""
        return self in {Category.MEASURE, Category.INCOME, Category.COST}

    @property
    def segmenting(self) -> bool:
        """Whether fields of the category may segment and filter usage."""
        return not self.numeric and self is not Category.METADATA


CATEGORY_KEYS: Final = tuple(category.value.lower() for category in Category)
NUMERIC_KEYS: Final = tuple(category.value.lower() for category in Category if category.numeric)
FIXED_KEYS: Final = ("meter", "account", "uid", "ts", "ets")
# The fields that a measurement has, where they are not those that its meter has today: the columns
# of fields that were created later are left out, those of fields that are gone are named.
FIELDS_KEY: Final = "meterFields"
# As many data fields as a meter may have.
FIELDS_MAX: Final = 15
# Columns of fields that its meter has no more, which a table keeps at most.
FORMER_MAX: Final = 100
# While a file is read: the name of the first field of a row that no meter has.
UNKNOWN_COLUMN: Final = "?unknown"


class Field(NamedTuple):
    """One data field of a meter."""

    category: Category
    code: str

    @property
    def column(self) -> str:
        """The name of its column in files and in the lake: `measure.bytes`."""
        return f"{self.category.value.lower()}.{self.code}"

    @property
    def text_max(self) -> int:
        """The longest text that the field holds, in characters."""
        return METADATA_MAX if self.category is Category.METADATA else TEXT_MAX


def field_of(column: str) -> Field | None:
    """The field of a column such as `measure.bytes`; None for any other text."""
    category, _, code = column.partition(".")
    if category not in CATEGORY_KEYS or not is_ident(code):
        return None
    return Field(Category(category.upper()), code)


@dataclass(frozen=True, slots=True)
class MeterFields:
    """What ingest has to know of a meter: `fields` arrive, `derived` ones are calculated.

    Its table keeps columns of `former` fields for measurements that still have them.
    """

    id: str
    version: int
    code: str
    fields: tuple[Field, ...]
    derived: tuple[Field, ...] = ()
    former: tuple[Field, ...] = ()

    @property
    def table(self) -> str:
        """The name of the meter's table in the lake."""
        return meter_table(self.id)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the meter's table."""
        return (*FIXED_COLUMNS, *(each.column for each in (*self.fields, *self.derived)))


@dataclass(frozen=True, slots=True)
class Origin:
    """What every row of a source has in common; `received_at` is aware UTC."""

    identity: str
    received_at: datetime

    @property
    def uid_prefix(self) -> str:
        """What the derived uids of the source begin with."""
        return self.identity[:32]


class Block(NamedTuple):
    """Whole records of a file: `lines` lines of text, the first being line `first` of the file.

    For a JSON array the lines are its elements and `first` counts them from 1. An `oversized`
    block is the beginning of one record that is longer than allowed; the rest was dropped.
    """

    data: bytes
    first: int
    lines: int
    oversized: bool = False


class Decoded(NamedTuple):
    """One block as columns.

    `frame` has `row` (Int64) and one column per column of the file; `rejected` are the rows that
    could not be decoded; `original` gives the text of a row by its number. Without `may_hold_nul`
    there is no NUL in any text.
    """

    frame: "pl.DataFrame"
    rejected: "list[Rejection]"
    original: Callable[[int], str]
    may_hold_nul: bool = True


def meter_table(meter_id: str) -> str:
    """The name of a meter's table in the lake."""
    return f"m_{meter_id}"


# The columns of every measurement table that stand before the fields.
FIXED_COLUMNS: Final = {
    "uid": "VARCHAR",
    "account_id": "VARCHAR",
    "ts": "TIMESTAMP",
    "ets": "TIMESTAMP",
    "received_at": "TIMESTAMP",
    "source": "VARCHAR",
    "row": "BIGINT",
    "part": "SMALLINT",
}
NUMBER_TYPE: Final = "DECIMAL(38,12)"
TEXT_TYPE: Final = "VARCHAR"

# The table of derived values that measurements lack.
CALCULATION_ERROR: Final = "calculation_error"
# Rows of sources that something was wrong with.
_PROBLEM_COLUMNS: Final = {
    "identity": "VARCHAR",
    "attempt": "INTEGER",
    "name": "VARCHAR",
    "row": "BIGINT",
    "part": "SMALLINT",
    "meter": "VARCHAR",
    "uid": "VARCHAR",
    "reason": "VARCHAR",
    "field": "VARCHAR",
    "detail": "VARCHAR",
    "original": "VARCHAR",
    "measurement": "VARCHAR",
}

# The other tables of a lake; only backfills take anything out of them. A lake that lacks a table
# or a column gets it with its next write.
LAKE_TABLES: Final = {
    "uid_index": {
        "uid": "VARCHAR",
        "uid_hash": "UBIGINT",
        "content_hash": "UBIGINT",
        "meter_id": "VARCHAR",
        "source": "VARCHAR",
        "row": "BIGINT",
        "part": "SMALLINT",
    },
    "source": {
        "identity": "VARCHAR",
        "attempt": "INTEGER",
        "delivery": "VARCHAR",
        "name": "VARCHAR",
        "sha256": "VARCHAR",
        "size_bytes": "BIGINT",
        "format": "VARCHAR",
        "mapping": "VARCHAR",
        "status": "VARCHAR",
        "reason": "VARCHAR",
        "detail": "VARCHAR",
        "received_at": "TIMESTAMP",
        "finished_at": "TIMESTAMP",
        "received": "BIGINT",
        "accepted": "BIGINT",
        "repeats": "BIGINT",
        "rejected": "BIGINT",
        "rounded": "BIGINT",
        "reasons": "VARCHAR",
        "versions": "VARCHAR",
        "incomplete": "BIGINT",
    },
    "rejected": _PROBLEM_COLUMNS,
    CALCULATION_ERROR: _PROBLEM_COLUMNS,
    # Rejected rows that were given in again: where each came in first, and where it stands now.
    "requeue": {
        "identity": "VARCHAR",
        "attempt": "INTEGER",
        "row": "BIGINT",
        "part": "SMALLINT",
        "tries": "INTEGER",
        "edited": "BOOLEAN",
        "new_identity": "VARCHAR",
        "new_row": "BIGINT",
        # Who gave it in; older versions of meterlake did not note it.
        "author": "VARCHAR",
    },
    # What backfills did to the lake: each is applied, perhaps reverted, perhaps applied again.
    "backfill_step": {
        "backfill": "VARCHAR",
        "step": "INTEGER",
        "action": "VARCHAR",
        "mode": "VARCHAR",
        "author": "VARCHAR",
        "reason": "VARCHAR",
        "snapshot": "BIGINT",
        "done_at": "TIMESTAMP",
    },
    # Measurements that are withdrawn, row by row; a row leaves it when its backfill is reverted.
    "retraction": {
        "backfill": "VARCHAR",
        "step": "INTEGER",
        "identity": "VARCHAR",
        "row": "BIGINT",
        "part": "SMALLINT",
        "uid": "VARCHAR",
        "meter_id": "VARCHAR",
        "reason": "VARCHAR",
        "retracted_at": "TIMESTAMP",
        # The attempt that had brought it; older versions of meterlake did not note it.
        "attempt": "INTEGER",
    },
    # Attempts at sources that are withdrawn whole: their rejected rows wait for nobody.
    "withdrawn_source": {
        "backfill": "VARCHAR",
        "step": "INTEGER",
        "identity": "VARCHAR",
        "attempt": "INTEGER",
    },
    # Who gave up rejected rows and why, or took that back; of each row the last one counts.
    "dismissal": {
        "identity": "VARCHAR",
        "row": "BIGINT",
        "part": "SMALLINT",
        "tries": "INTEGER",
        "number": "INTEGER",
        "action": "VARCHAR",
        "reason": "VARCHAR",
        "author": "VARCHAR",
        "done_at": "TIMESTAMP",
    },
    # By how much backfills changed the number of a source's incomplete measurements.
    "correction": {
        "backfill": "VARCHAR",
        "step": "INTEGER",
        "identity": "VARCHAR",
        "attempt": "INTEGER",
        "incomplete": "BIGINT",
    },
    "quantity": {
        "run_id": "VARCHAR",
        "month": "VARCHAR",
        "period_start": "TIMESTAMP",
        "period_end": "TIMESTAMP",
        "account_id": "VARCHAR",
        "meter_id": "VARCHAR",
        "aggregation_id": "VARCHAR",
        "aggregation_version": "INTEGER",
        "value": "DECIMAL(38,12)",
        "value_sum": "DECIMAL(38,12)",
        "value_count": "BIGINT",
        "quantity": "VARCHAR",
        "units": "VARCHAR",
        "unit": "VARCHAR",
        "measurements": "BIGINT",
        "snapshot": "BIGINT",
        "computed_at": "TIMESTAMP",
        # Runs of older versions are all about months, and have nothing in these columns.
        "frequency": "VARCHAR",
        "period": "VARCHAR",
        "segment": "VARCHAR",
        "kind": "VARCHAR",
        "pooled": "VARCHAR",
        "statement_id": "VARCHAR",
    },
    # What a run asked the lake, so that anyone can ask it again.
    "quantity_statement": {
        "run_id": "VARCHAR",
        "id": "VARCHAR",
        "meter_id": "VARCHAR",
        "sql": "VARCHAR",
        "parameters": "VARCHAR",
        "snapshot": "BIGINT",
    },
    # What a whole run was calculated from; no run of which a part was carried over is here.
    "quantity_run": {
        "run_id": "VARCHAR",
        "snapshot": "BIGINT",
        "configuration": "VARCHAR",
    },
}
