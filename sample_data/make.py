"""Make the measurement files and the books: `python -m sample_data.make [folder]`.

The same bytes on every run: one seed, no clock, no names of the machine.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from sample_data import CONFIGURATION, MONTH, ROOT, bills, books
from sample_data.deliveries import Delivery, deliver, totals
from sample_data.usage import SIZES, Size, month

SEED: Final = 202610


def read_configuration() -> dict[str, list[dict[str, Any]]]:
    """The hand-written configuration, all files together, by kind."""
    found: dict[str, Any] = {}
    for path in sorted(CONFIGURATION.glob("*.yaml")):
        found |= yaml.safe_load(path.read_text("utf-8"))
    return found


def sizes(configuration: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str, Size]]:
    """Account, product and size, once per account and product, as the account's plan suggests."""
    found: dict[tuple[str, str], Size] = {}
    for link in configuration["accountPlans"]:
        product, tier = link["planId"].split("-")[:2]
        found[link["accountId"], product] = SIZES[tier]
    # One account uses storage without a plan for it.
    found["sierra-media", "storage"] = SIZES["free"]
    return [(account, product, size) for (account, product), size in found.items()]


def make() -> tuple[list[Delivery], dict[str, Any]]:
    """The files of the month in their order, and the books that follow from them."""
    configuration = read_configuration()
    random = Random(SEED)
    deliveries = deliver(random, month(random, sizes(configuration)))
    stored = [one for delivery in deliveries for one in delivery.stored]
    assert max(Counter(one.uid for one in stored).values()) == 1
    expected = {
        "month": MONTH,
        "files": [delivery.counts for delivery in deliveries],
        "totals": totals(deliveries),
        "quantities": books.quantities(stored, configuration["aggregations"]),
        "bills": list(bills.Ledger(configuration, stored).bills()),
    }
    return deliveries, expected


def write(folder: Path) -> None:
    """Write everything that is made below a folder."""
    deliveries, expected = make()
    (folder / "measurements").mkdir(parents=True, exist_ok=True)
    for delivery in deliveries:
        (folder / "measurements" / delivery.name).write_bytes(delivery.data)
    (folder / "expected.json").write_text(_readable(expected), "utf-8")


def _readable(expected: dict[str, Any]) -> str:
    """JSON with one line per file and quantity."""
    members = []
    for name, value in expected.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list):
            lines = ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in value)
            text = f"[\n{lines}\n ]"
        members.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(members) + "\n}\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT)
    write(parser.parse_args().folder)
