"""Receipts: what became of every source and of every job, and where a uid was first seen."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.stages.ingest.validate.parse_columns import uid_hashes
from meterlake.stores import Organization
from meterlake.stores.lake import receipts, rejected
from meterlake.stores.lake.receipts import ReceiptFilters
from meterlake.stores.lake.rejected import RowRef
from meterlake.stores.lake.withdrawals import retracted_uids, retractions
from meterlake.stores.state.core.reader import Reader


def list_receipts(
    organization: Organization, filters: ReceiptFilters, limit: int
) -> list[dict[str, Any]]:
    """The first receipts of an organization's sources, the newest first unless asked otherwise.

    Raises:
        NotFound: It has no lake.
        Unavailable: The lake failed.
    """
    with organization.lake.reader() as connection:
        return _with_what_became(connection, receipts.list_receipts(connection, filters, limit))


def check_source(organization: Organization, name: str) -> None:
    """Refuse a source that was never ingested.

    Raises:
        NotFound: The ledger knows none of that name.
        Unavailable: The lake failed.
    """
    with organization.lake.reader() as connection:
        if not receipts.is_named(connection, name):
            raise NotFound("source", name)


def show_receipts(organization: Organization, source: str) -> list[dict[str, Any]]:
    """All receipts of one source or of one job, the newest first.

    Args:
        organization: The organization.
        source: The beginning of the source's identity, or the id of the delivery or the job.

    Raises:
        NotFound: The ledger knows none.
        Unavailable: The lake failed.
    """
    with organization.lake.reader() as connection:
        found = _with_what_became(connection, receipts.of_source(connection, source))
    if not found:
        raise NotFound("source or job", source)
    return found


def _with_what_became(connection: Any, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Receipts with what backfills withdrew, and how many rejected rows came in since."""
    identities = [each["identity"] for each in found]
    marks = retractions(connection, identities)
    # Most sources have no rejected rows.
    rejected_ones = [each["identity"] for each in found if each["rejected"]]
    mended = receipts.count_mended(connection, rejected_ones) if rejected_ones else {}
    places = [(each["identity"], each["attempt"]) for each in found]
    return [
        {**each, "mended": mended.get(place, 0), "retracted": marks.get(place, [])}
        for each, place in zip(found, places, strict=True)
    ]


def uid_receipts(organization: Organization, uids: Sequence[str]) -> list[dict[str, Any]]:
    """Where each uid was first seen, and what is known of later deliveries, in their order.

    `status` is `accepted`, `retracted` (by backfills, and not in again), `rejected` (never accepted
    so far) or `unknown`. `contradicted` are rows that came with the same uid and other content. That a single row was repeated is counted,
    not written down: `redelivered` are the later deliveries of the whole source.

    Raises:
        NotFound: There is no lake.
        Unavailable: The lake failed.
    """
    hashes = list(zip(uids, uid_hashes(pl.Series(uids, dtype=pl.String)), strict=True))
    with organization.lake.reader() as connection, organization.reading() as reader:
        places = receipts.seen(connection, hashes)
        refused = receipts.rejected_with_uids(connection, hashes)
        retracted = retracted_uids(connection, uids)
        found = []
        for uid in uids:
            answer: dict[str, Any] = {"uid": uid, "status": "unknown"}
            if uid in places:
                marks = retracted.get(uid, ())
                answer |= _first_seen(connection, reader, places[uid], marks)
            elif uid in retracted:
                answer["status"] = "retracted"
            elif uid in refused:
                answer["status"] = "rejected"
            rows = [
                {"id": str(RowRef(row["identity"], row["row"], row["part"])), **row}
                for row in refused.get(uid, ())
            ]
            answer["contradicted"] = [row for row in rows if row["reason"] == "DuplicateUid"]
            answer["rejected"] = [row for row in rows if row["reason"] != "DuplicateUid"]
            answer["retracted"] = retracted.get(uid, [])
            found.append(answer)
    return found


def _first_seen(
    connection: Any,
    reader: Reader,
    row_ref: tuple[str, str, int, int],
    retracted: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    meter_id, source, row, part = row_ref
    sources = receipts.of_source(connection, source)
    # What was withdrawn came in by another attempt after that.
    marks = [
        each
        for each in retracted
        if (each["identity"], each["row"], each["part"]) == (source, row, part)
    ]
    sources = [each for each in sources if all(_is_later(each, mark) for mark in marks)]
    # The attempt that accepted it was not the first one if its row was rejected before.
    tries = rejected.tries(connection, RowRef(source, row, part))
    refused = {each["attempt"] for each in tries if not each["requeued"]}
    done = [each for each in reversed(sources) if each["status"] == "done"]
    first, *later = [each for each in done if each["attempt"] not in refused]
    origin = receipts.origin(connection, source, row)
    values = receipts.measurement(connection, meter_id, source, row, part) or {}
    return {
        "status": "accepted",
        "name": first["name"],
        "identity": source,
        "attempt": first["attempt"],
        "row": row,
        "part": part,
        "receivedAt": first["receivedAt"],
        "delivery": first["delivery"],
        "meter": _code(reader, Meter, meter_id),
        "account": _code(reader, Account, values.get("accountId")),
        "ts": values.get("ts"),
        "ets": values.get("ets"),
        "requeuedFrom": origin and str(RowRef(*origin)),
        "redelivered": [
            {"name": each["name"], "attempt": each["attempt"], "receivedAt": each["receivedAt"]}
            for each in later
        ],
    }


def _is_later(receipt: dict[str, Any], retracted: dict[str, Any]) -> bool:
    """Whether an attempt came after the one whose measurement was withdrawn."""
    if retracted["attempt"] is None:
        return bool(receipt["finishedAt"] > retracted["at"])
    return bool(receipt["attempt"] > retracted["attempt"])


def _code(reader: Reader, kind: type[Meter] | type[Account], id: str | None) -> str | None:
    """The code of an entity; its id if it is gone."""
    try:
        return reader.get(kind, id).entity.code if id else None
    except NotFound:
        return id
