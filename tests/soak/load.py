"""What four customers do to an installation, at a pace; each keeps a book of what was acknowledged."""

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from uuid import uuid4

import httpx

from tests.soak.book import Book, Row
from tests.soak.machines import Machine

ACCOUNTS: Final = tuple(f"account-{n}" for n in range(5))
REGIONS: Final = ("eu", "us", "ap")
# Both have ended: what comes after a bill is late.
NEXT: Final = {"2026-09": "2026-10", "2026-10": "2026-11"}
MONTHS: Final = tuple(NEXT)
PRICE: Final = "0.013"
HEADER: Final = "meter,account,uid,ts,measure.gb,where.region\n"
_TIMEOUT_S: Final = 30
_AGAIN: Final = 6
# Only rows that have been there for long are retracted.
_RESTED_S: Final = 20

CONFIGURATION: Final[dict[str, Any]] = {
    "features": {"beta": False, "preview": True},
    "organizationConfig": {"timezone": "UTC", "currency": "USD", "daysBeforeBillDue": 10},
    "currencies": [
        {"code": "USD", "name": "Dollar", "maxDecimalPlaces": 2, "roundingMode": "HALF_UP"}
    ],
    "products": [{"code": "net", "name": "Network"}],
    "meters": [
        {
            "code": "egress",
            "name": "Egress",
            "productId": "net",
            "dataFields": [
                {"category": "MEASURE", "code": "gb", "name": "Sent", "unit": "GB"},
                {"category": "WHERE", "code": "region", "name": "Region"},
            ],
            "derivedFields": [],
        }
    ],
    "aggregations": [
        {
            "code": "sent",
            "name": "Sent",
            "meterId": "egress",
            "targetField": "gb",
            "aggregation": "SUM",
            "quantityPerUnit": 1,
            "rounding": "NONE",
            "unit": "GB",
        }
    ],
    "planTemplates": [
        {
            "code": "net",
            "name": "Network",
            "productId": "net",
            "currency": "USD",
            "standingCharge": 0,
            "billFrequency": "MONTHLY",
            "billFrequencyInterval": 1,
        }
    ],
    "plans": [{"code": "net", "name": "Network", "planTemplateId": "net"}],
    "pricings": [
        {
            "code": "sent",
            "planId": "net",
            "aggregationId": "sent",
            "startDate": "2026-01-01T00:00:00Z",
            "cumulative": True,
            "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": Decimal(PRICE)}],
        }
    ],
    "accounts": [
        {"code": code, "name": code, "emailAddress": f"bills@{code}.example"} for code in ACCOUNTS
    ],
    "accountPlans": [
        {"code": code, "accountId": code, "planId": "net", "startDate": "2026-01-01T00:00:00Z"}
        for code in ACCOUNTS
    ],
}


class Pace:
    """So many rows a second, over all who ask; what was missed is not made up for."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._next = time.monotonic()
        self._lock = threading.Lock()

    def wait(self, rows: int, ended: threading.Event) -> bool:
        """Wait for one's turn; False if everything ends meanwhile."""
        if self.per_second == float("inf"):
            return not ended.is_set()
        with self._lock:
            now = time.monotonic()
            begin = max(self._next, now - 1)
            self._next = begin + rows / self.per_second
        return not ended.wait(max(0.0, begin - now))


@dataclass(slots=True)
class Tally:
    """What was done how often, what was acknowledged, and when the last time was."""

    counts: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str, number: int = 1) -> None:
        """Count."""
        with self._lock:
            self.counts[what] += number

    def succeed(self, what: str) -> None:
        """Something works: how long it did not is over."""
        now = time.monotonic()
        with self._lock:
            pause = now - self.last.get(what, now)
            self.longest[what] = max(self.longest.get(what, 0.0), pause)
            self.last[what] = now

    def trouble(self, text: str) -> None:
        """Something that must not be, or that somebody should look at."""
        with self._lock:
            self.troubles.append(text)


