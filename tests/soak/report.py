"""What a soak came to, for programs and for people."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def write(report: Mapping[str, Any], path: Path) -> None:
    """Write it as JSON."""
    path.write_text(json.dumps(report, indent=2, default=str) + "\n")


def as_text(report: Mapping[str, Any]) -> str:
    """A page that one can read."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    plan, load, verified = report["plan"], report["load"], report["verified"]
    capacity = report["capacity"]
    yield f"soak of {load['seconds'] / 60:.1f} minutes, seed {plan['seed']}"
    yield f"capacity: {capacity['rows_per_second']:,.0f} rows/s without faults"
    yield (
        f"load: {load['rows_per_second']:,.0f} rows/s with faults, {load['rows']:,} rows"
        " acknowledged"
    )
    yield (
        f"stored: {verified['rows']:,} rows, of which {verified['unacknowledged']:,} were never"
        f" acknowledged; complete {verified['drained_s']} s after the last fault"
    )
    yield f"exports verified: {verified['manifests']}"
    yield f"clocks: {report['clocks_s']}"
    for title, name in (
        ("faults", "faults"),
        ("what cannot be had here", "absent"),
        ("counts", "counts"),
        ("longest pauses, in seconds", "longest_pauses_s"),
        ("memory", "memory"),
        ("most connections of PostgreSQL", "connections"),
        ("processes that ended by themselves, with their codes", "exits"),
    ):
        yield f"{title}:"
        yield from (f"  {key}: {value}" for key, value in report[name].items())
    yield f"findings: {len(report['findings'])}"
    yield from (f"  {text}" for text in report["findings"])
