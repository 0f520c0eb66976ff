"""A state machine of everything that is done with measurements, with crashes and restarts between.

What comes in is accepted, a repeat or rejected; the quantities of a month come to what is stored of
it, a bill to its lines, an export to all rows; and that stays so through backfills and upkeep. A
crash is a process that is killed at some step of its work.

A uid stands for one content, so that what has to be stored depends on no order; a row that
contradicts it is only sent once the uid is known. After everything was worked, the books of all
sources have to agree with what was sent, and the lake with what was acknowledged and is valid.

CI tries some more, each time others: see `tests/conftest.py`. The slow one ends within minutes.
For hours: `THOROUGH=1 pytest -m slow -n 0 --hypothesis-profile=search` and this file.
"""

import json
import os
import tempfile
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Final
from unittest import TestCase

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.ingest import uploads
from meterlake.pipeline.ingest.receiving import receiving
from meterlake.pipeline.ingest.rejected_rows import list_rejected
from meterlake.pipeline.rejected.requeue import requeue
from meterlake.stores.files.segments import Segments
from meterlake.stores.lake.rejected import RejectedFilter
from meterlake.stores.state.jobs import LEASES
from tests.e2e.crashing import Zygote, zygote
from tests.homes import HEADER, Home, csv_row, open_home, wire_row
from tests.laws import examples
from tests.organizations import Clock
from tests.properties import works
from tests.properties.works import priced_home, set_clock

pytestmark = pytest.mark.long

# More steps than a round of work has.
STEPS: Final = 40
# How much is done in an example, in CI and elsewhere.
STEP_COUNT: Final = 10 if examples(0) else 4
WORKS: Final = ("ingest", "aggregate", "bill", "export", "upkeep")
WORKS_MODULE: Final = works.__name__
# Segments are closed when the machine says so.
SETTINGS: Final = {"segment_seconds": "3600"}
STANDING_CHARGE: Final = 31
# From here on a gigabyte costs nothing.
BAND: Final = 100
GOOD, BAD, OTHER, NAMELESS = "good", "bad", "other", "nameless"

Row = tuple[int, str]
rows_of_a_delivery = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from([GOOD, GOOD, GOOD, BAD, OTHER, NAMELESS])),
    min_size=1,
    max_size=6,
)


