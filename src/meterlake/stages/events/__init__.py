"""What follows from an event: which notifications it makes go out, and when dates fall due."""
