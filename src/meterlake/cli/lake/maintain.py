"""`meterlake maintain`: upkeep of the lake."""

from cyclopts import App

from meterlake.cli.shell.options import NO_OPTIONS, Options


def register(app: App) -> None:
    """Add the command."""
    app.command(maintain)


def maintain(*, options: Options = NO_OPTIONS) -> None:
    """Merge the lake's small files, and remove old snapshots, events and orphans.

    Snapshots that no bill and no running job pins expire after METERLAKE_SNAPSHOT_DAYS, and events
    go after METERLAKE_EVENT_DAYS. You may run it beside ingest and beside readers, at any time and
    as often as you like.

    Example: `meterlake maintain`
    """
    from meterlake.pipeline.home.maintain import maintain as work

    with options.open() as (stores, organization):
        done = work(stores, organization.id)
    options.output.record(done.to_wire())
