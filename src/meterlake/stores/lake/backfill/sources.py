"""Sources as backfills name them: by deliveries, by what people write, by their first name."""

import duckdb


def sources_of_deliveries(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    """The sources of deliveries whose ids match a pattern."""
    rows = connection.execute(
        "SELECT DISTINCT identity FROM lake.source WHERE regexp_full_match(delivery, $deliveries)",
        {"deliveries": pattern},
    ).fetchall()
    return [row[0] for row in rows]


def sources_named(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The sources with a name, or whose identity begins with a text of four digits or more."""
    rows = connection.execute(
        "SELECT DISTINCT identity FROM lake.source"
        " WHERE name = $text OR len($text) >= 4 AND starts_with(identity, $text) ORDER BY 1",
        {"text": text},
    ).fetchall()
    return [row[0] for row in rows]


def first_name(connection: duckdb.DuckDBPyConnection, source: str) -> str | None:
    """The name that a source came with first."""
    query = "SELECT min_by(name, attempt) FROM lake.source WHERE identity = ?"
    row = connection.execute(query, [source]).fetchone()
    return row[0] if row else None
