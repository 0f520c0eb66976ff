"""`bill explain`: where each number of a bill comes from."""
