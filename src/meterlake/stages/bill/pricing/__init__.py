"""Prices: which pricings of a plan apply, what a quantity costs, currencies and rounding."""
