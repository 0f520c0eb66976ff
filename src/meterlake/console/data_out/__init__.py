"""Pages of what goes out: exports, notifications, integrations."""
