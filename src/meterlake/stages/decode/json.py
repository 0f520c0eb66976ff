"""NDJSON blocks to columns: exact and fast where a block is clean, line by line where it is not.

Both ways accept the same: one object a line, numbers as JSON numbers or as text in the grammar
of numbers, unknown top-level members ignored, a key that stands twice refused.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from meterlake.model.measurements.mapped_columns import Step, parse_path
from meterlake.model.measurements.measurement import (
    CATEGORY_KEYS,
    FIELDS_KEY,
    FIELDS_MAX,
    FIXED_KEYS,
    FORMER_MAX,
    NUMERIC_KEYS,
    UNKNOWN_COLUMN,
    Block,
    Decoded,
    Field,
    field_of,
)
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.measurements.text import (
    LinesOf,
    has_long_line,
    utf8_lines,
    without_empty_lines,
)
from meterlake.model.values.money import LAKE_PRECISION, LAKE_SCALE
from meterlake.stages.decode.uniform_ndjson import read_alike

# What Arrow reads otherwise than the grammar of numbers: ".5" and "5." in quotes, long exponents,
# 3500e23, for which it gives a wrong number without a word, and more digits before the point than
# the lake keeps, with which it wraps around. Escapes could hide all of them.
_MISREAD: Final = (
    r':[ \t]*(?:"[+-]?(?:\.[0-9]|[0-9]+\.["eE]|[0-9.]+[eE](?:\+?[0-9]+|-[0-9]{5,})")'
    r"|-?[0-9.]+[eE](?:\+?[0-9]|-[0-9]{5}))|[0-9]{27}|\\u00[2346]"
)
# Inside JSON no line break stands between } and {: without one elsewhere, all lines hold whole
# objects. A NUL is only looked for line by line.
_UNCLEAN: Final = rf"{_MISREAD}|[^}}]\n|\n[^{{]|\r|\\u0000"
_LARGE_BLOCK: Final = 1 << 30
_SHOWN_MAX: Final = 200
# As the lake keeps numbers; those with more decimals are read wide, for the validation to round.
_LAKE_NUMBER: Final = pa.decimal128(38, 12)
_WIDE_NUMBER: Final = pa.decimal256(76, 38)

_LAKE_DECIMAL: Final = pl.Decimal(LAKE_PRECISION, LAKE_SCALE)

_TYPE_REASONS: Final = {
    "meter": Reason.UNDEFINED_METER,
    "account": Reason.INVALID_ACCOUNT_CODE,
    "uid": Reason.INVALID_UID,
    "ts": Reason.INVALID_TIMESTAMP,
    "ets": Reason.INVALID_TIMESTAMP,
}


class _Number(str):
    """The digits of a JSON number, told from a text by their type."""

    __slots__ = ()


class RowError(Exception):
    """One row cannot be decoded: reason, detail and field."""

    def __init__(self, reason: Reason, detail: str, field: str | None = None) -> None:
        super().__init__(reason, detail[:_SHOWN_MAX], field and field[:_SHOWN_MAX])


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes the blocks of one file of measurements in the wire's shape."""

    name: str
    fields: Sequence[Field]
    line_bytes: int
    columns: frozenset[str] = field(init=False)
    codes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", frozenset(each.column for each in self.fields))
        object.__setattr__(self, "codes", frozenset(each.code for each in self.fields))

    def decode(self, block: Block) -> Decoded:
        """Decode one block.

        Raises:
            UnreadableSource: The text is not UTF-8.
        """
        if block.oversized:
            return _reject_oversized(block, self.line_bytes)
        data = utf8_lines(block, self.name)
        alike = self._alike(data, block.lines)
        if alike is not None:
            rows = _row_numbers(block)
            original = LinesOf(data, block.first)
            return Decoded(alike.with_columns(rows), [], original, may_hold_nul=False)
        lines, rows = data, _row_numbers(block)
        clean = _is_clean(data)
        if not clean:
            lines, rows = _without_empty_lines(data, block)
            clean = lines is not data and _is_clean(lines)
        frame = self._fast(lines, len(rows)) if clean else None
        if frame is None:
            former: set[str] = set()
            return _line_by_line(
                data, block.first, self.line_bytes, lambda each: self._texts(each, former)
            )
        original = LinesOf(data, block.first)
        return Decoded(frame.with_columns(rows), [], original, may_hold_nul=False)

    def _texts(self, members: dict[str, Any], former: set[str] | None = None) -> dict[str, str]:
        """The texts of one measurement in the wire's shape, by column; unknown members are ignored.

        Args:
            members: The measurement.
            former: Columns of fields that no meter has any more, of this block. More are added, up
                to a limit, from what measurements say of themselves.

        Raises:
            WrongRow: A member has the wrong type.
        """
        texts: dict[str, str] = {}
        for key in FIXED_KEYS:
            value = members.get(key)
            if value is not None:
                texts[key] = _text(value, _TYPE_REASONS[key], key)
        named, own = members.get(FIELDS_KEY), frozenset[str]()
        if named is not None:
            texts[FIELDS_KEY] = _text(named, Reason.UNKNOWN_FIELD, FIELDS_KEY)
            own = self._own_fields(texts[FIELDS_KEY], set() if former is None else former)
        for key in CATEGORY_KEYS:
            for code, value in _category(key, members.get(key)):
                name = f"{key}.{code}"
                if name in self.columns or name in own:
                    texts[name] = _value(key, value, name)
                elif code in self.codes:
                    texts[name] = _display(
                        value
                    )  # Of another meter, or a code in a second category.
                else:
                    # One column for all of them: a sender may make up a name for every row.
                    texts.setdefault(UNKNOWN_COLUMN, name[:_SHOWN_MAX])
        return texts

    def _own_fields(self, named: str, former: set[str]) -> frozenset[str]:
        """The columns of fields that a measurement names and no meter has."""
        own = {name for name in named.split(" ")[:FIELDS_MAX] if field_of(name)} - self.columns
        if len(former | own) <= FORMER_MAX:
            former |= own
        return frozenset(own & former)

    def _alike(self, data: bytes, lines: int) -> pl.DataFrame | None:
        """The block as a frame, if its lines differ in nothing but their values."""
        if has_long_line(data, self.line_bytes):
            return None
        try:
            _parse_object(data[: data.index(b"\n")], self.line_bytes)
        except RowError:
            return None
        found = read_alike(data, lines, self.columns)
        if found is None:
            return None
        absent = {
            each.column: _LAKE_DECIMAL if each.category.numeric else pl.String
            for each in self.fields
        }
        absent |= dict.fromkeys(FIXED_KEYS, pl.String)
        nulls = (
            pl.Series(name, [None], kind).new_from_index(0, lines)
            for name, kind in absent.items()
            if name not in found
        )
        return pl.DataFrame([*found.values(), *nulls])

    def _fast(self, data: bytes, lines: int) -> pl.DataFrame | None:
        if has_long_line(data, self.line_bytes):
            return None
        for number in (_LAKE_NUMBER, _WIDE_NUMBER):
            with contextlib.suppress(pa.ArrowInvalid, UnicodeDecodeError):
                schema = pa.schema(
                    [(key, pa.string()) for key in (*FIXED_KEYS, FIELDS_KEY)]
                    + [(key, self._category(key, number)) for key in CATEGORY_KEYS]
                )
                table = pa.json.read_json(
                    pa.BufferReader(data),
                    read_options=pa.json.ReadOptions(use_threads=False, block_size=_LARGE_BLOCK),
                    # To infer members that nobody knows costs the process where they nest deeply.
                    parse_options=pa.json.ParseOptions(
                        explicit_schema=schema, unexpected_field_behavior="error"
                    ),
                )
                return _flat(table) if table.num_rows == lines else None
        return None

    def _category(self, key: str, number: pa.DataType) -> pa.DataType:
        kind = number if key in NUMERIC_KEYS else pa.string()
        codes = [field.code for field in self.fields if field.category.value.lower() == key]
        return pa.struct([(code, kind) for code in codes])


