"""What a worker does with exports that wait, in a process that may die on the way."""

import hashlib
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from meterlake.model.configuration.exports import ExportDestination
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month
from meterlake.model.work.export_request import KIND, ExportRequest, Format, Source
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.export.run import Exported, run_export, submit_export
from meterlake.pipeline.export.verify import verify
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.billing.bills import bills
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, HEADER, Home, configure, csv_row

# Small enough that the measurements of one meter become several files.
FILE_BYTES = 1024
PART_BYTES = 500
CHUNK_BYTES = 4096
REGION = "=1+1" * 32
SEPTEMBER = Month(2026, 9)
# Later than the home was made, which has the time of the machine.
AFTERWARDS = datetime(2222, 2, 2, tzinfo=UTC)
LOCAL = {"destinationType": "LOCAL", "bucketName": "theirs"}
S3 = {"iamRoleArn": "arn:aws:iam::123456789012:role/theirs", "bucketName": "theirs"}
GCS = {
    "projectNumber": "4711",
    "poolId": "ours",
    "providerId": "them",
    "serviceAccountEmail": "writer@project.iam.gserviceaccount.com",
    "bucketName": "theirs",
}
TYPES = ("accounts", "bills", "billLineItems", "focus")
# What the same bills come to in each file that shows them.
TOTALS = {"bill": "billTotal", "billlineitem": "convertedSubtotal", "focus": "BilledCost"}


def prepared(home: Home, **destination: Any) -> None:
    """Measurements, quantities and bills, and jobs of exports to folders whose keys differ.

    Args:
        home: A configured home.
        destination: Of which kind the destinations are; see `LOCAL`, `S3` and `GCS`.
    """
    _used_and_billed(home)
    (home.stores.home / "out").mkdir()
    configured(home)
    home.clock.time = AFTERWARDS
    with home.organization.transaction("test") as transaction:
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
    both = {"destination_ids": (time, type_), "keep": True, "spreadsheet": True}
    # Usage comes last: once the last job has its snapshot, all have.
    for request in (
        ExportRequest(**operational, format=Format.CSV, destination_ids=(time,)),
        ExportRequest(source=Source.OPERATIONAL, types=TYPES[:1], format=Format.PARQUET, keep=True),
        ExportRequest(**usage, format=Format.JSONL, destination_ids=(type_,)),
        ExportRequest(**usage, format=Format.PARQUET, destination_ids=(time,)),
        ExportRequest(**usage, format=Format.CSV, **both),
    ):
        submit_export(home.organization, request)
        home.clock.advance(seconds=1)


def _used_and_billed(home: Home) -> None:
    rows = (csv_row(f"u{n}", n, region=REGION) for n in range(12))
    home.ingest("one.csv", HEADER + "".join(rows))
    price_egress(home)
    subscribe(home, "acme", "bolt")
    aggregate(home.organization, SEPTEMBER)
    assert bill(home.organization, SEPTEMBER).failures == []


def carry_on(home: Home) -> dict[str, Any]:
    """Run all jobs, later than whoever died before, in a world that went on meanwhile."""
    configured(home)
    jobs = jobs_of(home)
    home.clock.time = AFTERWARDS
    home.clock.advance(hours=1 + sum(job.attempt for job in jobs))
    if any(job.attempt for job in jobs):
        hook, failpoint.hook = failpoint.hook, None
        _go_on(home, jobs)
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
    from meterlake.pipeline.export import files as export_files

    # Documents of Parquet are cut between groups of rows.
    export_files._ROWS = 1  # type: ignore[misc]
    folder = home.stores.home
    changes: dict[str, Any] = {"export_folder": folder / "out", "export_credentials": "own"}
    if (folder / "endpoint").exists():
        from meterlake.stores.objects import s3

        s3.PART_BYTES = PART_BYTES  # type: ignore[misc]
        changes["s3_endpoint"] = (folder / "endpoint").read_text()
    if (folder / "google").exists():
        _by_chunks()
        changes["gcs_endpoint"] = (folder / "google").read_text()
    home.stores.settings = home.stores.settings.model_copy(update=changes)


@cache
def _by_chunks() -> None:
    """Send everything to Google in small chunks; what is asked and what is answered is a step."""
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import blob
    from google.cloud.storage._media import _upload

    from meterlake.stores.objects import gcs

    gcs.CHUNK_BYTES = CHUNK_BYTES  # type: ignore[misc]
    # What the library itself takes for the smallest.
    blob._MAX_MULTIPART_SIZE = 0
    blob.Blob._CHUNK_SIZE_MULTIPLE = 1
    _upload.UPLOAD_CHUNK_SIZE = 1
    ask: Any = AuthorizedSession.request

    def marked(session: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        if "/upload/" not in url:
            return ask(session, method, url, *args, **kwargs)
        what = "session" if method == "POST" else "chunk"
        failpoint.mark_step(f"google.{what}_asked")
        answer = ask(session, method, url, *args, **kwargs)
        failpoint.mark_step(f"google.{what}_answered")
        return answer

    setattr(AuthorizedSession, "request", marked)  # noqa: B010 - a method is no variable


def _go_on(home: Home, jobs: list[Job]) -> None:
    """Other accounts and names; measurements and bills, once every job has read those of its own."""
    changed = [{**ACCOUNTS[0], "name": f"Acme {home.clock()}"}]
    number = home.clock().timestamp()
    more = {"code": f"new-{number}", "name": "New", "emailAddress": "new@example.com"}
    configure(home.organization, accounts=[*changed, more])
    if jobs[-1].attempt:
        home.ingest(f"{number}.csv", HEADER + csv_row(f"late-{number}"))
    # Bills have no history: a job has those that it staged.
    staged = home.stores.home / "staging" / "exports" / jobs[0].id / "manifest.json"
    if staged.exists() or jobs[0].status is JobStatus.COMPLETE:
        rebilled(home)


def rebilled(home: Any) -> None:
    """Every bill is calculated again and comes to more."""
    with home.organization.transaction("test") as transaction:
        for stored in bills.of_period(transaction):
            content = stored.content
            first, *rest = content.lines
            more = {name: first.body[name] + 1 for name in ("subtotal", "convertedSubtotal")}
            lines = [replace(first, body={**first.body, **more}), *rest]
            again = replace(content, total=content.total + 1, lines=lines)
            assert bills.put(transaction, again)[1] is bills.PutOutcome.RECALCULATED


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
        "billed": {
            file["type"]: [int(file["rows"]), file["sums"][TOTALS[file["type"]]]]
            for file in exported[0].manifest["files"]
            if file["type"] in TOTALS
        },
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
