"""HTTP: both APIs on one port. Thin; what is done stands in `meterlake.pipeline`."""
