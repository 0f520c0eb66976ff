"""What a backfill changes, as the tables of a run's artifact."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from flows.outcome import Row, Tables, TaskOutcome, plain, text
from meterlake.cli.shell.next_steps import CommandPlace
from meterlake.model.usage.quantity import changed_texts
from meterlake.pipeline.backfill import Backfill
from meterlake.pipeline.billing.currencies import read_currencies
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stores import Stores

_AMOUNTS: Final = ("billed", "before", "after")
_BILL: Final = ("month", "account", "status", "locked", *_AMOUNTS)
_REJECTED: Final = ("name", "row", "reason", "field", "detail")


def outcome_of(stores: Stores, found: Backfill) -> TaskOutcome:
    """Where a backfill stands, what it changes in numbers, and how to go on with it."""
    counts = {name: value for name, value in found.summary.items() if isinstance(value, int)}
    summary = {"backfill": found.id, "mode": found.spec.mode.value, "status": found.status.value}
    place = CommandPlace(str(stores.home.absolute()), stores.state.organization(found.org_id).code)
    steps = [(step.what, place.command(step.words)) for step in found.next_steps()]
    tables = _tables(found.summary, read_currencies(stores.organization(found.org_id)))
    return TaskOutcome({**summary, **counts}, tables, next_steps=steps)


def question_of(row: Row) -> str:
    """What a decision is about, in Markdown; from the row of a backfill that is staged."""
    shown = [
        f"- {plain(name)}: {plain(text(value))}"
        for name, value in row.items()
        if value is not None and name != "problems"
    ]
    return "\n".join(["This is staged; the run's artifact shows quantities and bills.", *shown])


def _tables(summary: Mapping[str, Any], currencies: Currencies) -> Tables:
    return {
        "Quantities before and after": [_quantity(each) for each in summary.get("quantities", ())],
        "Bills before and after": [_bill(each, currencies) for each in summary.get("bills", ())],
        "Rejected rows of the files": [
            {name: each.get(name) for name in _REJECTED} for each in summary.get("rejected", ())
        ],
    }


def _bill(entry: Row, currencies: Currencies) -> Row:
    amounts = {
        name: currencies.money(Decimal(entry[name]), entry["currency"])
        for name in _AMOUNTS
        if entry.get(name) is not None
    }
    return {name: entry.get(name) for name in _BILL} | amounts


def _quantity(entry: Row) -> Row:
    names = ("month", "start", "account", "meter", "aggregation", "segment")
    return {
        **{name: entry[name] for name in names if name in entry},
        **changed_texts(entry),
    }
