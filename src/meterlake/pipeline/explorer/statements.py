"""The SQL of a question about usage, as people read it and run it themselves."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.pipeline.explorer.explore import Stop, asked, reading
from meterlake.stages.usage.explore import aggregate_query, raw
from meterlake.stores import Organization

# A quoted identifier, in which a sign of dollar means nothing, or a parameter.
_PARAMETER: Final = re.compile(r'"(?:[^"]|"")*"|\$(\w+)')


def statements(
    organization: Organization, query: UsageQueryRequest, stop: Stop
) -> list[dict[str, str]]:
    """What a question asks of the lake: one statement for each meter that has measurements.

    Raises:
        Invalid: As `explore` says.
    """
    questions, scope = asked(organization, query)
    found = []
    with reading(organization.explored_lake, stop) as snapshot:
        for each in questions:
            present = snapshot.columns(each)
            if present:
                ask = aggregate_query if each.rollups else raw
                sql, parameters = ask(each, present, scope)
                found.append({"meter": each.meter, "sql": with_values(sql, parameters)})
    return found


def with_values(sql: str, parameters: Mapping[str, Any]) -> str:
    """A statement with its parameters written out.

    >>> print(with_values('SELECT "a$b" WHERE x = $b', {"b": "eu"}))
    SELECT "a$b" WHERE x = 'eu'
    """

    def written(found: re.Match[str]) -> str:
        name = found[1]
        return _literal(parameters[name]) if name in parameters else found[0]

    return _PARAMETER.sub(written, sql)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'"
    return str(value)
