"""SQL of the measurements of one meter, as they are to be written.

Numbers become plain digits in the engine, without passing through floating point. Lines are put
together as text there, too: of DuckDB's own writers, that of JSON knows no numbers of 38 digits,
and that of CSV does not tell where a row ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from meterlake.model.bills.bill import Query
from meterlake.model.measurements.measurement import CATEGORY_KEYS, FIELDS_KEY, NUMERIC_KEYS
from meterlake.model.values.sql import identifier, quote
from meterlake.model.work.export_request import Format
from meterlake.stages.export.column_kinds import MARK, STARTS, ExportColumn, Kind

# What stands before the codes of derived fields in files.
DERIVED: Final = "derived"
# The column of a line of text.
LINE: Final = "line"
EVERYTHING: Final = Query("true", {})
_FIRST: Final = (
    ExportColumn("meter"),
    ExportColumn("account"),
    ExportColumn("uid"),
    ExportColumn("ts", Kind.INSTANT),
    ExportColumn("ets", Kind.INSTANT),
)
_OWN_FIELDS: Final = ExportColumn(FIELDS_KEY)
# Not the column itself: where younger files of the lake lack it, its statistics say that it has no
# NULL, and DuckDB believes them. The value of a function has no statistics.
_PRESENT: Final = "(greatest(m.{0}) IS NOT NULL)"
_PLAIN: Final = "rtrim(rtrim({0}::VARCHAR, '0'), '.')"
_INSTANT: Final = "replace({0}::VARCHAR, ' ', 'T') || 'Z'"
_NEEDS_QUOTES: Final = " OR ".join(
    f"contains({{0}}, {character})" for character in ("','", "'\"'", "chr(10)", "chr(13)")
)
# An empty text is told from none.
_CELL: Final = (
    f"""CASE WHEN {_NEEDS_QUOTES} OR {{0}} = '' THEN '"' || replace({{0}}, '"', '""') || '"'"""
    " ELSE {0} END"
)
_MARKED: Final = (
    f"CASE WHEN left({{0}}, 1) IN ({', '.join(map(quote, STARTS))})"
    f" THEN {quote(MARK)} || {{0}} ELSE {{0}} END"
)
# Per format and kind; `{0}` is the column. What is not named is written as it is.
_WRITTEN: Final = {
    Format.CSV: {Kind.TEXT: _CELL, Kind.NUMBER: _PLAIN, Kind.INSTANT: _INSTANT},
    Format.JSONL: {
        Kind.TEXT: "to_json({0})::VARCHAR",
        Kind.NUMBER: _PLAIN,
        Kind.INSTANT: f"""'"' || {_INSTANT} || '"'""",
    },
    Format.PARQUET: {Kind.INSTANT: "{0}::TIMESTAMPTZ"},
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
        current: Those of the data fields that the meter has today. A measurement with others names
            its own in a column `meterFields`. None: there is no such measurement.
        where: Which measurements `m`.
        spreadsheet: Whether texts of CSV are marked so that none is taken for a formula.
    """

    table: str
    snapshot: int
    meter: str
    fields: tuple[str, ...]
    derived: tuple[str, ...] = ()
    current: frozenset[str] | None = None
    where: Query = EVERYTHING
    spreadsheet: bool = False

    @property
    def columns(self) -> tuple[ExportColumn, ...]:
        """The columns of the drop folder, in their order; it ignores the derived ones."""
        return self._fixed + tuple(
            ExportColumn(name, Kind.NUMBER if _category(stored) in NUMERIC_KEYS else Kind.TEXT)
            for name, stored in self._stored.items()
        )

    @property
    def _fixed(self) -> tuple[ExportColumn, ...]:
        return _FIRST if self.current is None else (*_FIRST, _OWN_FIELDS)

    @property
    def _stored(self) -> dict[str, str]:
        """The column of the table that each column of a field is read from."""
        named: dict[str, str] = {}
        for column in self.derived:
            category, _, code = column.partition(".")
            name = f"{DERIVED}.{code}"
            while name in named:  # The code had another category once.
                name = f"{name}_{category}"
            named[name] = column
        return {**{name: name for name in self.fields}, **named}

    def unusual(self) -> Query:
        """A row where a measurement has other fields than the meter has today; none otherwise."""
        query = (
            f"SELECT 1 FROM (FROM {self._table()}) m"
            f" WHERE ({self.where.sql}) AND NOT ({self._usual()}) LIMIT 1"
        )
        return Query(query, self.where.parameters)

    def _usual(self) -> str:
        """Whether `m` has the fields that the meter has today."""
        current = self.current or frozenset()
        if not current <= set(self.fields):
            return "false"
        conditions = (
            f"{'' if name in current else 'NOT '}{_PRESENT.format(identifier(name))}"
            for name in self.fields
        )
        return " AND ".join(conditions)

    def rows(self, format: Format) -> Query:
        """The measurements ordered by uid.

        The query reads a table `account_code(id, code)`. Its columns are those of the file, or
        `LINE`, which has a line's end, and the columns of numbers.
        """
        if format is Format.PARQUET:
            listed = [
                f"{_column_sql(column, format)} AS {identifier(column.name)}"
                for column in self.columns
            ]
        else:
            line = (
                " || ',' || ".join(f"coalesce({self._cell(column)}, '')" for column in self.columns)
                if format is Format.CSV
                else _line(self._fixed, self.columns)
            )
            numbers = [identifier(each.name) for each in self.columns if each.summed]
            listed = [f"{line} || chr(10) AS {LINE}", *numbers]
        # Sorted before it becomes text, which is three times as wide, and without the meter.
        ordered = f"SELECT {quote(self.meter)} AS meter, * FROM ({self._source()} ORDER BY m.uid)"
        query = f"SELECT {', '.join(listed)} FROM ({ordered})"
        return Query(query, self.where.parameters)

    def _cell(self, column: ExportColumn) -> str:
        name = identifier(column.name)
        if self.spreadsheet and column.kind is Kind.TEXT:
            name = f"({_MARKED.format(name)})"
        return _WRITTEN[Format.CSV][column.kind].format(name)

    def _source(self) -> str:
        fields = "".join(
            f", m.{identifier(stored)} AS {identifier(name)}"
            for name, stored in self._stored.items()
        )
        if self.current is not None:
            # The fields that `m` has; NULL where they are those of the meter.
            present = ", ".join(
                f"CASE WHEN {_PRESENT.format(identifier(name))} THEN {quote(name)} END"
                for name in self.fields
            )
            own = f"CASE WHEN NOT ({self._usual()}) THEN concat_ws(' ', {present}) END"
            fields += f", {own} AS {identifier(FIELDS_KEY)}"
        return (
            "SELECT coalesce(a.code, m.account_id) AS account,"
            f" m.uid, m.ts, m.ets{fields} FROM (FROM {self._table()}) m"
            f" LEFT JOIN account_code a ON a.id = m.account_id WHERE {self.where.sql}"
        )

    def _table(self) -> str:
        return f"{self.table} AT (VERSION => {self.snapshot:d})"


