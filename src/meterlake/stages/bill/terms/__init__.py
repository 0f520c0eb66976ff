"""What holds in a run: the bills of accounts, what stands on them, and what is on none."""
