"""Pages of who may do what, and who did what."""
