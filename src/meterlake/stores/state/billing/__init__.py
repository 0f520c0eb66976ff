"""Bills, balances and what bills pin, in State."""
