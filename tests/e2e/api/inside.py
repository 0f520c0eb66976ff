"""What an answer may not say of us: no stack, no SQL, no path, no module."""

import re

_INSIDE = re.compile(
    r"traceback|\bselect\b.+\bfrom\b|insert into|update \w+ set|sqlalchemy|sqlite3|psycopg|pydantic"
    r"|duckdb\.|meterlake\.|site-packages|\.py\b|/tmp/|/root/|/home/|/usr/|<class|object at 0x",
    re.IGNORECASE,
)


def told_of_inside(body: str, asked: str = "") -> list[str]:
    """What a body says of our inside; a refusal may repeat what was asked."""
    return [each[0] for each in _INSIDE.finditer(body) if each[0] not in asked]
