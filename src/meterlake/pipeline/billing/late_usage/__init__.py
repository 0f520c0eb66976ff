"""Late usage: what came after the bill of its period, and what an organization does about it."""
