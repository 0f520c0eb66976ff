"""What a worker does with exports that wait, in a process that may die on the way."""

import hashlib
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from meterlake.model import failpoint
from meterlake.model.export_request import KIND, ExportRequest, Format, Source
from meterlake.model.exports import ExportDestination
from meterlake.pipeline.export import Exported, run_export, submit_export
from meterlake.pipeline.export_verify import verify
from meterlake.stores.state import Job, JobStatus
from tests.homes import ACCOUNTS, HEADER, Home, configure, csv_row

# Small enough that the measurements of one meter become several files.
FILE_BYTES = 300
PART_BYTES = 500
# Later than the home was made, which has the time of the machine.
AFTERWARDS = datetime(2222, 2, 2, tzinfo=UTC)
LOCAL = {"destinationType": "LOCAL", "bucketName": "theirs"}
S3 = {"iamRoleArn": "arn:aws:iam::123456789012:role/theirs", "bucketName": "theirs"}
TYPES = ("accounts", "meters", "billLineItems")


def prepared(home: Home, **destination: Any) -> None:
    """Measurements, and jobs of exports to a folder and to one whose keys begin otherwise.

    Args:
        home: A configured home.
        destination: Of which kind the destinations are; see `LOCAL` and `S3`.
    """
    home.ingest("one.csv", HEADER + "".join(csv_row(f"u{n}", n) for n in range(12)))
    (home.stores.home / "out").mkdir()
    configured(home)
    home.clock.time = AFTERWARDS
    with home.stores.state.transaction(home.org_id, "test") as transaction:
        time, type_ = (
            transaction.create(
                ExportDestination.from_wire(
                    {"name": code, "code": code, "prefix": code, "partitionOrder": order}
                    | destination
                )
            ).id
            for code, order in (("time", "TIME_FIRST"), ("type", "TYPE_FIRST"))
        )
    usage = {"source": Source.USAGE, "file_bytes": FILE_BYTES}
    operational = {"source": Source.OPERATIONAL, "types": TYPES}
    # Usage comes last: once the last job has its snapshot, all have.
    for request in (
        ExportRequest(**operational, format=Format.CSV, destination_ids=(time,)),
        ExportRequest(source=Source.OPERATIONAL, types=TYPES[:1], keep=True),
        ExportRequest(**usage, format=Format.JSONL, destination_ids=(type_,), spreadsheet=True),
        ExportRequest(**usage, format=Format.PARQUET, destination_ids=(time,)),
        ExportRequest(**usage, format=Format.CSV, destination_ids=(time, type_), keep=True),
    ):
        submit_export(home.stores, home.org_id, request)
        home.clock.advance(seconds=1)


def carry_on(home: Home) -> dict[str, Any]:
    """Run all jobs, later than whoever died before, in a world that went on meanwhile."""
    configured(home)
    jobs = jobs_of(home)
    home.clock.time = AFTERWARDS
    home.clock.advance(hours=1 + sum(job.attempt for job in jobs))
    if any(job.attempt for job in jobs):
        hook, failpoint.hook = failpoint.hook, None
        _go_on(home, measured=bool(jobs[-1].attempt))
        failpoint.hook = hook
    exported = [run_export(home.stores, job.id) for job in jobs]
    again = [run_export(home.stores, job.id) for job in jobs]
    return {"exports": _state(home, exported, again)}


def elsewhere(home: Home) -> dict[str, Any]:
    """The same on a machine that has nothing of what the other one had staged."""
    shutil.rmtree(home.stores.home / "staging" / "exports", ignore_errors=True)
    return carry_on(home)


def jobs_of(home: Home) -> list[Job]:
    """The jobs in the order in which they were made."""
    return sorted(home.stores.state.jobs.recent(home.org_id, KIND), key=lambda job: job.created)


def configured(home: Home) -> None:
    """Have destinations be used with the credentials of this machine, or lie in its folder."""
    folder = home.stores.home
    changes: dict[str, Any] = {"export_folder": folder / "out", "export_credentials": "own"}
    if (folder / "endpoint").exists():
        from meterlake.stores.objects import s3

        s3.PART_BYTES = PART_BYTES  # type: ignore[misc]
        changes["s3_endpoint"] = (folder / "endpoint").read_text()
    home.stores.settings = home.stores.settings.model_copy(update=changes)


def _go_on(home: Home, *, measured: bool) -> None:
    """Other accounts and names; and measurements, once every job has its snapshot."""
    changed = [{**ACCOUNTS[0], "name": f"Acme {home.clock()}"}]
    number = home.clock().timestamp()
    more = {"code": f"new-{number}", "name": "New", "emailAddress": "new@example.com"}
    configure(home.stores, home.org_id, accounts=[*changed, more])
    if measured:
        home.ingest(f"{number}.csv", HEADER + csv_row(f"late-{number}"))


def _state(home: Home, exported: list[Exported], again: list[Exported]) -> dict[str, Any]:
    folder = home.stores.home
    jobs = [home.stores.state.jobs.get(each.job_id) for each in exported]
    assert [job.status for job in jobs] == [JobStatus.COMPLETE] * len(jobs)
    manifests = [place.manifest_url for each in exported for place in each.places]
    return {
        "results": [_without(folder, str(job.result)) for job in jobs],
        "as read again": [one == other for one, other in zip(exported, again, strict=True)],
        "objects": contents(folder / "out"),
        "kept": contents(folder / "objects" / "exports"),
        "staged": sorted(path.name for path in folder.glob("staging/exports/*")),
        "problems": [
            each.to_wire() for url in manifests for each in verify(home.stores.settings, url)
        ],
    }


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, and the checksum of its content."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _without(folder: Path, text: str) -> str:
    return text.replace(str(folder), "")
