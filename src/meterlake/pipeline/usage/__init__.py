"""Quantities: aggregate a period, explain a quantity, find late measurements."""
