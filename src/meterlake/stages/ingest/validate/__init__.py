"""Measurements as they were written to measurements as the lake keeps them, or to reasons.

The checks of one meter run over whole columns; only rows that fail one are looked at singly. A
row is rejected for the first of its problems, in the order in which the checks stand here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import polars as pl

from meterlake.model.measurements.measurement import (
    FIELDS_KEY,
    FIXED_KEYS,
    UID_MAX,
    UNKNOWN_COLUMN,
    Field,
    MeterFields,
    Origin,
)
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.values.period import FUTURE_TOLERANCE
from meterlake.stages.ingest.validate import parse_columns as columns
from meterlake.stages.ingest.validate.account_codes import AccountCodes
from meterlake.stages.ingest.validate.former_fields import (
    FieldGroup,
    by_own_fields,
    with_all_fields,
)
from meterlake.stages.ingest.validate.parse_columns import content_hashes, uid_hashes

_SHOWN: Final = 80
_KEPT: Final = 200


class Accepted(NamedTuple):
    """Valid measurements of one meter, in the columns of its table, with the two hashes.

    Beyond the table's columns: `meter_id`, `uid_hash` and `content_hash` (UInt64). `new_accounts` are the
    account codes among them that were unknown, in the order of their first rows.
    """

    meter: MeterFields
    frame: pl.DataFrame
    new_accounts: list[str]


class Validated(NamedTuple):
    """What became of the measurements of one block."""

    accepted: list[Accepted]
    rejected: list[Rejection]
    rounded: int


class Texts(NamedTuple):
    """What the format of a file makes of texts.

    Attributes:
        may_hold_nul: False if it is known that there is no NUL in any text.
        blanks_absent: Whether an empty text is none where the meter has no such field: in CSV,
            where every value may stand in quotes.
    """

    may_hold_nul: bool = True
    blanks_absent: bool = False


class _Check(NamedTuple):
    """Rows that break one rule, and how to say so."""

    bad: pl.Series
    reason: Reason
    field: str
    shown: pl.Series | None = None
    detail: str = "{}"


@dataclass
class _Checks:
    """The checks of one meter's rows, and the typed columns that they leave."""

    frame: pl.DataFrame
    texts: Texts
    found: list[_Check] = field(default_factory=list)
    typed: dict[str, pl.Series] = field(default_factory=dict)
    rounded: int = 0
    new_accounts: bool = False

    def present(self, name: str) -> pl.Series:
        """Where a field that the meter does not have has a value all the same."""
        column = self.frame[name]
        if self.texts.blanks_absent and column.dtype == pl.String:
            return (column != "").fill_null(value=False)
        return column.is_not_null()

    def refuse(self, bad: pl.Series | None, reason: Reason, column: str, detail: str) -> None:
        if bad is not None and bad.any():
            shown = self.frame[column] if column in self.frame.columns else None
            self.found.append(_Check(bad, reason, column, shown, detail))


def validate(
    frame: pl.DataFrame,
    part: int,
    meters: Mapping[str, MeterFields],
    accounts: AccountCodes,
    origin: Origin,
    texts: Texts = Texts(),  # noqa: B008 - it never changes
) -> Validated:
    """Check the measurements of one block.

    Args:
        frame: `row`, the fixed keys and columns of fields, as `stages.shape` leaves them.
        part: Which measurement of its row each one is.
        meters: The meters by code.
        accounts: The accounts by code.
        origin: What all rows have in common.
        texts: What the file's format makes of texts.
    """
    found = Validated([], [], 0)
    ids = [meter.id for meter in meters.values()]
    meter_ids = {
        code: columns.constant(meter.id, ids).alias("meter_id") for code, meter in meters.items()
    }
    codes = columns.texts(frame["meter"])
    undefined = ~codes.is_in(list(meters)).fill_null(value=False)
    if undefined.any():
        found.rejected.extend(_reject_undefined(frame.filter(undefined), part))
    for code in codes.filter(~undefined).unique(maintain_order=True):
        wanted = codes.eq_missing(code)
        for group in by_own_fields(frame if wanted.all() else frame.filter(wanted), meters[code]):
            if group.wrong:
                found.rejected.extend(_wrong_fields(group, part))
                continue
            checks = _Checks(group.rows, texts)
            found = _add_outcome(found, checks, group.meter, part, accounts, origin)
    for place, each in enumerate(found.accepted):
        frame = each.frame.with_columns(meter_ids[each.meter.code])
        if each.meter is not meters[each.meter.code]:
            frame = with_all_fields(frame, meters[each.meter.code].fields)
        found.accepted[place] = each._replace(frame=frame)
    return found


