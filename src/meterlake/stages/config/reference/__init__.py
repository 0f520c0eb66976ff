"""The reference of configuration files, derived from the declarations: a schema and a page."""
