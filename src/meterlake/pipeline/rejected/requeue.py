"""What somebody decides about rejected rows: given in again, dismissed with a reason, or reopened.

What is given in again is a source of its own, whose rows keep the link to where they came in
first: the link stands in the transaction that commits the source. A row without uid keeps the uid
that it would have had where it came in, so that delivering that file again changes nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from meterlake.model.errors import Busy, Invalid, Required
from meterlake.model.measurements.editable_row import members_of, text_of
from meterlake.model.measurements.receipt import Delivery, Receipt, Requeued
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.plurals import counted
from meterlake.pipeline.ingest.commit import Overtaken
from meterlake.pipeline.ingest.rejected_rows import BATCH_ROWS, every_rejected, place_of, places_of
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.rejected.rejected_files import Edit
from meterlake.stores import Organization
from meterlake.stores.files.durable import disk, make_folder, move, write_durably
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.lake import receipts, rejected
from meterlake.stores.lake.rejected import NOT_IN, RejectedFilter, RejectedRow, RowRef, Status
from meterlake.stores.lake.withdrawals import Decision, decide_meant, decide_named
from meterlake.stores.state.acts import Act, ActAction, ActKind, record_act

Item = TypeVar("Item")

# What an act on all rows of a filter was done to.
ALL_ROWS: Final = "all"
_TRIES: Final = 20
_BECAUSE_MAX: Final = 1000


@dataclass
class Requeue:
    """What became of the rows that were to be given in again.

    Attributes:
        author: Who gives them in.
        receipts: One per source that was made of them.
        settled: Rows that were not open any more: given in before, or delivered again.
        unreadable: Rows of which no measurement can be made unless somebody edits them.
    """

    author: str | None = None
    receipts: list[Receipt] = field(default_factory=list)
    settled: int = 0
    unreadable: list[RowRef] = field(default_factory=list)

    def to_wire(self) -> dict[str, Any]:
        """The members of `--json`."""
        counts = {
            name: sum(getattr(receipt, name) for receipt in self.receipts)
            for name in ("received", "accepted", "repeats", "rejected", "incomplete")
        }
        return {
            **counts,
            "settled": self.settled,
            "unreadable": [str(place) for place in self.unreadable],
            "sources": [receipt.identity for receipt in self.receipts],
        }


def requeue(
    organization: Organization, filters: RejectedFilter, author: str | None = None
) -> Requeue:
    """Give in again all open rows that are meant, as they are; the rows keep who did it.

    Safe to repeat and to interrupt: a row that came in is not open any more.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    done = Requeue(author)
    with _alone(organization):
        for rows in _batches(every_rejected(organization, filters)):
            _give_in(organization, {row.place: None for row in rows}, done, {"open"})
    return done


def requeue_edited(
    organization: Organization, edits: Iterable[Edit], author: str | None = None
) -> Requeue:
    """Give in rows again that somebody names, as he edited them or as they are.

    Those that are withdrawn or dismissed come in, too: he means them. Safe to repeat and to interrupt: rows that came in meanwhile are counted as settled.

    Raises:
        Invalid: An edit names no rejected row, names one twice, is no measurement, or changes the
            uid of a row whose uid was not at fault. Nothing was given in then.
        Unavailable: The disk or the lake failed.
    """
    done = Requeue(author)
    with _alone(organization):
        texts = _check_edits(organization, edits)
        for batch in _batches(texts.items()):
            _give_in(organization, dict(batch), done, NOT_IN)
    return done


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH_ROWS)):
        yield batch


def _check_edits(organization: Organization, edits: Iterable[Edit]) -> dict[RowRef, str | None]:
    """The texts of edits by place, after all of them were looked at."""
    found: dict[RowRef, Edit] = {}
    with organization.lake.reader() as connection:
        known: dict[str, str] = {}
        for edit in edits:
            place = place_of(connection, edit.id, known)
            if place in found:
                raise Invalid(
                    "id", edit.id, f"the row is there twice; keep one of both ({edit.where})"
                )
            found[place] = edit
        rows = {row.place: row for row in rejected.at(connection, found)}
        strangers = found.keys() - rows.keys()
        for place in strangers - rejected.ever_rejected(connection, strangers):
            raise Invalid(
                "id", found[place].id, f"it must be a rejected row ({found[place].where})"
            )
    for place, row in rows.items():
        if row.status in NOT_IN:
            _check_uid(row, found[place])
    return {place: edit.measurement for place, edit in found.items()}


