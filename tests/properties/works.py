"""What is done with measurements, by a state machine or by a process that may be killed over it.

Each work goes on where a dead one stopped. What it came to is read from the lake and from State.
"""

import atexit
import gzip
import json
import shutil
import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl

from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.values.period import Month, Period
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.billing import run as billing
from meterlake.pipeline.billing.jobs.jobs import bill as bill_month
from meterlake.pipeline.export import run as exporting
from meterlake.pipeline.export.verify import verify
from meterlake.pipeline.ingest.segments import ingest_segments
from meterlake.pipeline.ingest.uploads import ingest_uploads
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.usage.aggregate import aggregate as aggregate_month
from meterlake.stores.lake.quantities import newest_rows
from meterlake.stores.lake.quantity_runs import RunKey
from meterlake.stores.state.billing.bills import bills
from tests.bills import price_egress, subscribe
from tests.homes import Home, new_home, open_home
from tests.organizations import Clock

MONTHS: Final = ("2026-08", "2026-09")
BILLED: Final = ("acme", "bolt")
AUTUMN: Final = Period(datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
SUMMED: Final = "sent"

Sums = dict[tuple[str, str], Decimal]


@cache
def _template() -> tuple[Path, str]:
    folder = Path(tempfile.mkdtemp(prefix="meterlake-priced-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    org_id = new_home(folder / "home")
    with open_home(folder / "home", org_id) as home:
        price_egress(home)
        subscribe(home, *BILLED)
    return folder / "home", org_id


def priced_home(path: Path) -> str:
    """Make a home whose accounts are on a plan below a path; the organization's id."""
    template, org_id = _template()
    shutil.copytree(template, path)
    return org_id


def set_clock(path: Path, clock: Clock) -> None:
    """Say what time it is in processes that open the home."""
    (path / "time").write_text(clock().isoformat())


def _in_time(home: Home) -> None:
    told = home.stores.home / "time"
    if told.exists():
        home.clock.time = max(home.clock.time, datetime.fromisoformat(told.read_text()))


# ---- the works; each gives what a process adds to its state


def ingest(home: Home) -> dict[str, Any]:
    """Ingest everything that waits."""
    _in_time(home)
    home.work()
    ingest_segments(home.organization)
    list(ingest_uploads(home.organization))
    return {}


def aggregate(home: Home) -> dict[str, Any]:
    """Aggregate both months."""
    _in_time(home)
    for month in MONTHS:
        aggregate_month(home.organization, Month.parse(month))
    return {}


def bill(home: Home) -> dict[str, Any]:
    """Bill both months, each bill in a transaction of its own."""
    _in_time(home)
    billing.BATCH = 1  # type: ignore[misc]
    for month in MONTHS:
        result = bill_month(home.organization, Month.parse(month))
        assert result.failures == []
    return {}


def export(home: Home) -> dict[str, Any]:
    """Export all measurements; how many there are by the files and by their manifest, and their sum."""
    _in_time(home)
    request = ExportRequest(source=Source.USAGE, format=Format.JSONL)
    exported = exporting.export(home.organization, request)
    assert list(verify(home.stores.settings, exported.manifest_url)) == []
    [place] = exported.places
    files = [file for file in exported.manifest["files"] if file["type"] == "measurements"]
    texts = (gzip.decompress(Path(place.url, file["key"]).read_bytes()) for file in files)
    rows = [json.loads(line, parse_float=Decimal) for text in texts for line in text.splitlines()]
    assert len(rows) == sum(int(file["rows"]) for file in files)
    total = sum((Decimal(row["measure"]["gb"]) for row in rows), Decimal(0))
    return {"rows": len(rows), "total": str(total.normalize())}


def upkeep(home: Home) -> dict[str, Any]:
    """Maintain the lake, and keep nothing that nobody needs."""
    _in_time(home)
    maintain(home.organization, kept_for=timedelta(0), snapshots_for=timedelta(0))
    return {}


def order_retraction(home: Home, number: int, uid: str) -> None:
    """Say which measurement is to be withdrawn next."""
    (home.stores.home / "retraction").write_text(f"{number} {uid}")


def retract(home: Home) -> dict[str, Any]:
    """Withdraw it."""
    _in_time(home)
    number, uid = (home.stores.home / "retraction").read_text().split()
    wanted = BackfillSpec(Mode.RETRACT, "wrong", uids=(uid,))
    backfill.start(home.organization, Order(wanted, "ann", f"retraction-{number}"))
    backfill.apply(home.organization, f"retraction-{number}", "ann")
    return {}


def revert(home: Home) -> None:
    """Bring it back."""
    number, _ = (home.stores.home / "retraction").read_text().split()
    backfill.revert(home.organization, f"retraction-{number}", "ann")


def reaggregate(home: Home) -> None:
    """Aggregate both months again, as a backfill."""
    id_ = backfill.new_id()
    wanted = BackfillSpec(Mode.REAGGREGATE, window=AUTUMN)
    backfill.start(home.organization, Order(wanted, "ann", id_))
    backfill.apply(home.organization, id_, "ann")


# ---- what there is


def raw_sums(home: Home) -> Sums:
    """The gigabytes of each month and account by the measurements."""
    sums: Sums = defaultdict(Decimal)
    for _, fields in home.measurements():
        row = dict(fields)
        sums[str(row["ts"])[:7], str(row["account"])] += Decimal(row["measure.gb"])
    return dict(sums)


def raw_totals(home: Home) -> dict[str, Any]:
    """How many measurements there are, and their gigabytes."""
    rows = [dict(fields) for _, fields in home.measurements()]
    total = sum((Decimal(row["measure.gb"]) for row in rows), Decimal(0))
    return {"rows": len(rows), "total": str(total.normalize())}


def quantities_of(home: Home) -> Sums:
    """The gigabytes of each month and account by the newest quantities."""
    configuration = home.organization.configuration()
    summed = configuration.find(Aggregation, SUMMED)
    assert summed
    codes, found = home.account_codes(), {}
    with home.organization.lake.reader() as connection:
        for month in MONTHS:
            newest = newest_rows(connection, RunKey("MONTHLY", month))
            for row in newest.filter(pl.col("aggregation_id") == summed.id).iter_rows(named=True):
                found[month, codes[row["account_id"]]] = Decimal(row["quantity"])
    return found


def bills_of(home: Home) -> Sums:
    """The total of each bill, which is that of its lines; one for each month and account."""
    with home.organization.reading() as reader:
        found = bills.of_period(reader)
    codes, totals = home.account_codes(), {}
    for each in found:
        key = each.content.period, codes[each.content.key.account_id]
        lines = (Decimal(str(line.body["subtotal"])) for line in each.content.lines)
        assert key not in totals
        assert sum(lines, Decimal(0)) == each.content.total
        totals[key] = each.content.total
    return totals