class Customer:
    """One organization: its key, its book, and what it sends."""

    def __init__(
        self, code: str, org_id: str, key: tuple[str, str], machines: Sequence[Machine], seed: int
    ) -> None:
        self.code = code
        self.org_id = org_id
        self.book = Book()
        self.manifests: dict[str, Machine] = {}
        self.sent_uploads: dict[str, str] = {}
        self._key = key
        self._machines = machines
        self._random = random.Random(f"{seed} {code}")
        self._tokens: dict[str, str] = {}
        self._count = 0
        self._rested: list[tuple[float, Row]] = []
        self._lock = threading.Lock()

    def batch(self, kind: str, rows: int) -> tuple[str, list[Row]]:
        """Make up rows and write them into the book."""
        with self._lock:
            self._count += 1
            draw = self._random
            name = f"{self.code}-{kind}-{self._count}"
            made = [
                (draw.choice(ACCOUNTS), _instant(draw), _value(draw), draw.choice(REGIONS))
                for _ in range(rows)
            ]
        return name, self.book.offer(name, made)

    def acknowledge(self, name: str, tally: Tally, kind: str) -> None:
        """Note that a batch is there."""
        tally.count(f"{kind} rows", self.book.acknowledge(name))
        tally.succeed(kind)
        with self._lock:
            row = self.book.spare(name)
            self._rested.append((time.monotonic(), row))
            del self._rested[:-50]

    def rested_row(self) -> Row | None:
        """A row that was acknowledged some time ago and is not retracted yet."""
        with self._lock:
            old = [e for e in self._rested if e[0] < time.monotonic() - _RESTED_S]
            if not old:
                return None
            chosen = self._random.choice(old)
            self._rested.remove(chosen)
            return chosen[1]

    def post(self, machine: Machine, rows: int, tally: Tally, ended: threading.Event) -> None:
        """Post a batch until it is acknowledged, to whichever machine; or give it up."""
        name, made = self.batch("post", rows)
        body = json.dumps({"measurements": [_wire(row) for row in made]})
        for attempt in range(_AGAIN):
            answer = self._call(machine, "POST", "/measurements", body, tally)
            if answer is not None and answer.is_success:
                tally.succeed(f"POST {machine.name}")
                self.acknowledge(name, tally, "POST")
                return
            if ended.wait(min(2.0, 0.2 * 2**attempt)):
                break
            machine = self._machines[(self._machines.index(machine) + 1) % len(self._machines)]
        tally.count("POST given up")

    def drop(self, machine: Machine, rows: int, tally: Tally) -> None:
        """Put a file into the drop folder of a machine: from then on it is on its disk."""
        name, made = self.batch("file", rows)
        inbox = machine.settings.home / "drop" / self.code / "inbox"
        inbox.mkdir(parents=True, exist_ok=True)
        path = inbox / f".{name}.part"
        path.write_text(_csv(made))
        path.rename(inbox / f"{name}.csv")
        self.acknowledge(name, tally, "file")

    def upload(self, machine: Machine, rows: int, tally: Tally) -> None:
        """Announce a file and send it; what could not be sent is not acknowledged."""
        name, made = self.batch("upload", rows)
        data = _csv(made).encode()
        kind = "text/csv"
        asked = {"fileName": f"{name}.csv", "contentType": kind, "contentLength": len(data)}
        path = "/fileuploads/measurements/generateUploadUrl"
        answer = self._call(machine, "POST", path, json.dumps(asked), tally)
        if answer is None or not answer.is_success:
            tally.count("upload refused")
            return
        told = answer.json()
        headers = told.get("headers") or {"content-type": kind}
        try:
            sent = httpx.put(told["url"], content=data, headers=headers, timeout=_TIMEOUT_S)
        except httpx.HTTPError:
            tally.count("upload broken")
            return
        if sent.is_success:
            self.sent_uploads[told["jobId"]] = name
            self.acknowledge(name, tally, "upload")
        else:
            tally.count(f"upload PUT {sent.status_code}")

    def ingest(self, machine: Machine, rows: int, tally: Tally) -> None:
        """Ingest a file by a command; one that was killed is run again with the same file."""
        name, made = self.batch("command", rows)
        path = machine.settings.home / f"{name}.csv"
        path.write_text(_csv(made))
        for _ in range(2):
            if run_flow(machine, tally, "ingest", str(path), "--org", self.code) is not None:
                self.acknowledge(name, tally, "ingest")
                path.unlink()
                return

    def retract(self, machine: Machine, tally: Tally) -> None:
        """Withdraw a measurement by a backfill; one that was killed goes on under its id."""
        row = self.rested_row()
        if row is None:
            return
        self.book.retract(row, done=False)
        words = ["backfill", "start", "retract", "--uid", row.uid, "--reason", "soak", "--apply"]
        words += ["--id", str(uuid4()), "--org", self.code]
        for _ in range(4):
            if run_flow(machine, tally, *words) is not None:
                self.book.retract(row, done=True)
                tally.succeed("retract")
                return

    def re_aggregate(self, machine: Machine, tally: Tally) -> None:
        """Calculate the quantities of a month again by a backfill."""
        month = self._random.choice(MONTHS)
        words = ["backfill", "start", "re-aggregate", "--month", month, "--reason", "soak"]
        run_flow(machine, tally, *words, "--apply", "--org", self.code, *self._runner(machine))

    def bill(self, machine: Machine, tally: Tally) -> None:
        """Bill a month; whatever comes for it later is late."""
        month = self._random.choice(MONTHS)
        words = ["bill", "--month", month, "--org", self.code]
        run_flow(machine, tally, *words, *self._runner(machine))

    def close_month(self, machine: Machine, tally: Tally) -> None:
        """Close a month up to its review."""
        run_flow(machine, tally, "close-month", MONTHS[0], "--org", self.code)

    def aggregate(self, machine: Machine, tally: Tally) -> None:
        """Calculate the quantities of a month."""
        month = self._random.choice(MONTHS)
        run_flow(machine, tally, "aggregate", month, "--org", self.code)

    def export(self, machine: Machine, tally: Tally) -> None:
        """Export a month to the bucket; its manifest is verified at the end."""
        month, form = self._random.choice(MONTHS), self._random.choice(("csv", "parquet", "jsonl"))
        words = ["export", "usage", "--month", month, "--format", form, "--to", self.export_url]
        words += self._runner(machine)
        self.note_manifests(machine, run_flow(machine, tally, *words, "--org", self.code, "--json"))

    def export_bills(self, machine: Machine, tally: Tally) -> None:
        """Export the bills."""
        words = ["export", "operational", "--type", "bills", "--to", self.export_url, "--json"]
        self.note_manifests(machine, run_flow(machine, tally, *words, "--org", self.code))

    def bill_job(self, machine: Machine, tally: Tally) -> None:
        """Ask for the bills of a month; a worker makes them, as a flow run."""
        month = self._random.choice(MONTHS)
        self._ask_for_job(machine, "/billjobs", {"billDate": f"{NEXT[month]}-01"}, tally)

    def export_job(self, machine: Machine, tally: Tally) -> None:
        """Ask for a month as a file; a worker writes it, as a flow run."""
        month = self._random.choice(MONTHS)
        asked = {
            "sourceType": "USAGE",
            "startDate": f"{month}-01T00:00:00Z",
            "endDate": f"{NEXT[month]}-01T00:00:00Z",
        }
        self._ask_for_job(machine, "/dataexports/adhoc", asked, tally)

    def _ask_for_job(
        self, machine: Machine, path: str, asked: dict[str, Any], tally: Tally
    ) -> None:
        answer = self._call(machine, "POST", path, json.dumps(asked), tally)
        if answer is not None and answer.is_success:
            tally.count(f"POST {path}")

    def _runner(self, machine: Machine) -> tuple[str, ...]:
        """What carries a fan-out: one of the runners that the machine has."""
        return ("--runner", self._random.choice(("threads", "processes", machine.runner)))

    @property
    def export_url(self) -> str:
        """Where its exports go."""
        return f"s3://lakes/exports/{self.code}"

    def note_manifests(self, machine: Machine, said: str | None) -> None:
        """Remember the manifests that a command named."""
        for url in re.findall(r's3://[^"\s]+_manifest\.json', said or ""):
            self.manifests[url] = machine

    def _call(
        self, machine: Machine, method: str, path: str, body: str, tally: Tally
    ) -> httpx.Response | None:
        """Ask a server; None if nobody answered."""
        url = machine.url("api")
        try:
            with httpx.Client(base_url=url, timeout=_TIMEOUT_S) as http:
                token = self._tokens.get(url) or self._sign_in(http)
                headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
                found = http.request(
                    method, f"/organizations/{self.org_id}{path}", content=body, headers=headers
                )
        except httpx.HTTPError as error:
            tally.count(f"no answer: {type(error).__name__}")
            return None
        if not found.is_success:
            tally.count(f"answer {found.status_code}")
            if found.status_code == httpx.codes.UNAUTHORIZED:
                self._tokens.clear()
            if found.status_code not in _EXPECTED:
                tally.trouble(f"{method} {path}: {found.status_code} {found.text[:300]}")
        return found

    def _sign_in(self, http: httpx.Client) -> str:
        asked = {"grant_type": "client_credentials"}
        answer = http.post("/oauth/token", json=asked, auth=self._key)
        if not answer.is_success:
            raise httpx.HTTPError(f"no token: {answer.status_code}")
        token = str(answer.json()["access_token"])
        # Any machine's token is good at every other one's server.
        self._tokens = {machine.url("api"): token for machine in self._machines}
        return token


