"""Bucket inboxes: listed → claimed in State → fetched → committed → moved, tagged or left.

Several pollers may work one inbox: a claim, and with it an object, belongs to one of them as long
as its lease is renewed. Whoever takes over a dead one's claim goes on where that one stopped. The
claim's id is the id of the delivery, so that no step can bring a row in twice.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from meterlake.model.errors import (
    Busy,
    Invalid,
    MeterlakeError,
    NotFound,
    StaleVersion,
    Unavailable,
)
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.ingest.drop_folder import InboxPlace, drop_folder
from meterlake.pipeline.ingest.files import claiming, folder_mappings
from meterlake.pipeline.ingest.reader_crashes import reading_alone
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.jobs.attempt import running
from meterlake.pipeline.jobs.progress import Progress, untold
from meterlake.pipeline.jobs.waiting import Runner
from meterlake.stores import Organization, Stores
from meterlake.stores.files.durable import make_folder
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.objects import ObjectInfo
from meterlake.stores.objects.base import checked_key
from meterlake.stores.state.ingest.inboxes import (
    Afterwards,
    Claim,
    ClaimStatus,
    Inbox,
    Inboxes,
    claim_id,
)

TAG: Final = "meterlake"
# The flow that a look at the inboxes of an organization is, see `flows.kinds`.
INBOX_FLOW: Final = "inbox"
_PAGE: Final = 500
_PAUSE: Final = timedelta(minutes=1)
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_NAME_BYTES_MAX: Final = 200


def add_inbox(
    organization: Organization, url: str, afterwards: Afterwards, author: str | None = None
) -> Inbox:
    """Let an organization ingest what is put below a prefix.

    Args:
        organization: The organization.
        url: `s3://bucket/prefix`, `gs://bucket/prefix`, or a folder.
        afterwards: What becomes of objects that were ingested.
        author: Who does it.

    Raises:
        Invalid: It is no such URL, or it overlaps with another inbox, or its objects cannot be
            treated like that.
    """
    place = inbox_name(url)
    opened = InboxPlace.at(place, organization.stores)
    if opened.gone:
        raise Invalid("inbox", url, "it must be a folder that exists, or the URL of a bucket")
    if afterwards is Afterwards.MOVE and not opened.prefix:
        raise Invalid(
            "inbox", url, "it must be a prefix below the bucket: done/ and failed/ lie beside it"
        )
    if afterwards is Afterwards.TAG and not place.startswith(("s3://", "gs://")):
        raise Invalid("inbox", url, "it must be a bucket: files have no tags")
    inboxes = Inboxes(organization.state)
    for other in inboxes.all():
        same = (other.org_id, other.url) == (organization.id, place)
        if not same and (f"{other.url}/".startswith(f"{place}/") or _within(place, other)):
            # What others have is nobody's business.
            whose = other.url if other.org_id == organization.id else "of another organization"
            raise Invalid("inbox", url, f"it must be no part of another inbox ({whose})")
    return inboxes.add(organization.id, place, afterwards, author)


def remove_inbox(organization: Organization, url: str) -> None:
    """Do not look into an inbox any more; its objects and claims stay.

    Raises:
        NotFound: There is none.
    """
    Inboxes(organization.state).remove(organization.id, inbox_name(url))


def inbox_name(url: str) -> str:
    """The name of an inbox: its URL, or the whole path of a folder, without a slash at its end."""
    text = url.rstrip("/")
    return text if "://" in text else str(Path(text).absolute())


def _within(place: str, other: Inbox) -> bool:
    taken = [other.url]
    if other.afterwards is Afterwards.MOVE:
        parent = other.url.rpartition("/")[0]
        taken += [f"{parent}/{status}" for status in ("done", "failed")]
    return any(f"{place}/".startswith(f"{each}/") for each in taken)


@dataclass
class Poll:
    """One look at one inbox.

    Attributes:
        problems: What could not be done, in sentences; it is tried again at a later poll.
    """

    stores: Stores
    inbox: Inbox
    problems: list[str] = field(default_factory=list)
    progress: Progress = untold

    def __post_init__(self) -> None:
        self._inboxes = Inboxes(self.stores.state)
        self._place = InboxPlace.at(self.inbox.url, self.stores)
        code = self.stores.state.organization(self.inbox.org_id).code
        self._mappings: list[Mapping] = folder_mappings(drop_folder(self.stores, code).mappings)

    def receipts(self) -> Iterator[Receipt]:
        """Ingest what an inbox holds, object by object; first what dead pollers left.

        Raises:
            Unavailable: The store, the disk, State or the lake failed; the rest waits.
        """
        self._place.expect()
        self.problems += [f"{each}: a link, or no file" for each in self._place.strangers()]
        for claim in self._claims():
            try:
                receipt = self._work_on(claim)
            except StaleVersion:
                continue  # We were too slow: another poller has the object now.
            except MeterlakeError as error:
                # State may be what failed: then the lease runs out.
                with suppress(MeterlakeError):
                    self._inboxes.release(claim, f"{type(error).__name__}: {error}", _PAUSE)
                if isinstance(error, Unavailable):
                    raise
                self.problems.append(f"{claim.key}: {error}")
                continue
            if receipt is not None:
                yield receipt

    def waits(self) -> bool:
        """Whether there is anything to do; whoever asks need not start anything otherwise.

        Raises:
            Unavailable: The store, the disk or State failed.
        """
        self._place.expect()
        if self._inboxes.due(self.inbox):
            return True
        return any(self._is_due(each, known) for each, known in self._list_objects())

    def _claims(self) -> Iterator[Claim]:
        for left in self._inboxes.due(self.inbox):
            died = left.job.has_died(self.stores.now())
            try:
                with reading_alone(self.stores.home, left.key, died=died):
                    claim = self._inboxes.take_over(left)
                    if claim is not None:
                        mark_step("inbox.taken_over")
                        yield claim
            except Busy as error:
                self.problems.append(f"{left.key}: {error}")
        for info, known in self._list_objects():
            try:
                claim = self._claim(info, known)
            except Invalid as error:
                self.problems.append(str(error))
                continue
            if claim is not None:
                mark_step("inbox.claimed")
                yield claim

    def _claim(self, info: ObjectInfo, known: Claim | None) -> Claim | None:
        if known is None:
            checked_key(info.key)
            return self._inboxes.take(self.inbox, info)
        if known.status is ClaimStatus.GONE:  # It is back, or an old listing showed it.
            return self._inboxes.take_over(known)
        if self._is_due(info, known):
            self._archive(known)
        return None

    def _is_due(self, info: ObjectInfo, known: Claim | None) -> bool:
        """Whether an object is new, or lies here although it is done and should be elsewhere."""
        if known is not None:
            done = known.status in {ClaimStatus.DONE, ClaimStatus.FAILED}
            return done and self.inbox.afterwards is Afterwards.MOVE
        with suppress(Invalid):
            return bool(checked_key(info.key))
        return False

    def _list_objects(self) -> Iterator[tuple[ObjectInfo, Claim | None]]:
        arrivals = self._place.arrivals()
        while page := list(islice(arrivals, _PAGE)):
            ids = [claim_id(self.inbox, info) for info in page]
            known = self._inboxes.claims(ids)
            for info, name in zip(page, ids, strict=True):
                yield info, known.get(name)

    def _work_on(self, claim: Claim) -> Receipt | None:
        receipt = None
        # Have the folder of a claim to ourselves, also against a poller that was only asleep.
        folder = self._folder(claim)
        make_folder(folder)
        asleep = Unavailable(
            "inbox", "a poller whose lease is over still works", "the next poll tries it again"
        )
        alone = hold_lock(folder / "lock", asleep)
        with alone, running(self.stores.state.jobs, claim.job):
            if claim.status is ClaimStatus.TAKEN:
                receipt = self._ingest(claim)
                if receipt is None:
                    self._finish(claim, ClaimStatus.GONE)
                    return None
                claim = self._inboxes.note_ingested(claim, receipt.to_wire())
                mark_step("inbox.noted")
            self._archive(claim)
            self._finish(claim, _end(claim))
        return receipt

    def _finish(self, claim: Claim, status: ClaimStatus) -> None:
        # Before, because nobody looks at a finished claim any more.
        shutil.rmtree(self._folder(claim), ignore_errors=True)
        self._inboxes.finish(claim, status)
        mark_step("inbox.finished")

    def _ingest(self, claim: Claim) -> Receipt | None:
        """The receipt of an object; None if it was replaced or taken away: then it is no more."""
        path = self._folder(claim) / "object"
        try:
            self._place.objects.fetch(_info(claim), path)
        except NotFound:
            return None
        mark_step("inbox.fetched")
        name = _name(claim)
        delivery = Delivery(claim.id, name, claim.received, deaths=claim.job.deaths)
        mapping = claiming(self._mappings, name)
        receipt = ingest_file(
            self.stores.organization(self.inbox.org_id), path, delivery, mapping, self.progress
        )
        mark_step("inbox.ingested")
        return receipt

    def _archive(self, claim: Claim) -> None:
        """Do with an ingested object what the inbox says; to do so again changes nothing."""
        objects, info = self._place.objects, _info(claim)
        with suppress(NotFound):  # It was replaced, or is where it belongs already.
            if self.inbox.afterwards is Afterwards.TAG:
                version = objects.tag(info, TAG, _end(claim).value.lower())
                self._inboxes.note_version(self.inbox, claim, version)
            if self.inbox.afterwards is Afterwards.MOVE:
                base = archive_key(claim)
                objects.put_bytes(f"{base}.report.json", wire.dumps_pretty(claim.report))
                mark_step("inbox.reported")
                objects.copy(info, base)
                mark_step("inbox.copied")
                objects.delete_version(info)
        mark_step("inbox.archived")

    def _folder(self, claim: Claim) -> Path:
        return self.stores.lake_folder(self.inbox.org_id) / "inbox" / claim.id


def archive_key(claim: Claim) -> str:
    """Where an object is moved to: beside its inbox, in a folder of its own, with its report."""
    stamp = claim.received.strftime(_STAMP)
    name = _name(claim).encode()[-_NAME_BYTES_MAX:].decode("utf-8", "ignore")
    return f"{_end(claim).value.lower()}/{stamp}-{claim.id}/{name}"


def _end(claim: Claim) -> ClaimStatus:
    return ClaimStatus.FAILED if claim.report.get("status") == "failed" else ClaimStatus.DONE


def _name(claim: Claim) -> str:
    return claim.key.rpartition("/")[2]


def _info(claim: Claim) -> ObjectInfo:
    return ObjectInfo(claim.key, claim.size_bytes, version=claim.version)


def poll_inboxes(
    organization: Organization,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress = untold,
) -> Iterator[Receipt]:
    """Ingest what all inboxes of an organization hold; what fails in one stops no other.

    Args:
        organization: The organization.
        stop: Asked between two objects.
        progress: Told how far the file is read, block by block.

    Raises:
        Unavailable: Something could not be done; it is done at a later poll.
    """
    problems: list[str] = []
    for inbox in Inboxes(organization.state).all(organization.id):
        try:
            poll = Poll(organization.stores, inbox, progress=progress)
            for receipt in poll.receipts():
                yield receipt
                if stop():
                    return
            problems += [f"{inbox.url}: {each}" for each in poll.problems]
        except MeterlakeError as error:
            problems.append(f"{inbox.url}: {error}")
    if problems:
        raise Unavailable("inboxes", "; ".join(problems), "the next poll tries it again")


def inboxes_wait(organization: Organization) -> bool:
    """Whether the inboxes of an organization hold something to ingest or to move.

    Raises:
        Unavailable: A store failed, and nothing waits in the others.
    """
    failed: MeterlakeError | None = None
    for inbox in Inboxes(organization.state).all(organization.id):
        try:
            if Poll(organization.stores, inbox).waits():
                return True
        except MeterlakeError as error:
            failed = error
    if failed is not None:
        raise failed
    return False


def inbox_round(
    runner: Runner, organization: Organization, stop: Callable[[], bool]
) -> Iterable[Receipt]:
    """Ingest what lies in the inboxes of an organization, as the worker does: as one run.

    Raises:
        Unavailable: Something could not be done; it is done at a later poll.
    """
    if not inboxes_wait(organization):
        return ()
    parameters = {"org": [organization.code]}
    verb = partial(poll_inboxes, organization, stop)
    return runner.run(INBOX_FLOW, parameters, verb, stop)
