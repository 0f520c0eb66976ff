"""SQL of the measurements of one meter: one statement gives the rows, another counts and sums.

Numbers become plain digits in the engine, without passing through floating point. A line of JSON
is put together as text, because DuckDB's own JSON writer knows no numbers of 38 digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from meterlake.model.measurement import CATEGORY_KEYS, NUMERIC_KEYS
from meterlake.model.money import LAKE_INTEGER_DIGITS, ZERO, exact
from meterlake.model.period import Period
from meterlake.model.sql import identifier
from meterlake.stages.export.columns import Column, Kind
from meterlake.stages.export.names import Format

# What stands before the codes of derived fields in files.
DERIVED: Final = "derived"
_LIMIT: Final = 10**LAKE_INTEGER_DIGITS
_FIRST: Final = (
    Column("meter"),
    Column("account"),
    Column("uid"),
    Column("ts", Kind.INSTANT),
    Column("ets", Kind.INSTANT),
)
_PLAIN: Final = "rtrim(rtrim({0}::VARCHAR, '0'), '.')"
_INSTANT: Final = "replace({0}::VARCHAR, ' ', 'T') || 'Z'"
# Per format and kind; `{0}` is the column. What is not named is written as it is.
_WRITTEN: Final = {
    Format.CSV: {Kind.NUMBER: _PLAIN, Kind.INSTANT: _INSTANT},
    Format.JSONL: {
        Kind.TEXT: "to_json({0})::VARCHAR",
        Kind.NUMBER: _PLAIN,
        Kind.INSTANT: f"""'"' || {_INSTANT} || '"'""",
    },
    Format.PARQUET: {Kind.INSTANT: "{0}::TIMESTAMPTZ"},
}
# What COPY is told. A line of JSON has no raw control character: nothing of it needs a quote.
COPY_OPTIONS: Final = {
    Format.CSV: "FORMAT csv, HEADER, USE_TMP_FILE false",
    Format.JSONL: (
        "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x1f', USE_TMP_FILE false"
    ),
    Format.PARQUET: "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false",
}


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements of one meter at one snapshot.

    Attributes:
        table: The meter's table, as SQL names it.
        snapshot: The snapshot of the lake that is read.
        meter: The meter's code.
        fields: The columns of the table that hold data fields.
        derived: Those that hold derived fields; a file has them as `derived.<code>`.
        period: The measurements whose `ts` it contains; all of them if None.
    """

    table: str
    snapshot: int
    meter: str
    fields: tuple[str, ...]
    derived: tuple[str, ...] = ()
    period: Period | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the drop folder, in their order; it ignores the derived ones."""
        return _FIRST + tuple(
            Column(name, Kind.NUMBER if _category(stored) in NUMERIC_KEYS else Kind.TEXT)
            for name, stored in self._stored.items()
        )

    @property
    def _stored(self) -> dict[str, str]:
        """The column of the table that each column of a field is read from."""
        named = {f"{DERIVED}.{name.partition('.')[2]}": name for name in self.derived}
        return {**{name: name for name in self.fields}, **named}

    def rows(self, format: Format) -> str:
        """The measurements ordered by uid, as `COPY` is to write them.

        The query reads a table `account_code(id, code)`.
        """
        if format is Format.JSONL:
            listed = f"{_line(self.columns)} AS line"
        else:
            listed = ", ".join(
                f"{_written(column, format)} AS {identifier(column.name)}"
                for column in self.columns
            )
        # Sorted before it becomes text, which is three times as wide.
        return f"SELECT {listed} FROM (SELECT * FROM ({self._source()}) ORDER BY uid)"

    def sums(self) -> str:
        """The count of the measurements; then least, greatest and sum of every number.

        The sums count where `sums_hold`: beyond 128 bits DuckDB may wrap around in silence.
        """
        return self._folded("min({0})", "max({0})", "sum({0})")

    def wide_sums(self) -> str:
        """The count; then whole part and fraction of every sum, which cannot overflow.

        It takes 18 times as long.
        """
        return self._folded("sum(trunc({0})::DECIMAL(38,0))", "sum({0} - trunc({0}))")

    def _folded(self, *templates: str) -> str:
        stored = self._stored
        parts = [
            template.format(identifier(stored[column.name]))
            for column in self.columns
            if column.numeric
            for template in templates
        ]
        listed = ", ".join(["count(*)", *parts])
        return f"SELECT {listed} FROM {self._table()} WHERE {self._condition()}"

    def _source(self) -> str:
        fields = "".join(
            f", m.{identifier(stored)} AS {identifier(name)}"
            for name, stored in self._stored.items()
        )
        return (
            f"SELECT {_text(self.meter)} AS meter, coalesce(a.code, m.account_id) AS account,"
            f" m.uid, m.ts, m.ets{fields} FROM (FROM {self._table()}) m"
            f" LEFT JOIN account_code a ON a.id = m.account_id WHERE {self._condition('m.')}"
        )

    def _table(self) -> str:
        return f"{self.table} AT (VERSION => {self.snapshot:d})"

    def _condition(self, prefix: str = "") -> str:
        if self.period is None:
            return "true"
        start, end = (
            f"TIMESTAMP '{instant:%Y-%m-%d %H:%M:%S.%f}'"
            for instant in (self.period.start, self.period.end)
        )
        return f"{prefix}ts >= {start} AND {prefix}ts < {end}"


def sums_hold(row: Sequence[Any]) -> bool:
    """Whether no sum in the answer to `sums` can have had more digits than a column holds."""
    count, *rest = row
    extremes = [value.copy_abs() for value in (*rest[::3], *rest[1::3]) if value is not None]
    with exact():
        return bool(count * max(extremes, default=ZERO) < _LIMIT)


def stored_fields(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a meter's table that hold fields, by category and in their order."""
    found = [name for name in columns if _category(name) in CATEGORY_KEYS and "." in name]
    return tuple(sorted(found, key=lambda name: CATEGORY_KEYS.index(_category(name))))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _category(name: str) -> str:
    return name.partition(".")[0]


def _written(column: Column, format: Format) -> str:
    return _WRITTEN[format].get(column.kind, "{0}").format(identifier(column.name))


def _line(columns: Sequence[Column]) -> str:
    """The SQL of one measurement in the wire's shape: fields nested by category, no nulls."""
    members = [_member(column.name, column) for column in columns if column in _FIRST]
    fields = [column for column in columns if column not in _FIRST]
    members.extend(_group(category, list(group)) for category, group in groupby(fields, _of))
    return f"'{{' || concat_ws(',', {', '.join(members)}) || '}}'"


def _of(column: Column) -> str:
    return _category(column.name)


def _member(name: str, column: Column) -> str:
    # NULL || text is NULL, and concat_ws leaves NULL out.
    return f"{_text(_json(name) + ':')} || {_written(column, Format.JSONL)}"


def _group(category: str, columns: Sequence[Column]) -> str:
    members = ", ".join(_member(column.name.partition(".")[2], column) for column in columns)
    return (
        f"{_text(_json(category) + ':')} || '{{' || nullif(concat_ws(',', {members}), '') || '}}'"
    )


def _json(name: str) -> str:
    # Codes of fields are letters, digits, _ and $.
    return f'"{name}"'