def _add_outcome(
    found: Validated,
    checks: _Checks,
    meter: MeterFields,
    part: int,
    accounts: AccountCodes,
    origin: Origin,
) -> Validated:
    """Add what becomes of rows with the same fields."""
    _check(checks, meter, accounts, origin)
    bad = _any_bad(checks.found)
    if bad is not None:
        rows = checks.frame.with_columns(bad=bad)
        found.rejected.extend(_rejections(rows, checks.found, part, meter))
    good = _typed_columns(checks, meter, part, origin)
    good = good if bad is None else good.filter(~bad)
    if len(good):
        new = _new_accounts(checks.frame, bad, accounts) if checks.new_accounts else []
        found.accepted.append(Accepted(meter, good, new))
    return found._replace(rounded=found.rounded + checks.rounded)


def _reject_undefined(rows: pl.DataFrame, part: int) -> Iterator[Rejection]:
    codes, uids = columns.texts(rows["meter"]), columns.texts(rows["uid"])
    for row, code, uid in zip(rows["row"], codes, uids, strict=True):
        if code is None:
            reason, detail = Reason.MISSING_FIELD, "no meter"
        else:
            reason, detail = Reason.UNDEFINED_METER, f"no meter {code[:_SHOWN]!r}"
        yield Rejection(
            row,
            reason,
            detail,
            part=part,
            field="meter",
            meter=_truncate(code),
            uid=_truncate(uid),
        )


def _wrong_fields(group: FieldGroup, part: int) -> Iterator[Rejection]:
    for row, uid in zip(group.rows["row"], columns.texts(group.rows["uid"]), strict=True):
        yield Rejection(
            row,
            Reason.UNKNOWN_FIELD,
            group.wrong[:_KEPT],
            part=part,
            field=FIELDS_KEY,
            meter=group.meter.code,
            uid=_truncate(uid),
        )


def _truncate(text: str | None) -> str | None:
    """Enough of a text to find it again: it may be as long as a line."""
    return text and text[:_KEPT]


def _check(checks: _Checks, meter: MeterFields, accounts: AccountCodes, origin: Origin) -> None:
    ts = columns.instants(checks.frame["ts"])
    ets = columns.instants(checks.frame["ets"])
    checks.refuse(columns.absent(checks.frame["ts"]), Reason.MISSING_FIELD, "ts", "no ts")
    checks.refuse(ts.wrong, Reason.INVALID_TIMESTAMP, "ts", "{} is no ISO 8601 instant")
    limit, latest = _naive(origin.received_at + FUTURE_TOLERANCE), ts.values.max()
    if isinstance(latest, datetime) and latest > limit:
        future = (ts.values > limit).fill_null(value=False)
        checks.refuse(future, Reason.FUTURE_TIMESTAMP, "ts", "{} is later than the file's receipt")
    checks.refuse(ets.wrong, Reason.INVALID_TIMESTAMP, "ets", "{} is no ISO 8601 instant")
    if ets.values.null_count() < len(ets.values):
        early = (ets.values < ts.values).fill_null(value=False)
        checks.refuse(early, Reason.INVALID_TIMESTAMP, "ets", "{} is before ts")
    checks.typed |= {"ts": ts.values, "ets": ets.values}
    uid = columns.texts(checks.frame["uid"])
    checks.refuse(
        _outside(uid, 1, UID_MAX, may_hold_nul=checks.texts.may_hold_nul),
        Reason.INVALID_UID,
        "uid",
        f"{{}} is not 1 to {UID_MAX} characters without NUL",
    )
    checks.typed["uid"] = uid
    _check_account(checks, accounts)
    known = {each.column for each in meter.fields}
    ours = {"row", UNKNOWN_COLUMN, FIELDS_KEY, *FIXED_KEYS}
    others = sorted(set(checks.frame.columns) - known - ours)
    _check_repeated_codes(checks, meter, others)
    for each in meter.fields:
        _check_field(checks, each)
    for name in others:
        detail = f"meter {meter.code!r} has no field {name[:_KEPT]!r}"
        checks.refuse(checks.present(name), Reason.UNKNOWN_FIELD, name, detail)
    if UNKNOWN_COLUMN in checks.frame.columns:
        bad = checks.frame[UNKNOWN_COLUMN].is_not_null()
        detail = f"meter {meter.code!r} has no field {{}}"
        checks.refuse(bad, Reason.UNKNOWN_FIELD, UNKNOWN_COLUMN, detail)


def _check_account(checks: _Checks, accounts: AccountCodes) -> None:
    code = columns.texts(checks.frame["account"])
    checks.refuse(columns.absent(code), Reason.MISSING_FIELD, "account", "no account")
    ids, checks.new_accounts = accounts.ids(code)
    detail = "{} is no account code, or nearly an existing one"
    checks.refuse(columns.lost(code, ids), Reason.INVALID_ACCOUNT_CODE, "account", detail)
    checks.typed["account_id"] = ids


