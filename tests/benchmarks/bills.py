"""What bills cost beside the bare work, in the same run: the same scan, arithmetic and rows.

    PYTHONPATH=src:. python tests/benchmarks/bills.py                                # 50,000 accounts
    PYTHONPATH=src:. python tests/benchmarks/bills.py --accounts 5000                # a quick look
    PYTHONPATH=src:. python tests/benchmarks/bills.py --accounts 500000 --keep FOLDER
    PYTHONPATH=src:. python tests/benchmarks/bills.py --preview 10000000

Every account is on a plan with ten priced sums of one meter, a standing charge and a minimum spend,
and has a commitment; `--each` measurements of each lie in the lake. What `--keep` names is made once.

The bare work is the same scan in DuckDB, the same arithmetic as a plain loop over decimals, and the
rows of the billed home written into a new SQLite database in batches of 1,000 bills. JSON of the lines
by Python's own encoder is shown beside it, and is no part of it.
Every measurement is a process of its own: CPU seconds of all its threads, the clock, and its peak
memory (RSS). `--preview` measures the preview of one account's bill of so many measurements beside
its scan, once the home and its lake are open.
"""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.customers.accounts import Account
from meterlake.model.resources.proposal import Document
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.calculation.preview import preview
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.verification.verify import VerifyChoice, verify_bills
from meterlake.pipeline.billing.what_if import WhatIfChoice, compare_history
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import initialize
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores
from meterlake.stores.state.core.row_digests import digest_of_version
from tests.benchmarks.filled import fill

