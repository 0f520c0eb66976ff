"""Commitments and balances: what is left of them, what they pay for, and what of it goes back."""