_EXPECTED: Final = {401, 429, 500, 502, 503, 504}


def run_flow(machine: Machine, tally: Tally, *words: str) -> str | None:
    """Run a command: what it says, or None if it failed or was killed."""
    name = " ".join(word for word in words[:3] if not word.startswith(("-", "/", "2026")))
    code, out = machine.run(*words)
    if code == 0:
        tally.count(f"{name} done")
        tally.succeed(name)
        return out
    tally.count(f"{name} exit {code}")
    return None


def _instant(draw: random.Random) -> str:
    month = draw.choice(MONTHS)
    return (
        f"{month}-{draw.randint(1, 30):02}T{draw.randrange(24):02}:{draw.randrange(60):02}"
        f":{draw.randrange(60):02}Z"
    )


def _value(draw: random.Random) -> str:
    return f"{draw.randrange(1000)}.{draw.randrange(1, 1000) * 10 + draw.randint(1, 9):04}"


def _wire(row: Row) -> dict[str, Any]:
    return {
        "meter": "egress",
        "account": row.account,
        "uid": row.uid,
        "ts": row.ts,
        # Four digits behind the point, and three before it: a float gives the same text again.
        "measure": {"gb": float(row.value)},
        "where": {"region": row.region},
    }


def _csv(rows: Sequence[Row]) -> str:
    return HEADER + "".join(
        f"egress,{row.account},{row.uid},{row.ts},{row.value},{row.region}\n" for row in rows
    )


