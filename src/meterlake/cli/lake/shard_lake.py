"""`meterlake shard-lake`: the uids of a large lake in several indexes."""

from cyclopts import App

from meterlake.cli.shell.options import NO_OPTIONS, Integer, Options


def register(app: App) -> None:
    """Add the command."""
    app.command(shard_lake, name="shard-lake")


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
    from meterlake.pipeline.home.move_lake import shard_lake as work

    with options.open() as (stores, organization):
        done = work(stores, organization.id, shards)
    options.output.record(done.to_wire())
