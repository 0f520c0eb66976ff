"""The home as a whole: set up, sample data, status, maintenance, reconciliation."""
