"""Re-aggregate: the quantities of the periods of a window, as measurements and configuration are now."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

import duckdb
import polars as pl

from meterlake.model import wire
from meterlake.model.billing import Quantity
from meterlake.model.entity import Configuration
from meterlake.model.errors import Conflict
from meterlake.model.failpoint import reached
from meterlake.model.money import plain
from meterlake.model.period import Month, naive
from meterlake.model.pricing import BillingFrequency
from meterlake.model.recurring_period import Asked
from meterlake.model.sql import identifier
from meterlake.pipeline.aggregate import Calculated, calculate
from meterlake.pipeline.backfill.difference import KEPT_MAX, entry
from meterlake.pipeline.backfill.job import Job
from meterlake.pipeline.backfill.priced import World, touched_bills
from meterlake.pipeline.backfill.runs import Bounds, bounds, selections, touched_runs
from meterlake.pipeline.quantity_rows import segment_text
from meterlake.pipeline.run_usage import RunUsage
from meterlake.pipeline.usage_configuration import UsageConfiguration, read
from meterlake.stores import quantities
from meterlake.stores.backfill_rows import fingerprint, keys
from meterlake.stores.backfill_steps import Next
from meterlake.stores.durable import make_folder, sync
from meterlake.stores.lake_tables import newest_snapshot


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that is staged.

    Attributes:
        reads: Which measurements it reads.
        newest: The id of the run whose place it takes; None if there is none.
        id: Its own id; None if the newest one stands.
        marks: What its measurements are told by.
    """

    key: quantities.RunKey
    reads: Bounds
    snapshot: int
    configuration: str
    marks: Mapping[str, Any]
    newest: str | None
    id: str | None

    def fingerprint(
        self, connection: duckdb.DuckDBPyConnection, at: int | None
    ) -> dict[str, list[Any]]:
        """What tells whether the measurements that it reads are still the same."""
        found: dict[str, list[Any]] = {}
        for each in selections(self.reads):
            found |= fingerprint(connection, each, self.snapshot, at)
        return found

    def to_wire(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "key": list(self.key),
            "reads": {meter: list(each) for meter, each in self.reads.items()},
            "snapshot": self.snapshot,
            "configuration": self.configuration,
            "marks": dict(self.marks),
            "newest": self.newest,
            "id": self.id,
        }

    @classmethod
    def from_wire(cls, found: Mapping[str, Any]) -> "_Run":
        """Read it back."""
        reads = {
            meter: (start and _instant(start), _instant(end))
            for meter, (start, end) in found["reads"].items()
        }
        names = ("snapshot", "configuration", "marks", "newest", "id")
        return cls(quantities.RunKey(*found["key"]), reads, *(found[name] for name in names))


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def stage(job: Job) -> dict[str, Any]:
    """Calculate the periods again; what differs from the newest runs waits to be stored."""
    folder = job.folder
    folder.begin()
    folder.clear(folder.rows)
    make_folder(folder.rows)
    with job.stores.state.reading(job.backfill.org_id) as reader:
        configuration = reader.configuration()
    runs, entries = [], []
    window = job.backfill.wanted.window
    assert window is not None
    for asked in touched_runs(job, configuration, window):
        run, found = _staged(job, asked, configuration)
        runs.append(run)
        entries += found
        job.progress(len(found))
    reached("backfill.keys_staged")
    folder.write({"runs": [run.to_wire() for run in runs]})
    world = World(job.stores, job.backfill.org_id, configuration, job.backfill.snapshot)
    # Bills read measurements: what they would come to is the same before and after.
    billed = list(touched_bills(world, _accounts(runs, entries), {}))
    return {
        "runs": len(runs),
        "runsChanged": sum(run.id is not None for run in runs),
        "months": [run.key.period for run in runs],
        "accounts": len({each["accountId"] for each in entries}),
        "quantities": entries[:KEPT_MAX],
        "quantitiesChanged": len(entries),
        "bills": billed[:KEPT_MAX],
        "billsTouched": len(billed),
    }


def _accounts(runs: Sequence[_Run], entries: Sequence[dict[str, Any]]) -> dict[Month, set[str]]:
    """The accounts whose quantities of a month change."""
    names = {run.key.period for run in runs if run.key.month}
    found: dict[Month, set[str]] = defaultdict(set)
    for each in entries:
        if each["month"] in names:
            found[Month.parse(each["month"])].add(each["accountId"])
    return found


