"""Pages of what comes in: files, rejected rows, late usage, backfills."""
