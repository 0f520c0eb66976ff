"""What an organization has besides its configuration: usage, a bill, files, and links to them."""

import gzip
import io
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow.parquet as pq

from meterlake.cli import run
from meterlake.model.configuration.exports import OperationalDataType
from meterlake.model.values.period import Month
from meterlake.model.values.sql import identifier
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.export.run import run_export
from meterlake.pipeline.ingest.uploads import ingest_uploads
from meterlake.pipeline.usage.aggregate import aggregate
from tests.bills import price_egress, subscribe
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.served import Served

SEPTEMBER = {"startDate": "2026-09-01T00:00:00Z", "endDate": "2026-10-01T00:00:00Z"}
OCTOBER = {"startDate": "2026-10-01T00:00:00Z", "endDate": "2026-11-01T00:00:00Z"}
SERIES = {
    **SEPTEMBER,
    "meterCodes": [],
    "aggregationFrequency": "DAY",
    "measures": [{"name": "gb", "aggregations": ["SUM"]}],
    "dimensions": [{"name": "region", "filter": ["*"], "attributes": []}],
}
EXPORTS = {
    "usage": {"sourceType": "USAGE", "exportFileFormat": "JSONL", **SEPTEMBER},
    "usage as Parquet": {"sourceType": "USAGE", "exportFileFormat": "PARQUET", **SEPTEMBER},
    "operational": {
        "sourceType": "OPERATIONAL",
        "exportFileFormat": "CSV",
        "operationalDataTypes": [each.value for each in OperationalDataType],
    },
}


def stock(of: Served, word: str) -> None:
    """Measurements, a rejected one, quantities and a bill; the word stands where a word can."""
    home = Home(of.stores, of.org_id, Clock())
    configure(
        of.organization,
        meters=[{**EGRESS, "name": f"Egress {word}"}],
        accounts=[{**ACCOUNTS[0], "name": f"Acme {word}"}],
    )
    price_egress(home)
    subscribe(home, "acme")
    rows = csv_row(f"{word}-1", region=word) + csv_row(f"{word}-2", "NaN", region=word)
    assert home.ingest(f"{word}.csv", HEADER + rows).rejected == 1
    aggregate(of.organization, Month(2026, 9))
    bill(of.organization, Month(2026, 9))


def links(of: Served, word: str) -> dict[str, str]:
    """The signed links to one file of each kind, and by `/` the paths that lead to such links."""
    with of.http() as http:
        return {**_explored(http), **_exported(of, http), **_failed(http), **_sent(of, http, word)}


def _asked(http: httpx.Client, path: str, **body: Any) -> Any:
    answer = http.post(path, json=body) if body else http.get(path)
    assert answer.is_success, (path, answer.text)
    return answer.json()


def _explored(http: httpx.Client) -> dict[str, str]:
    path, bills = "/dataexplorer/usagedata/download", "/dataexplorer/bills/download/csv"
    usage = {kind: _asked(http, f"{path}/{kind}", **SERIES) for kind in ("csv", "json")}
    billed = _asked(http, bills, **OCTOBER, lineItemTypes=["USAGE"])
    return {
        "explored usage, CSV": usage["csv"]["downloadUrl"],
        "explored usage, JSON": usage["json"]["downloadUrl"],
        "explored bills": billed["downloadUrl"],
    }


def _exported(of: Served, http: httpx.Client) -> dict[str, str]:
    found = {}
    for name, body in EXPORTS.items():
        job_id = _asked(http, "/dataexports/adhoc", **body)["jobId"]
        run_export(of.stores, job_id)
        path = f"/dataexports/jobs/{job_id}/getdownloadurl"
        found |= {f"{name} export": _asked(http, path)["url"], f"/{name} export": path}
    return found


def _failed(http: httpx.Client) -> dict[str, str]:
    [event] = _asked(http, "/events?eventType=IngestValidationFailure")["data"]
    told = event["m3terEvent"]["eventData"]["newDto"]
    path = "/measurements/failedIngest/getDownloadUrl?file=" + told["file"]
    return {"failed ingest": _asked(http, path)["url"], "/failed ingest": path}