def stored_fields(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of a meter's table that hold fields, by category and in their order."""
    found = [name for name in columns if _category(name) in CATEGORY_KEYS and "." in name]
    return tuple(sorted(found, key=lambda name: CATEGORY_KEYS.index(_category(name))))


def _category(name: str) -> str:
    return name.partition(".")[0]


def _column_sql(column: ExportColumn, format: Format) -> str:
    return _WRITTEN[format].get(column.kind, "{0}").format(identifier(column.name))


def _line(fixed: Sequence[ExportColumn], columns: Sequence[ExportColumn]) -> str:
    """The SQL of one measurement in the wire's shape: fields nested by category, no nulls."""
    members = [_member(column.name, column) for column in fixed]
    fields = columns[len(fixed) :]
    members.extend(
        _group(category, list(group))
        for category, group in groupby(fields, lambda column: _category(column.name))
    )
    return f"'{{' || concat_ws(',', {', '.join(members)}) || '}}'"


def _member(name: str, column: ExportColumn) -> str:
    # NULL || text is NULL, and concat_ws leaves NULL out.
    return f"{quote(_json(name) + ':')} || {_column_sql(column, Format.JSONL)}"


def _group(category: str, columns: Sequence[ExportColumn]) -> str:
    members = ", ".join(_member(column.name.partition(".")[2], column) for column in columns)
    return (
        f"{quote(_json(category) + ':')} || '{{' || nullif(concat_ws(',', {members}), '') || '}}'"
    )


def _json(name: str) -> str:
    # Codes of fields are letters, digits, _ and $.
    return f'"{name}"'