@dataclass(frozen=True)
class FlatJsonDecoder:
    """Decodes NDJSON of any shape for a mapping: nested members become `outer.inner` columns."""

    name: str
    columns: Sequence[str]
    line_bytes: int

    def decode(self, block: Block) -> Decoded:
        """Decode one block.

        Raises:
            UnreadableSource: The text is not UTF-8.
        """
        if block.oversized:
            return _reject_oversized(block, self.line_bytes)
        data = utf8_lines(block, self.name)
        wanted = frozenset(self.columns)
        paths = {name: parse_path(name) for name in self.columns}
        decoded = _line_by_line(
            data,
            block.first,
            self.line_bytes,
            lambda members: _read_paths(members, paths, _flat_texts(members, wanted)),
        )
        absent = [name for name in self.columns if name not in decoded.frame.columns]
        frame = decoded.frame.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
        return decoded._replace(frame=frame)


def _row_numbers(block: Block) -> pl.Series:
    rows = pl.int_range(block.first, block.first + block.lines, dtype=pl.Int64, eager=True)
    return rows.alias("row")


def _without_empty_lines(data: bytes, block: Block) -> tuple[bytes, pl.Series]:
    """The lines that hold something, and their numbers in the file: empty lines count, too."""
    held, lines = without_empty_lines(data)
    if lines is None:
        return data, _row_numbers(block)
    return held, pl.Series("row", block.first + lines, dtype=pl.Int64)


