"""A home whose last month is closed: what people do about it, and what bills and files have of it.

Exports read the configuration as it was when they are made, so the month is the one that this
machine's calendar is in, and the home's clock stands behind its end.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from meterlake.cli.export.documents import resolve_closing_exports
from meterlake.model.values.period import Month, zone
from meterlake.model.work.export_request import ExportRequest
from meterlake.pipeline.closing.close_month import Closing, ClosingStep
from meterlake.pipeline.closing.closing_bills import reject_bills
from meterlake.pipeline.closing.closing_steps import close_month
from meterlake.pipeline.closing.reopening import Reopened, reopen_month
from meterlake.pipeline.publish.run import publish
from meterlake.stores.state.billing.bills import bills
from tests.bills import price_egress, subscribe
from tests.homes import HEADER, Home, a_home, csv_row

ACCOUNTS = ("acme", "bolt")
Quantities = dict[str, Decimal]


@dataclass(frozen=True)
class MonthBillState:
    """A bill of the month: what it has of the usage, and how it stands."""

    id: str
    quantity: Decimal
    total: Decimal
    status: str
    version: int
    locked: bool


class ClosingWorld:
    """A home, and the month that is closed in it."""

    def __init__(self, home: Home, month: Month) -> None:
        self.home = home
        self.month = month
        self.closing = Closing(home.organization, month, "ann")

    def row(self, uid: str, account: str, units: int) -> str:
        """A line of a file: what an account used on the third day of the month."""
        return csv_row(uid, units, account, ts=f"{self.month}-03T10:00:00Z")

    def ingest(self, name: str, account: str, units: int) -> None:
        """Take a file in."""
        self.home.ingest(f"{name}.csv", HEADER + self.row(name, account, units))

    def drop(self, name: str, account: str, units: int) -> None:
        """Have a file lie in the drop folder."""
        self.home.drop(f"{name}.csv", HEADER + self.row(name, account, units))

    def exports(self) -> Mapping[ClosingStep, ExportRequest]:
        """What is exported: the usage; operational data are no part of what is looked at here."""
        found = resolve_closing_exports(self.closing, "jsonl", None)
        return {ClosingStep.EXPORT_USAGE: found[ClosingStep.EXPORT_USAGE]}

    def look(self) -> dict[str, Any]:
        """Go on to the review, and be shown the bills."""
        self.closing.open()
        self.closing.carry_out(ClosingStep.FILES, lambda: {"expected": 0})
        done = close_month(self.closing, approve=False, exports=self.exports())
        self.closing.note_shown()
        return done

    def approve(self) -> dict[str, Any]:
        """Approve what was shown, and go on to the end."""
        return close_month(self.closing, approve=True, exports=self.exports())

    def reject(self, reason: str) -> None:
        """Reject what was shown."""
        reject_bills(self.closing, reason)

    def reopen(self, reason: str) -> Reopened:
        """Open it again."""
        return reopen_month(self.closing, reason)

    def publish(self) -> None:
        """Publish the analysts' file anew."""
        publish(self.home.organization)

    def bills(self) -> dict[str, MonthBillState]:
        """The bills of the month, by account."""
        with self.home.organization.reading() as reader:
            stored = bills.of_period(reader)
        return {
            each.content.body["accountCode"]: MonthBillState(
                id=each.id,
                quantity=sum(
                    (line.body["quantity"] for line in each.content.lines if _is_usage(line.body)),
                    start=Decimal(0),
                ),
                total=each.content.total,
                status=each.status.value,
                version=each.version,
                locked=each.locked,
            )
            for each in stored
            if each.content.period == str(self.month)
        }

    def exported(self) -> Quantities:
        """The quantities in the files that the closing has exported, by account."""
        path = Path(self.closing.outcomes()[ClosingStep.EXPORT_USAGE]["manifest"])
        manifest = json.loads(path.read_text())
        # The manifest lies in the folders of its organization, its day and its hour.
        top = path.parents[3]
        rows = [
            json.loads(line, parse_float=Decimal, parse_int=Decimal)
            for each in manifest["files"]
            if each["type"] == "quantities"
            for line in gzip.decompress((top / each["key"]).read_bytes()).splitlines()
        ]
        return {row["account"]: row["quantity"] for row in rows if row["aggregation"] == "sent"}

    def published(self) -> Quantities:
        """The quantities of the month in the analysts' file, by account."""
        query = (
            "SELECT account, quantity FROM quantity_current"
            " WHERE month = ? AND aggregation = 'sent'"
        )
        file = self.home.stores.home / "published/sample/warehouse.duckdb"
        with duckdb.connect(str(file), read_only=True) as connection:
            return dict(connection.execute(query, [str(self.month)]).fetchall())


def _is_usage(line: Mapping[str, Any]) -> bool:
    return line.get("aggregationId") is not None


@contextmanager
def a_month_to_close(folder: Path) -> Iterator[ClosingWorld]:
    """A month of two accounts that is over since two days and a half; nothing is used yet."""
    now = datetime.now(UTC)
    month = Month(now.year, now.month)
    with a_home(folder) as home:
        price_egress(home)
        subscribe(home, *ACCOUNTS, start=f"{month}-01T00:00:00Z")
        home.clock.time = month.period(zone("UTC")).end + timedelta(days=2, hours=12)
        yield ClosingWorld(home, month)
