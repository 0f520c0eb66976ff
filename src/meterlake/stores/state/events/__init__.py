"""Events and incidents in State."""
