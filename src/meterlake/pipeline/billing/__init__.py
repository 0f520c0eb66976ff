"""Bills of a period, the documents of bills, and balances."""
