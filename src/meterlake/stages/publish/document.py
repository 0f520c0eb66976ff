"""The data dictionary as a page: every table, view and macro of both doors, with its columns."""

from collections.abc import Iterator, Mapping
from datetime import UTC

from meterlake.stages.publish.entities import ENTITY_TABLES
from meterlake.stages.publish.tables import (
    ABOUT_TABLE,
    BILL_TABLES,
    DICTIONARY,
    LAKE_TABLES,
    MEASUREMENT_DOCS,
    Table,
)
from meterlake.stages.publish.views import FIXED_VIEWS, usage_views


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
