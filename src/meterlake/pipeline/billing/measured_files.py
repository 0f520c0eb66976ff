"""The files of measurements that bills are made from: noted with a digest, and checked against it."""

from collections.abc import Collection, Iterable, Iterator
from datetime import date, timedelta
from hashlib import sha256
from typing import Final

from meterlake.model.bills.verification import BillDifference, DifferenceSubject
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.errors import NotFound
from meterlake.stores import Organization
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.measurements.rows import measurement_files, month_of_path
from meterlake.stores.state.billing.calculations.pins import NotedFile, note_files, read_noted

_AUTHOR: Final = "BILLING"
_BLOCK: Final = 1 << 20

# A bill date with the frequency and the interval of the bill.
DatedPeriod = tuple[date, str, int]


def months_of(bills: Iterable[DatedPeriod]) -> tuple[str, str] | None:
    """The first and the last month of which bills may have usage; None if there are no bills."""
    found = [
        (day - timedelta(days=BillingFrequency(frequency).most_days * max(interval, 1) + 1), day)
        for day, frequency, interval in bills
    ]
    if not found:
        return None
    first, last = min(each for each, _ in found), max(each for _, each in found)
    return f"{first:%Y-%m}", f"{last:%Y-%m}"


def note_measured_files(
    organization: Organization, snapshot: int, months: tuple[str, str] | None
) -> int:
    """Note the files of some months that nobody has noted yet; how many these are.

    Raises:
        Unavailable: A store failed.
    """
    lake = organization.lake
    paths = _paths(lake, snapshot, months)
    if not paths:
        return 0
    with organization.reading() as reader:
        known = read_noted(reader, paths)
    found = [file for path in paths if path not in known and (file := _file(lake, path))]
    if found:
        with organization.transaction(_AUTHOR) as transaction:
            note_files(transaction, found)
    return len(found)


def check_measured_files(
    organization: Organization, snapshot: int, months: tuple[str, str] | None, checked: set[str]
) -> Iterator[BillDifference]:
    """The files of some months that are not what they were, or are gone.

    Args:
        organization: The organization.
        snapshot: Of the lake.
        months: The first and the last one.
        checked: The files that were checked already, to which these are added.
    """
    lake = organization.lake
    paths = [each for each in _paths(lake, snapshot, months) if each not in checked]
    checked.update(paths)
    with organization.reading() as reader:
        noted = read_noted(reader, paths)
    for path, before in noted.items():
        now = _file(lake, path)
        is_other = now is None or before.size_bytes != now.size_bytes
        if now is not None and None not in {before.sha256, now.sha256}:
            is_other = is_other or before.sha256 != now.sha256
        if is_other:
            yield BillDifference(
                subject=DifferenceSubject.FILE,
                name=path,
                field="content",
                stored=None if now is None else _describe(now),
                calculated=_describe(before),
            )


def _paths(lake: Lake, snapshot: int, months: tuple[str, str] | None) -> Collection[str]:
    if months is None:
        return ()
    with lake.reader() as connection:
        found = list(measurement_files(connection, snapshot, lake.catalog.schema, lake.files.root))
    first, last = months
    return [path for path in found if first <= (month_of_path(path) or first) <= last]


def _file(lake: Lake, path: str) -> NotedFile | None:
    """What a file is now; None if it is gone.

    A store of objects keeps the digest of what was put through us, and is asked for it. What else
    wrote there told it none: DuckDB, which merges files, and whoever replaced one.
    """
    objects = lake.files.objects
    try:
        info = objects.head(path)
        if info.sha256 and not lake.files.is_local:
            return NotedFile(path, info.size_bytes, info.sha256)
        found = sha256()
        with objects.open(path) as stream:
            while block := stream.read(_BLOCK):
                found.update(block)
        return NotedFile(path, info.size_bytes, found.hexdigest())
    except NotFound:
        return None


def _describe(file: NotedFile) -> str:
    return f"{file.size_bytes} bytes, sha256 {file.sha256 or 'unknown'}"
