"""Statements: the usage behind the lines of a bill, as files that a customer reads."""
