"""When bills are due, which of them a run makes, and what time a plan charges for."""
