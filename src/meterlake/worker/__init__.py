"""The worker: the one long-lived process that does the work that waits."""
