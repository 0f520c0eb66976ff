"""What became of an export, and where its manifest is."""

import flows  # noqa: F401

# isort: split
from datetime import datetime, timedelta
from typing import Final

from flows.assets import ALL, MadeAsset
from flows.outcome import TaskOutcome
from flows.parameters import Home, open_home
from flows.retrying import retrying
from meterlake.model.values.period import Month
from meterlake.pipeline.export.run import Exported
from meterlake.pipeline.export.schedules import whole_round

FILES: Final = "Exported files"
MANIFESTS: Final = "Manifests"
_OFFSET_MAX: Final = timedelta(hours=14)  # that of the Line Islands


def told_of(done: Exported) -> TaskOutcome:
    """What an export wrote, and where its manifests are."""
    manifests = [
        {"destination": place.name, "manifest": place.manifest_url} for place in done.places
    ]
    files = done.manifest["files"]
    summary = {"files": len(files), "rows": done.rows, "job": done.job_id}
    prefix = f"{done.url}/" if done.places else ""
    return TaskOutcome(
        {**summary, "manifest": done.manifest_url or "kept for its download"},
        {
            FILES: [{"rows": file["rows"], "file": f"{prefix}{file['key']}"} for file in files],
            MANIFESTS: manifests,
        },
        assets=[_asset_of(done)],
    )


def _asset_of(done: Exported) -> MadeAsset:
    """The files of an export as an asset of their period, made from all months of it."""
    manifest = done.manifest
    counts = {name: manifest[name] for name in ("source", "snapshot", "rows", "bytes")}
    metadata = {**counts, "job": done.job_id, "files": len(manifest["files"])}
    period = manifest["period"]
    if period is None:
        return MadeAsset("exports", ALL, metadata)
    first, *others = months = months_of(*(period[name] for name in ("start", "end")))
    name = f"{first}..{others[-1]}" if others else first
    return MadeAsset("exports", name, metadata, tuple(months))


def months_of(start: datetime | str, end: datetime | str) -> list[str]:
    """The months of a period of whole days, whatever the time zone of its days.

    >>> months_of("2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z")
    ['2026-10']
    """
    first, after = (datetime.fromisoformat(str(each)) for each in (start, end))
    # So much after its start is on its first day everywhere, so much before its end on its last.
    inset = min(_OFFSET_MAX, (after - first) / 2)
    days = (first + inset).date(), (after - inset).date()
    return [str(month) for month in Month.between(days[0], days[1] + timedelta(days=1))]


@retrying("due exports of {org}")
def run_due(home: Home, org: str) -> TaskOutcome:
    """Make the jobs that are due, run all that wait, and remove what was kept long enough."""
    with open_home(home) as stores:
        due, ran = whole_round(stores.find_organization(org))
    done = [told_of(each.result) for each in ran if each.result]
    failed = [f"export {each.job.id}: {each.error}" for each in ran if each.error is not None]
    tables = {
        title: [row for each in done for row in each.tables[title]] for title in (FILES, MANIFESTS)
    }
    assets = [asset for each in done for asset in each.assets]
    return TaskOutcome({"due": due, "exports": len(ran)}, tables, failed, assets)
