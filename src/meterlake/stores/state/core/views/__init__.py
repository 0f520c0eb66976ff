"""State as it was, and as it would be: temporary views stand before the tables of the present."""