def _reject_oversized(block: Block, line_bytes: int) -> Decoded:
    detail = f"longer than {line_bytes} bytes"
    rejection = Rejection(block.first, Reason.MALFORMED_ROW, detail)
    return Decoded(_frame([]), [rejection], LinesOf(block.data, block.first))


def _line_by_line(
    data: bytes, first: int, line_bytes: int, texts: Callable[[dict[str, Any]], dict[str, str]]
) -> Decoded:
    rows: list[dict[str, Any]] = []
    rejected: list[Rejection] = []
    for row, line in enumerate(data.split(b"\n")[:-1], first):
        if not line.strip():
            continue
        try:
            rows.append({"row": row, **texts(_parse_object(line, line_bytes))})
        except RowError as wrong:
            reason, detail, field = wrong.args
            rejected.append(Rejection(row, reason, detail, field=field))
    return Decoded(_frame(rows), rejected, LinesOf(data, first))


def _read_paths(
    members: dict[str, Any], paths: Mapping[str, tuple[Step, ...]], texts: dict[str, str]
) -> dict[str, str]:
    """The texts of a row with those at the paths that lead through lists, quoted keys or texts."""
    for name, steps in paths.items():
        if name not in texts and len(steps) > 1:
            value = _walk(members, steps)
            if value is not None:
                plain = str(value) if isinstance(value, str) else json.dumps(value)
                texts[name] = _text(plain, Reason.INVALID_TEXT, name)
    return texts


def _walk(value: Any, steps: Sequence[Step]) -> Any:
    """What stands at the end of a path, or None. A text that is JSON is gone into."""
    for step in steps:
        here = _parsed(value) if isinstance(value, str) else value
        match step:
            case str():
                value = here.get(step) if isinstance(here, dict) else None
            case int():
                found = isinstance(here, list) and step < len(here)
                value = here[step] if found else None
            case _:
                value = next(
                    (
                        each
                        for each in (here if isinstance(here, list) else ())
                        if (isinstance(each, dict) and each.get(step.member) == step.text)
                    ),
                    None,
                )
    return value


def _parsed(text: str) -> Any:
    if text[:1] not in {"{", "["}:
        return None
    try:
        return json.loads(
            text, parse_float=_Number, parse_int=_Number, object_pairs_hook=_no_repeated_key
        )
    except (ValueError, RecursionError):
        return None