def _check_uid(row: RejectedRow, edit: Edit) -> None:
    uid = members_of(edit.measurement).get("uid") if edit.measurement else None
    if uid is None or row.may_change_uid:
        return
    assert row.measurement is not None
    expected = members_of(row.measurement).get("uid") or row.place.uid
    if uid != expected:
        rule = (
            f"it must be {expected!r}: only a uid that was at fault may be changed ({edit.where})"
        )
        raise Invalid("uid", uid, rule)


def _give_in(
    organization: Organization,
    texts: dict[RowRef, str | None],
    done: Requeue,
    allowed: Collection[Status],
) -> None:
    """Make one source of those rows that have one of some states: as they are, or with a new text."""
    for _ in range(_TRIES):
        with organization.lake.reader() as connection:
            rows = rejected.at(connection, texts)
        rows.sort(key=lambda row: row.place)
        still = [row for row in rows if row.status in allowed]
        readable = [row for row in still if texts[row.place] or row.measurement]
        try:
            if readable:
                done.receipts.append(_ingest_rows(organization, readable, texts, done.author))
        except Overtaken:
            continue  # A file was delivered again meanwhile.
        done.settled += len(texts) - len(still)
        places = {row.place for row in readable}
        done.unreadable += [row.place for row in still if row.place not in places]
        return
    raise Busy(
        "rejected rows", f"their sources were delivered {_TRIES} times meanwhile; try again later"
    )


