"""Events, incidents and alerts."""
