"""The database of State: its engine, tables, migrations, reads and transactions."""
