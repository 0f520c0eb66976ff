"""A backfill: stored measurements corrected on purpose; what was asked for and how far it came."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from meterlake.model.errors import Invalid, Required
from meterlake.model.values.period import Period, format_instant, parse_instant

# The lake's tables of what backfills did.
STEP: Final = "backfill_step"
RETRACTION: Final = "retraction"
CORRECTION: Final = "correction"
WITHDRAWN_SOURCE: Final = "withdrawn_source"

# Every period of a window is looked at by itself: thousands of years would hold up the worker.
_LONGEST: Final = timedelta(days=36_525)
# The id names a folder.
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,35}")


class Mode(StrEnum):
    """What a backfill does."""

    RETRACT = "retract"
    REAGGREGATE = "re-aggregate"
    REDERIVE = "re-derive"
    REPLACE = "replace"


class BackfillStatus(StrEnum):
    """Where a backfill stands."""

    STAGING = "STAGING"
    STAGED = "STAGED"
    APPLIED = "APPLIED"
    DROPPED = "DROPPED"
    REVERTED = "REVERTED"
    FAILED = "FAILED"


# What is staged stays after it was applied, for whoever takes it back or looks at it.
WITH_STAGED_ROWS: Final = (
    BackfillStatus.STAGED,
    BackfillStatus.APPLIED,
    BackfillStatus.REVERTED,
)


class Action(StrEnum):
    """What was done with a backfill."""

    STAGE = "stage"
    APPLY = "apply"
    DROP = "drop"
    REVERT = "revert"
    FAIL = "fail"


class NextStep(NamedTuple):
    """What can be done with a backfill next.

    Attributes:
        what: In words.
        words: The command, without the program's name.
    """

    what: str
    words: str


def check_backfill_id(id: str) -> str:
    """An id that somebody chose.

    Raises:
        Invalid: It is none.
    """
    if not _ID.fullmatch(id):
        raise Invalid(
            "id", id, "it must have 1 to 36 letters, digits, dots, dashes and underscores"
        )
    return id


@dataclass(frozen=True, slots=True)
class BackfillSpec:
    """What a backfill is about. Entities are named by id; None and empty mean all of them.

    Attributes:
        window: The instants of the measurements.
        source: The identity of one source.
        uids: Chosen measurements.
        files: The names of the files that take the place of old measurements.
    """

    mode: Mode
    reason: str | None = None
    window: Period | None = None
    meters: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    source: str | None = None
    uids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def check(self) -> None:
        """Check that all that the mode needs is there, and nothing that it has no use for.

        Raises:
            Required: Something is missing.
            Invalid: Something is too much.
        """
        if self.mode is Mode.RETRACT:
            if not (self.reason or "").strip():
                raise Required("reason")
            if (self.source is None) == (not self.uids):
                raise Required("source or uids (one of the two)")
            if self.window or self.meters or self.accounts or self.files:
                raise Invalid(
                    "mode",
                    self.mode.value,
                    "it is for a source or uids; leave out since, until, meters, accounts and files",
                )
        else:
            self._check_window()

    def _check_window(self) -> None:
        if self.window is None:
            raise Required("window")
        if self.source is not None or self.uids:
            raise Invalid(
                "mode",
                self.mode.value,
                "it is for a time from since to until; for a source or uids, use RETRACT",
            )
        if self.mode is Mode.REAGGREGATE and self.window.end - self.window.start > _LONGEST:
            until = format_instant(self.window.end)
            raise Invalid("until", until, f"it must be at most {_LONGEST.days:,} days after since")
        if (self.mode is Mode.REPLACE) != bool(self.files):
            raise Invalid(
                "files",
                list(self.files),
                "the mode REPLACE needs files; leave them out with any other mode",
            )

    def to_wire(self) -> dict[str, Any]:
        """As plain data."""
        window = self.window and [
            format_instant(self.window.start),
            format_instant(self.window.end),
        ]
        found = {
            "mode": self.mode.value,
            "reason": self.reason,
            "window": window,
            "meters": list(self.meters),
            "accounts": list(self.accounts),
            "source": self.source,
            "uids": list(self.uids),
            "files": list(self.files),
        }
        return {name: value for name, value in found.items() if value}

    @classmethod
    def from_wire(cls, found: Mapping[str, Any]) -> "BackfillSpec":
        """Read it back."""
        window = None
        if "window" in found:
            start, end = map(parse_instant, found["window"])
            assert start is not None
            assert end is not None
            window = Period(start, end)
        lists = {
            name: tuple(found.get(name, ())) for name in ("meters", "accounts", "uids", "files")
        }
        return cls(
            Mode(found["mode"]), found.get("reason"), window, source=found.get("source"), **lists
        )


@dataclass(frozen=True, slots=True)
class Done:
    """One entry of a backfill's history."""

    action: Action
    at: datetime
    author: str
    detail: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """As plain data."""
        found = {"action": self.action.value, "at": self.at, "author": self.author}
        return {**found, "detail": self.detail} if self.detail else found


@dataclass(frozen=True, slots=True)
class Backfill:
    """One backfill.

    Attributes:
        snapshot: The lake's snapshot that it is staged from: what was before.
        applied: The snapshot that applying it made; None if it is not applied.
        summary: What it changes: counts, and quantities before and after.
        history: What was done with it, the oldest first.
    """

    id: str
    org_id: str
    spec: BackfillSpec
    status: BackfillStatus
    author: str
    created: datetime
    snapshot: int
    applied: int | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[Done, ...] = ()

    def done(self, action: Action, at: datetime, author: str, detail: str | None = None) -> Any:
        """The same with one more entry of its history."""
        return replace(self, history=(*self.history, Done(action, at, author, detail)))

    def next_steps(self) -> list[NextStep]:
        """What can be done with it now, the most usual first."""
        if self.status is BackfillStatus.STAGED:
            steps = [
                NextStep("Nothing is changed yet. Apply it:", f"backfill apply {self.id}"),
                NextStep("Or throw it away:", f"backfill drop {self.id}"),
            ]
            if any(each.get("amounts") for each in self.summary.get("bills", ())):
                what = "What it does to bills month by month, with balances and commitments:"
                steps.append(NextStep(what, f"bill what-if --backfill {self.id}"))
            return steps
        if self.status is BackfillStatus.APPLIED:
            late = NextStep("What it changed of months that are closed or billed:", "late")
            return [late, NextStep("To undo it:", f"backfill revert {self.id}")]
        if self.status in {BackfillStatus.STAGING, BackfillStatus.FAILED}:
            return [NextStep("To go on where it stopped:", f"backfill start --id {self.id}")]
        return []

    def to_wire(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "id": self.id,
            "mode": self.spec.mode.value,
            "status": self.status.value,
            "reason": self.spec.reason,
            "author": self.author,
            "created": self.created,
            "wanted": self.spec.to_wire(),
            "snapshot": self.snapshot,
            "appliedSnapshot": self.applied,
            "summary": dict(self.summary),
            "history": [each.to_wire() for each in self.history],
        }
