"""The steps that draft the lines of a bill, each a module."""
