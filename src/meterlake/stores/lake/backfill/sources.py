"""Sources as backfills name them: by deliveries, by what people write, by their first name."""

from collections.abc import Sequence

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


def first_names(connection: duckdb.DuckDBPyConnection, identities: Sequence[str]) -> dict[str, str]:
    """The names that sources came with first, by their identities."""
    query = """
        SELECT identity, min_by(name, attempt) FROM lake.source
        WHERE identity IN (SELECT unnest(CAST($identities AS VARCHAR[]))) GROUP BY identity"""
    return dict(connection.execute(query, {"identities": list(identities)}).fetchall())
