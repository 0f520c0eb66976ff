"""What a backfill does, before it is applied and afterwards: to measurements, row by row, and to bills."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict, Invalid
from meterlake.model.measurements.measurement import field_of
from meterlake.model.values.money import plain
from meterlake.model.values.period import Month, aware, format_instant
from meterlake.model.work.backfill import WITH_STAGED_ROWS
from meterlake.pipeline.backfill.difference import changed_sources
from meterlake.pipeline.backfill.impact import affected_months, with_parents
from meterlake.pipeline.backfill.lifecycle import open_staged
from meterlake.pipeline.backfill.priced import World, account_code
from meterlake.pipeline.billing.what_if import WhatIf, WhatIfChoice, compare_history
from meterlake.stages.bill import months_billed_with
from meterlake.stores import Organization
from meterlake.stores.lake.backfill.changes import rows_before_and_after
from meterlake.stores.lake.connection import translate_errors

SHOWN_MAX: Final = 1_000


def changed_measurements(
    organization: Organization, id: str, limit: int = SHOWN_MAX
) -> dict[str, Any]:
    """The first measurements that a backfill changes, by time, as they were and as they would be.

    Args:
        organization: The organization.
        id: That of the backfill.
        limit: The largest number.

    Returns:
        Plain data: `rows`, each with `before`, `after` or both, whether there are `more`, and how
        many change of each of the `meters`.

    Raises:
        NotFound: There is no such backfill.
        Conflict: Nothing is staged, or it is out of date.
        Busy: Another process works on it.
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        configuration = reader.configuration()
        meters = {each.id: each.entity.code for each in reader.all(Meter)}
    found: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    with (
        open_staged(organization, id, WITH_STAGED_ROWS) as (backfill, changes),
        organization.lake.reader() as connection,
        translate_errors(),
    ):
        for change in changes:
            meter = meters.get(change.meter_id, change.meter_id)
            counts[meter], rows = rows_before_and_after(
                connection, change, backfill.snapshot, limit
            )
            for uid, account_id, ts, before, after in rows:
                row = {
                    "uid": uid,
                    "meter": meter,
                    "account": account_code(configuration, account_id),
                    "accountId": account_id,
                    "ts": format_instant(aware(ts)),
                    "before": _fields(before),
                    "after": _fields(after),
                }
                found.append({name: value for name, value in row.items() if value is not None})
            # The first of all meters: each has given its own first ones.
            found = sorted(found, key=_place)[:limit]
    listed = [{"meter": meter, "measurements": count} for meter, count in sorted(counts.items())]
    more = sum(counts.values()) > len(found)
    return {"id": id, "meters": listed, "rows": found, "more": more}


def _place(row: Mapping[str, Any]) -> tuple[datetime, str]:
    return datetime.fromisoformat(row["ts"]), row["uid"]


def _fields(row: Mapping[str, Any] | None) -> dict[str, str] | None:
    """What was measured, as text; None if there is no such row."""
    if row is None:
        return None
    return {
        name: _text(value)
        for name, value in row.items()
        if value is not None and (name in {"ts", "ets"} or field_of(name) is not None)
    }


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return plain(value)
    return format_instant(aware(value)) if isinstance(value, datetime) else str(value)


class BackfillChoice(NamedTuple):
    """What is compared of a backfill.

    Attributes:
        id: That of the backfill.
        months: The first and the last one; those that it touches if None.
        accounts: Only these accounts, by code or id; those that it touches if None.
        by_month: Whether amounts are added up by month, too.
    """

    id: str
    months: tuple[Month, Month] | None = None
    accounts: Sequence[str] | None = None
    by_month: bool = False


@contextmanager
def compare_backfill(organization: Organization, choice: BackfillChoice) -> Iterator[WhatIf]:
    """Calculate bills of the lake as it is, and as it would be with a staged backfill.

    Raises:
        NotFound: There is no such backfill or account.
        Conflict: It is not staged, changes no measurements, or is out of date.
        Invalid: The months are none.
        Busy: Another process works on it.
        Unavailable: A store failed.
    """
    with open_staged(organization, choice.id) as (backfill, changes):
        if not changes:
            raise Conflict(
                f"backfill {choice.id!r} changes no measurements, so that bills stay as they are;"
                " choose a backfill that changes some"
            )
        configuration = organization.configuration()
        world = World(organization, configuration, backfill.snapshot)
        # The months of the bills that may come out otherwise, and the accounts in each.
        months_of = {month: set(ids) for month, ids in affected_months(world, changes).items()}
        accounts = {id_ for ids in months_of.values() for id_ in ids}
        # What holds until the next value is measured differs in later months, too.
        for name in backfill.summary.get("months", ()):
            with suppress(Invalid):
                months_of.setdefault(Month.parse(name), set()).update(accounts)
        touched = months_billed_with(world.configuration, months_of)
        months = choice.months or (min(touched), max(touched))
        known = {each.id for each in world.configuration.all(Account)}
        ids = {id_ for found in touched.values() for id_ in found if id_ in known}
        chosen = WhatIfChoice(
            *months,
            accounts=choice.accounts or sorted(with_parents(world.configuration, sorted(ids))),
            instead=changed_sources(world, changes),
            snapshot=backfill.snapshot,
            by_month=choice.by_month,
        )
        with compare_history(organization, chosen) as found:
            found.summary.backfill = backfill.id
            yield found
