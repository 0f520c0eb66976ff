"""Configuration documents: described, checked, proposed, pruned."""
