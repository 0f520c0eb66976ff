"""The capacity model: what a number of measurements a month takes, of measured costs.

    PYTHONPATH=src:. python tests/benchmarks/capacity.py                        # the tables
    PYTHONPATH=src:. python tests/benchmarks/capacity.py --rows 1e9 --accounts 20000 --price core=0.04
    PYTHONPATH=src:. python tests/benchmarks/capacity.py --write                # docs/scale.md

`costs.json` has what was measured, `prices.json` what is assumed, `curve.json` what `curve.py` printed and
`simulated.json` what `simulation.py` printed. A test compares docs/scale.md with what this program says.
"""

import argparse
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "scale.md"
BLOCK = re.compile(r"(<!-- model:(\w+) -->\n).*?(<!-- model:end -->)", re.DOTALL)
MONTH_S = 30 * 86_400
CORES = 8  # of a machine
BUSY = 0.5  # how much of its cores a machine may use
PEAK = 3  # how much more than the mean comes in the busiest hour
QUERIES = 100_000
Costs = dict[str, float]


def load(name: str) -> dict[str, Any]:
    """A file of inputs beside this one."""
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    return found


def values(name: str) -> Costs:
    """The values of such a file."""
    return {key: each["value"] for key, each in load(name).items()}


@dataclass(frozen=True)
class Workload:
    """What comes in within a month."""

    rows: float = 1e10
    accounts: float = 500_000
    posted: float = 0.5
    file_rows: float = 100_000
    segment_s: float = 5

    @property
    def files(self) -> float:
        """How many files are ingested."""
        return self.rows * (1 - self.posted) / self.file_rows

    @property
    def segments(self) -> float:
        """How many segments are ingested."""
        return MONTH_S / self.segment_s if self.posted else 0

    @property
    def commits(self) -> float:
        """How many commits that makes."""
        return self.files + self.segments


def cpu(costs: Costs, work: Workload) -> dict[str, float]:
    """Seconds of CPU a month, by kind of work."""
    posted, sent = work.rows * work.posted, work.rows * (1 - work.posted)
    return {
        "files": sent * costs["file_row_cpu"] + work.files * costs["commit_cpu"],
        "API server": posted * costs["post_row_cpu"],
        "segments": posted * costs["segment_row_cpu"] + work.segments * costs["commit_cpu"],
        "upkeep": work.rows * costs["upkeep_row_cpu"],
        "quantities": work.rows * costs["quantities_row_cpu"]
        + work.accounts * costs["quantities_account_cpu"],
        "bills": work.accounts * costs["bill_account_cpu"],
        "export": work.rows * costs["export_row_cpu"],
    }


def storage(costs: Costs, work: Workload) -> dict[str, float]:
    """What a month leaves: bytes, objects and rows of the catalog."""
    in_lake = work.rows * (costs["measurement_bytes"] + costs["index_bytes"])
    return {
        "measurements": work.rows * costs["measurement_bytes"],
        "uids": work.rows * costs["index_bytes"],
        "known": work.rows * costs["known_bytes"],
        "export": work.rows * costs["export_bytes"],
        "objects": work.commits * costs["commit_objects"],
        "merged": math.ceil(in_lake / costs["merged_bytes"]),
        "statistics": work.commits * costs["commit_statistics"],
        "snapshots": work.commits,
    }


def requests(costs: Costs, work: Workload) -> tuple[float, float]:
    """Writing and reading requests to the object store in a month."""
    writes = work.commits * costs["commit_objects"]
    merged = storage(costs, work)["merged"]
    reads = work.commits * (costs["commit_requests"] - costs["commit_objects"])
    return writes + merged, reads + QUERIES * costs["query_requests"] * merged / 30


def machines(costs: Costs, work: Workload) -> int:
    """How many machines bear the busiest hour."""
    cores = sum(cpu(costs, work).values()) / MONTH_S
    return max(2, math.ceil(cores * PEAK / (CORES * BUSY)))


def money(costs: Costs, prices: Costs, work: Workload) -> dict[str, float]:
    """US dollars in the first month, by what they are paid for."""
    kept, (writes, reads) = storage(costs, work), requests(costs, work)
    count = machines(costs, work)
    return {
        "machines": count * CORES * MONTH_S / 3600 * prices["core"],
        "PostgreSQL": prices["database"],
        "objects of the lake": (kept["measurements"] + kept["uids"]) / 1e9 * prices["storage"],
        "objects of the export": kept["export"] / 1e9 * prices["storage"],
        "requests": writes / 1000 * prices["puts"] + reads / 1000 * prices["gets"],
        "disks for known uids": count * kept["known"] / 1e9 * prices["disk"],
    }


