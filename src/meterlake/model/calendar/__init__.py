"""Recurring instants: cron expressions, recurring periods and the schedules made of them."""
