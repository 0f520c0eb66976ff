"""Users, groups, service users, sessions and keys in State."""
