"""What became of an export, with a link to its manifest."""

import flows  # noqa: F401

# isort: split
from typing import Final

from prefect.artifacts import create_link_artifact

from flows.outcome import TaskOutcome
from flows.parameters import Home, open_home
from flows.retrying import retrying
from meterlake.pipeline.export.round import whole_round
from meterlake.pipeline.export.run import Exported

FILES: Final = "Exported files"


def told_of(done: Exported) -> TaskOutcome:
    """What an export wrote; every manifest is linked from an artifact of its own."""
    for place in done.places:
        url = place.manifest_url
        link = url if "://" in url else f"file://{url}"
        create_link_artifact(
            key="export-manifest", link=link, link_text=url, description=place.name
        )
    files = done.manifest["files"]
    summary = {"files": len(files), "rows": done.rows, "job": done.job_id}
    prefix = f"{done.url}/" if done.places else ""
    return TaskOutcome(
        {**summary, "manifest": done.manifest_url or "kept for its download"},
        {FILES: [{"rows": file["rows"], "file": f"{prefix}{file['key']}"} for file in files]},
    )


@retrying("due exports of {org}")
def run_due(home: Home, org: str) -> TaskOutcome:
    """Make the jobs that are due, run all that wait, and remove what was kept long enough."""
    with open_home(home) as stores:
        due, ran = whole_round(stores, stores.state.organization(org).id)
    files = [row for each in ran if each.exported for row in told_of(each.exported).tables[FILES]]
    failed = [f"export {each.job.id}: {each.error}" for each in ran if each.error is not None]
    return TaskOutcome({"due": due, "exports": len(ran)}, {FILES: files}, failed)
