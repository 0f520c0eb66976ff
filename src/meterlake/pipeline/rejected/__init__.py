"""Rejected rows and receipts: looked at, fixed and ingested again."""
