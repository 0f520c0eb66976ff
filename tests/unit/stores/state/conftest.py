"""State on both of its databases: every test here runs on SQLite and on PostgreSQL."""

from tests.databases import clock, database, org, server, state

__all__ = ["clock", "database", "org", "server", "state"]
