"""Rejected rows as they are: a page of them, all of them, or one with its history.

What only looks at them loads nothing of ingest.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import duckdb

from meterlake.model.catalog.catalog import Meter
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.measurements.rejection import Reason
from meterlake.stores import Organization
from meterlake.stores.lake import receipts as sources
from meterlake.stores.lake import rejected
from meterlake.stores.lake.rejected import (
    IN_PLACE,
    RejectedFilter,
    RejectedMark,
    RejectedOrder,
    RejectedRow,
    RowRef,
)
from meterlake.stores.lake.withdrawals import decisions, retractions

# Rows that are read, or given in again, at once.
BATCH_ROWS: Final = 10_000
_ID: Final = re.compile(
    r"(?P<prefix>[0-9a-f]{4,64}):(?P<row>[0-9]{1,18})(?:\.(?P<part>[0-9]{1,4}))?"
)


def list_rejected(
    organization: Organization,
    filters: RejectedFilter,
    limit: int,
    after: str | None = None,
    order: RejectedOrder = IN_PLACE,
) -> list[RejectedRow]:
    """Rejected rows, in the order of their sources and rows, or in another one.

    Args:
        organization: The organization.
        filters: Which ones.
        limit: How many at most.
        after: What `mark_of` gave for the row behind which to go on; in the order of places, its id.
        order: The order.

    Raises:
        Invalid: `after` is no id, or of another order.
        NotFound: There is no such row, or no lake.
        Unavailable: The lake failed.
    """
    with organization.lake.reader() as connection:
        start = None if after is None else _mark(connection, after, order)
        return rejected.page(connection, filters, limit, start, order)


def mark_of(row: RejectedRow, order: RejectedOrder = IN_PLACE) -> str:
    """What the page behind a row begins after."""
    # The whole identity: its beginning may be that of others some day.
    place = f"{row.place.identity}:{row.row}.{row.part}"
    return f"{place}={order.by}:{row.sorted_value(order)}" if order.by else place


def _mark(connection: duckdb.DuckDBPyConnection, text: str, order: RejectedOrder) -> RejectedMark:
    id_, _, sorted_by = text.partition("=")
    by, _, value = sorted_by.partition(":")
    if by != (order.by or ""):
        raise Invalid("after", text, "it must be what ends the page before, in the same order")
    return RejectedMark(place_of(connection, id_), value)


def every_rejected(organization: Organization, filters: RejectedFilter) -> Iterator[RejectedRow]:
    """All rejected rows that are meant, page by page."""
    after: RejectedMark | None = None
    while True:
        with organization.lake.reader() as connection:
            rows = rejected.page(connection, filters, BATCH_ROWS, after)
        yield from rows
        if len(rows) < BATCH_ROWS:
            return
        after = RejectedMark(rows[-1].place)


def check_named(organization: Organization, filters: RejectedFilter) -> None:
    """Refuse filters that name what is nowhere; who found no rows learns whether he mistyped one.

    Rows keep what they came with: a meter that was never configured is one, if a row has it.

    Raises:
        NotFound: There is no such source or meter.
        Invalid: No row is rejected for such a reason.
        Unavailable: The lake or State failed.
    """
    if filters.reason is not None and filters.reason not in set(Reason):
        raise Invalid("reason", filters.reason, f"it must be one of {', '.join(Reason)}")
    with organization.lake.reader() as connection:
        if filters.source is not None and not sources.is_named(connection, filters.source):
            raise NotFound("source", filters.source)
    if filters.meter is not None and filters.meter not in named_meters(organization):
        raise NotFound("configured or rejected meter", filters.meter)


def named_meters(organization: Organization) -> set[str]:
    """The codes of meters: of those that are configured, and as rejected rows have them."""
    with organization.lake.reader() as connection:
        found = rejected.meters(connection)
    with organization.reading() as reader:
        return found.union(reader.codes(Meter))


def count_set_aside(organization: Organization, filters: RejectedFilter) -> dict[str, int]:
    """How many of the rows that are meant, whatever their state, are withdrawn or dismissed.

    Raises:
        NotFound: There is no lake.
        Unavailable: The lake failed.
    """
    with organization.lake.reader() as connection:
        return rejected.count_set_aside(connection, filters)


def show_rejected(organization: Organization, id: str) -> dict[str, Any]:
    """One rejected row with everything that is known of it.

    Raises:
        Invalid: It is no id.
        NotFound: There is no such row.
        Unavailable: The lake failed.
    """
    with organization.lake.reader() as connection:
        place = place_of(connection, id)
        found = rejected.at(connection, [place])
        history = rejected.tries(connection, place)
        decided = decisions(connection, place)
        withdrawn = _withdrawals(connection, found)
    if found:
        more = {"history": history, "decisions": decided, "withdrawnBy": withdrawn}
        return found[0].to_wire() | more
    if not history:
        raise NotFound("rejected row", id)
    # It was rejected once, and came in when its source was delivered again.
    return {"id": str(place), "status": "delivered again", "history": history}


def _withdrawals(
    connection: duckdb.DuckDBPyConnection, found: Sequence[RejectedRow]
) -> list[dict[str, Any]]:
    """By which backfills a row is withdrawn: with its source, or with the one that brought it in."""
    for row in found:
        if row.status == "withdrawn":
            marks = retractions(connection, [row.identity, row.new_identity or row.identity])
            of_source = marks.get((row.identity, row.attempt), [])
            again = (mark for key, mark in marks.items() if key[0] == row.new_identity)
            return of_source or next(again, [])
    return []


def places_of(connection: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> list[RowRef]:
    """The places of rows that somebody named, each once.

    Raises:
        Invalid: One is no id, or no row was ever rejected there.
        NotFound: There is no such source.
    """
    known: dict[str, str] = {}
    places = {place_of(connection, each, known): each for each in ids}
    strangers = places.keys() - rejected.ever_rejected(connection, places)
    for place in sorted(strangers):
        raise Invalid(
            "id",
            places[place],
            "it must be the id of a rejected row, as the list of rejected rows shows it",
        )
    return list(places)


def place_of(
    connection: duckdb.DuckDBPyConnection, id: str, known: dict[str, str] | None = None
) -> RowRef:
    """The place that somebody typed.

    Args:
        connection: Of the lake.
        id: `<beginning of an identity>:<row>[.part]`.
        known: Identities by beginning, found before.
    """
    match = _ID.fullmatch(id)
    if match is None:
        raise Invalid("id", id, "it must be of the form 0123456789ab:17, or 0123456789ab:17.1")
    known = {} if known is None else known
    prefix, row, part = match["prefix"], match["row"], match["part"]
    if prefix not in known:
        found = rejected.identities(connection, prefix)
        if not found:
            raise NotFound("rejected row", id)
        if len(found) > 1:
            raise Invalid("id", id, "the identities of several files begin so; give more of it")
        known[prefix] = found[0]
    return RowRef(known[prefix], int(row), int(part or 0))
