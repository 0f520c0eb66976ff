"""What backfills read and change of a lake: rows, steps, and what files or new rules bring."""