def _staged(
    job: Job, asked: Asked, configuration: Configuration
) -> tuple[_Run, list[dict[str, Any]]]:
    found = read(job.stores.state, job.backfill.org_id, asked)
    versions, reads = _versions(found), bounds(RunUsage(found))
    made = calculate(job.stores, job.backfill.org_id, asked)
    with job.lake.reader() as connection:
        prepared = quantities.prepare(connection, made.key, made.found(job.now))
        run = _Run(made.key, reads, made.snapshot, versions, {}, prepared.newest, None)
        marks = run.fingerprint(connection, made.snapshot)
    id_ = None
    if prepared.tables is not None:
        id_ = str(prepared.tables[quantities.TABLE]["run_id"][0])
        for table, rows in prepared.tables.items():
            path = job.folder.rows / f"{id_}-{table}.parquet"
            rows.write_parquet(path, compression="zstd", compression_level=1)
            sync(path)
        sync(job.folder.rows)
    changed = list(_difference(configuration, made, prepared.known)) if id_ else []
    return replace(run, marks=marks, id=id_), changed


def _versions(found: UsageConfiguration) -> str:
    """A digest of all that a run reads of the configuration."""
    versions = {
        record.id: record.version
        for kind in found.around.kinds()
        for record in found.around.all(kind)
    }
    fields = {id_: dict(values) for id_, values in found.account_fields.items()}
    return sha256(wire.dumps_sorted([versions, fields]).encode()).hexdigest()


def _difference(
    configuration: Configuration, made: Calculated, known: pl.DataFrame
) -> Iterator[dict[str, Any]]:
    before = {
        (row["account_id"], row["aggregation_id"], row["segment"], row["period_start"]): {
            "quantity": row["quantity"],
            "units": row["units"],
            "unit": row["unit"],
            "measurements": row["measurements"],
        }
        for row in known.iter_rows(named=True)
    }
    after = {_place(row.quantity): _shown(row.quantity) for row in made.rows}
    for place in sorted({*before, *after}, key=str):
        old, new = before.get(place), after.get(place)
        if old != new:
            about = (made.key.period, place[0], place[1])
            found = entry(configuration, about, old, new)
            yield found if place[2] is None else {**found, "segment": wire.loads(place[2])}


def _place(quantity: Quantity) -> tuple[str, str, str | None, datetime]:
    segment = segment_text(quantity.segment)
    return quantity.account_id, quantity.aggregation_id, segment, naive(quantity.period.start)


def _shown(quantity: Quantity) -> dict[str, Any]:
    return {
        "quantity": plain(quantity.value),
        "units": plain(quantity.units),
        "unit": quantity.unit,
        "measurements": quantity.measurements,
    }


def change(job: Job, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Store the runs, within a transaction.

    Raises:
        Conflict: Measurements, configuration or quantities are not as they were.
    """
    del step
    now = newest_snapshot(connection)
    for run in _runs(job):
        _check(job, connection, run, now)
        for table in (quantities.TABLE, quantities.STATEMENTS):
            path = job.folder.rows / f"{run.id}-{table}.parquet"
            if run.id is not None and path.exists():
                connection.execute(
                    f"INSERT INTO lake.{identifier(table)} BY NAME FROM {keys(path)}"
                )
    reached("backfill.deleted")


def _runs(job: Job) -> list[_Run]:
    return [_Run.from_wire(each) for each in job.folder.read()["runs"]]


def _check(job: Job, connection: duckdb.DuckDBPyConnection, run: _Run, now: int) -> None:
    again = f"start backfill {job.backfill.id!r} again with its id"
    if quantities.newest_run(connection, run.key) != run.newest:
        raise Conflict(f"{run.key.period} was aggregated meanwhile: {again}")
    if now != run.snapshot:
        marks = run.fingerprint(connection, None)
        if marks != run.marks:
            raise Conflict(f"the measurements of {run.key.period} have changed: {again}")
    asked = Asked.named(BillingFrequency(run.key.frequency), run.key.period)
    if _versions(read(job.stores.state, job.backfill.org_id, asked)) != run.configuration:
        raise Conflict(f"the configuration of {run.key.period} has changed: {again}")


def undo(job: Job, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Take the runs out again, so that those before are the newest, within a transaction.

    Raises:
        Conflict: A period was aggregated again since.
    """
    del step
    for run in _runs(job):
        if run.id is None:
            continue
        if quantities.newest_run(connection, run.key) != run.id:
            raise Conflict(
                f"backfill {job.backfill.id!r} cannot be reverted:"
                f" {run.key.period} was aggregated again since"
            )
        for table in (quantities.TABLE, quantities.STATEMENTS):
            connection.execute(f"DELETE FROM lake.{identifier(table)} WHERE run_id = ?", [run.id])
    reached("backfill.brought_back")
