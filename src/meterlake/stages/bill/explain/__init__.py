"""Bills explained: every number of a calculation with the numbers that it follows from.

It reads what a bill was made from, and calculates nothing that decides what anybody pays.
"""