def _sent(of: Served, http: httpx.Client, word: str) -> dict[str, str]:
    """A lookup table that is written to a file, and a file that was sent up."""
    table = _asked(http, "/lookuptables", name=word, code=f"t-{word}")["id"]
    fields = [{"type": "STRING", "name": name} for name in ("country", "rate")]
    revisions = f"/lookuptables/{table}/revisions"
    made = _asked(http, revisions, name=word, fields=fields, keys=["country"])
    data = f"{revisions}/{made['id']}/data"
    assert http.put(data, json={"items": [{"country": word, "rate": "1"}]}).is_success
    written = _asked(http, f"{data}/jobs/download", contentType="text/csv")["jobId"]
    assert http.put(f"{revisions}/{made['id']}/status", json={"status": "PUBLISHED"}).is_success
    archived = {
        f"archived lookup table, {kind}": _asked(http, f"{data}/archived", contentType=kind)["url"]
        for kind in ("text/csv", "application/jsonl")
    }
    content = f'[{{"uid": "{word}-sent"}}]'.encode()
    announced = _asked(
        http,
        "/fileuploads/measurements/generateUploadUrl",
        fileName=f"{word}.json",
        contentType="text/json",
        contentLength=len(content),
    )
    sent = httpx.put(announced["url"], content=content, headers=announced["headers"])
    assert sent.is_success, sent.text
    assert list(ingest_uploads(of.organization))
    job, original = f"{data}/jobs/{written}", f"/fileuploads/measurements/jobs/{announced['jobId']}"
    return {
        **archived,
        "lookup table": _asked(http, job)["downloadUrl"],
        "/lookup table": job,
        "upload": _asked(http, f"{original}/original")["url"],
        "/upload": f"{original}/original",
        "/upload job": original,
    }


def exported_folder(of: Served, name: str) -> Path:
    """Everything that exports of both kinds put into a destination of their own."""
    where = {"destinationType": "LOCAL", "name": name, "code": name, "bucketName": name}
    with of.http() as http:
        id_ = _asked(http, "/dataexports/destinations", **where)["id"]
        for body in EXPORTS.values():
            job_id = _asked(http, "/dataexports/adhoc", **body, destinationIds=[id_])["jobId"]
            run_export(of.stores, job_id)
    folder = of.settings.export_folder
    assert folder is not None
    return folder / name


def by_command(of: Served, folder: Path) -> Path:
    """What commands write of an organization: its rejected rows, and the published file."""
    at = ["--home", str(of.settings.home), "--org", of.org_id, "--json"]
    folder.mkdir()
    for name in ("rejected.csv", "rejected.ndjson"):
        assert run(["rejected", "export", str(folder / name), *at]) == 0
    assert run(["publish", *at]) == 0
    code = of.stores.state.organization(of.org_id).code
    published = of.stores.home / "published" / code
    for path in published.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def contents(folder: Path) -> Iterator[tuple[str, str]]:
    """The names of all files below a folder, and everything that they say."""
    for path in folder.rglob("*"):
        if path.is_file():
            rows = _of_database(path) if path.suffix == ".duckdb" else ""
            yield path.relative_to(folder).as_posix(), unpacked(path.read_bytes()) + rows


def unpacked(data: bytes) -> str:
    """All that bytes say, also what is packed in them."""
    if data.startswith(b"\x1f\x8b"):
        return unpacked(gzip.decompress(data))
    if data.startswith(b"PAR1"):
        return _of_parquet(data)
    if not data.startswith(b"PK"):
        return data.decode("utf-8", "replace")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return "".join(name + unpacked(archive.read(name)) for name in archive.namelist())


def _of_parquet(data: bytes) -> str:
    """All rows, and what the footer says of them: its pages are compressed."""
    with pq.ParquetFile(io.BytesIO(data)) as file:
        columns = [
            str(file.metadata.row_group(group).column(column))
            for group in range(file.num_row_groups)
            for column in range(file.metadata.num_columns)
        ]
        told = [file.schema_arrow.to_string(), file.metadata.metadata, columns]
        return "".join(map(str, [*told, file.read().to_pylist()]))


def _of_database(path: Path) -> str:
    """All rows, comments and views: its pages are compressed."""
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        names = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal"
        ).fetchall()
        assert names
        queries = [
            "SELECT * FROM duckdb_tables()",
            "SELECT * FROM duckdb_columns() WHERE NOT internal",
            "SELECT * FROM duckdb_views() WHERE NOT internal",
            *(f"FROM {identifier(schema)}.{identifier(name)}" for schema, name in names),
        ]
        return "".join(str(connection.execute(query).fetchall()) for query in queries)
