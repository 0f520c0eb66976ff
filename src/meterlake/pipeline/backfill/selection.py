"""What people say a backfill is about, as the backfill knows it: codes, names and days become ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.recurring_period import parse_day
from meterlake.model.errors import Conflict, Invalid, NotFound
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Period, midnight, parse_instant, zone
from meterlake.model.values.plurals import counted
from meterlake.model.work.backfill import Backfill, BackfillSpec, Mode
from meterlake.pipeline.config.months import month_named, month_text
from meterlake.stores import Organization
from meterlake.stores.lake.backfill.sources import first_names, sources_named

_SHOWN_MAX: Final = 5
K = TypeVar("K", Meter, Account)


@dataclass(frozen=True, slots=True)
class BackfillSelection:
    """A backfill in words; None and empty mean that it was not said.

    Attributes:
        mode: retract, re-aggregate, re-derive or replace.
        month: `2026-10`, `last` or `current`: instead of `since` and `until`.
        since: The first instant or day, in the organization's time zone.
        until: The instant or day after the last.
        meters: Codes.
        accounts: Codes.
        source: The name of a file, or the beginning of a source's identity.
    """

    mode: str
    reason: str | None = None
    month: str | None = None
    since: str | None = None
    until: str | None = None
    meters: Sequence[str] = ()
    accounts: Sequence[str] = ()
    source: str | None = None
    uids: Sequence[str] = ()
    files: Sequence[Path] = ()


def subject(words: BackfillSelection) -> str:
    """What a backfill is about, in a few words.

    >>> subject(Words("re-derive", month="2026-10", meters=["egress"]))
    're-derive 2026-10'
    >>> subject(Words("retract", source="usage.csv")), subject(Words("retract", uids=["a", "b"]))
    ('retract usage.csv', 'retract 2 uids')
    """
    if words.source is not None:
        return f"{words.mode} {words.source}"
    if words.uids:
        return f"{words.mode} {counted(len(words.uids), 'uid')}"
    if words.month is not None:
        return f"{words.mode} {month_text(words.month)}"
    return f"{words.mode} {words.since} to {words.until}"


def resolve_backfill(organization: Organization, words: BackfillSelection) -> BackfillSpec:
    """What the words mean.

    Raises:
        Invalid: They name no time.
        NotFound: They name something that is not there.
        Conflict: They name more than one source.
    """
    with organization.reading() as reader:
        configuration = reader.configuration()
    try:
        mode = Mode(words.mode)
    except ValueError:
        known = ", ".join(each.value for each in Mode)
        raise Invalid("mode", words.mode, f"it must be one of {known}") from None
    return BackfillSpec(
        mode=mode,
        reason=words.reason,
        window=_window(organization, configuration, words),
        meters=_ids(configuration, Meter, words.meters),
        accounts=_ids(configuration, Account, words.accounts),
        source=None if words.source is None else _source(organization, words.source),
        uids=tuple(sorted(set(words.uids))),
        files=tuple(path.name for path in words.files),
    )


def source_names(organization: Organization, backfills: Sequence[Backfill]) -> dict[str, str]:
    """The names of the files or batches that backfills withdraw, by the identities of the sources.

    Raises:
        Unavailable: The lake failed.
    """
    identities = [each.spec.source for each in backfills if each.spec.source is not None]
    if not identities:
        return {}
    with organization.lake.reader() as connection:
        return first_names(connection, identities)


def _source(organization: Organization, text: str) -> str:
    with organization.lake.reader() as connection:
        rows = sources_named(connection, text)
    if not rows:
        raise NotFound("source", text)
    if len(rows) > 1:
        listed = ", ".join(each[:12] for each in rows[:_SHOWN_MAX])
        raise Conflict(
            f"{len(rows)} sources are called {text!r}: say which one by the beginning of its"
            f" identity: {listed}"
        )
    return rows[0]


def _ids(configuration: Configuration, kind: type[K], codes: Sequence[str]) -> tuple[str, ...]:
    found = []
    for code in dict.fromkeys(codes):
        record = configuration.find(kind, code)
        if record is None:
            raise NotFound(kind.__name__.lower(), code)
        found.append(record.id)
    return tuple(found)


def _window(
    organization: Organization, configuration: Configuration, words: BackfillSelection
) -> Period | None:
    timezone = zone(configuration.single(OrganizationConfig).entity.timezone)
    if words.month is not None:
        if words.since is not None or words.until is not None:
            raise Invalid("month", words.month, "give a month, or since and until, not both")
        return month_named(organization, words.month).period(timezone)
    if words.since is None and words.until is None:
        return None
    if words.since is None or words.until is None:
        raise Invalid("window", words.since or words.until, "give both since and until")

    def instant(field: str, text: str) -> datetime:
        return parse_instant(text) or midnight(parse_day(field, text), timezone)

    start, end = instant("since", words.since), instant("until", words.until)
    if start >= end:
        raise Invalid("until", words.until, f"it must be after {words.since}; it is exclusive")
    return Period(start, end)
