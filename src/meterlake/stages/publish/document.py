"""What tells readers of a published file about it: the data dictionary, a script, and tables for dbt."""

from collections.abc import Iterator, Mapping
from datetime import UTC
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Final

import yaml

from meterlake.model.values.sql import quote
from meterlake.stages.publish.entities import ENTITY_TABLES
from meterlake.stages.publish.tables import (
    ABOUT_TABLE,
    BILL_TABLES,
    DICTIONARY,
    LAKE_TABLES,
    MEASUREMENT_DOCS,
    Table,
)
from meterlake.stages.publish.views import FIXED_VIEWS, LIVE, usage_views

# Where PyYAML has libyaml, that takes a tenth of the time: a third of all that publishing little takes.
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_KEPT: Final = 8
_SCRIPT = """\
-- The live lake by the names of the published file, read-only and without a network.
-- On the command line: duckdb -init live.sql
-- In Python: connection.execute(open("live.sql").read())
{attach}
ATTACH IF NOT EXISTS {file} AS warehouse (READ_ONLY);
USE warehouse;
SET search_path = '{live},main';
"""


def dictionary_document() -> str:
    """All of it in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The data dictionary"
    yield ""
    yield (
        "This page is for analysts who read the published file or the live lake.\n"
        "It has the meaning of each table and column; [analyst.md](analyst.md) shows you how to open them.\n"
        "You find the same texts as comments in the file, and as rows of its table `dictionary`."
    )
    yield ""
    yield "## Measurements"
    yield ""
    yield "Each meter has a view with the meter's code as its name. You find its fields between `ets` and"
    yield "`received_at`, numbers as DECIMAL(38,12), texts as VARCHAR."
    yield from _columns(MEASUREMENT_DOCS)
    yield "## Quantities, sources, rejected rows"
    for each in LAKE_TABLES:
        yield from _section(each.name, each.doc)
        yield from _columns(each.columns)
    yield "## Bills"
    yield from (line for table in BILL_TABLES for line in _table(table))
    yield ""
    yield "## Configuration"
    yield ""
    yield "Beside each table you find `<table>_history`, with a row for each version that ever was and"
    yield "its `valid_from` and `valid_to`, and the macro `<table>_at(instant)`, which gives you the rows"
    yield "that were true at an instant. Columns with * have calculated values, of now only."
    for entity in ENTITY_TABLES:
        past = {column.name for column in entity.history.columns}
        yield from _table(entity.current, past)
    yield ""
    yield "## Views that add up"
    for view in (*FIXED_VIEWS, *usage_views([], UTC)):
        yield from _section(view.name, view.doc)
        yield from _columns(view.columns)
    yield "## The file itself"
    yield from _table(ABOUT_TABLE)
    yield from _table(DICTIONARY)


def _section(name: str, doc: str) -> Iterator[str]:
    yield from ("", f"### {name}", "", doc)


def _table(table: Table, past: set[str] | None = None) -> Iterator[str]:
    yield from _section(table.name, table.doc)
    yield from ("", "| column | type | meaning |", "|---|---|---|")
    for column in table.columns:
        star = "" if past is None or column.name in past else " *"
        yield f"| `{column.name}`{star} | {column.type} | {column.doc} |"


def _columns(columns: Mapping[str, str]) -> Iterator[str]:
    yield from ("", "| column | meaning |", "|---|---|")
    yield from (f"| `{name}` | {doc} |" for name, doc in columns.items())
    yield ""


def live_script(file: Path, attach: str) -> str:
    """The SQL that opens the live lake by the names of a published file.

    Args:
        file: The published file, which knows the names.
        attach: The statements that attach the lake as `lake`.
    """
    return _SCRIPT.format(attach=attach.replace("; ", ";\n"), file=quote(file), live=LIVE)


# A file is published again and again with the same columns: writing them takes a tenth of it.
@lru_cache(maxsize=_KEPT)
def dbt_sources(
    organization: str, file: Path, columns: tuple[tuple[str, str | None, str], ...]
) -> str:
    """The tables and views of a published file as a source of dbt, in YAML.

    Args:
        organization: The organization's code, the name of the source.
        file: The published file.
        columns: Name, column (None for the table itself) and meaning, by name, the table first.
    """
    tables = []
    for name, group in groupby(columns, lambda row: row[0]):
        rows = list(group)
        shown = [{"name": column, "description": doc} for _, column, doc in rows if column]
        tables.append({"name": name, "description": rows[0][2], "columns": shown})
    source = {
        "name": organization,
        "description": f"What meterlake published of {organization}: {file.name}.",
        "database": file.stem,
        "schema": "main",
        "tables": tables,
    }
    document = {"version": 2, "sources": [source]}
    return str(yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True))
