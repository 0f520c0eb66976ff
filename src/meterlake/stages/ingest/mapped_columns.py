"""Columns of a file to columns of measurements: our own formats by name, others by a mapping.

Columns of foreign files to texts: instants in other forms to ISO 8601, blanks and case as told.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from math import floor
from typing import Final, NamedTuple

import polars as pl

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.columns import join_names, meant_by
from meterlake.model.measurements.mapped_columns import (
    EPOCH_UNITS,
    ColumnMapping,
    InstantMapping,
    column_of,
)
from meterlake.model.measurements.mapping import Mapping, When, constant_text
from meterlake.model.measurements.measurement import (
    CATEGORY_KEYS,
    FIELDS_KEY,
    FIXED_KEYS,
    NUMERIC_KEYS,
    UNKNOWN_COLUMN,
)
from meterlake.model.measurements.rejection import Reason
from meterlake.model.values.period import parse_instant, zone

_REQUIRED: Final = ("meter", "account", "ts")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS_PER_US: Final = 1000
# What int64 holds of microseconds, in years about 1 to 9999 and nothing beyond.
_FIRST_US: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
# Beyond the calendar in every unit; a huge exponent would be a huge number.
_TICKS_MAX: Final = 10**21
_WHOLE: Final = r"^[+-]?[0-9]{1,18}$"


class MeterPart(NamedTuple):
    """The measurements that one rule makes of a file's rows.

    `frame` has `row`, the fixed keys and one column per field that the file may carry.
    """

    number: int
    frame: pl.DataFrame


def needed_columns(mapping: Mapping | None) -> Sequence[str]:
    """The columns without which no row can be read."""
    return mapping.columns() if mapping else _REQUIRED


def check_columns(columns: Sequence[str], name: str, mapping: Mapping | None) -> None:
    """Refuse a file that lacks a column without which no row can be read.

    Raises:
        UnreadableSource: Such a column is missing.
    """
    missing = [column for column in needed_columns(mapping) if column not in columns]
    if missing:
        raise UnreadableSource(
            name,
            Reason.MISSING_HEADER,
            f"no column {join_names(missing)} among {join_names(columns)}{meant_by(missing, columns)};"
            " add it, or say with a mapping which column it is",
        )


def wanted_columns(columns: Sequence[str], mapping: Mapping | None) -> list[str]:
    """The columns of a file that are read."""
    if mapping is None:
        # A category that is no struct is read too, to be refused if it is a list or a map.
        own = {*FIXED_KEYS, FIELDS_KEY, *CATEGORY_KEYS}
        return [name for name in columns if name in own or is_field_column(name)]
    return mapping.columns()


def is_field_column(name: str) -> bool:
    """Whether a column carries a field: `measure.bytes`, `what.region`."""
    category, dot, _ = name.partition(".")
    return category in CATEGORY_KEYS and bool(dot)


def text_columns(columns: Sequence[str], mapping: Mapping | None) -> frozenset[str]:
    """The columns of a file in our own format in which an empty text is one."""
    if mapping is not None:
        return frozenset()
    return frozenset(
        name
        for name in columns
        if is_field_column(name) and name.partition(".")[0] not in NUMERIC_KEYS
    )


def shape(frame: pl.DataFrame, mapping: Mapping | None, account: str | None) -> Iterator[MeterPart]:
    """Give every measurement that the rows hold, part by part.

    Args:
        frame: `row` and the file's columns.
        mapping: How to read them; None for files in our own format.
        account: The account code that all rows share, where the mapping fixes one.
    """
    if mapping is None:
        more = {FIELDS_KEY, UNKNOWN_COLUMN}
        fields = [name for name in frame.columns if is_field_column(name) or name in more]
        own = frame.select(
            "row",
            *(
                pl.col(key) if key in frame.columns else pl.lit(None, pl.String).alias(key)
                for key in FIXED_KEYS
            ),
            *fields,
        )
        yield MeterPart(0, own)
        return
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    clean = frame.with_columns(
        pl.when(~pl.col(name).is_in(list(mapping.nulls))).then(pl.col(name)).alias(name)
        for name in texts
    )
    for index, rule in enumerate(mapping.measurements):
        rows = clean.filter(_condition(rule.when)) if rule.when != When() else clean
        yield MeterPart(index, _map_columns(rows, mapping, index, account))


def _condition(when: When) -> pl.Expr:
    return pl.all_horizontal(
        pl.lit(value=True),
        *(pl.col(name).is_not_null() for name in when.present),
        *(pl.col(name).is_null() for name in when.absent),
        *(pl.col(name).cast(pl.String).eq_missing(text) for name, text in when.equals.items()),
    )


def _map_columns(
    frame: pl.DataFrame, mapping: Mapping, index: int, account: str | None
) -> pl.DataFrame:
    rule = mapping.measurements[index]
    if not mapping.uid:
        uid = pl.lit(None, pl.String)
    else:
        # A row without one of its parts has no uid of its own: it gets the derived one.
        uid = pl.concat_str([pl.col(name).cast(pl.String) for name in mapping.uid], separator="-")
        # The measurements of one row must not share a uid.
        uid = uid if len(mapping.measurements) == 1 else uid + f".{index}"
    fixed = {
        "meter": pl.lit(rule.meter),
        "account": _account(frame, mapping, account),
        "uid": uid,
        "ts": read_instants(frame, mapping.ts),
        "ets": read_instants(frame, mapping.ets) if mapping.ets else pl.lit(None, pl.String),
    }
    read = {name: read_text(frame, each, mapping.nulls) for name, each in rule.fields.items()}
    fields: dict[str, pl.Expr | pl.Series] = {**read}
    fields |= {
        name: read[name].cast(pl.String).fill_null(constant_text(value))
        for name, value in rule.defaults.items()
    }
    fields |= {name: pl.lit(constant_text(value)) for name, value in rule.constants.items()}
    return frame.select(
        "row", *(expression.alias(name) for name, expression in (fixed | fields).items())
    )


def _account(frame: pl.DataFrame, mapping: Mapping, account: str | None) -> pl.Expr | pl.Series:
    told = mapping.account
    if told.column is None:
        return pl.lit(account, pl.String)
    column = ColumnMapping(column=told.column, trim=told.trim, case=told.case)
    return read_text(frame, column, mapping.nulls)


def read_text(frame: pl.DataFrame, mapped: str | ColumnMapping, nulls: Sequence[str]) -> pl.Series:
    """A column as the mapping says its texts are written; what is no value then is null."""
    column = frame[column_of(mapped)]
    if isinstance(mapped, str) or not (mapped.trim or mapped.case):
        return column
    texts = column.cast(pl.String)
    if mapped.trim:
        texts = texts.str.strip_chars()
    if mapped.case is not None:
        texts = texts.str.to_lowercase() if mapped.case == "lower" else texts.str.to_uppercase()
    return texts.set(texts.is_in(list(nulls)), None)


def read_instants(frame: pl.DataFrame, mapped: str | InstantMapping) -> pl.Series:
    """A column of instants; what is none of the form that the mapping tells stays a text that is none."""
    column = frame[column_of(mapped)]
    if isinstance(mapped, str):
        return column
    if mapped.epoch is not None:
        return _since_epoch(column.cast(pl.String).str.strip_chars(), mapped.epoch)
    if mapped.format is None and mapped.zone is None:
        return column
    # A file has few instants that differ, or they are worth their time.
    texts = column.cast(pl.String).str.strip_chars()
    read = _formatted(mapped)
    known = {text: read(text) for text in texts.unique().drop_nulls()}
    return texts.replace_strict(known, default=None, return_dtype=pl.String)


def _since_epoch(texts: pl.Series, unit: str) -> pl.Series:
    """Numbers since 1970 as ISO 8601, cut to microseconds."""
    nanoseconds = EPOCH_UNITS[unit]
    whole = texts.str.contains(_WHOLE)
    if nanoseconds >= _NS_PER_US and (whole | texts.is_null()).all():
        factor = nanoseconds // _NS_PER_US
        ticks = texts.cast(pl.Int64)
        if ((ticks >= -(-_FIRST_US // factor)) & (ticks <= _LAST_US // factor)).all():
            instants = (ticks * factor).cast(pl.Datetime("us"))
            return instants.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").alias(texts.name)

    def read(text: str) -> str:
        return _tick(text, nanoseconds) or f"{text} ({unit} since 1970)"

    known = {text: read(text) for text in texts.unique().drop_nulls()}
    return texts.replace_strict(known, default=None, return_dtype=pl.String)


def _tick(text: str, nanoseconds: int) -> str | None:
    try:
        number = Decimal(text)
        if abs(number) > _TICKS_MAX:
            return None
        instant = _EPOCH + timedelta(microseconds=floor(number * nanoseconds) // _NS_PER_US)
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return instant.isoformat().replace("+00:00", "Z")


def _formatted(mapped: InstantMapping) -> Callable[[str], str]:
    """Reads an instant of a form or of a zone."""
    local = zone(mapped.zone) if mapped.zone else UTC
    form = mapped.format
    described = f"format {form}" if form else f"in {mapped.zone}"

    def read(text: str) -> str:
        instant = _strptime(text, form) if form else _iso(text)
        found = instant and _in_utc(instant, local)
        return found or f"{text} ({described})"

    return read


def _strptime(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007 - the zone comes from the mapping
    except ValueError:
        return None


def _iso(text: str) -> datetime | None:
    return None if parse_instant(text) is None else datetime.fromisoformat(text)


def _in_utc(instant: datetime, local: tzinfo) -> str | None:
    try:
        aware = instant if instant.tzinfo else instant.replace(tzinfo=local)
        return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None