MONTH: Final = Month(2026, 9)
NUMBERS: Final = [f"n{n}" for n in range(10)]
UNIT_PRICE, STANDING, MINIMUM, COMMITMENT = "0.0125", 20, 4000, 1000
# What each account has of its own.
KINDS: Final = ("Account", "AccountPlan", "Commitment")
RAISED: Final = [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": Decimal("0.0126")}]
BATCH: Final = 1000
CENT: Final = Decimal("0.01")
SUMS: Final = ", ".join(f'sum("measure.{code}")' for code in NUMBERS)
SCAN: Final = f"""
    SELECT account_id, count(*), {SUMS} FROM read_parquet([{{files}}])
    WHERE ts >= TIMESTAMP '2026-09-01' AND ts < TIMESTAMP '2026-10-01' GROUP BY 1 ORDER BY 1"""
MEASUREMENTS: Final = f"""
    SELECT 'u-' || i AS uid, $accounts[1 + (i % len($accounts))::INT] AS account_id,
        TIMESTAMP '2026-09-01' + INTERVAL (i * 7919 % 2592000) SECOND AS ts,
        NULL::TIMESTAMP AS ets, TIMESTAMP '2026-10-01' AS received_at, 'benchmark' AS source,
        i::BIGINT AS row, 0::SMALLINT AS part,
        {", ".join(f'(hash(i + {n}) % {10 ** (3 + n % 5)} / 1000)::DECIMAL(38,12) AS "measure.{code}"' for n, code in enumerate(NUMBERS))}
    FROM range($first, $last) AS t(i)"""


# ---- the home ---------------------------------------------------------------------------------


def catalog() -> dict[str, Any]:
    """What is sold, with one account that has it."""
    data = [{"category": "MEASURE", "code": code, "name": code} for code in NUMBERS]
    rounded = {"rounding": "NONE", "quantityPerUnit": 1, "unit": "unit"}
    return {
        "organizationConfig": {
            "currency": "EUR",
            "timezone": "UTC",
            "daysBeforeBillDue": 14,
            **{f"{unit}Epoch": "2022-01-01" for unit in ("day", "week", "month", "year")},
        },
        "currencies": [{"code": "EUR", "name": "Euro", "maxDecimalPlaces": 2}],
        "products": [{"code": "product", "name": "Product"}],
        "meters": [
            {
                "code": "egress",
                "name": "E",
                "productId": "product",
                "dataFields": data,
                "derivedFields": [],
            }
        ],
        "aggregations": [
            {
                "code": code,
                "name": code,
                "meterId": "egress",
                "targetField": code,
                "aggregation": "SUM",
                **rounded,
            }
            for code in NUMBERS
        ],
        "planTemplates": [
            {
                "code": "template",
                "name": "T",
                "productId": "product",
                "currency": "EUR",
                "standingCharge": STANDING,
                "minimumSpend": MINIMUM,
                "billFrequency": "MONTHLY",
                "billFrequencyInterval": 1,
            }
        ],
        "plans": [{"code": "plan", "name": "Plan", "planTemplateId": "template"}],
        "pricings": [
            {
                "code": f"price-{code}",
                "planId": "plan",
                "aggregationId": code,
                "startDate": "2026-01-01T00:00:00Z",
                "cumulative": True,
                "pricingBands": [
                    {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": Decimal(UNIT_PRICE)}
                ],
            }
            for code in NUMBERS
        ],
        "accounts": [{"code": _code(0), "name": "A", "emailAddress": "bills@a.example"}],
        "accountPlans": [
            {
                "code": f"plan-{_code(0)}",
                "accountId": _code(0),
                "planId": "plan",
                "startDate": "2026-01-01T00:00:00Z",
            }
        ],
        "commitments": [
            {
                "accountId": _code(0),
                "startDate": "2026-01-01",
                "endDate": "2027-01-01",
                "currency": "EUR",
                "amount": COMMITMENT,
            }
        ],
    }


def make_home(home: Path, accounts: int, each: int) -> None:
    """A home of so many accounts, with so many measurements of each."""
    made = initialize(Settings(home=home), "Benchmark")
    with open_stores(Settings(home=home)) as stores:
        apply(stores.state, made.org_id, [Document("b.yaml", catalog())], "benchmark")
    with sqlite3.connect(home / "state.sqlite") as connection:
        query = f"SELECT id, kind FROM entity WHERE kind IN {KINDS}"
        ids = {id_: KINDS.index(kind) for id_, kind in connection.execute(query)}
        multiply(connection, ids, accounts)
        write_digests(connection)
    with open_stores(Settings(home=home)) as stores:
        fill(stores.organization(made.org_id), MEASUREMENTS, accounts * each)


def multiply(
    connection: sqlite3.Connection, ids: Mapping[str, int], accounts: int, salt: int = 0
) -> None:
    """Give every account what the first one has: the same rows under other ids and codes.

    Args:
        connection: To State.
        ids: The ids of what the first account has, with what distinguishes them.
        accounts: How many accounts there are to be.
        salt: What distinguishes the ids of an organization from those of others.
    """
    for table in ("entity", "entity_history", "entity_reference"):
        marks = ", ".join("?" * len(ids))
        rows = connection.execute(f"SELECT * FROM {table} WHERE id IN ({marks})", [*ids]).fetchall()
        copies = (
            tuple(_renamed(value, ids, number, salt) for value in row)
            for number in range(1, accounts)
            for row in rows
        )
        values = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({values})", copies)


def write_digests(connection: sqlite3.Connection) -> None:
    """Give the copies of versions the digests of what they say."""
    cursor = connection.execute("SELECT * FROM entity_history")
    names = [each[0] for each in cursor.description]
    changes = []
    for values in cursor.fetchall():
        row = dict(zip(names, values, strict=True))
        row |= {each: datetime.fromisoformat(row[each]) for each in ("valid_from", "created")}
        key = [row[each] for each in ("org", "kind", "id", "version")]
        changes.append((digest_of_version(row), *key))
    one = "org = ? AND kind = ? AND id = ? AND version = ?"
    connection.executemany(f"UPDATE entity_history SET digest = ? WHERE {one}", changes)


def _renamed(value: Any, ids: Mapping[str, int], number: int, salt: int) -> Any:
    if isinstance(value, str):
        value = value.replace(_code(0), _code(number))
        for id_, kind in ids.items():
            value = value.replace(id_, f"{kind:08x}-{salt:04x}-4000-8000-{number:012x}")
    return value


def _code(number: int) -> str:
    return f"account-{number:06}"


# ---- one measurement, in a process of its own -------------------------------------------------


class Watch:
    """Clock and CPU time since it was made: of all threads of this process."""

    def __init__(self) -> None:
        self.start, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, Any]:
        return {
            "seconds": time.perf_counter() - self.start,
            "cpu": time.process_time() - self.cpu,
        }


@contextmanager
def opened(home: Path) -> Iterator[tuple[Stores, str]]:
    with open_stores(Settings(home=home)) as stores:
        yield stores, stores.state.organization().id


def our_bills(home: Path) -> dict[str, Any]:
    """Bill the month; so many lines, and what became of the bills."""
    with opened(home) as (stores, org_id):
        watch = Watch()
        result = bill(stores.organization(org_id), MONTH)
        took = watch.read()
    assert not result.failures, result.failures[:1]
    became = {each.stored.value for each in result.bills}
    return {**took, "lines": sum(each.lines for each in result.bills), "became": sorted(became)}


def our_verification(home: Path) -> dict[str, Any]:
    """Calculate the bills of the month again from what they were made from, and compare."""
    with opened(home) as (stores, org_id):
        watch = Watch()
        found = verify_bills(stores.organization(org_id), VerifyChoice(month=MONTH))
        took = watch.read()
    assert found.is_same, found.differences[:1]
    return {**took, "bills": found.verified}


def our_what_if(home: Path) -> dict[str, Any]:
    """Calculate the bills of the month before and after all prices are raised."""
    raised = [each | {"pricingBands": RAISED} for each in catalog()["pricings"]]
    documents = [Document("raised.yaml", {"pricings": raised})]
    with opened(home) as (stores, org_id):
        watch = Watch()
        with compare_history(
            stores.organization(org_id), WhatIfChoice(MONTH, MONTH, documents)
        ) as found:
            changed = sum(1 for each in found.changes() if each.before != each.after)
        took = watch.read()
    assert found.summary.changed == len(NUMBERS), found.summary
    assert found.summary.stored.differing == 0, found.summary
    return {**took, "changed": changed, "accounts": found.summary.accounts}


def our_preview(home: Path) -> dict[str, Any]:
    """Preview the bill of the first account."""
    with opened(home) as (stores, org_id):
        organization = stores.organization(org_id)
        with organization.reading() as reader:
            record = reader.find(Account, _code(0))
        assert record is not None
        # What opening the lake costs is paid once.
        organization.lake.snapshot()
        request = {
            "accountIds": [record.id],
            "billingFrequency": "MONTHLY",
            "billFrequencyInterval": 1,
            "billDate": "2026-10-01",
        }
        watch = Watch()
        shown = preview(organization, "benchmark", request)
        return {**watch.read(), "lines": len(shown["lineItems"])}


def bare_scan(home: Path) -> dict[str, Any]:
    """The same sums by a query written by hand."""
    with opened(home) as (stores, org_id):
        settings, files = (
            stores.settings,
            sorted(stores.lake(org_id).files.folder.rglob("*.parquet")),
        )
    listed = ", ".join(f"'{each}'" for each in files if "year=" in str(each))
    with duckdb.connect(
        config={"threads": settings.threads, "memory_limit": settings.duckdb_memory}
    ) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        watch = Watch()
        rows = connection.execute(SCAN.format(files=listed)).fetchall()
        return {**watch.read(), "rows": len(rows), "found": rows}


def bare_loop(home: Path) -> dict[str, Any]:
    """The same arithmetic: prices, rounding, standing charge, minimum, commitment."""
    rows = bare_scan(home)["found"]
    watch, total, lines = Watch(), Decimal(0), []
    for row in rows:
        amounts = [_amount(quantity) for quantity in row[2:] if quantity is not None]
        spent = sum(amounts, Decimal(0))
        minimum = max(MINIMUM - spent - STANDING, Decimal(0)) if spent < MINIMUM else Decimal(0)
        payable = [*amounts, Decimal(STANDING), minimum]
        left, drawn = Decimal(COMMITMENT), Decimal(0)
        for amount in payable:
            taken = min(amount, left)
            left -= taken
            drawn += taken
        total += sum(payable, Decimal(0)) - drawn
        lines.append((payable, drawn))
    return {**watch.read(), "rows": len(lines), "total": str(total)}


def _amount(quantity: Decimal) -> Decimal:
    return (quantity * Decimal(UNIT_PRICE)).quantize(CENT, ROUND_HALF_UP)


def bare_json(home: Path) -> dict[str, Any]:
    """Python's own encoder for the bodies of the lines that the home has."""
    spent = {"seconds": 0.0, "cpu": 0.0}
    count = 0
    with sqlite3.connect(home / "state.sqlite") as connection:
        cursor = connection.execute("SELECT body, pins FROM bill_line")
        while rows := cursor.fetchmany(10_000):
            documents = [(json.loads(body), json.loads(pins)) for body, pins in rows]
            watch = Watch()
            for body, pins in documents:
                count += len(json.dumps(body, sort_keys=True)) + len(json.dumps(pins))
            took = watch.read()
            spent = {name: spent[name] + took[name] for name in spent}
    return {**spent, "characters": count}


# What a run stores; `event` is written for each bill.
TABLES: Final = {"bill": 1, "bill_line": 12, "event": 1, "posting": 1}


def bare_rows(home: Path) -> dict[str, Any]:
    """The rows that the bills left, into a new database with the same tables and indexes."""
    target = home.parent / "bare.sqlite"
    target.unlink(missing_ok=True)
    spent, count = {"seconds": 0.0, "cpu": 0.0}, 0
    with sqlite3.connect(home / "state.sqlite") as source, sqlite3.connect(target) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")
        cursors = []
        for table, times in TABLES.items():
            for (sql,) in source.execute(
                "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND sql IS NOT NULL"
                " AND type IN ('table', 'index') ORDER BY type DESC",
                [table],
            ):
                connection.execute(sql)
            rows = source.execute(f"SELECT * FROM {table}")
            values = ", ".join("?" * len(rows.description))
            cursors.append((f"INSERT INTO {table} VALUES ({values})", rows, times * BATCH))
        while batch := [(sql, found) for sql, rows, n in cursors if (found := rows.fetchmany(n))]:
            watch = Watch()
            for sql, found in batch:
                connection.executemany(sql, found)
                count += len(found)
            connection.commit()
            took = watch.read()
            spent = {name: spent[name] + took[name] for name in spent}
    target.unlink()
    return {**spent, "rows": count}


MEASURES: Final[dict[str, Callable[[Path], dict[str, Any]]]] = {
    each.__name__: each
    for each in (
        *(our_bills, our_verification, our_what_if, our_preview),
        *(bare_scan, bare_loop, bare_json, bare_rows),
    )
}


# ---- the run ----------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What a measurement took, in CPU seconds, seconds of the clock and MB."""

    cpu: float
    seconds: float
    memory: int
    more: dict[str, Any]


def measure(name: str, home: Path) -> Cost:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, "--home", str(home)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Cost(found.pop("cpu"), found.pop("seconds"), found.pop("memory"), found)


def show(title: str, cost: Cost, beside: str = "") -> None:
    cells = [f"{cost.cpu:.1f} s", f"{cost.seconds:.1f} s", f"{cost.memory:,} MB", beside]
    print(f"| {title} | {' | '.join(cells)} |", flush=True)


def compare_bills(home: Path) -> None:
    """First and second billing, a verification and a comparison, beside the bare work."""
    first = measure("our_bills", home)
    assert first.more["became"] == ["created"], first
    second = measure("our_bills", home)
    assert second.more["became"] == ["unchanged"], second
    parts = {name: measure(name, home) for name in ("bare_scan", "bare_loop", "bare_rows")}
    bare = sum(each.cpu for each in parts.values())
    lines = first.more["lines"]
    print("| what | CPU | clock | peak memory | beside |\n|---|---|---|---|---|")
    for name, cost in (parts | {"bare_json": measure("bare_json", home)}).items():
        show(name, cost)
    ratio = f"{first.cpu / bare:.2f} of the bare work ({bare:.1f} s)"
    show("first", first, f"{ratio}, {lines / first.cpu:,.0f} lines/s of {lines:,}")
    show("again, nothing changed", second, f"{second.cpu / first.cpu:.2f} of the first")
    verified = measure("our_verification", home)
    show("verified", verified, f"{verified.cpu / first.cpu:.2f} of the first")
    compared = measure("our_what_if", home)
    show("what if, before and after", compared, f"{compared.cpu / first.cpu:.2f} of the first")


def compare_preview(home: Path) -> None:
    """The preview of a bill beside the scan of its measurements, in turns."""
    ours = [measure("our_preview", home), measure("our_preview", home)]
    bare = [measure("bare_scan", home), measure("bare_scan", home)]
    print("| what | CPU | clock | peak memory | beside |\n|---|---|---|---|---|")
    least, least_bare = min(ours), min(bare)
    show("bare scan", least_bare)
    show("preview", least, f"{least.cpu / least_bare.cpu:.2f} of the bare scan")


def billed_copy(template: Path, folder: Path) -> Path:
    """A copy of a home; Parquet files never change, so they are linked."""

    def copy_file(source: str, target: str) -> None:
        (os.link if source.endswith(".parquet") else shutil.copy2)(source, target)

    home = folder / "home"
    shutil.copytree(template, home, copy_function=copy_file)
    return home


def run(folder: Path, accounts: int, each: int, preview_rows: int) -> None:
    name = f"preview-{preview_rows}" if preview_rows else f"accounts-{accounts}-{each}"
    template = folder / name
    if not template.exists():
        made = folder / f"{name}.made"
        shutil.rmtree(made, ignore_errors=True)
        make_home(made, 1 if preview_rows else accounts, preview_rows or each)
        made.rename(template)
    if preview_rows:
        compare_preview(template)
        return
    with tempfile.TemporaryDirectory(dir=folder) as copy:
        compare_bills(billed_copy(template, Path(copy)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--accounts", type=int, default=50_000)
    parser.add_argument("--each", type=int, default=20, help="measurements of each account")
    parser.add_argument("--preview", type=int, default=0, help="the preview of so many, instead")
    parser.add_argument("--keep", type=Path, help="where homes are made and kept")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        found = MEASURES[given.measure](given.home)
        found.pop("found", None)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(json.dumps({**found, "memory": memory}))
        return
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
        run(given.keep.absolute(), given.accounts, given.each, given.preview)
        return
    with tempfile.TemporaryDirectory(prefix="meterlake-benchmark-") as folder:
        run(Path(folder), given.accounts, given.each, given.preview)


if __name__ == "__main__":
    main()
