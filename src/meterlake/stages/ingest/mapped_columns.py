"""Columns of foreign files to texts: instants in other forms to ISO 8601, blanks and case as told."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from math import floor
from typing import Final

import polars as pl

from meterlake.model.measurements.mapped_columns import (
    EPOCH_UNITS,
    ColumnMapping,
    InstantMapping,
    column_of,
)
from meterlake.model.values.period import parse_instant, zone

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS_PER_US: Final = 1000
# What int64 holds of microseconds, in years about 1 to 9999 and nothing beyond.
_FIRST_US: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
# Beyond the calendar in every unit; a huge exponent would be a huge number.
_TICKS_MAX: Final = 10**21
_WHOLE: Final = r"^[+-]?[0-9]{1,18}$"


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
