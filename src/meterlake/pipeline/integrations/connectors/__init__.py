"""Connectors: what is specific to one system that runs are sent to; each is a class and a row."""
