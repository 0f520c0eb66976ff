"""Bucket inboxes, and the claims on their objects: who works on which, until when, how it ended.

A claim's id is made of the inbox, the key and the version of the object, so that several pollers
which list the same object want to insert the same row, and one of them does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from meterlake.model import wire
from meterlake.model.errors import NotFound, StaleVersion
from meterlake.model.ids import derived_id
from meterlake.stores.objects import ObjectInfo
from meterlake.stores.state.core.state import State
from meterlake.stores.state.ingest.inbox_tables import INBOX, INBOX_CLAIM

LEASE: Final = timedelta(minutes=5)
_IDS_AT_ONCE: Final = 500
_DUE_AT_ONCE: Final = 100


class Afterwards(StrEnum):
    """What becomes of an object that was ingested."""

    MOVE = "move"
    TAG = "tag"
    LEAVE = "leave"


class ClaimStatus(StrEnum):
    """How far an object has come."""

    TAKEN = "TAKEN"
    INGESTED = "INGESTED"  # In the lake; not yet moved or tagged.
    DONE = "DONE"
    FAILED = "FAILED"  # It could not be read at all.
    GONE = "GONE"  # Replaced or taken away before it was here.


_OPEN: Final = (ClaimStatus.TAKEN.value, ClaimStatus.INGESTED.value)


@dataclass(frozen=True, slots=True)
class Inbox:
    """A prefix of a bucket (or a folder) whose objects one organization ingests."""

    id: str
    org_id: str
    url: str
    afterwards: Afterwards
    created: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """One version of one object.

    Attributes:
        attempt: The fencing token: only the latest attempt may write the claim.
        report: The receipt, once the object is ingested.
    """

    id: str
    inbox_id: str
    key: str
    version: str
    size_bytes: int
    status: ClaimStatus
    attempt: int
    lease_until: datetime | None
    received: datetime
    report: dict[str, Any] | None = None
    error: str | None = None
    finished: datetime | None = None


def claim_id(inbox: Inbox, info: ObjectInfo) -> str:
    """The id of the claim on one version of an object."""
    return derived_id("inbox-claim", inbox.id, info.key, info.version)


class Inboxes:
    """The inboxes and claims of a home."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, org_id: str, url: str, afterwards: Afterwards) -> Inbox:
        """Add an inbox; one that is there already changes what becomes of its objects."""
        inbox = Inbox(derived_id("inbox", org_id, url), org_id, url, afterwards, self._state.now())
        with self._state.writing_home() as connection:
            values = {"afterwards": afterwards.value}
            statement = update(INBOX).where(INBOX.c.id == inbox.id).values(values)
            if connection.execute(statement).rowcount == 0:
                row = values | {"id": inbox.id, "org": org_id, "url": url, "created": inbox.created}
                connection.execute(insert(INBOX), row)
        return inbox

    def remove(self, org_id: str, url: str) -> None:
        """Remove an inbox; its claims stay, for the case that it is added again.

        Raises:
            NotFound: There is none.
        """
        mine = (INBOX.c.org == org_id) & (INBOX.c.url == url)
        with self._state.writing_home() as connection:
            if connection.execute(delete(INBOX).where(mine)).rowcount == 0:
                raise NotFound("inbox", url)

    def all(self, org_id: str | None = None) -> list[Inbox]:
        """The inboxes of an organization, or of the whole home; the oldest first."""
        query = select(INBOX).order_by(INBOX.c.created, INBOX.c.url)
        if org_id is not None:
            query = query.where(INBOX.c.org == org_id)
        with self._state.reading_home() as connection:
            return [
                Inbox(row.id, row.org, row.url, Afterwards(row.afterwards), row.created)
                for row in connection.execute(query)
            ]

    def claims(self, ids: Iterable[str]) -> dict[str, Claim]:
        """Those of some claims that exist, by id."""
        wanted, found = list(ids), {}
        with self._state.reading_home() as connection:
            for start in range(0, len(wanted), _IDS_AT_ONCE):
                some = INBOX_CLAIM.c.id.in_(wanted[start : start + _IDS_AT_ONCE])
                for row in connection.execute(select(INBOX_CLAIM).where(some)):
                    found[row.id] = _claim(row)
        return found

    def recent(self, inbox: Inbox, limit: int = 20) -> list[Claim]:
        """The newest claims on objects of an inbox, the newest first."""
        query = select(INBOX_CLAIM).where(INBOX_CLAIM.c.inbox == inbox.id)
        query = query.order_by(INBOX_CLAIM.c.received.desc(), INBOX_CLAIM.c.id).limit(limit)
        with self._state.reading_home() as connection:
            return [_claim(row) for row in connection.execute(query)]

    def due(self, inbox: Inbox) -> list[Claim]:
        """Claims that nobody works on any more and that are not finished, the oldest first."""
        mine = (INBOX_CLAIM.c.inbox == inbox.id) & self._abandoned()
        query = select(INBOX_CLAIM).where(mine).order_by(INBOX_CLAIM.c.received).limit(_DUE_AT_ONCE)
        with self._state.reading_home() as connection:
            return [_claim(row) for row in connection.execute(query)]

    def take(self, inbox: Inbox, info: ObjectInfo) -> Claim | None:
        """Claim an object; None if somebody else has done so before."""
        now = self._state.now()
        claim = Claim(
            id=claim_id(inbox, info),
            inbox_id=inbox.id,
            key=info.key,
            version=info.version,
            size_bytes=info.size_bytes,
            status=ClaimStatus.TAKEN,
            attempt=1,
            lease_until=now + LEASE,
            received=now,
        )
        row = {name: getattr(claim, name) for name in claim.__slots__ if name != "inbox_id"}
        try:
            with self._state.writing_home() as connection:
                values = row | {"inbox": inbox.id, "status": claim.status.value}
                connection.execute(insert(INBOX_CLAIM), values)
        except IntegrityError:
            return None
        return claim

    def known_too(self, inbox: Inbox, claim: Claim, version: str) -> None:
        """Note that the object of a claim has another version, with the same content."""
        info = ObjectInfo(claim.key, claim.size_bytes, version=version)
        made = self.take(inbox, info) if version != claim.version else None
        if made is not None:
            self.finish(made, ClaimStatus.DONE)

    def take_over(self, claim: Claim) -> Claim | None:
        """Begin a new attempt at a claim; None if somebody was faster.

        Args:
            claim: One whose poller is dead, or whose object was gone.
        """
        due = (INBOX_CLAIM.c.id == claim.id) & (INBOX_CLAIM.c.attempt == claim.attempt)
        values: dict[str, Any] = {
            "attempt": claim.attempt + 1,
            "lease_until": self._state.now() + LEASE,
        }
        if claim.status is ClaimStatus.GONE:
            due &= INBOX_CLAIM.c.status == claim.status.value
            values |= {"status": ClaimStatus.TAKEN.value, "finished": None}
        else:
            due &= self._abandoned()
        with self._state.writing_home() as connection:
            query = update(INBOX_CLAIM).where(due).values(values).returning(*INBOX_CLAIM.c)
            row = connection.execute(query).first()
        return None if row is None else _claim(row)

    def renew(self, claim: Claim) -> None:
        """Keep a claim for another while.

        Raises:
            StaleVersion: Another poller took it over.
        """
        self._write(claim, {"lease_until": self._state.now() + LEASE})

    def ingested(self, claim: Claim, report: Mapping[str, Any]) -> Claim:
        """Note that an object is in the lake, with its receipt.

        Raises:
            StaleVersion: Another poller took it over.
        """
        status, text = ClaimStatus.INGESTED, wire.dumps_sorted(dict(report))
        self._write(claim, {"status": status.value, "report": text, "error": None})
        return replace(claim, status=status, report=wire.loads(text))

    def finish(self, claim: Claim, status: ClaimStatus) -> None:
        """Write the end of a claim down.

        Raises:
            StaleVersion: Another poller took it over.
        """
        now = self._state.now()
        values = {"status": status.value, "lease_until": None, "error": None, "finished": now}
        self._write(claim, values)

    def release(self, claim: Claim, error: str, pause: timedelta) -> None:
        """Give a claim back, to be tried again after a pause.

        Raises:
            StaleVersion: Another poller took it over.
        """
        self._write(claim, {"lease_until": self._state.now() + pause, "error": error})

    def _write(self, claim: Claim, values: Mapping[str, Any]) -> None:
        mine = (INBOX_CLAIM.c.id == claim.id) & (INBOX_CLAIM.c.attempt == claim.attempt)
        still = INBOX_CLAIM.c.status.in_(_OPEN)
        with self._state.writing_home() as connection:
            done = connection.execute(update(INBOX_CLAIM).where(mine, still).values(values))
        if done.rowcount != 1:
            raise StaleVersion("inbox claim", claim.id, claim.attempt + 1, claim.attempt)

    def _abandoned(self) -> ColumnElement[bool]:
        over: ColumnElement[bool] = INBOX_CLAIM.c.lease_until <= self._state.now()
        return INBOX_CLAIM.c.status.in_(_OPEN) & over


def _claim(row: Row[Any]) -> Claim:
    return Claim(
        id=row.id,
        inbox_id=row.inbox,
        key=row.key,
        version=row.version,
        size_bytes=row.size_bytes,
        status=ClaimStatus(row.status),
        attempt=row.attempt,
        lease_until=row.lease_until,
        received=row.received,
        report=wire.loads(row.report) if row.report else None,
        error=row.error,
        finished=row.finished,
    )
