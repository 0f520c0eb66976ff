"""Configuration: entities, documents of many entities, and the rules beyond one entity."""
