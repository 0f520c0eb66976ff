"""Names in SQL."""


def identifier(name: str) -> str:
    """A name that may hold anything, in SQL."""
    return '"' + name.replace('"', '""') + '"'
