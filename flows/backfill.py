"""Stored measurements corrected: withdrawn, replaced, derived or aggregated again."""

import flows  # noqa: F401

# isort: split
from pathlib import Path
from typing import Literal, TypeAlias

from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Outcome, Row, told
from flows.parameters import Home, open_home
from flows.retrying import retrying
from meterlake.pipeline.backfill import Order, new_id, start
from meterlake.pipeline.backfill import apply as apply_staged
from meterlake.pipeline.backfill.words import Words, understood

AUTHOR = "flow"
ModeName: TypeAlias = Literal["retract", "re-aggregate", "re-derive", "replace"]


@retrying("backfill {org}")
def correct(
    home: Home, org: str, words: Words, id: str, mapping: Path | None, apply: bool
) -> Outcome:
    """Stage a backfill, and apply it if that is asked for."""
    with open_home(home) as stores:
        org_id = stores.state.organization(org).id
        order = Order(understood(stores, org_id, words), AUTHOR, id, words.files, mapping)
        found = start(stores, org_id, order)
        if apply:
            found = apply_staged(stores, org_id, found.id, AUTHOR)
    counts = {name: value for name, value in found.summary.items() if isinstance(value, int)}
    summary = {"backfill": found.id, "mode": found.wanted.mode.value, "status": found.status.value}
    return Outcome({**summary, **counts}, [_row(each) for each in found.summary["quantities"]])


def _row(entry: Row) -> Row:
    before, after = entry["before"] or {}, entry["after"] or {}
    names = ("month", "account", "meter", "aggregation")
    found = {name: entry[name] for name in names}
    return {**found, "before": before.get("quantity"), "after": after.get("quantity")}


@flow(name="backfill", task_runner=a_few_at_once())
def backfill(  # noqa: PLR0913 - the form that people fill in
    mode: ModeName,
    *,
    home: Home = None,
    org: str | None = None,
    reason: str | None = None,
    month: str | None = None,
    since: str | None = None,
    until: str | None = None,
    meter: tuple[str, ...] = (),
    account: tuple[str, ...] = (),
    source: str | None = None,
    uid: tuple[str, ...] = (),
    file: tuple[Path, ...] = (),
    mapping: Path | None = None,
    id: str | None = None,
    apply: bool = False,
) -> list[Row]:
    """Correct what is stored: find out what changes, and change it if that is asked for.

    Args:
        mode: What to do.
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization; the only one of the home if empty.
        reason: Why; needed to retract.
        month: The month, such as 2026-10, or `last` or `current`.
        since: Instead of a month: the first day or instant.
        until: The day or instant after the last.
        meter: Codes of meters; all if empty.
        account: Codes of accounts; all if empty.
        source: To retract a file: its name, or the beginning of the source's identity.
        uid: To retract single measurements: their uids.
        file: To replace: the files that take the place of the measurements of the window.
        mapping: How to read these, if they were not made for us.
        id: The backfill's id; started again with the same one, it goes on where it was.
        apply: Make the change at once; else it waits to be applied or dropped.
    """
    words = Words(mode, reason, month, since, until, meter, account, source, uid, file)
    # Tried again, it is still the same backfill.
    chosen = id or new_id()
    outcomes = for_each_organization(correct, home, (org,), words, chosen, mapping, apply)
    return told("backfill", outcomes)


if __name__ == "__main__":
    run_as_command(backfill)
