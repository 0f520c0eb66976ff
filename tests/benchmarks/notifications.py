"""What 1,000 notifications of one type of events cost an event, and what reading the log costs.

    python tests/benchmarks/notifications.py            # half a minute

CPU time, because others use the machine, too. The calculations differ from each other; those that
many have in common are computed once.
"""

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

NAME = "configuration.commitment.updated"
SAMPLE = (
    "(new.amountSpent >= ((new.amount*{n})/100)) AND"
    " ((old.amountSpent <= ((old.amount*{n})/100)) OR (old.amountSpent == null))"
)
KINDS = {
    "each 90 % and more, none crossed": (SAMPLE, "10", "5"),
    "each 90 % and more, one crossed": (SAMPLE, "900.0005", "5"),
    "an account each, one is meant": (
        'new.accountId == "account-{i}" AND new.amount > 5',
        "10",
        "5",
    ),
    "the same 90 %, crossed": (SAMPLE.replace("{n}", "90"), "950", "5"),
}
NOW = datetime(2026, 10, 1, tzinfo=UTC)


def notifications(text: str, count: int) -> list:
    """So many notifications with calculations of their own."""
    from meterlake.model.configuration.notifications import NotificationConfiguration
    from meterlake.model.values.entity import Record

    return [
        Record(
            str(i),
            1,
            NotificationConfiguration(
                name="n",
                description="n",
                code=f"n{i}",
                event_name=NAME,
                calculation=text.format(n=Decimal(90) + Decimal(i) / 1000, i=i),
            ),
            NOW,
            "a",
            NOW,
            "a",
        )
        for i in range(count)
    ]


def match(text: str, new: str, old: str, count: int, repeat: int) -> tuple[float, float, int]:
    """Milliseconds of CPU time of an event, the least and the median, and how many go out."""
    from meterlake.stages.events.match import ActiveNotifications

    active = ActiveNotifications(notifications(text, count))
    sides = {"newDto": new, "oldDto": old}
    data = {
        side: {"amount": 1000, "amountSpent": Decimal(spent), "accountId": "account-7"}
        for side, spent in sides.items()
    }
    times = []
    for _ in range(repeat):
        begun = time.process_time()
        found = active.match(NAME, data, NOW)
        times.append(time.process_time() - begun)
    return min(times) * 1000, statistics.median(times) * 1000, len(found.fired)


def read(events: int, count: int) -> float:
    """Milliseconds of CPU time that the reader of the log takes for an event."""
    from meterlake.model.resources.events import Event
    from meterlake.pipeline.events.reader import read_log
    from meterlake.pipeline.home.setup import initialize
    from meterlake.settings import Settings
    from meterlake.stores import open_stores

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder) / "home", _env_file=None)
        org_id = initialize(settings, "Benchmark").org_id
        with open_stores(settings) as stores:
            organization = stores.organization(org_id)
            with organization.transaction("benchmark") as transaction:
                for each in notifications(SAMPLE, count):
                    transaction.create(each.entity)
            read_log(organization)
            data = {
                "newDto": {"amount": 1000, "amountSpent": 10},
                "oldDto": {"amount": 1000, "amountSpent": 5},
            }
            with organization.transaction("benchmark") as transaction:
                for n in range(events):
                    transaction.journal.add(Event(NAME, "Commitment", str(n), data))
            begun = time.process_time()
            assert read_log(organization) == events
            return (time.process_time() - begun) / events * 1000


def main() -> None:
    """Print what it costs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notifications", type=int, default=1000)
    parser.add_argument("--events", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=300)
    asked = parser.parse_args()
    for name, (text, new, old) in KINDS.items():
        least, median, fired = match(text, new, old, asked.notifications, asked.repeat)
        print(f"{name}: {least:.3f} to {median:.3f} ms an event, {fired} go out")
    for count in (0, asked.notifications):
        print(f"log with {count:,} notifications: {read(asked.events, count):.3f} ms an event")


if __name__ == "__main__":
    main()
