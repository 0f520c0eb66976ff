"""The live lake by the names that people know: one view per meter code, and a few beside them."""

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from meterlake.model.accounts import Account
from meterlake.model.catalog import Aggregation, Meter
from meterlake.model.entity import Configuration
from meterlake.model.measurement import FIXED_COLUMNS, NUMBER_TYPE, TEXT_TYPE, Field, meter_table
from meterlake.stores.lake_connection import identifier
from meterlake.stores.rejected import ITEMS

# Everything that aggregating again or ingesting again has replaced is left out.
_FIXED = {
    "source": "SELECT * FROM lake.source",
    "rejected": f"""{ITEMS}
        SELECT name, row, reason, field, detail, meter, uid, original, part, identity
        FROM item WHERE status = 'open'""",
    "calculation_error": "SELECT * FROM lake.calculation_error",
    "quantity": """
        SELECT q.month, a.code AS account, g.code AS aggregation, g.name AS aggregation_name,
            q.quantity, q.units, q.unit, q.value, q.measurements, q.period_start, q.period_end,
            q.snapshot, q.computed_at, q.account_id, q.aggregation_id
        FROM lake.quantity q SEMI JOIN (
            SELECT month, arg_max(run_id, (computed_at, run_id)) AS run_id
            FROM lake.quantity GROUP BY month
        ) newest USING (month, run_id)
        LEFT JOIN account a ON a.id = q.account_id
        LEFT JOIN aggregation g ON g.id = q.aggregation_id
        WHERE q.account_id IS NOT NULL""",
}


@dataclass(frozen=True, slots=True)
class MeterView:
    """One meter: the name of its view, its table in the lake, its fields."""

    name: str
    table: str
    fields: tuple[Field, ...]


def meter_views(configuration: Configuration) -> Iterator[MeterView]:
    """A view per meter, named by its code; `meter_<code>` where the code is taken."""
    taken = {"account", "aggregation", *_FIXED}
    for meter in sorted(configuration.all(Meter), key=lambda record: record.entity.code):
        name = meter.entity.code
        while name.casefold() in taken:
            name = f"meter_{name}"
        taken.add(name.casefold())
        fields = tuple(Field(each.category, each.code) for each in meter.entity.all_fields)
        yield MeterView(name, meter_table(meter.id), fields)


def create_views(connection: duckdb.DuckDBPyConnection, configuration: Configuration) -> None:
    """Create all views in a connection that has the lake attached as `lake`."""
    _create_names(connection, configuration)
    for name, query in _FIXED.items():
        connection.execute(f"CREATE VIEW {identifier(name)} AS {query}")
    present = _columns(connection)
    for view in meter_views(configuration):
        query = _measurements(view, present.get(view.table, set()))
        connection.execute(f"CREATE VIEW {identifier(view.name)} AS {query}")


def _create_names(connection: duckdb.DuckDBPyConnection, configuration: Configuration) -> None:
    connection.execute("CREATE TABLE account (id VARCHAR, code VARCHAR, name VARCHAR)")
    accounts = [
        (each.id, each.entity.code, each.entity.name) for each in configuration.all(Account)
    ]
    connection.execute("CREATE TABLE aggregation (id VARCHAR, code VARCHAR, name VARCHAR)")
    aggregations = [
        (each.id, each.entity.code, each.entity.name) for each in configuration.all(Aggregation)
    ]
    for table, rows in (("account", accounts), ("aggregation", aggregations)):
        ids, codes, names = zip(*rows, strict=True) if rows else ((), (), ())
        connection.execute(
            f"INSERT INTO {table} SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[]),"
            " unnest(?::VARCHAR[])",
            [list(ids), list(codes), list(names)],
        )


def _columns(connection: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    rows = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'lake'"
    ).fetchall()
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    return found


def _measurements(view: MeterView, present: set[str]) -> str:
    """The query of a meter's view; what the lake does not have yet is NULL."""
    names = {
        **dict.fromkeys(("uid", "ts", "ets")),
        **{field.column: _name(field) for field in view.fields},
        **dict.fromkeys(("received_at", "source", "row", "part", "account_id")),
    }
    types = FIXED_COLUMNS | {
        field.column: NUMBER_TYPE if field.category.numeric else TEXT_TYPE for field in view.fields
    }
    columns = [
        (f"m.{identifier(column)}" if column in present else f"NULL::{types[column]}")
        + f" AS {identifier(name or column)}"
        for column, name in names.items()
    ]
    columns.insert(1, "coalesce(a.code, m.account_id) AS account")
    if not present:
        source = "(SELECT NULL::VARCHAR AS account_id WHERE false) m"
    else:
        source = f"lake.{identifier(view.table)} m"
    return f"SELECT {', '.join(columns)} FROM {source} LEFT JOIN account a ON a.id = m.account_id"


def _name(field: Field) -> str:
    """A field's code alone, unless a fixed column has that name."""
    taken = {"account", *FIXED_COLUMNS}
    return field.column if field.code.casefold() in taken else field.code