def predicted(costs: Costs, found: Costs) -> dict[str, float]:
    """What the model says of a simulation, by what the simulation measures."""
    rows, accounts = found["rows"], found["accounts"]
    commits = found["files"] + found["segments"]
    half = rows / 2
    return {
        "files_cpu": half * costs["file_row_cpu"] + found["files"] * costs["commit_cpu"],
        "posts_cpu": half * costs["segment_row_cpu"] + found["segments"] * costs["commit_cpu"],
        "quantities_cpu": rows * costs["quantities_row_cpu"]
        + accounts * costs["quantities_account_cpu"],
        "bills_cpu": accounts * costs["bill_account_cpu"],
        "export_cpu": rows * costs["export_row_cpu"],
        "measurement_bytes": rows * costs["measurement_bytes"],
        "index_bytes": rows * costs["index_bytes"],
        "objects": commits * costs["commit_objects"],
        "statistics": commits * costs["commit_statistics"],
        "requests": commits * costs["commit_requests"],
    }


def measured(found: Costs) -> dict[str, float]:
    """The same as the simulation measured it."""
    more = {"requests": found["files_requests"] + found["posts_requests"]}
    return {name: (found | more)[name] for name in predicted(values("costs"), found)}


# ---- tables -----------------------------------------------------------------------------------


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def show(value: float) -> str:
    """A number with three digits that count."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def show_cost(value: float, unit: str) -> str:
    """A small number with its unit."""
    if unit != "s":
        return f"{show(value)} {unit}".strip() if value < 1e6 else f"{show(value / 1e6)} MB"
    for name, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)):
        if value * factor >= 1:
            return f"{show(value * factor)} {name}"
    return f"{value} s"


def tables(prices: Costs | None = None, work: Workload | None = None) -> dict[str, str]:
    """All tables of the page by name."""
    costs, work, prices = values("costs"), work or Workload(), prices or values("prices")
    return {
        "curve": curve_table(load("curve")),
        "files": files_table(load("curve")),
        "costs": table(
            "| what | cost | measured by |",
            (
                (each["what"], show_cost(each["value"], each["unit"]), each["from"])
                for each in load("costs").values()
            ),
        ),
        "load": load_table(work),
        "cpu": cpu_table(costs, work),
        "storage": storage_table(costs, work),
        "money": money_table(costs, prices, work),
        "prices": table(
            "| what | US dollars |",
            ((each["what"], f"{prices[key]:g}") for key, each in load("prices").items()),
        ),
        "breaks": breaks_table(costs, work),
        "check": check_table(costs, load("simulated")),
    }


def load_table(work: Workload) -> str:
    return table(
        "| what | a month | a second |",
        [
            ("measurements", f"{work.rows:,.0f}", show(work.rows / MONTH_S)),
            ("of them POSTed", f"{work.posted:.0%}", show(work.rows * work.posted / MONTH_S)),
            (
                f"files of {work.file_rows:,.0f} rows",
                f"{work.files:,.0f}",
                show(work.files / MONTH_S),
            ),
            (
                f"segments, one in {work.segment_s:g} s",
                f"{work.segments:,.0f}",
                show(work.segments / MONTH_S),
            ),
            ("accounts with a bill", f"{work.accounts:,.0f}", ""),
        ],
    )


def cpu_table(costs: Costs, work: Workload) -> str:
    found = cpu(costs, work)
    rows = [(name, show(each / 3600), show(each / MONTH_S)) for name, each in found.items()]
    total = sum(found.values())
    rows.append(("**all**", f"**{show(total / 3600)}**", f"**{show(total / MONTH_S)}**"))
    count = machines(costs, work)
    rows.append(
        (f"machines of {CORES} cores, {PEAK} times the mean at {BUSY:.0%} use", "", f"{count}")
    )
    return table("| work | hours of a core in a month | cores, mean |", rows)


def storage_table(costs: Costs, work: Workload) -> str:
    found = storage(costs, work)
    sizes = {
        "measurements": "measurements, GB",
        "uids": "uids with hashes, GB",
        "known": "known uids on each worker, GB",
        "export": "export of the measurements, GB",
    }
    counts = {
        "objects": "objects made by commits",
        "merged": "objects after upkeep",
        "statistics": "statistics rows of the catalog before upkeep",
        "snapshots": "snapshots",
    }
    rows = [
        (text, show(found[name] / 1e9), show(found[name] * 12 / 1e9))
        for name, text in sizes.items()
    ]
    rows += [(text, show(found[name]), show(found[name] * 12)) for name, text in counts.items()]
    return table("| what | a month leaves | a year leaves |", rows)


def money_table(costs: Costs, prices: Costs, work: Workload) -> str:
    found = money(costs, prices, work)
    rows = [(name, show(each)) for name, each in found.items()]
    total = sum(found.values())
    rows.append(("**all**", f"**{show(total)}**"))
    rows.append(("for a million measurements", show(total / work.rows * 1e6)))
    return table("| what | US dollars, first month |", rows)


def breaks_table(costs: Costs, work: Workload) -> str:
    """What grows with the stored rows of one lake."""
    head = "| rows of a lake | months at this load | a commit with a repeat, CPU | such commits a day, one core"
    rows = []
    for stored in (1e8, 1e9, work.rows, 12 * work.rows):
        lookup = stored * costs["repeat_row_cpu"]
        rows.append(
            (
                f"{stored:,.0f}",
                show(stored / work.rows),
                f"{show(lookup)} s",
                show(86_400 / lookup),
                f"{show(stored * costs['rebuild_row_cpu'] / 60)} min",
                f"{show(stored * costs['known_bytes'] / 1e9)} GB",
            )
        )
    return table(f"{head} | index built again, CPU | index on disk |", rows)


def check_table(costs: Costs, found: Costs) -> str:
    model, real = predicted(costs, found), measured(found)
    names = {
        "files_cpu": "files, s of CPU",
        "posts_cpu": "segments, s of CPU",
        "quantities_cpu": "quantities, s of CPU",
        "bills_cpu": "bills, s of CPU",
        "export_cpu": "export, s of CPU",
        "measurement_bytes": "bytes of measurements",
        "index_bytes": "bytes of uids",
        "objects": "objects",
        "statistics": "statistics rows of the catalog",
        "requests": "requests to S3 of ingest",
    }
    rows = [
        (text, show(model[name]), show(real[name]), f"{real[name] / model[name]:.2f}")
        for name, text in names.items()
    ]
    return table(
        f"| {found['rows']:,.0f} rows, {found['accounts']:,.0f} accounts | model | simulated | ratio |",
        rows,
    )


def curve_table(curve: dict[str, Any]) -> str:
    """The curve: a row for each measurement, a column for each length of history."""
    sizes = list(curve["rows"])
    lines = {
        "commit of 1,000 new rows, p50": ("commits", "cpu", "s"),
        "the same with 10 repeats in them": ("repeats", "cpu", "s"),
        "file of 1 M new rows": ("new_1m", "cpu", "s"),
        "file of 100,000 rows, 1 % repeats": ("old_100k", "cpu", "s"),
        "index of known uids built again": ("index", "cpu", "s"),
        "quantities of one month of ten": ("quantities", "cpu", "s"),
        "page of 100 measurements of a day": ("lists", "measurements", "s"),
        "sum of a day": ("lists", "sum", "s"),
        "page of 100 rejected rows": ("lists", "rejected", "s"),
        "page of 100 receipts": ("lists", "sources", "s"),
        "one uid looked up": ("lists", "uid", "s"),
        "peak memory while the index is built": ("index", "peak", "B"),
        "peak memory of the commits, the mapped index with it": ("commits", "peak", "B"),
        "index on disk": ("index", "bytes", "B"),
        "catalog": ("catalog", "bytes", "B"),
        "catalog rows": ("catalog", "rows", ""),
        "files": ("catalog", "files", ""),
        "upkeep that merges everything": ("upkeep", "cpu", "s"),
        "upkeep with nothing to do": ("upkeep", "again_cpu", "s"),
    }
    rows = [
        (text, *(_cell(curve["rows"][size].get(work, {}).get(key), unit) for size in sizes))
        for text, (work, key, unit) in lines.items()
    ]
    return table(f"| rows of history | {' | '.join(sizes)} |", rows)


def files_table(curve: dict[str, Any]) -> str:
    """What the number of files costs."""
    sizes = list(curve["files"])
    lines = {
        "a file registered, 1 in a commit": ("register by 1", "cpu", "s"),
        "a file registered, 100 in a commit": ("register by 100", "cpu", "s"),
        "a file registered, 500 in a commit": ("register by 500", "cpu", "s"),
        "commit of 1,000 new rows, p50": ("commits", "cpu", "s"),
        "the first commit of a process, by the clock": ("commits", "first", "s"),
        "quantities of a month": ("quantities", "cpu", "s"),
        "page of 100 measurements of a day": ("lists", "measurements", "s"),
        "catalog": ("catalog", "bytes", "B"),
        "statistics rows of the catalog": ("catalog", "statistics", ""),
    }
    rows = [
        (text, *(_cell(curve["files"][size].get(work, {}).get(key), unit) for size in sizes))
        for text, (work, key, unit) in lines.items()
    ]
    return table(f"| files | {' | '.join(sizes)} |", rows)


def _cell(value: float | None, unit: str) -> str:
    return "" if value is None else show_cost(value, unit)


def written(text: str, made: dict[str, str]) -> str:
    """The page with its tables made anew."""
    return BLOCK.sub(lambda found: found[1] + made[found[2]] + found[3], text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=Workload.rows, help="measurements a month")
    parser.add_argument("--accounts", type=float, default=Workload.accounts)
    parser.add_argument("--posted", type=float, default=Workload.posted, help="the share of POSTs")
    parser.add_argument("--price", action="append", default=[], help="such as core=0.04")
    parser.add_argument("--write", action="store_true", help="write docs/scale.md anew")
    given = parser.parse_args()
    if not (0 < given.rows < math.inf and 0 < given.accounts < math.inf and 0 <= given.posted <= 1):
        parser.error("--rows and --accounts are more than 0, --posted is from 0 to 1")
    if given.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), tables()), "utf-8")
        return
    changed = {name: float(value) for name, value in (each.split("=") for each in given.price)}
    if unknown := changed.keys() - values("prices").keys():
        parser.error(f"no such price: {', '.join(sorted(unknown))}")
    work = Workload(given.rows, given.accounts, given.posted)
    for text in tables(values("prices") | changed, work).values():
        print(text)


if __name__ == "__main__":
    main()
