"""People, programs, policies, and the log of who did what, over HTTP."""