def _ingest_rows(
    organization: Organization,
    rows: list[RejectedRow],
    texts: dict[RowRef, str | None],
    author: str | None,
) -> Receipt:
    now = organization.now()
    folder = organization.lake_folder / "requeue"
    lines, origins = [], []
    for row in rows:
        text = _with_uid(texts[row.place] or row.measurement or "", row.place)
        edited = texts[row.place] is not None and texts[row.place] != row.measurement
        lines.append(text)
        origins.append(
            Requeued(
                row.identity,
                row.attempt,
                row.row,
                row.part,
                row.tries + 1,
                edited,
                row.status,
                author,
            )
        )
    id_ = f"requeue-{uuid4().hex}"
    path = folder / f"{id_}.ndjson"
    make_folder(folder)
    with disk(), write_durably(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", "utf-8")
    mark_step("requeue.written")
    delivery = Delivery(id_, path.name, now, own=True, origins=tuple(origins))
    receipt = ingest_file(organization, path, delivery)
    mark_step("requeue.ingested")
    if author is not None:
        is_edited = any(each.edited for each in origins)
        more = f" and {counted(len(rows) - 1, 'more row')}" if len(rows) > 1 else ""
        _note_act(
            *(organization, author, ActAction.EDITED if is_edited else ActAction.REQUEUED),
            *(str(rows[0].place), f"row {rows[0].row} of {rows[0].name}{more}"),
        )
    _keep(organization, path.name, receipt.delivery.received_at)
    return receipt


def _note_act(
    organization: Organization, author: str, action: ActAction, subject: str, name: str
) -> None:
    """Have the log of who did what say which rows somebody decided about."""
    with organization.transaction(author) as transaction:
        record_act(transaction, Act(ActKind.REJECTED_ROWS, subject, name, action))


def _with_uid(text: str, place: RowRef) -> str:
    """The text of a measurement with the uid that it has where it came in."""
    members = members_of(text)
    if members.get("uid") is not None:
        return text
    return text_of(members | {"uid": place.uid})


def _keep(organization: Organization, name: str, received_at: datetime) -> None:
    """Move a source that was committed to the sources of its day."""
    lake = organization.lake_folder
    day = received_at.date().isoformat()
    make_folder(lake / "sources" / day)
    move(lake / "requeue" / name, lake / "sources" / day / name)
    mark_step("requeue.kept")


@contextmanager
def _alone(organization: Organization) -> Iterator[None]:
    """Hold the lock of who requeues, and tidy up after those who died with it."""
    lake = organization.lake
    lake.open_to_write()
    folder = organization.lake_folder / "requeue"
    make_folder(folder)
    with hold_lock(folder / "requeue.lock"):
        for path in folder.iterdir():
            if path.name != "requeue.lock":
                lake.drop_staging(path.stem)
                _keep_committed(organization, path)
        yield


def _keep_committed(organization: Organization, path: Path) -> None:
    """Keep what was committed; what was not is still open, and chosen anew."""
    with organization.lake.reader() as connection:
        received_at = receipts.received_at(connection, path.stem)
    if received_at is None:
        with disk():
            path.unlink()
    else:
        _keep(organization, path.name, received_at)


@dataclass(frozen=True, slots=True)
class Decided:
    """How many rows somebody dismissed or reopened.

    Attributes:
        rows: Those that were dismissed or reopened now.
        settled: Named ones for which there was nothing to do: they came in, are withdrawn with
            their source, or are so already.
    """

    rows: int
    settled: int = 0

    def to_wire(self) -> dict[str, int]:
        """The members of an answer, and of `--json`."""
        return {"rows": self.rows, "settled": self.settled}


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Which rejected rows are meant: some by their ids, or all that filters mean."""

    ids: Sequence[str] = ()
    filters: RejectedFilter | None = None

    def check(self) -> None:
        """Check that it says something.

        Raises:
            Required: It names no row, and no filter.
            Invalid: It has both.
        """
        everything = RejectedFilter(status=None)
        meant = self.filters is not None and replace(self.filters, status=None) != everything
        if self.ids and meant:
            raise Invalid("rows", counted(len(self.ids), "row"), "give them without a filter")
        if not self.ids and not meant:
            raise Required("rows by their ids, or a filter")


def dismiss(organization: Organization, choice: RowChoice, because: str, author: str) -> Decided:
    """Give open rejected rows up: they are counted nowhere any more, and requeued only by name.

    Safe to repeat: a row that is dismissed keeps who dismissed it first.

    Raises:
        Required: Nothing says why, or which rows.
        Invalid: A row is none, or the reason is too long.
        NotFound: There is no such source.
        Unavailable: The lake failed.
    """
    because = because.strip()
    if not because:
        raise Required("because")
    if len(because) > _BECAUSE_MAX:
        raise Invalid("because", because[:80], f"it must have at most {_BECAUSE_MAX} characters")
    return _decide(organization, choice, Decision("dismiss", because, author, organization.now()))


def reopen(organization: Organization, choice: RowChoice, author: str) -> Decided:
    """Take dismissed rows up again: they wait for somebody as before.

    Raises:
        Required: Nothing says which rows.
        Invalid: A row is none.
        NotFound: There is no such source.
        Unavailable: The lake failed.
    """
    return _decide(organization, choice, Decision("reopen", None, author, organization.now()))


def _decide(organization: Organization, choice: RowChoice, decision: Decision) -> Decided:
    choice.check()
    lake = organization.lake
    # Under the lock nothing becomes of the rows meanwhile.
    with lake.lock(), lake.transaction() as connection:
        named = places_of(connection, choice.ids)
        if named:
            rows = decide_named(connection, decision, named)
        else:
            assert choice.filters is not None
            rows = decide_meant(connection, decision, replace(choice.filters, status=None))
    if rows:
        action = ActAction.DISMISSED if decision.because is not None else ActAction.REOPENED
        subject = str(named[0]) if named else ALL_ROWS
        _note_act(organization, decision.author, action, subject, counted(rows, "row"))
    return Decided(rows, len(named) - rows if named else 0)
