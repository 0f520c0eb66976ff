"""Lookup tables, their data and the jobs that load or archive it."""
