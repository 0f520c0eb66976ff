"""`meterlake bill` and its commands: bills made, looked at, explained, compared and written."""
