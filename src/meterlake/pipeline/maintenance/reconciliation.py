"""Whether the books balance, source by source and in all: the verb `check_books`."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import compress
from typing import Final

import polars as pl

from meterlake.model.catalog.catalog import Meter
from meterlake.model.measurements.measurement import Category, Field, MeterFields, field_of
from meterlake.model.resources.events import BOOKS_ALERT
from meterlake.pipeline.events.incidents import resolve
from meterlake.stages.ingest.validate.parse_columns import content_hashes, uid_hashes
from meterlake.stores import Organization
from meterlake.stores.lake.reconciliation import (
    Reconciliation,
    ReconciliationDifference,
    compare,
    sample_uids,
)
from meterlake.stores.state.core.versions import versions

# An event is no report: it names the first differences.
_TOLD_MAX: Final = 10


def check_reconciliation(organization: Organization) -> Reconciliation:
    """Compare the ledger of an organization's lake with what is in the lake.

    For every source: received = accepted + repeats + rejected, as many rejected rows as it says,
    as many known uids and measurements as it accepted, without those that backfills retracted. Of
    some sources, other ones each time, also whether measurements still have the content that they
    were accepted with. A difference is an incident until all fits.

    Raises:
        NotFound: The organization has no lake.
        Unavailable: The disk, the lake or State failed.
    """
    with organization.lake.reader() as connection:
        result = compare(connection)
        samples = list(sample_uids(connection))
    wrong = _find_changed(samples, _meters(organization))
    result = replace(result, differences=result.differences + wrong)
    found = {}
    if not result.balanced:
        shown = [str(each) for each in result.differences[:_TOLD_MAX]]
        message = f"the books do not balance: {shown[0]}"
        found[BOOKS_ALERT, organization.id] = {"message": message, "differences": shown}
    resolve(organization, (BOOKS_ALERT,), found)
    return result


def _meters(organization: Organization) -> dict[str, set[MeterFields]]:
    """By id, each meter with the fields that it ever had at once: they are part of the hash."""
    found: dict[str, set[MeterFields]] = {}
    with organization.reading() as reader:
        for each in versions(reader, Meter):
            fields, derived = (
                tuple(Field(Category(field["category"]), field["code"]) for field in each[name])
                for name in ("dataFields", "derivedFields")
            )
            meter = MeterFields(each["id"], 1, "", fields, derived)
            found.setdefault(each["id"], set()).add(meter)
    return found


def _find_changed(
    samples: Iterable[tuple[str, pl.DataFrame]], meters: dict[str, set[MeterFields]]
) -> tuple[ReconciliationDifference, ...]:
    """By source, how many measurements of a sample have not the content that they came with."""
    found = [
        _stored_rows(rows, meters[meter_id]) for meter_id, rows in samples if meter_id in meters
    ]
    if not found:
        return ()
    shown = pl.concat(found).group_by("identity", "name").agg(pl.len(), pl.col("kept").sum())
    return tuple(
        ReconciliationDifference(name, identity, None, "contents of some measurements", rows, kept)
        for identity, name, rows, kept in shown.sort("name", "identity").iter_rows()
        if kept != rows
    )


def _kept_alone(rows: pl.DataFrame, meters: Collection[MeterFields]) -> pl.Series:
    """Which rows have the content that they came with, if they brought fields of their own.

    They have a value for each field that they brought, and for no other one; calculated fields
    were not brought.
    """
    fields = {field for each in meters for field in each.fields}
    derived = {field for each in meters for field in each.derived} - fields
    brought = [field for name in rows.columns if (field := field_of(name)) and field not in derived]
    values = rows.select(pl.col(field.column).is_not_null() for field in brought)
    places: dict[tuple[bool, ...], list[int]] = {}
    for index, present in enumerate(values.iter_rows()):
        places.setdefault(present, []).append(index)
    same = pl.Series([False]).new_from_index(0, len(rows))
    for present, found in places.items():
        meter = replace(next(iter(meters)), fields=tuple(compress(brought, present)))
        some = rows[found]
        same = same.scatter(found, content_hashes(some, meter) == some["content_hash"])
    return same


def _stored_rows(rows: pl.DataFrame, meters: Collection[MeterFields]) -> pl.DataFrame:
    same = pl.Series([False]).new_from_index(0, len(rows))
    for meter in meters:
        if all(each.column in rows.columns for each in meter.fields):
            same |= content_hashes(rows, meter) == rows["content_hash"]
    if not same.all():
        same |= _kept_alone(rows, meters)
    same &= uid_hashes(rows["uid"]) == rows["uid_hash"]
    return rows.select("identity", "name", same.alias("kept"))
