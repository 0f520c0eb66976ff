"""What must be true when a soak is over: the customers' books against the installation."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from meterlake.model.customers.accounts import Account
from meterlake.model.work.jobs import JobKind
from meterlake.stores import Organization, Stores, open_stores
from tests.soak.book import Row, Sums
from tests.soak.load import MONTHS, PRICE, Customer
from tests.soak.machines import Machine
from tests.soak.world import World

_CENT: Final = Decimal("0.01")
_PIECE: Final = 10_000


def drain(world: World, patience_s: float) -> Iterator[str]:
    """Wait until all that was acknowledged is stored and no job waits; what is missing then."""
    until = time.monotonic() + patience_s
    with open_stores(world.direct) as stores:
        while True:
            left = [text for each in world.customers for text in _left(stores, each, world)]
            if not left or time.monotonic() > until:
                yield from left
                return
            time.sleep(1)


def _left(stores: Stores, customer: Customer, world: World) -> Iterator[str]:
    expected = customer.book.acknowledged()
    with stores.lake(customer.org_id).reader() as connection:
        [stored] = connection.execute("SELECT count(*) FROM lake.uid_index").fetchone() or [0]
    if stored < expected:
        yield f"{customer.code}: {expected - stored} of {expected} acknowledged rows do not come"
    for machine in world.machines:
        drop = machine.settings.home / "drop" / customer.code
        for path in (*drop.glob("inbox/*.csv"), *drop.glob("working/*.csv")):
            yield f"{customer.code}: {path.name} waits on {machine.name}"
    with stores.state._database.reading() as connection:
        rows = connection.exec_driver_sql(
            "SELECT kind, id, status FROM job"
            " WHERE org = %s AND kind <> %s AND status IN ('PENDING', 'RUNNING')",
            # The closing of a month waits until somebody runs its command again.
            (customer.org_id, JobKind.CLOSING),
        ).all()
    for kind, id_, status in rows:
        yield f"{customer.code}: job {id_} ({kind}) is {status}"


def stored_rows(organization: Organization) -> Iterator[Row]:
    """The measurements of an organization, as text."""
    configuration = organization.configuration()
    codes = {each.id: each.entity.code for each in configuration.all(Account)}
    lake = organization.lake
    tables = [name for name in lake.tables() if name.startswith("m_")]
    with lake.reader() as connection:
        for table in tables:
            found = connection.execute(
                "SELECT uid, account_id, strftime(ts, '%Y-%m-%dT%H:%M:%SZ'),"
                f' "measure.gb"::VARCHAR, "where.region" FROM lake."{table}"'
            )
            while rows := found.fetchmany(_PIECE):
                for uid, account, ts, value, region in rows:
                    text = value.rstrip("0") if "." in value else value
                    yield Row(uid, codes[account], ts, text, region)


def compare_rows(world: World) -> tuple[list[str], dict[str, Sums], dict[str, int]]:
    """Every customer's book against the lake: findings, sums by customer, and counts."""
    findings, sums = [], {}
    counts = {"rows": 0, "unacknowledged": 0}
    with open_stores(world.direct) as stores:
        for customer in world.customers:
            found = customer.book.compare(stored_rows(stores.organization(customer.org_id)))
            findings += [f"{customer.code}: {text}" for text in found.findings]
            sums[customer.code] = found.sums
            counts["rows"] += found.rows
            counts["unacknowledged"] += found.unacknowledged
    return findings, sums, counts


def compare_bills(world: World, machine: Machine, sums: dict[str, Sums]) -> Iterator[str]:
    """Quantities and bills of all accounts against the customers' own sums and price."""
    for customer in world.customers:
        for month in MONTHS:
            values = {
                account: value
                for (account, its), value in sums[customer.code].items()
                if its == month and value
            }
            prices = {
                account: (value * Decimal(PRICE)).quantize(_CENT, ROUND_HALF_UP)
                for account, value in values.items()
            }
            words = ("--org", customer.code, "--json")
            code, out = machine.run("aggregate", month, *words)
            found = _numbers(out, "quantity") if not code else {"": Decimal(code)}
            yield from _differences(f"{customer.code}: quantity in {month}", found, values)
            code, out = machine.run("bill", "--month", month, *words)
            found = _numbers(out, "total") if not code else {"": Decimal(code)}
            yield from _differences(f"{customer.code}: bill for {month}", found, prices)


def _numbers(out: str, member: str) -> dict[str, Decimal]:
    """A number of each account, as a command says it."""
    lines = (json.loads(line, parse_float=Decimal) for line in out.splitlines())
    found = {line["account"]: Decimal(line[member]) for line in lines if member in line}
    return {account: value for account, value in found.items() if value}


def _differences(
    what: str, found: dict[str, Decimal], expected: dict[str, Decimal]
) -> Iterator[str]:
    for account in sorted(found.keys() | expected.keys()):
        if found.get(account) != expected.get(account):
            yield f"{what} of {account} is {found.get(account)}, not {expected.get(account)}"


def check(world: World, machine: Machine) -> Iterator[str]:
    """What the installation says of itself."""
    for customer in world.customers:
        for words in (("check", "reconciliation"), ("check", "books")):
            code, out = machine.run(*words, "--org", customer.code)
            if code:
                yield f"{customer.code}: {' '.join(words)} ends with {code}: {out[-500:]}"


def verify_exports(world: World, machine: Machine) -> tuple[int, list[str]]:
    """Every manifest that was named in the soak, and one more of each customer: how many, findings."""
    findings: list[str] = []
    for customer in world.customers:
        words = ("export", "usage", "--to", customer.export_url, "--org", customer.code, "--json")
        code, out = machine.run(*words, "--format", "parquet")
        customer.note_manifests(machine, out)
        if code:
            findings.append(f"{customer.code}: the last export ends with {code}: {out[-500:]}")
    urls = [url for each in world.customers for url in each.manifests]

    def verify(url: str) -> str | None:
        code, out = machine.run("export", "verify", url)
        return f"{url} does not verify: {out[-500:]}" if code else None

    with ThreadPoolExecutor(2) as pool:
        findings += [text for text in pool.map(verify, urls) if text]
    return len(urls), findings


def failed_jobs(world: World) -> list[str]:
    """Jobs that failed: none of them should, whatever died, but uploads whose PUT was broken off."""
    sent = {id_ for customer in world.customers for id_ in customer.sent_uploads}
    with open_stores(world.direct) as stores, stores.state._database.reading() as connection:
        rows: list[Any] = connection.exec_driver_sql(
            "SELECT kind, id, attempt, error, result FROM job WHERE status = 'FAILED'"
        ).all()
    return [
        f"job {id_} ({kind}) failed at attempt {attempt}: {error or result}"
        for kind, id_, attempt, error, result in rows
        if kind != JobKind.UPLOAD or id_ in sent
    ]
