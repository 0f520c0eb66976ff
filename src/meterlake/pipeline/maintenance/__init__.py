"""Keeping a home well: maintenance of lakes, reconciliation of what is stored, moving a lake."""
