"""`meterlake lookup`: the data of lookup tables, which calculations of meters read."""

from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Options
from meterlake.model.values.plurals import counted

LISTED: Final = ("!table", "revision", "status", "itemCount=items", "?meters")
_CHANGE: Final = ("config:update", "lookuptablerevision")
Text = Annotated[str | None, Parameter(show_default=False)]


def register(app: App) -> None:
    """Add the commands."""
    lookup = App(name="lookup", help="Lookup tables: load their data, publish it, list it.")
    lookup.command(load)
    lookup.command(publish)
    lookup.command(list_, name="list")
    app.command(lookup)


def load(
    code: str,
    file: Path,
    /,
    *,
    publish: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    revision: Text = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Load a CSV or JSONL file into a draft of a lookup table: all of its rows, or none.

    The rows replace those of the draft. If you have no draft, the command makes one with the
    columns of the published revision. You make the table and its first revision with configuration
    files.

    Example: `meterlake lookup load regions regions.csv --publish`

    Args:
        code: The code of the table.
        file: Ends in .csv, .jsonl or .ndjson; the columns are the fields of the revision.
        publish: Publish the draft afterwards; calculations read it from now on.
        revision: The name of the draft, if you have several.
    """
    from meterlake.pipeline.ingest.lookup_load import LookupLoad, load_lookup

    wanted = LookupLoad(code, file, revision, publish)
    with options.open() as organization:
        author = options.permitted(organization, _CHANGE)
        done = load_lookup(organization, author, wanted)
    _report(done, options)
    if not publish and not options.json:
        options.output.note(f"Publish it: `meterlake lookup publish {code}`")


def publish(code: str, /, *, revision: Text = None, options: Options = NO_OPTIONS) -> None:
    """Publish a draft of a lookup table, and archive the revision before it.

    Example: `meterlake lookup publish regions`

    Args:
        code: The code of the table.
        revision: The name of the draft, if you have several.
    """
    from meterlake.pipeline.ingest.lookup_load import publish_lookup

    with options.open() as organization:
        author = options.permitted(organization, _CHANGE)
        done = publish_lookup(organization, author, code, revision)
    _report(done, options)


def list_(*, options: Options = NO_OPTIONS) -> None:
    """Show the revisions of all lookup tables, and the meters that read them.

    Example: `meterlake lookup list`
    """
    from meterlake.pipeline.ingest.lookup_load import list_lookups

    with options.looked_at() as organization:
        found = list_lookups(organization)
    options.output.rows(found, LISTED, empty="No lookup tables.")


def _report(done: dict[str, Any], options: Options) -> None:
    if options.json:
        options.output.line(done)
        return
    options.output.note(
        f"{counted(done['itemCount'], 'item')} in revision {done['revision']!r} of {done['table']!r}:"
        f" {done['status']}"
    )
    if done["status"] == "PUBLISHED" and done["meters"]:
        options.output.note(
            f"Read by {', '.join(done['meters'])}. What came in before keeps its values:"
            " `meterlake backfill start re-derive --month last`"
        )
