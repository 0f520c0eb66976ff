"""Pages of bills: the list, one bill, its lines."""
