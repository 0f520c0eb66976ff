"""The client's own book: what it offered, what was acknowledged, and what must be stored at the end.

It knows nothing of meterlake. A batch is kept whole until it is acknowledged; from then on as the
number of its rows, a digest of them, and the sums of its accounts. A row is named by its batch and
its number there, so a lost, a doubled and an altered row are found one by one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from threading import Lock
from typing import Final, NamedTuple

_DIGEST_MODULUS: Final = 1 << 64
_EXAMPLES: Final = 5


class Row(NamedTuple):
    """A measurement, as text."""

    uid: str
    account: str
    ts: str
    value: str
    region: str

    @property
    def month(self) -> str:
        """Its month, such as 2026-10."""
        return self.ts[:7]

    def digest(self) -> int:
        """A number that any other text changes."""
        text = "\x1f".join(self).encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest())


Sums = dict[tuple[str, str], Decimal]


@dataclass(slots=True)
class Batch:
    """Rows that are acknowledged together.

    Attributes:
        rows: All of them, until they are acknowledged.
        spare: One of them, which may be retracted later.
        retracted: By row number: the row, and whether it was said that it is gone.
    """

    name: str
    rows: list[Row]
    spare: Row = field(init=False)
    count: int = field(init=False)
    digest: int = field(init=False)
    sums: Sums = field(init=False)
    acknowledged: bool = False
    retracted: dict[int, tuple[Row, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spare, self.count = self.rows[0], len(self.rows)
        self.digest = sum(row.digest() for row in self.rows) % _DIGEST_MODULUS
        self.sums = add_up(self.rows)


@dataclass(slots=True)
class _Stored:
    """What was found of a batch."""

    seen: int = 0
    digest: int = 0
    doubled: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    """What is wrong, how many rows are right, and the sums that they have."""

    findings: list[str]
    rows: int
    unacknowledged: int
    sums: Sums


class Book:
    """What one organization was given."""

    def __init__(self) -> None:
        self._batches: dict[str, Batch] = {}
        self._lock = Lock()

    def offer(self, name: str, rows: Iterable[tuple[str, str, str, str]]) -> list[Row]:
        """Write down what is about to be sent: account, time, value, region of each row."""
        made = [Row(f"{name}.{number}", *each) for number, each in enumerate(rows)]
        with self._lock:
            assert name not in self._batches, name
            self._batches[name] = Batch(name, made)
        return made

    def acknowledge(self, name: str) -> int:
        """Somebody has said that a batch is there; how many rows that are."""
        with self._lock:
            batch = self._batches[name]
            batch.acknowledged, batch.rows = True, []
            return batch.count

    def retract(self, row: Row, *, done: bool) -> None:
        """A row is about to be withdrawn, or somebody has said that it was."""
        name, number = _split(row.uid)
        with self._lock:
            self._batches[name].retracted[number] = (row, done)

    def spare(self, name: str) -> Row:
        """A row of a batch that may be retracted."""
        with self._lock:
            return self._batches[name].spare

    def acknowledged(self) -> int:
        """How many rows must be there; those whose withdrawal nobody confirmed count."""
        with self._lock:
            return sum(
                batch.count - sum(done for _, done in batch.retracted.values())
                for batch in self._batches.values()
                if batch.acknowledged
            )

    def compare(self, rows: Iterable[Row]) -> Comparison:
        """Hold what is stored against what was given."""
        stored: dict[str, _Stored] = defaultdict(_Stored)
        findings: list[str] = []
        for row in rows:
            findings += self._note(stored, row)
        found = Comparison(findings, 0, 0, defaultdict(Decimal))
        for batch in self._batches.values():
            _judge(batch, stored[batch.name], found)
        return found

    def _note(self, stored: dict[str, _Stored], row: Row) -> Iterator[str]:
        name, number = _split(row.uid)
        batch = self._batches.get(name)
        if batch is None or number >= batch.count:
            yield f"nobody sent {row.uid}"
            return
        found, bit = stored[name], 1 << number
        if found.seen & bit:
            found.doubled.append(row.uid)
            return
        found.seen |= bit
        found.digest = (found.digest + row.digest()) % _DIGEST_MODULUS
        known = batch.retracted[number][0] if number in batch.retracted else None
        known = batch.rows[number] if batch.rows else known
        if known is not None and known != row:
            found.altered.append(row.uid)


def _judge(batch: Batch, stored: _Stored, found: Comparison) -> None:
    """What is wrong with a batch; what is right of it is counted."""
    present = {n for n in range(batch.count) if stored.seen >> n & 1}
    gone = {n for n, (_, done) in batch.retracted.items() if done}
    maybe = set(batch.retracted) - gone
    missing = set(range(batch.count)) - present - set(batch.retracted)
    problems = {
        "doubled": stored.doubled,
        "altered": stored.altered,
        "not retracted": _uids(batch, present & gone),
        "lost": _uids(batch, missing) if batch.acknowledged else [],
    }
    complete = batch.acknowledged and not missing and not stored.altered
    if complete and stored.digest != _expected(batch, present):
        problems["altered"] = [f"some row of {batch.name}"]
    for kind, uids in problems.items():
        if uids:
            found.findings.append(_describe(kind, uids))
    found.rows += len(present)
    if batch.acknowledged:
        absent = [batch.retracted[n][0] for n in gone | (maybe - present)]
        _add(found.sums, batch.sums, 1)
        _add(found.sums, add_up(absent), -1)
    else:
        found.unacknowledged += len(present)
        _add(found.sums, add_up(batch.rows[n] for n in present), 1)


def _expected(batch: Batch, present: set[int]) -> int:
    absent = sum(row.digest() for n, (row, _) in batch.retracted.items() if n not in present)
    return (batch.digest - absent) % _DIGEST_MODULUS


def _describe(kind: str, uids: list[str]) -> str:
    more = f" and {len(uids) - _EXAMPLES} more" if len(uids) > _EXAMPLES else ""
    return f"{kind}: {', '.join(sorted(uids)[:_EXAMPLES])}{more}"


def _uids(batch: Batch, numbers: set[int]) -> list[str]:
    return [f"{batch.name}.{number}" for number in numbers]


def _split(uid: str) -> tuple[str, int]:
    name, _, number = uid.rpartition(".")
    return name, int(number) if number.isdigit() else 0


def add_up(rows: Iterable[Row]) -> Sums:
    """The sum of each account and month."""
    sums: Sums = defaultdict(Decimal)
    for row in rows:
        sums[row.account, row.month] += Decimal(row.value)
    return sums


def _add(total: Sums, more: Sums, sign: int) -> None:
    for key, value in more.items():
        total[key] += sign * value
