"""Pages that lead from nothing to a first bill."""