class IngestMachine(RuleBasedStateMachine):
    """Doors, work, crashes and restarts in any order.

    Attributes:
        processes: Forks the processes that are killed.
    """

    processes: ClassVar[Zygote]

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name, "home")
        self.org_id = priced_home(self.path)
        self.clock = Clock()
        self.sent = 0  # Deliveries of any door.
        self.rows = self.rejected = 0
        self.waiting: set[Any] = set()
        self.stored: set[Any] = set()
        self.files: list[list[Row]] = []
        # Uids of which some row was sent that contradicts them: rejected once, it waits there.
        self.contradicted: set[str] = set()
        self.retractions = 0
        # Whether the lake may have changed since it was looked at.
        self.worked = True
        self._open()

    def _open(self) -> None:
        self._stack = ExitStack()
        self.home: Home = self._stack.enter_context(
            open_home(self.path, self.org_id, self.clock, **SETTINGS)
        )

    def teardown(self) -> None:
        """End as every life of a home ends: with everything in."""
        try:
            self.work()
            self.is_all_there()
        finally:
            self._stack.close()
            self._folder.cleanup()

    # ---- what comes in

    @rule(rows=rows_of_a_delivery)
    def submit(self, rows: list[Row]) -> None:
        """Submit a batch, and hear that it is safe."""
        rows = self._sendable(rows)
        texts = [json.dumps(_wire(row)).encode() for row in rows]
        self.home.stores.segments.append(self.org_id, texts).result(180)
        self._acknowledge(rows, of=self.sent)

    @rule(rows=rows_of_a_delivery)
    def drop(self, rows: list[Row]) -> None:
        """Put a file into the drop folder."""
        self._drop(self._sendable(rows))

    @rule(rows=rows_of_a_delivery)
    def upload(self, rows: list[Row]) -> None:
        """Send a file through an upload URL."""
        rows, stores = self._sendable(rows), self.home.stores
        text = "".join(json.dumps(_wire(row)) + "\n" for row in rows).encode()
        announced = {
            "fileName": f"{self.sent}.ndjson",
            "contentType": "text/plain",
            "contentLength": len(text),
        }
        made = uploads.announce(
            stores.organization(self.org_id), "somebody", announced, "http://here"
        )
        headers = {name.lower(): value for name, value in made["headers"].items()}
        with receiving(stores, made["url"].rpartition("/")[2], headers) as file:
            file.write(text)
            file.finish()
        self._acknowledge(rows, of=text)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def drop_again(self, data: st.DataObject) -> None:
        """The same bytes under another name."""
        self._drop(data.draw(st.sampled_from(self.files)))

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def drop_split_and_reordered(self, data: st.DataObject) -> None:
        """Rows that were sent before, in other files and another order."""
        rows = data.draw(st.permutations(data.draw(st.sampled_from(self.files))))
        cut = data.draw(st.integers(0, len(rows)))
        for part in (rows[:cut], rows[cut:]):
            if part:
                self._drop(part)

    # ---- what becomes of it

    @rule()
    def work(self) -> None:
        """Ingest everything that waits."""
        self.worked = True
        self._close_segments()
        self._ingest()
        self.stored |= self.waiting

    @rule(work=st.sampled_from(sorted(WORKS)), step=st.integers(0, STEPS))
    def crash_at_work(self, work: str, step: int) -> None:
        """Have a process do some work and be killed at the n-th step, if it has as many."""
        self.worked = True
        self._close_segments()
        self._stack.close()
        self.clock.time += LEASES[JobKind.INBOX_OBJECT] + timedelta(seconds=1)
        set_clock(self.path, self.clock)
        answer = self.processes.run(
            [self.path], self.org_id, step, f"{WORKS_MODULE}:{work}", **SETTINGS
        )
        if work == "ingest" and not answer["died"]:
            self.stored |= self.waiting
        self._open()

    @rule()
    def requeue(self) -> None:
        """Give in again, as they are, all rows that were rejected: they are rejected again."""
        organization = self.home.stores.organization(self.org_id)
        self.work()
        found = list_rejected(organization, RejectedFilter(status="open"), 10_000)
        again = requeue(organization, RejectedFilter(status="open"))
        assert sum(receipt.received for receipt in again.receipts) == len(found)
        self.rows += len(found)
        self.rejected += len(found)

    @rule()
    def aggregate(self) -> None:
        """The quantities of each month come to what is stored of it."""
        works.aggregate(self.home)
        assert works.quantities_of(self.home) == works.raw_sums(self.home)

    @rule()
    def bill(self) -> None:
        """Each bill comes to its lines, and they to what was used."""
        works.bill(self.home)
        used = works.raw_sums(self.home)
        assert works.bills_of(self.home) == {
            (month, account): STANDING_CHARGE + min(used.get((month, account), 0), BAND)
            for month in works.MONTHS
            for account in works.BILLED
        }

    @rule()
    def export(self) -> None:
        """An export has every measurement, and its manifest says so."""
        assert works.export(self.home) == works.raw_totals(self.home)

    @rule()
    def upkeep(self) -> None:
        """Nothing that anybody can see changes by upkeep."""
        before = self.home.measurements(), works.quantities_of(self.home)
        works.upkeep(self.home)
        assert (self.home.measurements(), works.quantities_of(self.home)) == before

    @rule()
    def reaggregate(self) -> None:
        """A backfill of the quantities comes to what is stored, too."""
        works.aggregate(self.home)
        works.reaggregate(self.home)
        assert works.quantities_of(self.home) == works.raw_sums(self.home)

    @rule(data=st.data(), step=st.none() | st.integers(0, STEPS), reverted=st.booleans())
    def retract(self, data: st.DataObject, step: int | None, reverted: bool) -> None:
        """Withdraw a measurement, whoever dies over it; perhaps bring it back."""
        self.work()
        named = {key for key in self.stored if isinstance(key, str)} - self.contradicted
        if named:
            self.withdraw(data.draw(st.sampled_from(sorted(named))), step, reverted=reverted)

    def withdraw(self, uid: str, step: int | None, *, reverted: bool) -> None:
        """Withdraw a measurement after all that waited is worked.

        Args:
            uid: Which one.
            step: At which step the first process dies that tries to; None if none does.
            reverted: Whether it is brought back.
        """
        self.retractions += 1
        works.order_retraction(self.home, self.retractions, uid)
        before = self.home.measurements()
        if step is not None:
            self.crash_at_work("retract", step)
        works.retract(self.home)
        assert len(self.home.measurements()) == len(before) - 1
        if reverted:
            works.revert(self.home)
            assert self.home.measurements() == before
        else:
            self.stored.discard(uid)
            self.waiting.discard(uid)

    @rule()
    def restart(self) -> None:
        """Stop in good order, and start again."""
        self.worked = True
        self._stack.close()
        self._open()

    # ---- what must be true

    @precondition(lambda self: self.worked)
    @invariant()
    def nothing_is_made_up(self) -> None:
        """At any time, what is stored was acknowledged, once."""
        self.worked = False
        uids = [uid for (uid,) in self.home.query("SELECT uid FROM lake.uid_index")]
        named = {uid for uid in uids if uid.startswith("u")}
        assert len(uids) == len(set(uids))
        assert named <= {key for key in self.waiting | self.stored if isinstance(key, str)}
        ledger = self.home.ledger()
        [[retracted]] = self.home.query("SELECT count(*) FROM lake.retraction")
        assert sum(accepted for _, _, _, _, accepted, _, _ in ledger) == len(uids) + retracted
        assert all(r == a + d + x for *_, r, a, d, x in ledger)

    def is_all_there(self) -> None:
        """After everything was worked: the books agree with what was sent."""
        self.home.check()
        ledger = self.home.ledger()
        assert sum(row[3] for row in ledger) == self.rows
        assert sum(row[6] for row in ledger) == self.rejected
        measurements = [dict(fields) for _, fields in self.home.measurements()]
        assert len(measurements) == len(self.stored)
        stored = {row["uid"]: Decimal(row["measure.gb"]) for row in measurements}
        named = {uid: gb for uid, gb in stored.items() if uid.startswith("u")}
        assert named == {key: int(key[1:]) for key in self.stored if isinstance(key, str)}

    # ---- how

    def _sendable(self, rows: list[Row]) -> list[Row]:
        """Nothing contradicts a uid that may not be stored yet."""
        known = self.stored
        return [(n, GOOD if kind == OTHER and f"u{n}" not in known else kind) for n, kind in rows]

    def _drop(self, rows: list[Row]) -> None:
        rows = self._sendable(rows)
        text = HEADER + "".join(_line(row) for row in rows)
        self.home.drop(f"{self.sent:04}.csv", text)
        self.files.append(rows)
        # The nameless rows of the same bytes are the same measurements.
        self._acknowledge(rows, of=text)

    def _acknowledge(self, rows: list[Row], of: object) -> None:
        self.sent += 1
        self.rows += len(rows)
        for place, (n, kind) in enumerate(rows):
            self.contradicted |= {f"u{n}"} if kind == OTHER else set()
            match kind:
                case "good":
                    self.waiting.add(f"u{n}")
                case "nameless":
                    self.waiting.add((of, place))
                case _:
                    self.rejected += 1

    def _close_segments(self) -> None:
        stores = self.home.stores
        stores.segments.close()
        stores.segments = Segments(stores.lake_folder, stores.settings, stores.now)

    def _ingest(self) -> None:
        # The claims of a process that died end with their leases.
        self.clock.time += LEASES[JobKind.INBOX_OBJECT] + timedelta(seconds=1)
        works.ingest(self.home)


