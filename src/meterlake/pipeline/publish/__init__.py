"""The published DuckDB file, its views, the report, and SQL over all of it."""
