"""A home with two meters and two accounts, and a short way to put files into it and look at it."""

import atexit
import gzip
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import zstandard

from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.measurement import Category, Field, MeterFields, Origin
from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import Initialized, initialize
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import DropFolder, drop_folder
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.maintenance.move_lake import shard_lake
from meterlake.settings import Settings
from meterlake.stores import Organization, Stores, open_stores
from tests.databases import copy_home, current_database, lake_shards, state_of
from tests.organizations import Clock, prepare_home

EGRESS = {
    "code": "egress",
    "name": "Egress",
    "dataFields": [
        {"category": "MEASURE", "code": "gb", "name": "Sent"},
        {"category": "WHERE", "code": "region", "name": "Region"},
    ],
    "derivedFields": [],
}
SENT = {
    "name": "Sent",
    "code": "sent",
    "meterId": "egress",
    "targetField": "gb",
    "aggregation": "SUM",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "GB",
}
CALLS = {
    "code": "calls",
    "name": "Calls",
    "dataFields": [
        {"category": "MEASURE", "code": "n", "name": "Calls"},
        {"category": "COST", "code": "own", "name": "Our cost"},
        {"category": "METADATA", "code": "key", "name": "Key"},
    ],
    "derivedFields": [],
}
ACCOUNTS = [
    {"code": code, "name": code.title(), "emailAddress": f"bills@{code}.example"}
    for code in ("acme", "bolt")
]
HEADER = "meter,account,uid,ts,measure.gb,where.region\n"

# What the stages have to know of the first meter, without a home.
EGRESS_FIELDS = MeterFields(
    "0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11",
    1,
    "egress",
    (Field(Category.MEASURE, "gb"), Field(Category.WHERE, "region")),
)
ORIGIN = Origin("ab" * 32, datetime(2026, 10, 1, tzinfo=UTC))


def settings(home: Path, **changes: Any) -> Settings:
    """Settings that no variable or file of the machine changes."""
    state = {} if "state" in changes else state_of(home)
    return Settings(_env_file=None, **{"home": home, "settle_seconds": 0, **state, **changes})


@cache
def _initialized(database: str, name: str) -> tuple[Path, Initialized]:  # noqa: ARG001
    options = settings(_template_folder() / "home")
    if options.state is None:
        prepare_home(options.home)
    return options.home, initialize(options, name)


def _template_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="meterlake-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def initialized_home(home: Path, name: str) -> Initialized:
    """Make a home as `meterlake init` does: once for each name, the others are copies of it."""
    template, made = _initialized(current_database(), name)
    copy_home(template, home)
    return made


@cache
def _template(database: str) -> tuple[Path, str]:  # noqa: ARG001
    folder = _template_folder()
    made = initialized_home(folder / "home", "Sample")
    with open_stores(settings(folder / "home")) as stores:
        organization = stores.organization(made.org_id)
        configure(organization, meters=[EGRESS, CALLS], accounts=ACCOUNTS)
        if lake_shards() > 1:
            shard_lake(organization, lake_shards())
    return folder / "home", made.org_id


def configure(organization: Organization, **content: Any) -> None:
    """Apply one document of configuration."""
    apply(organization.state, organization.id, [Document("test.yaml", content)], "test")


def new_home(path: Path) -> str:
    """Make a configured home below a path; the organization's id."""
    template, org_id = _template(current_database())
    copy_home(template, path)
    return org_id


