"""What a server and a worker do with an announced file, in a process that may die on the way."""

from contextlib import suppress
from typing import Any

from meterlake.model.errors import ObjectExists
from meterlake.pipeline.ingest.receiving import receiving
from meterlake.pipeline.ingest.uploads import announce, get_job, ingest_uploads
from tests.homes import HEADER, Home, csv_row

DATA = (
    HEADER
    + "".join(csv_row(f"u{n}") for n in range(6))
    + csv_row("", account="newcomer")
    + csv_row("bad", "NaN")
).encode()
TYPE = "text/csv"


def announced(home: Home) -> str:
    """Announce the file, in a home whose URLs work for long; the job's id."""
    body = {"fileName": "f.csv", "contentType": TYPE, "contentLength": len(DATA)}
    made = announce(home.organization, "test", body, "")
    (home.stores.home / "url").write_text(f"{made['jobId']} {made['url']}")
    return str(made["jobId"])


def carry_on(home: Home) -> dict[str, Any]:
    """Send the file if it is not there, ingest what is; later than whoever died before."""
    lives = home.stores.home / "lives"
    lives.write_text((lives.read_text() if lives.exists() else "") + "x")
    home.clock.advance(minutes=2 * len(lives.read_text()))
    job_id, _, url = (home.stores.home / "url").read_text().partition(" ")
    with suppress(ObjectExists):
        send(home, url)
    list(ingest_uploads(home.organization))
    job = get_job(home.organization, job_id)
    folder = home.stores.home
    return {
        "job": {key: job[key] for key in job if not key.startswith(("dt", "uploadDate"))},
        "files": sorted(path.name for path in folder.glob("objects/uploads/*/*")),
        "left": sorted(path.name for path in folder.glob("uploads/*/*")),
    }


def send(home: Home, url: str) -> None:
    """Send the file in two pieces."""
    headers = {"content-type": TYPE, "content-length": str(len(DATA))}
    with receiving(home.stores, url.rpartition("/")[2], headers) as file:
        file.write(DATA[:100])
        file.write(DATA[100:])
        file.finish()


def carry_on_elsewhere(home: Home) -> dict[str, Any]:
    """Ingest a file that lies in a bucket; later than whoever died before."""
    lives = home.stores.home / "lives"
    lives.write_text((lives.read_text() if lives.exists() else "") + "x")
    home.clock.advance(minutes=2 * len(lives.read_text()))
    list(ingest_uploads(home.organization))
    [job_id, *_] = (home.stores.home / "url").read_text().split()
    job = get_job(home.organization, job_id)
    return {"job": {key: job[key] for key in job if not key.startswith(("dt", "uploadDate"))}}
