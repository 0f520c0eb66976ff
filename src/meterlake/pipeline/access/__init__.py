"""Who may do what: users, groups, passwords, tokens, logins."""