class Home:
    """A home that is open."""

    def __init__(self, stores: Stores, org_id: str, clock: Clock) -> None:
        self.stores = stores
        self.org_id = org_id
        self.clock = clock

    @property
    def organization(self) -> Organization:
        """The organization, with its stores."""
        return self.stores.organization(self.org_id)

    @property
    def folder(self) -> DropFolder:
        """The drop folder."""
        return drop_folder(self.stores, "sample")

    def drop(self, name: str, data: bytes | str) -> Path:
        """Put a file into the inbox."""
        path = self.folder.inbox / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def work(self) -> list[Receipt]:
        """Work the drop folder once."""
        return list(ingest_inbox(self.organization, self.folder, 0))

    def ingest(
        self,
        name: str,
        data: bytes | str,
        mapping: Mapping | None = None,
        delivery: str | None = None,
    ) -> Receipt:
        """Ingest one file that lies somewhere."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "file")
            path.write_bytes(data.encode() if isinstance(data, str) else data)
            arrival = Delivery(delivery or str(uuid4()), name, self.clock())
            receipt = ingest_file(self.organization, path, arrival, mapping)
        assert receipt.received == receipt.accepted + receipt.repeats + receipt.rejected
        return receipt

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the lake."""
        with self.organization.lake.reader() as connection:
            return connection.execute(sql).fetchall()

    def account_codes(self) -> dict[str, str]:
        """Codes of the accounts by id."""
        from meterlake.stores.state.core.auto_accounts import account_ids

        return {each: code for code, each in account_ids(self.stores.state, self.org_id).items()}

    def measurements(self, *, of_source: bool = False) -> list[tuple[Any, ...]]:
        """All that is stored: table, uid, account, instants, fields; perhaps source, row and part."""
        codes = self.account_codes()
        found = []
        with self.organization.lake.reader() as connection:
            for table in sorted(self.organization.lake.tables()):
                if not table.startswith("m_"):
                    continue
                rows = connection.execute(f'SELECT * FROM lake."{table}"')
                names = [column[0] for column in rows.description or []]
                for row in rows.fetchall():
                    values = dict(zip(names, row, strict=True))
                    values["account"] = codes[values.pop("account_id")]
                    place = [values.pop(name) for name in ("source", "row", "part")]
                    values.pop("received_at")
                    fields = tuple(sorted((k, str(v)) for k, v in values.items() if v is not None))
                    found.append((table, fields, *(place if of_source else ())))
        return sorted(found)

    def uids(self) -> list[tuple[Any, ...]]:
        """The index of uids."""
        return sorted(
            self.query("SELECT uid, uid_hash, content_hash, meter_id FROM lake.uid_index")
        )

    def rejected(self) -> list[tuple[Any, ...]]:
        """Every rejection: attempt, row, part, reason."""
        return self.query("SELECT name, attempt, row, part, reason FROM lake.rejected ORDER BY ALL")

    def ledger(self) -> list[tuple[Any, ...]]:
        """The ledger: name, attempt, status and counts."""
        return self.query(
            "SELECT name, attempt, status, received, accepted, repeats, rejected"
            " FROM lake.source ORDER BY ALL"
        )

    def check(self) -> None:
        """What must hold after everything was ingested."""
        self.check_rows()
        assert self.staged() == []

    def staged(self) -> list[str]:
        """What an ingestion that died left in the staging folder, until the next one."""
        return sorted(path.name for path in self.organization.lake.staging.iterdir())

    def check_rows(self) -> None:
        """What must hold always, whatever was ingested."""
        stored = len(self.measurements())
        [[uids, different, retracted, rejected]] = self.query(
            "SELECT count(*), count(DISTINCT uid), (SELECT count(*) FROM lake.retraction),"
            " (SELECT count(*) FROM lake.rejected) FROM lake.uid_index"
        )
        ledger = self.ledger()
        assert uids == different == stored
        assert stored == sum(row[4] for row in ledger) - retracted
        assert all(r == a + d + x for *_, r, a, d, x in ledger)
        assert rejected == sum(row[6] for row in ledger)


@contextmanager
def open_home(
    path: Path, org_id: str, clock: Clock | None = None, **changes: Any
) -> Iterator[Home]:
    """Open a home that exists."""
    clock = clock or Clock()
    with open_stores(settings(path, **changes), now=clock) as stores:
        yield Home(stores, org_id, clock)


@contextmanager
def a_home(folder: Path, **changes: Any) -> Iterator[Home]:
    """Make a configured home in a folder of its own, and open it."""
    path = folder / f"home-{uuid4().hex[:8]}"
    with open_home(path, new_home(path), **changes) as home:
        yield home


def csv_row(uid: str, gb: object = "1.5", account: str = "acme", **more: str) -> str:
    """A line of an egress file."""
    values = {"ts": "2026-09-03T10:00:00Z", "region": "eu", "meter": "egress"} | more
    return f"{values['meter']},{account},{uid},{values['ts']},{gb},{values['region']}\n"


def wire_row(uid: str | None, gb: Any = 1.5, account: str = "acme", **more: Any) -> dict[str, Any]:
    """The same as it goes over the wire."""
    row = {
        "meter": "egress",
        "account": account,
        "ts": "2026-09-03T10:00:00Z",
        "measure": {"gb": gb},
        "where": {"region": "eu"},
    }
    return row | ({} if uid is None else {"uid": uid}) | more


def ndjson(rows: Sequence[dict[str, Any]]) -> bytes:
    """Rows as NDJSON."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def gz(data: bytes) -> bytes:
    """Compressed, the same bytes every time."""
    return gzip.compress(data, mtime=0)


def zst(data: bytes) -> bytes:
    """Compressed with a checksum."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)
