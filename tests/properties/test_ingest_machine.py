"""A state machine of everything that brings measurements in, with crashes and restarts between.

A uid stands for one content, so that what has to be stored depends on no order; a row that
contradicts it is only sent once the uid is known. After everything was worked, the books of all
sources have to agree with what was sent, and the lake with what was acknowledged and is valid.

The slow one ends within minutes. For hours, and each time with other examples:
`THOROUGH=1 pytest -m slow -n 0 --hypothesis-profile=search tests/properties/test_ingest_machine.py`.
"""

import json
import os
import tempfile
import threading
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from meterlake.model import failpoint
from meterlake.pipeline import uploads
from meterlake.pipeline.receiving import receiving
from meterlake.pipeline.rejected import list_rejected, requeue
from meterlake.pipeline.segments import ingest_segments
from meterlake.stores.rejected import Filters
from meterlake.stores.segments import Segments
from meterlake.stores.state.uploads import LEASE
from tests.homes import HEADER, Home, csv_row, new_home, open_home, wire_row
from tests.organizations import Clock

# More steps than a round of work has.
STEPS: Final = 40
GOOD, BAD, OTHER, NAMELESS = "good", "bad", "other", "nameless"

Row = tuple[int, str]
rows_of_a_delivery = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from([GOOD, GOOD, GOOD, BAD, OTHER, NAMELESS])),
    min_size=1,
    max_size=6,
)


class Killed(BaseException):
    """The end of the process, as far as the code that runs can tell."""


class IngestMachine(RuleBasedStateMachine):
    """Doors, crashes and restarts in any order."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name, "home")
        self.org_id = new_home(self.path)
        self.clock = Clock()
        self.sent = 0  # Deliveries of any door.
        self.rows = self.rejected = 0
        self.waiting: set[Any] = set()
        self.stored: set[Any] = set()
        self.files: list[list[Row]] = []
        # Whether the lake may have changed since it was looked at.
        self.worked = True
        self._open()

    def _open(self) -> None:
        self._stack = ExitStack()
        self.home: Home = self._stack.enter_context(
            # Segments are closed when the machine says so.
            open_home(self.path, self.org_id, self.clock, segment_seconds=3600)
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
        self.home.stores.segments.append(self.org_id, texts).result(30)
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
        made = uploads.announce(stores, self.org_id, "somebody", announced, "http://here")
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

    @rule(step=st.integers(0, STEPS))
    def crash_at_work(self, step: int) -> None:
        """Die at the n-th step, if the work has as many, and start again."""
        self.worked = True
        self._close_segments()
        steps = iter(range(step))

        def hook(name: str) -> None:
            if threading.current_thread() is threading.main_thread() and next(steps, None) is None:
                raise Killed(name)

        failpoint.hook = hook
        try:
            self._ingest()
            self.stored |= self.waiting
        except Killed:
            pass
        finally:
            failpoint.hook = None
        self.restart()

    @rule()
    def requeue(self) -> None:
        """Give in again, as they are, all rows that were rejected: they are rejected again."""
        self.work()
        found = list_rejected(self.home.stores, self.org_id, Filters(status="open"), 10_000)
        again = requeue(self.home.stores, self.org_id, Filters(status="open"))
        assert sum(receipt.received for receipt in again.receipts) == len(found)
        self.rows += len(found)
        self.rejected += len(found)

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
        assert sum(accepted for _, _, _, _, accepted, _, _ in ledger) == len(uids)
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
        self.clock.time += LEASE + timedelta(seconds=1)
        self.home.work()
        ingest_segments(self.home.stores, self.org_id)
        list(uploads.ingest_uploads(self.home.stores, self.org_id))


def _line(row: Row) -> str:
    n, kind = row
    uid = "" if kind == NAMELESS else f"u{n}"
    return csv_row(uid, n + (kind == OTHER), meter="nope" if kind == BAD else "egress")


def _wire(row: Row) -> dict[str, Any]:
    n, kind = row
    uid = None if kind == NAMELESS else f"u{n}"
    return wire_row(uid, n + (kind == OTHER), meter="nope" if kind == BAD else "egress")


TestIngestMachine = IngestMachine.TestCase
TestIngestMachine.settings = settings(max_examples=3, stateful_step_count=6, deadline=None)


@pytest.mark.slow
class TestIngestMachineForLong(IngestMachine.TestCase):
    """The same, at length."""

    settings = settings(
        max_examples=1000 if "THOROUGH" in os.environ else 15,
        stateful_step_count=25,
        deadline=None,
    )
