"""How a State database gets its tables; run by `engine.migrate`."""