def _check_repeated_codes(checks: _Checks, meter: MeterFields, others: list[str]) -> None:
    codes = {each.code: each.column for each in meter.fields}
    for name in others:
        twin = codes.get(name.partition(".")[2])
        if twin and twin in checks.frame.columns:
            both = checks.present(name) & checks.frame[twin].is_not_null()
            detail = f"the field stands in {twin!r} and in {name!r}"
            checks.refuse(both, Reason.DUPLICATE_FIELD, name, detail)


def _check_field(checks: _Checks, each: Field) -> None:
    name = each.column
    if name not in checks.frame.columns:
        everywhere = pl.repeat(value=True, n=len(checks.frame), dtype=pl.Boolean, eager=True)
        checks.refuse(everywhere, Reason.MISSING_FIELD, name, f"no {name}")
        kind = columns.NUMBER if each.category.numeric else pl.String
        checks.typed[name] = pl.repeat(None, len(checks.frame), dtype=kind, eager=True)
        return
    column = checks.frame[name]
    checks.refuse(columns.absent(column), Reason.MISSING_FIELD, name, f"no {name}")
    if each.category.numeric:
        number = columns.numbers(column)
        checks.rounded += number.rounded
        detail = "{} is no number such as 12.5, with at most 26 digits before the point"
        checks.refuse(number.wrong, Reason.INVALID_NUMBER, name, detail)
        checks.typed[name] = number.values
        return
    text = columns.texts(column)
    bad = _outside(text, 0, each.text_max, may_hold_nul=checks.texts.may_hold_nul)
    detail = f"{{}} is longer than {each.text_max} characters or holds NUL"
    checks.refuse(bad, Reason.INVALID_TEXT, name, detail)
    checks.typed[name] = text


def _outside(text: pl.Series, least: int, most: int, *, may_hold_nul: bool) -> pl.Series | None:
    """Texts of fewer or more characters, or with NUL; None if there are none."""
    # Counting characters costs ten times as much as knowing the bytes, and is rarely needed.
    sizes = text.str.len_bytes()
    shortest, longest = sizes.min(), sizes.max()
    if not isinstance(shortest, int) or not isinstance(longest, int):
        return None  # There are no texts.
    if shortest >= least and longest <= most and not may_hold_nul:
        return None
    bad = sizes < least
    if longest > most:
        bad |= text.str.len_chars() > most
    if may_hold_nul:
        bad |= text.str.contains("\x00", literal=True)
    return bad.fill_null(value=False)


def _any_bad(found: list[_Check]) -> pl.Series | None:
    if not found:
        return None
    bad = found[0].bad
    for check in found[1:]:
        bad = bad | check.bad
    return bad


def _new_accounts(rows: pl.DataFrame, bad: pl.Series | None, accounts: AccountCodes) -> list[str]:
    codes = columns.texts(rows["account"])
    return accounts.unknown(codes if bad is None else codes.filter(~bad))


def _rejections(
    rows: pl.DataFrame, found: list[_Check], part: int, meter: MeterFields
) -> list[Rejection]:
    rejected = []
    places = rows["bad"].arg_true()
    uids = columns.texts(rows["uid"]).gather(places)
    for place, row, uid in zip(places, rows["row"].gather(places), uids, strict=True):
        check = next(check for check in found if check.bad[place])
        value = "" if check.shown is None else str(check.shown[place])
        detail = check.detail.replace("{}", repr(value[:_SHOWN]), 1)
        rejected.append(
            Rejection(
                row,
                check.reason,
                detail,
                part=part,
                field=value if check.field == UNKNOWN_COLUMN else _truncate(check.field),
                meter=meter.code,
                uid=_truncate(uid),
            )
        )
    return rejected


def _typed_columns(checks: _Checks, meter: MeterFields, part: int, origin: Origin) -> pl.DataFrame:
    suffix = f".{part}" if part else ""
    row = checks.frame["row"]
    derived = pl.format(f"{origin.uid_prefix}-{{}}{suffix}", pl.col("row"))
    frame = pl.DataFrame(checks.typed | {"row": row})
    if frame["uid"].null_count():
        frame = frame.with_columns(pl.coalesce("uid", derived).alias("uid"))
    names = [each.column for each in meter.fields]
    typed = frame.select(
        "uid",
        "account_id",
        "ts",
        "ets",
        pl.lit(_naive(origin.received_at), pl.Datetime("us")).alias("received_at"),
        columns.constant(origin.identity).alias("source"),
        "row",
        pl.lit(part, pl.Int16).alias("part"),
        *names,
    )
    return typed.with_columns(
        uid_hashes(typed["uid"]).alias("uid_hash"),
        content_hashes(typed, meter).alias("content_hash"),
    )


def _naive(instant: datetime) -> datetime:
    return instant.replace(tzinfo=None)