Task = Callable[[], None]


class Load:
    """Everybody at work, in threads, until it is stopped."""

    def __init__(
        self, customers: Sequence[Customer], machines: Sequence[Machine], seed: int, rows: int
    ) -> None:
        self.tally = Tally()
        self.pace = Pace(float("inf"))
        self.rows = rows
        self._customers = customers
        self._machines = machines
        self._seed = seed
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start_posts(self, senders: int) -> None:
        """Begin to post, so many at a time."""
        for number in range(senders):
            self._start(lambda number=number: self._send(number))

    def start_flows(self, runners: int) -> None:
        """Begin to run commands, one after the other on each machine."""
        for number in range(runners):
            self._start(lambda number=number: self._run_flows(number))

    def stop(self) -> None:
        """Let everybody end what it is at."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._ended = threading.Event()

    def _start(self, work: Task) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self.tally.trouble(f"the load itself failed: {error!r}")
                raise

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)

    def _send(self, number: int) -> None:
        draw = random.Random(f"{self._seed} sender {number}")
        ended = self._ended
        while self.pace.wait(self.rows, ended):
            customer, machine = draw.choice(self._customers), draw.choice(self._machines)
            match draw.choices(("post", "file", "upload"), (90, 7, 3))[0]:
                case "post":
                    customer.post(machine, self.rows, self.tally, ended)
                case "file":
                    customer.drop(machine, self.rows, self.tally)
                case "upload":
                    customer.upload(machine, self.rows, self.tally)

    def _run_flows(self, number: int) -> None:
        draw = random.Random(f"{self._seed} flows {number}")
        ended = self._ended
        deck: list[str] = []
        while not ended.wait(draw.uniform(0.5, 2)):
            if not deck:
                deck = list(FLOWS)
                draw.shuffle(deck)
            customer, machine = draw.choice(self._customers), draw.choice(self._machines)
            match deck.pop():
                case "ingest":
                    customer.ingest(machine, self.rows * 5, self.tally)
                case name:
                    getattr(customer, name)(machine, self.tally)


FLOWS: Final = (
    "ingest",
    "retract",
    "bill",
    "export",
    "aggregate",
    "re_aggregate",
    "export_bills",
    "retract",
    "close_month",
    "bill_job",
    "export_job",
)
