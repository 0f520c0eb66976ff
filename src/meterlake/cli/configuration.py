"""`meterlake config`: configuration as code."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.options import NO_OPTIONS, Options

if TYPE_CHECKING:
    from meterlake.pipeline.configure import Change

# Who changed an entity, in its history and its envelope.
AUTHOR: Final = "cli"


def register(app: App) -> None:
    """Add the commands."""
    config = App(name="config", help="Configuration as code: apply files, export what is there.")
    config.command(apply)
    config.command(export)
    app.command(config)


def apply(
    *paths: Annotated[Path, Parameter(name="PATH", required=True)],
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    options: Options = NO_OPTIONS,
) -> None:
    """Bring the organization to what files say, all or nothing, and show what changed.

    YAML or JSON with entities in the shape of the API, referring to each other by code or id.
    What the files do not mention stays as it is. Applying twice changes nothing.

    Example: `meterlake config apply configuration/ --dry-run`

    Args:
        paths: Files, and folders of files.
        dry_run: Only show what would change.
    """
    from meterlake.pipeline import configure
    from meterlake.stores.custom_sql import limits_of

    documents = configure.read_documents(paths)
    with options.opened() as (stores, organization):
        limits = limits_of(stores.settings)
        changes = configure.apply(
            stores.state, organization.id, documents, AUTHOR, dry_run=dry_run, limits=limits
        )
    if options.json:
        for change in changes:
            options.output.line(_to_wire(change))
    else:
        _show(changes, options, dry_run=dry_run)


def export(*, options: Options = NO_OPTIONS) -> None:
    """Print the organization's configuration as YAML, or as one JSON object with --json.

    Applied to an empty organization it makes the same configuration.

    Example: `meterlake config export > configuration.yaml`
    """
    from meterlake.pipeline import configure

    with options.opened() as (stores, organization):
        if options.json:
            options.output.line(configure.export(stores.state, organization.id))
        else:
            sys.stdout.write(configure.export_yaml(stores.state, organization.id))


def _to_wire(change: "Change") -> dict[str, Any]:
    return {
        "file": change.place,
        "kind": change.kind,
        "name": change.name,
        "id": change.id,
        "action": str(change.action),
        "differences": [
            {"field": each.field, "old": each.old, "new": each.new} for each in change.differences
        ],
        "ignored": change.ignored,
    }


def _show(changes: list["Change"], options: Options, *, dry_run: bool) -> None:
    output = options.output
    rows = [row for change in changes for row in _rows(change)]
    if rows:
        output.rows(rows, ("action", "kind", "name", "field", "old", "new"))
    for change in changes:
        if change.ignored:
            output.note(f"{change.place}: ignored: {', '.join(change.ignored)}")
    counts: dict[str, int] = {}
    for change in changes:
        counts[str(change.action)] = counts.get(str(change.action), 0) + 1
    summary = ", ".join(f"{count} {action}" for action, count in counts.items()) or "no entities"
    output.note(f"{summary}{' (dry run: nothing was written)' if dry_run else ''}")


def _rows(change: "Change") -> Iterator[dict[str, Any]]:
    """The lines of the diff: one per new entity, one per changed field."""
    head = {"action": str(change.action), "kind": change.kind, "name": change.name}
    if head["action"] == "created":
        yield head
    elif head["action"] == "updated":
        for each in change.differences:
            yield head | {"field": each.field, "old": each.old, "new": each.new}
