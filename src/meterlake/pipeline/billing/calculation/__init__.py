"""The bills of a run, calculated from one snapshot and one reading of the configuration.

What they depend on is read at once; terms, quantities and bills are those of one bucket of accounts
after the other, so that memory does not grow with the accounts.
"""
