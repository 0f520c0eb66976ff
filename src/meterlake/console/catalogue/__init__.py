"""Pages of what is measured and what it costs."""
