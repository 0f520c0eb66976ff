"""A metering service that is strict where stand-ins are not: age, duplicates, number of records."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RECORDS_MAX = 25
AGE_MAX_S = 6 * 3600
PRODUCT = "prod"
_CUSTOMERS = ("CustomerIdentifier", "CustomerAWSAccountId")
_NAMES = {*_CUSTOMERS, "Timestamp", "Dimension", "Quantity"}


@dataclass
class FakeMarketplace:
    """The records that it has taken.

    Attributes:
        taken: Quantities by customer, dimension and time.
        faults: Error codes and statuses that the next requests get.
        lost: How many of the next requests are done and not answered.
        busy: How many of the next requests leave all records unprocessed.
        left: How many records each of the next requests leaves unprocessed, the last ones.
        calls: The number of records of each request that came.
        keys: With what key each request was signed.
        ended: Keys of credentials that have ended.
    """

    now: Callable[[], float] = time.time
    port: int = 0
    customers: set[str] = field(default_factory=lambda: {"cust-1", "123456789012"})
    taken: dict[tuple[str, str, float], int] = field(default_factory=dict)
    faults: list[tuple[str, int]] = field(default_factory=list)
    lost: int = 0
    busy: int = 0
    left: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def total(self) -> int:
        """The cents of all records."""
        return sum(self.taken.values())

    def totals(self, dimension: str) -> dict[str, int]:
        """The cents of a dimension by customer."""
        found: dict[str, int] = {}
        for (customer, name, _), quantity in self.taken.items():
            if name == dimension:
                found[customer] = found.get(customer, 0) + quantity
        return found

    def answer(self, target: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.calls.append(len(body["UsageRecords"]))
        if set(self.keys[-1:]) & self.ended:
            self.faults.insert(0, ("ExpiredTokenException", 400))
        if self.faults:
            code, status = self.faults.pop(0)
            return status, {"__type": code, "message": "no"}
        records = body["UsageRecords"]
        if refused := self._refuse(target, body, records):
            return 400, {"__type": refused, "message": "no"}
        left = self.left.pop(0) if self.left else 0
        if self.busy:
            self.busy -= 1
            left = len(records)
        done, rest = records[: len(records) - left], records[len(records) - left :]
        return 200, {"Results": [self._take(each) for each in done], "UnprocessedRecords": rest}

    def _refuse(self, target: str, body: dict[str, Any], records: list[Any]) -> str | None:
        """Why the whole request is refused."""
        if target != "AWSMPMeteringService.BatchMeterUsage" or len(records) > RECORDS_MAX:
            return "InvalidTagException"
        if body.keys() != {"ProductCode", "UsageRecords"} or body["ProductCode"] != PRODUCT:
            return "InvalidProductCodeException"
        if any(each.keys() - _NAMES or not _fits(each["Quantity"]) for each in records):
            return "ValidationException"
        if any("unknown" in _customer_of(each) for each in records):
            return "InvalidCustomerIdentifierException"
        if any(not 0 <= self.now() - each["Timestamp"] < AGE_MAX_S for each in records):
            return "TimestampOutOfBoundsException"
        return None

    def _take(self, record: dict[str, Any]) -> dict[str, Any]:
        customer = _customer_of(record)
        if customer not in self.customers:
            return {"UsageRecord": record, "Status": "CustomerNotSubscribed"}
        key = (customer, record["Dimension"], record["Timestamp"])
        if self.taken.setdefault(key, record["Quantity"]) != record["Quantity"]:
            return {"UsageRecord": record, "Status": "DuplicateRecord"}
        return {
            "UsageRecord": record,
            "Status": "Success",
            "MeteringRecordId": f"m{len(self.taken)}",
        }


def _customer_of(record: dict[str, Any]) -> str:
    [customer] = [record[each] for each in _CUSTOMERS if each in record]
    return str(customer)


def _fits(quantity: object) -> bool:
    return type(quantity) is int and 0 <= quantity < 1 << 31


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    market: FakeMarketplace

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        signed = self.headers["Authorization"]
        assert "Signature=" in signed
        self.market.keys.append(signed.split("Credential=")[1].split("/")[0])
        status, found = self.market.answer(self.headers["X-Amz-Target"], body)
        if self.market.lost:
            self.market.lost -= 1
            self.close_connection = True
            return
        answer = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def running_marketplace() -> Iterator[FakeMarketplace]:
    """A metering service on this machine, until the body ends."""
    market = FakeMarketplace()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), {"market": market}))
    market.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield market
    finally:
        server.shutdown()
        server.server_close()
