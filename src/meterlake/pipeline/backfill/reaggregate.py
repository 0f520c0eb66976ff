"""Re-aggregate: the quantities of the periods of a window, as measurements and configuration are now.

What a run came to is kept with a note that is write_durably last: whoever continues after a crash takes
the finished runs as they are.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.errors import Conflict
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import naive
from meterlake.model.values.sql import identifier
from meterlake.pipeline.backfill.difference import (
    KEPT_MAX,
    billed_months,
    differing,
    plain_quantities,
    stored_quantities,
)
from meterlake.pipeline.backfill.impact import with_parents
from meterlake.pipeline.backfill.job import BackfillJob
from meterlake.pipeline.backfill.month_tasks import open_job, read_notes
from meterlake.pipeline.backfill.partial_rerun import Chosen, meters_read, parts_of, together
from meterlake.pipeline.backfill.period_usage import storable, total_usage
from meterlake.pipeline.backfill.priced import World, affected_bills
from meterlake.pipeline.backfill.runs import Bounds, affected_runs, bounds, selections
from meterlake.pipeline.usage.period_usage import assembler
from meterlake.pipeline.usage.usage_configuration import read
from meterlake.stages.usage.cycles import UsageConfiguration
from meterlake.stores import Stores
from meterlake.stores.fan_out import FanOutTask, runner_of
from meterlake.stores.files.durable import make_folder, sync, write_durably
from meterlake.stores.lake import quantities
from meterlake.stores.lake.backfill.rows import fingerprint, keys
from meterlake.stores.lake.backfill.steps import Next
from meterlake.stores.lake.quantity_runs import RUNS, RunKey
from meterlake.stores.lake.tables import newest_snapshot


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that is staged.

    Attributes:
        reads: Which measurements it reads.
        accounts: The accounts whose measurements these are; all if empty.
        newest: The id of the run whose place it takes; None if there is none.
        id: Its own id; None if the newest one stands.
        marks: What its measurements are told by.
    """

    key: RunKey
    reads: Bounds
    accounts: tuple[str, ...]
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
        for each in selections(self.reads, self.accounts):
            found |= fingerprint(connection, each, self.snapshot, at)
        return found

    @property
    def measurements(self) -> int:
        """How many measurements it reads."""
        return sum(rows for rows, *_ in self.marks.values())

    def to_wire(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "key": list(self.key),
            "reads": {meter: list(each) for meter, each in self.reads.items()},
            "accounts": list(self.accounts),
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
        key, accounts = RunKey(*found["key"]), tuple(found["accounts"])
        return cls(key, reads, accounts, *(found[name] for name in names))


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def stage(job: BackfillJob) -> dict[str, Any]:
    """Calculate the periods again; what differs from the newest runs waits to be stored."""
    organization = job.organization
    job.folder.begin()
    # Remove what was calculated from another snapshot.
    mark, snapshot = job.folder.rows / "snapshot", str(job.backfill.snapshot)
    if not mark.exists() or mark.read_text() != snapshot:
        job.folder.clear(job.folder.rows)
        make_folder(job.folder.rows)
        with write_durably(mark) as temporary:
            temporary.write_text(snapshot)
    with organization.reading() as reader:
        configuration = reader.configuration()
    window = job.backfill.spec.window
    assert window is not None
    world = World(organization, configuration, job.backfill.snapshot)
    done = [
        each
        for each in _all(_Work(job, world), affected_runs(job, configuration, window))
        if each is not None
    ]
    runs, entries = [run for run, _ in done], [entry for _, found in done for entry in found]
    mark_step("backfill.keys_staged")
    job.folder.write({"runs": [run.to_wire() for run in runs]})
    # Bills read measurements: what they would come to is the same before and after.
    billed = list(affected_bills(world, billed_months(entries), {}))
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


_Outcome = tuple[_Run, list[dict[str, Any]]]


def _all(work: "_Work", periods: list[PeriodSpec]) -> Iterator[_Outcome | None]:
    """Calculate runs, a few at once."""
    runner = runner_of(work.job.organization.stores)
    if runner is not None:
        # Have a runner calculate runs.
        backfill = work.job.backfill
        tasks = [
            FanOutTask(
                f"{each.frequency.lower()} {each.day} of backfill {backfill.id}",
                aggregate_run,
                (backfill.org_id, backfill.id, backfill.snapshot, each),
            )
            for each in periods
        ]
        for note in read_notes(work.job, runner, tasks, _count_measurements):
            yield None if note is None else (_Run.from_wire(note["run"]), note["changed"])
        return
    # After this several threads may read at once.
    work.job.lake.open_to_read()
    with ThreadPoolExecutor(work.job.organization.settings.threads) as pool:
        waiting = [pool.submit(work.run, each) for each in periods]
        try:
            for done, each in enumerate(waiting, 1):
                found = each.result()
                work.job.progress(found[0].measurements if found else 0, done, len(periods))
                yield found
        except BaseException:
            # One has failed: those that have not begun are of no use.
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _count_measurements(note: Mapping[str, Any]) -> int:
    return _Run.from_wire(note["run"]).measurements


def aggregate_run(
    stores: Stores, org_id: str, id: str, snapshot: int, period: PeriodSpec
) -> str | None:
    """Calculate one run of a backfill, as a task; the name of its note, None if there is no run.

    Raises:
        Busy: The backfill was begun again.
        Unavailable: A store failed.
    """
    organization = stores.organization(org_id)
    job = open_job(organization, id, snapshot)
    with organization.reading() as reader:
        configuration = reader.configuration()
    work = _Work(job, World(organization, configuration, snapshot))
    found = work.run(period)
    return None if found is None else work.note(found[0].key).name


@dataclass(frozen=True, slots=True)
class _Work:
    job: BackfillJob
    world: World

    def run(self, periods: PeriodSpec) -> _Outcome | None:
        """Calculate one run, unless that is done already; None if there is nothing to carry over."""
        found = read(self.world.organization.state, self.world.organization.id, periods)
        key = RunKey(found.run.frequency.value, found.run.name)
        versions = found.digest()
        with self.world.lake.reader() as connection:
            stored = quantities.newest_rows(connection, key)
        newest = None if stored.is_empty() else str(stored["run_id"][0])
        kept = self._stored_outcome(key, (versions, newest))
        if kept is not None:
            return kept
        spec = self.job.backfill.spec
        accounts = with_parents(found.entities, spec.accounts)
        chosen = Chosen(frozenset(spec.meters), accounts, meters_read(found.entities))
        if newest is None and not chosen.everything:
            return None
        return self._calculate(found, chosen, stored, versions)

    def _calculate(
        self, found: UsageConfiguration, chosen: Chosen, stored: pl.DataFrame, versions: str
    ) -> _Outcome:
        job, key = self.job, RunKey(found.run.frequency.value, found.run.name)
        newest = None if stored.is_empty() else str(stored["run_id"][0])
        stored = stored.filter(pl.col("account_id").is_not_null())
        usage = assembler(found, chosen.accounts or None)
        reads = bounds(usage)
        if chosen.meters:
            reads = {id_: each for id_, each in reads.items() if id_ in chosen.meters}
        rest = chosen.rest(stored) if not chosen.everything else stored.clear()
        # Put the quantities together; compound ones of what is carried over, too.
        meters = chosen.meters or {each.entity.meter_id for each in usage.entities.all(Aggregation)}
        total = total_usage(self.world, usage, meters)
        usage.add_simple(total.simple)
        usage.add_custom(total.custom)
        usage.add_defaults()
        # Those of other meters are here as they are stored.
        usage.rows = [row for row in usage.rows if chosen.has_row(row)]
        usage.rows += parts_of(rest, chosen)
        usage.add_compounds()
        fresh = [row for row in storable(usage.rows) if chosen.has_row(row)]
        with self.world.lake.reader() as connection:
            periods = quantities.statements_of(connection, newest) if newest and len(rest) else None
            rows, statements = together(fresh, rest, periods)
            made = quantities.RunQuantities(rows, self.world.snapshot, naive(job.now), statements)
            prepared = quantities.prepare(connection, key, made)
            accounts = chosen.measured_accounts(found.entities)
            # Should another one have come since it was read, applying is refused.
            run = _Run(key, reads, accounts, self.world.snapshot, versions, {}, newest, None)
            marks = run.fingerprint(connection, self.world.snapshot)
        id_ = None if prepared.tables is None else self._store(prepared.tables)
        before = stored_quantities(
            row
            for row in prepared.known.iter_rows(named=True)
            if chosen.has(row["account_id"], row["aggregation_id"], row["meter_id"])
        )
        after = plain_quantities(fresh)
        changed = differing(self.world.configuration, key, before, after) if id_ else []
        done = replace(run, marks=marks, id=id_), changed
        with write_durably(self.note(key)) as temporary:
            temporary.write_bytes(wire.dumps({"run": done[0].to_wire(), "changed": changed}))
        mark_step("backfill.run_done")
        return done

    def _store(self, tables: Mapping[str, pl.DataFrame]) -> str:
        id_ = str(tables[quantities.TABLE]["run_id"][0])
        for table, rows in tables.items():
            path = self.job.folder.rows / f"{id_}-{table}.parquet"
            rows.write_parquet(path, compression="zstd", compression_level=1)
            sync(path)
        sync(self.job.folder.rows)
        return id_

    def note(self, key: RunKey) -> Path:
        # The name of an ad hoc period has a slash.
        name = sha256(key.period.encode()).hexdigest()[:16]
        return self.job.folder.rows / f"{key.frequency}-{name}.json"

    def _stored_outcome(self, key: RunKey, now: tuple[str, str | None]) -> _Outcome | None:
        """What a run came to before a crash, if it would come to the same."""
        with suppress(FileNotFoundError):
            found = wire.loads(self.note(key).read_bytes())
            run = _Run.from_wire(found["run"])
            same = (run.configuration, run.newest, run.snapshot) == (*now, self.world.snapshot)
            return (run, found["changed"]) if same else None
        return None


def change(job: BackfillJob, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
    """Store the runs, within a transaction.

    Raises:
        Conflict: Measurements, configuration or quantities are not as they were.
    """
    del step
    now = newest_snapshot(connection)
    runs = _runs(job)
    for done, run in enumerate(runs, 1):
        _check(job, connection, run, now)
        for table in (quantities.TABLE, quantities.STATEMENTS):
            path = job.folder.rows / f"{run.id}-{table}.parquet"
            if run.id is not None and path.exists():
                connection.execute(
                    f"INSERT INTO lake.{identifier(table)} BY NAME FROM {keys(path)}"
                )
        job.progress(run.measurements, done, len(runs))
    mark_step("backfill.deleted")


def _runs(job: BackfillJob) -> list[_Run]:
    return [_Run.from_wire(each) for each in job.folder.read()["runs"]]


def _check(job: BackfillJob, connection: duckdb.DuckDBPyConnection, run: _Run, now: int) -> None:
    again = f"start backfill {job.backfill.id!r} again with its id"
    if quantities.newest_run(connection, run.key) != run.newest:
        raise Conflict(f"{run.key.period} was aggregated meanwhile: {again}")
    if now != run.snapshot:
        marks = run.fingerprint(connection, None)
        if marks != run.marks:
            raise Conflict(f"the measurements of {run.key.period} have changed: {again}")
    asked = PeriodSpec.named(BillingFrequency(run.key.frequency), run.key.period)
    found = read(job.organization.state, job.organization.id, asked)
    if found.digest() != run.configuration:
        raise Conflict(f"the configuration of {run.key.period} has changed: {again}")


def undo(job: BackfillJob, connection: duckdb.DuckDBPyConnection, step: Next) -> None:
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
                f" {run.key.period} was aggregated again since;"
                " revert the later backfill first, or aggregate the period once more"
            )
        for table in (quantities.TABLE, quantities.STATEMENTS, RUNS):
            connection.execute(f"DELETE FROM lake.{identifier(table)} WHERE run_id = ?", [run.id])
    mark_step("backfill.brought_back")
