"""Measurements to quantities: billing cycles, aggregations, compounds and explorations."""
