"""A bill as a document: what a template is given, and whether its sums agree."""
