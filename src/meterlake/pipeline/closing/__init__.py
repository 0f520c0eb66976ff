"""Closing a month: its steps, its bills, its review, and opening it again."""