def _flat_texts(
    members: dict[str, Any], wanted: frozenset[str], prefix: str = ""
) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in members.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            inner = _flat_texts(value, wanted, f"{name}.")
        elif value is not None and name in wanted:
            plain = str(value) if isinstance(value, str) else json.dumps(value)
            inner = {name: _text(plain, Reason.INVALID_TEXT, name)}
        else:
            continue
        twice = next((each for each in inner if each in texts), None)
        if twice is not None:
            raise RowError(Reason.DUPLICATE_FIELD, f"{twice!r} stands twice", twice)
        texts |= inner
    return texts


def _parse_object(line: bytes, line_bytes: int) -> dict[str, Any]:
    """Parse one line as a JSON object; numbers keep their digits as text."""
    if len(line) > line_bytes:
        raise RowError(Reason.MALFORMED_ROW, f"longer than {line_bytes} bytes")
    try:
        members = json.loads(
            line.decode(),  # Bytes would be taken for UTF-16 where they look like it.
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_Number,
            object_pairs_hook=_no_repeated_key,
        )
    except (ValueError, RecursionError) as error:
        raise RowError(Reason.MALFORMED_ROW, f"not JSON: {error}") from None
    if not isinstance(members, dict):
        raise RowError(Reason.MALFORMED_ROW, "not a JSON object")
    return members


def _no_repeated_key(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RowError(Reason.DUPLICATE_FIELD, f"{twice!r} stands twice", twice)
    return members


def _category(key: str, members: object) -> Iterator[tuple[str, object]]:
    """The members of a category that have a value."""
    if members is None:
        return
    if not isinstance(members, dict):
        raise RowError(Reason.MALFORMED_ROW, f"{key!r} is not an object", key)
    for code, value in members.items():
        if value is not None:
            yield _text(code, Reason.MALFORMED_ROW, key), value


def _value(key: str, value: object, name: str) -> str:
    if key not in NUMERIC_KEYS:
        return _text(value, Reason.INVALID_TEXT, name)
    if not isinstance(value, str):
        raise RowError(Reason.INVALID_NUMBER, f"{_display(value)} is not a number", name)
    return _text(str(value), Reason.INVALID_NUMBER, name)


def _text(value: object, reason: Reason, field: str) -> str:
    if not isinstance(value, str) or isinstance(value, _Number):
        raise RowError(reason, f"{_display(value)} is not text", field)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RowError(reason, "holds half a surrogate pair", field) from None
    return value


def _display(value: object) -> str:
    return json.dumps(value, default=str)[:_SHOWN_MAX]


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row if name != "row")
    return pl.DataFrame(rows, schema={"row": pl.Int64, **dict.fromkeys(names, pl.String)})


def _is_clean(data: bytes) -> bool:
    """Whether every line holds whole objects, which Arrow reads as the grammar of numbers says."""
    if not data.startswith(b"{") or not data.endswith(b"}\n"):
        return False
    ends = np.array([0, len(data)], np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    # Arrow's expressions take a tenth of the time of Python's, and hold up no other thread.
    [found] = pc.match_substring_regex(
        pa.Array.from_buffers(pa.large_binary(), 1, buffers), _UNCLEAN
    )
    return not found.as_py()


def _flat(table: pa.Table) -> pl.DataFrame:
    """Lift the members of the categories to columns of their own; drop what nobody asked for."""
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name in FIXED_KEYS or (name == FIELDS_KEY and column.null_count < len(column)):
            columns[name] = column
        elif name in CATEGORY_KEYS:
            for index, member in enumerate(column.type):
                values = pc.struct_field(column, index)
                # Arrow lets through what has more digits than its type says.
                values.validate(full=name in NUMERIC_KEYS)
                columns[f"{name}.{member.name}"] = (
                    values.cast(pa.string()) if values.type == _WIDE_NUMBER else values
                )
    frame = pl.from_arrow(pa.table(columns))
    assert isinstance(frame, pl.DataFrame)
    return frame
