"""What became of an export, and where its manifest is."""

import flows  # noqa: F401

# isort: split
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from flows.assets import ALL, MadeAsset
from flows.outcome import TaskOutcome
from flows.parameters import Home, open_home
from flows.retrying import retrying
from meterlake.pipeline.export.round import whole_round
from meterlake.pipeline.export.run import Exported

FILES: Final = "Exported files"
MANIFESTS: Final = "Manifests"


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
    """The files of an export as an asset of their period."""
    manifest = done.manifest
    counts = {name: manifest[name] for name in ("source", "snapshot", "rows", "bytes")}
    metadata = {**counts, "job": done.job_id, "files": len(manifest["files"])}
    return MadeAsset("exports", _month_of(manifest["period"]), metadata)


def _month_of(period: Mapping[str, str] | None) -> str:
    """The month of a period: its middle lies in it, whatever the time zone."""
    if period is None:
        return ALL
    start, end = (datetime.fromisoformat(str(period[name])) for name in ("start", "end"))
    return f"{start + (end - start) / 2:%Y-%m}"


@retrying("due exports of {org}")
def run_due(home: Home, org: str) -> TaskOutcome:
    """Make the jobs that are due, run all that wait, and remove what was kept long enough."""
    with open_home(home) as stores:
        due, ran = whole_round(stores, stores.state.organization(org).id)
    done = [told_of(each.exported) for each in ran if each.exported]
    failed = [f"export {each.job.id}: {each.error}" for each in ran if each.error is not None]
    tables = {
        title: [row for each in done for row in each.tables[title]] for title in (FILES, MANIFESTS)
    }
    assets = [asset for each in done for asset in each.assets]
    return TaskOutcome({"due": due, "exports": len(ran)}, tables, failed, assets)
