"""The published DuckDB file: which tables and views it has, and what each of their columns means."""
