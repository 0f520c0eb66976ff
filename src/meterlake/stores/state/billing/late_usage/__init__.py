"""Late usage in State: found, decided, and never carried twice.

A bill has at most one row about which something may still be done. What memos carry is known by the
key of the bill, so that a bill that was deleted and made anew is not charged for it again.
"""