def _line(row: Row) -> str:
    n, kind = row
    uid = "" if kind == NAMELESS else f"u{n}"
    return csv_row(uid, n + (kind == OTHER), **_about(row))


def _wire(row: Row) -> dict[str, Any]:
    n, kind = row
    uid = None if kind == NAMELESS else f"u{n}"
    return wire_row(uid, n + (kind == OTHER), **_about(row))


def _about(row: Row) -> dict[str, str]:
    """The meter, the account and the instant of a row: those of a uid are always the same."""
    n, kind = row
    return {
        "meter": "nope" if kind == BAD else "egress",
        "account": ("acme", "bolt", "newcomer")[n % 3],
        "ts": ("2026-08-03T10:00:00Z", "2026-09-03T10:00:00Z")[n % 2],
    }


class _WithProcesses:
    @classmethod
    def setUpClass(cls) -> None:
        cls.stack = ExitStack()
        IngestMachine.processes = cls.stack.enter_context(zygote())

    @classmethod
    def tearDownClass(cls) -> None:
        cls.stack.close()


class TestIngestMachine(_WithProcesses, IngestMachine.TestCase):
    """A few examples, and more of them in CI."""

    settings = settings(max_examples=examples(2), stateful_step_count=STEP_COUNT, deadline=None)


class TestADay(_WithProcesses, TestCase):
    """What happens in a home, once in a fixed order, whatever the examples above hold."""

    @pytest.mark.long
    def test_a_day_in_the_life_of_a_home(self):
        """Each kind of work once; a process dies between two bills."""
        machine = IngestMachine()
        try:
            machine.drop([(1, GOOD), (2, GOOD), (3, BAD), (0, NAMELESS), (9, GOOD)])
            machine.work()
            machine.crash_at_work("bill", 1)
            for work in (machine.aggregate, machine.bill, machine.export, machine.upkeep):
                work()
            machine.withdraw("u9", None, reverted=False)
            machine.reaggregate()
            machine.nothing_is_made_up()
            assert works.raw_totals(machine.home) == {"rows": 3, "total": "3"}
        finally:
            machine.teardown()


@pytest.mark.slow
class TestIngestMachineForLong(_WithProcesses, IngestMachine.TestCase):
    """The same, at length."""

    settings = settings(
        max_examples=1000 if "THOROUGH" in os.environ else 15,
        stateful_step_count=25,
        deadline=None,
    )
