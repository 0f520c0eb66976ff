"""Raw rows to fresh measurements: shape, validate, derive, de-duplicate."""
