"""Stored measurements corrected: withdrawn, replaced, derived or aggregated again."""

import flows  # noqa: F401

# isort: split
from pathlib import Path
from typing import Literal, TypeAlias

from prefect import flow, runtime

from flows.backfill_decision import AUTHOR, decide
from flows.command import run_as_command
from flows.differences import outcome_of, question_of
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, RunnerName, open_home
from flows.retrying import retrying
from flows.waiting import is_resumed, wait_for_decision
from meterlake.pipeline.backfill import Order, start
from meterlake.pipeline.backfill.selection import BackfillSelection, resolve_backfill, subject

ModeName: TypeAlias = Literal["retract", "re-aggregate", "re-derive", "replace"]


@retrying("stage a backfill of {org}")
def stage(
    home: Home,
    org: str,
    words: BackfillSelection,
    id: str,
    mapping: Path | None,
    runner: str | None = None,
) -> TaskOutcome:
    """Find out what a backfill changes; nobody else sees anything of it yet."""
    with open_home(home, runner) as stores:
        organization = stores.find_organization(org)
        order = Order(resolve_backfill(organization, words), AUTHOR, id, words.files, mapping)
        return outcome_of(stores, start(organization, order))


@flow(name="backfill", flow_run_name="stage {mode}", task_runner=a_few_at_once())
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
    wait: bool = False,
    runner: RunnerName | None = None,
) -> list[Row]:
    """Correct what is stored: stage the change, show it, and make it if somebody decides so.

    The artifact shows quantities and bills before and after. Without `apply` and `wait` the run
    ends there: the deployment `backfill-decision` applies or drops what is staged.

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
        file: To replace: the files that take the place of the measurements of the window;
            the run's process must be able to read them.
        mapping: How to read these, if they were not made for us.
        id: The backfill's id; started again with the same one, it goes on where it was. The run's
            own id if empty.
        apply: Make the change at once.
        wait: Wait until somebody resumes the run with a decision: apply or drop.
        runner: threads, processes, dask, or dask://host:port; what carries the months.
    """
    words = BackfillSelection(mode, reason, month, since, until, meter, account, source, uid, file)
    # Tried again or resumed, it is still the same backfill.
    chosen, what = id or str(runtime.flow_run.id), subject(words)
    rows: list[Row] = []
    if apply or not wait or not is_resumed():
        outcomes = for_each_organization(
            stage, home, (org,), words, chosen, mapping, what=f"stage {what}", runner=runner
        )
        rows = told("backfill", outcomes)
        if not (apply or wait) or rows[0]["status"] != "STAGED":
            return rows
    decision = "apply" if apply else wait_for_decision("".join(map(question_of, rows)))
    return decide(home, org, chosen, decision, what=f"{decision} {what}")


if __name__ == "__main__":
    run_as_command(backfill)
