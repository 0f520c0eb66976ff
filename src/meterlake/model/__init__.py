"""The vocabulary: values, entities, errors, money, period. No I/O, no clock, no randomness."""
