"""What a process does that corrects stored measurements, and what must be the same afterwards."""

from datetime import UTC, datetime
from typing import Any

from meterlake.model.values.period import Period
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from tests.homes import HEADER, Home, configure, csv_row

DATA = HEADER + "".join(csv_row(f"u{n}", n) for n in range(1, 5)) + csv_row("bad", "NaN")
ID = "the-backfill"


def prepared(home: Home) -> None:
    """A home with measurements that something is wrong with."""
    home.ingest("a.csv", DATA)
    home.ingest("b.csv", HEADER + csv_row("v1", 7, account="bolt"))


SEPTEMBER = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
NEW = HEADER + csv_row("u1", 10) + csv_row("n1", 5, account="newcomer") + csv_row("x", "NaN")
METER = {
    "code": "egress",
    "name": "Egress",
    "dataFields": [
        {"category": "MEASURE", "code": "gb", "name": "Sent"},
        {"category": "WHERE", "code": "region", "name": "Region"},
    ],
    "derivedFields": [
        {"category": "MEASURE", "code": "x", "name": "X", "calculation": "12 / (gb - 2)"}
    ],
}


def derivable(home: Home) -> None:
    """The same, with a derived field that is younger than the measurements, of two months."""
    prepared(home)
    home.ingest("c.csv", HEADER + csv_row("w1", 7, ts="2026-08-31T00:00:00Z"))
    configure(home.organization, meters=[METER])


def rederived(home: Home) -> dict[str, Any]:
    """Calculate the derived field of all measurements."""
    window = Period(datetime(2026, 8, 1, tzinfo=UTC), SEPTEMBER.end)
    return corrected(home, Order(BackfillSpec(Mode.REDERIVE, window=window), "ann", ID))


def replaced(home: Home) -> dict[str, Any]:
    """Put a file in the place of a month."""
    path = home.stores.home / "new.csv"
    path.write_text(NEW)
    wanted = BackfillSpec(Mode.REPLACE, window=SEPTEMBER, files=("new.csv",))
    return corrected(home, Order(wanted, "ann", ID, [path]))


def reaggregated(home: Home) -> dict[str, Any]:
    """Calculate the quantities of a month."""
    found = corrected(home, Order(BackfillSpec(Mode.REAGGREGATE, window=SEPTEMBER), "ann", ID))
    rows = home.query("SELECT period, quantity, measurements FROM lake.quantity ORDER BY ALL")
    return {**found, "quantities": rows}


def retracted(home: Home) -> dict[str, Any]:
    """Withdraw a source, twice with a look back in between."""
    [[source]] = home.query("SELECT DISTINCT identity FROM lake.source WHERE name = 'a.csv'")
    return corrected(home, Order(BackfillSpec(Mode.RETRACT, "wrong", source=source), "ann", ID))


def corrected(home: Home, order: Order) -> dict[str, Any]:
    """Apply a backfill, revert it, apply it again: each step once, whoever did those before."""
    backfill.start(home.organization, order)
    lives = home.stores.home / "steps"
    steps = [
        lambda: backfill.apply(home.organization, ID, "ann"),
        lambda: backfill.revert(home.organization, ID, "ann"),
        lambda: backfill.restart(home.organization, ID, "ann"),
        lambda: backfill.apply(home.organization, ID, "ann"),
    ]
    while (done := len(lives.read_text()) if lives.exists() else 0) < len(steps):
        steps[done]()
        lives.write_text("x" * (done + 1))
    assert check_reconciliation(home.organization).balanced
    found = backfill.show(home.organization, ID)
    return {
        "status": found.status.value,
        "summary": {name: value for name, value in found.summary.items() if name != "bills"},
        "steps": [
            list(row)
            for row in home.query("SELECT step, action FROM lake.backfill_step ORDER BY step")
        ],
        "retracted": home.query("SELECT uid, row FROM lake.retraction ORDER BY ALL"),
        "errors": home.query(
            "SELECT name, row, field, detail FROM lake.calculation_error ORDER BY ALL"
        ),
    }
