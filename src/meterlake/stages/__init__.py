"""Pure stages: tables or values in, tables or values out. They never import each other."""
