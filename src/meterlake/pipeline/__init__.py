"""The verbs: each joins stages and stores, and decides nothing. Import them from their modules."""
