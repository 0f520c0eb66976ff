"""A soak from beginning to end: capacity, load with faults, rest, comparison."""

import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meterlake.stores import open_stores
from tests.soak.chaos import Chaos, absent_kinds, schedule
from tests.soak.load import Load
from tests.soak.machines import SERVERS
from tests.soak.verify import (
    check,
    compare_bills,
    compare_rows,
    drain,
    failed_jobs,
    verify_exports,
)
from tests.soak.watch import Watch
from tests.soak.world import World, world

_START_S = 120
DRAIN_S = 300


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how much, by which seed.

    Attributes:
        capacity_s: For how long the capacity is measured; 0: `pace` is sent.
        pace: Rows a second, if no capacity is measured.
        drain_s: How long what was acknowledged may take to be stored when everything works again.
    """

    seconds: float
    seed: int
    rows: int = 500
    machines: int = 2
    capacity_s: float = 30
    pace: float = 500
    senders: int = 4
    drain_s: float = DRAIN_S


def soak(folder: Path, plan: Plan) -> dict[str, Any]:
    """Run one in a folder; the report."""
    with world(folder, plan.seed, plan.machines) as made:
        load = Load(made.customers, made.machines, plan.seed, plan.rows)
        kinds = absent_kinds(made)
        faults = schedule(plan.seed, plan.seconds, [m.name for m in made.machines], set(kinds))
        chaos, watch = Chaos(made, faults), Watch(made, load.tally)
        report: dict[str, Any] = {"plan": asdict(plan), "absent": made.absent | kinds}
        try:
            chaos.start()
            _wait_until_ready(made)
            report["capacity"] = _measure(made, load, plan)
            _say(f"capacity: {report['capacity']}")
            load.pace.per_second = report["capacity"]["rows_per_second"] / 2 or plan.pace
            watch.start()
            chaos.begin()
            report["load"] = _load(load, plan)
        finally:
            chaos.stop()
            load.stop()
            watch.stop()
        _say(f"load: {report['load']}")
        report |= _measured(load, chaos, watch, made)
        report |= _verify(made, chaos, load, plan)
        report["findings"] += _tracebacks(folder / "logs")
    return report


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def _wait_until_ready(made: World) -> None:
    until = time.monotonic() + _START_S
    while not all(m.is_ready(role) for m in made.machines for role in SERVERS):
        assert time.monotonic() < until, "the installation does not start"
        time.sleep(0.3)


def _measure(made: World, load: Load, plan: Plan) -> dict[str, float]:
    """Send as much as goes for a while: rows a second until all of them are stored."""
    if not plan.capacity_s:
        return {"rows_per_second": 0}
    began, before = time.monotonic(), _stored(made)
    load.start_posts(plan.senders)
    time.sleep(plan.capacity_s)
    load.stop()
    sent = time.monotonic() - began
    rows = sum(each.book.acknowledged() for each in made.customers) - before
    while _stored(made) < before + rows:
        time.sleep(0.2)
    seconds = time.monotonic() - began
    return {"rows": rows, "sent_s": sent, "stored_s": seconds, "rows_per_second": rows / seconds}


def _stored(made: World) -> int:
    count = 0
    with open_stores(made.direct) as stores:
        for customer in made.customers:
            with stores.lake(customer.org_id).reader() as connection:
                row = connection.execute("SELECT count(*) FROM lake.uid_index").fetchone()
            count += row[0] if row else 0
    return count


def _load(load: Load, plan: Plan) -> dict[str, float]:
    before = load.tally.counts.copy()
    began = time.monotonic()
    load.start_posts(plan.senders)
    load.start_flows(1)
    time.sleep(plan.seconds)
    load.stop()
    seconds = time.monotonic() - began
    rows = sum(
        number - before[name]
        for name, number in load.tally.counts.items()
        if name.endswith(" rows")
    )
    return {"seconds": seconds, "rows": rows, "rows_per_second": rows / seconds}


def _measured(load: Load, chaos: Chaos, watch: Watch, made: World) -> dict[str, Any]:
    tally = load.tally
    return {
        "counts": dict(sorted(tally.counts.items())),
        "faults": dict(sorted(chaos.counts.items())),
        "fault_log": chaos.log,
        "longest_pauses_s": {name: round(s, 1) for name, s in sorted(tally.longest.items())},
        "memory": watch.memory(),
        "connections": watch.connections,
        "exits": {
            f"{service.role} of {machine.name}": service.exits
            for machine in made.machines
            for service in machine.services
            if service.exits
        },
        "clocks_s": {machine.name: machine.clock_s for machine in made.machines},
    }


def _verify(made: World, chaos: Chaos, load: Load, plan: Plan) -> dict[str, Any]:
    findings = [*chaos.troubles, *load.tally.troubles]
    machine = made.machines[0]
    began = time.monotonic()
    rest = Chaos(made, [])
    rest.start()
    try:
        findings += drain(made, plan.drain_s)
    finally:
        rest.stop()
    drained = time.monotonic() - began
    _say(f"drained after {drained:.1f} s: {findings}")
    wrong, sums, counts = compare_rows(made)
    findings += wrong
    _say(f"compared {counts}: {wrong}")
    findings += compare_bills(made, machine, sums)
    findings += check(made, machine)
    manifests, unverified = verify_exports(made, machine)
    findings += [*unverified, *failed_jobs(made)]
    for each in made.machines:
        for role, code in each.stop().items():
            if code:
                findings.append(f"{role} of {each.name} ends with {code}")
    verified = {**counts, "manifests": manifests, "drained_s": round(drained, 1)}
    return {"verified": verified, "findings": findings}


def _tracebacks(logs: Path) -> list[str]:
    """What the processes wrote that no process should: a traceback, or a panic."""
    found = []
    for path in sorted(each for each in logs.iterdir() if "Dask" not in each.name):
        text = path.read_text(errors="replace")
        count = len(re.findall(r"^Traceback", text, re.MULTILINE))
        if count:
            ends = re.findall(
                r"^(?:\w+\.)*\w+(?:Error|Exception|Busy|Unavailable)\b.*", text, re.MULTILINE
            )
            found.append(f"{path.name} has {count} tracebacks, such as {ends[-1:]}")
    return found
