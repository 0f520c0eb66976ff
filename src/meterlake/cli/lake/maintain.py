"""Upkeep of the lakes of a home: `meterlake maintain`, `meterlake move-lake`, `meterlake shard-lake`."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_HOME_OPTIONS, NO_OPTIONS, HomeOptions, Integer, Options

if TYPE_CHECKING:
    from meterlake.settings import Settings


Switch = Annotated[bool, Parameter(negative="", show_default=False)]
Location = Annotated[str | None, Parameter(show_default=False)]
_COLUMNS = (*("organization", "files", "bytes", "sent", "?catalogRows=catalog rows", "?snapshot"),)


def register(app: App) -> None:
    """Add the commands."""
    app.command(maintain)
    app.command(move_lake, name="move-lake")
    app.command(shard_lake, name="shard-lake")


def maintain(*, options: Options = NO_OPTIONS) -> None:
    """Merge the lake's small files, and remove old snapshots, events and orphans.

    Snapshots that no bill and no running job pins expire after METERLAKE_SNAPSHOT_DAYS, and events
    go after METERLAKE_EVENT_DAYS. You may run it beside ingest and beside readers, at any time and
    as often as you like.

    Example: `meterlake maintain`
    """
    from meterlake.pipeline.maintenance.maintain import maintain as work

    with options.open() as organization:
        done = work(organization)
    options.output.record(done.to_wire())


def move_lake(
    *,
    lake: Location = None,
    catalog: Location = None,
    dry_run: Switch = False,
    remove_source: Switch = False,
    options: HomeOptions = NO_HOME_OPTIONS,
) -> None:
    """Move the lakes of the home to a bucket and PostgreSQL, or back, with their whole history.

    The command reads every file back, and compares every row of the catalogs; then it writes the
    new place into the settings of the home. If you kill it, run it again, and it goes on. Start the
    home's processes again after it.

    Example: `meterlake move-lake --lake s3://usage/lakes --catalog postgresql://db.example/lakes`

    Args:
        lake: The new place of their files: an s3:// or a gs:// URL, or `home`; if you leave it out,
            they stay.
        catalog: The new place of their catalogs: a postgresql:// URL, or `sqlite`.
        dry_run: Show what it would move, and move nothing.
        remove_source: Remove the lakes at their former place. If you give it alone: those that the
            last move left.
    """
    from meterlake.cli.shell.garbage import resume_collection
    from meterlake.pipeline.maintenance.move_lake import move_lakes, plan_move, remove_former
    from meterlake.stores import open_stores

    with open_stores(options.settings()) as stores:
        resume_collection()
        if lake is None and catalog is None and remove_source and not dry_run:
            options.output.record({"removedFiles": remove_former(stores)})
            return
        target = _target(stores.settings, lake, catalog)
        if dry_run:
            found = plan_move(stores, target)
        else:
            found = move_lakes(stores, target, remove_source=remove_source)
    options.output.rows([each.to_wire() for each in found], _COLUMNS)
    if not dry_run:
        options.output.note("The lakes are moved: start the home's other processes again.")


def _target(settings: "Settings", lake: str | None, catalog: str | None) -> "Settings":
    """The home's settings as they will be; what is not named stays.

    Raises:
        Required: Nothing is named.
        Invalid: What is named is no bucket, or no database.
    """
    from meterlake.model.errors import Required
    from meterlake.stores.home_settings import check_location

    if lake is None and catalog is None:
        raise Required("--lake or --catalog")
    changes: dict[str, str | None] = {}
    for name, value, own in (("lake", lake, "home"), ("catalog", catalog, "sqlite")):
        if value is None:
            continue
        if value != own:
            check_location(name, value, f"--{name}")
        changes[name] = None if value == own else value
    return settings.model_copy(update=changes)


def shard_lake(*, shards: Integer, options: Options = NO_OPTIONS) -> None:
    """Divide the uids of an organization's lake into shards: an index, a lock and a worker each.

    meterlake then compares new measurements with the history in all shards side by side, before it
    takes the lake's lock. It is for lakes of hundreds of millions of measurements; small ones gain
    nothing. Stored data does not change. You may run it beside ingest and readers. If you kill it,
    run it again, and it goes on.

    Example: `meterlake shard-lake --shards 8`

    Args:
        shards: How many, from 1 to 64; 1 makes the lake whole again.
    """
    from meterlake.pipeline.maintenance.move_lake import shard_lake as work

    with options.open() as organization:
        done = work(organization, shards)
    options.output.record(done.to_wire())
