"""What a server and a worker do with files of a lookup table, in a process that may die on the way."""

from contextlib import suppress
from typing import Any

from meterlake.model.errors import ObjectExists
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.ingest.receiving import receiving
from meterlake.pipeline.ingest.uploads import ingest_uploads
from meterlake.pipeline.lookups import jobs as lookup_jobs
from meterlake.pipeline.lookups import lookups
from meterlake.pipeline.lookups.lookups import At
from meterlake.stores.state.core.pages import Page
from tests.homes import Home

DATA = b"country,rate\nUS,2\nDE,1.5\n"
TYPE = "text/csv"


def prepared(home: Home) -> None:
    """A draft with an announced file, and a published revision."""
    tables, revisions = BY_NAME["lookupTables"], BY_NAME["lookupTableRevisions"]
    organization = home.organization
    table = entities.create(
        organization, "test", ResourceRef(tables, {}), {"name": "Rates", "code": "rates"}
    )
    fields = [{"type": "STRING", "name": "country"}, {"type": "NUMBER", "name": "rate"}]
    schema = {"fields": fields, "keys": ["country"]}
    place = ResourceRef(revisions, {"lookupTableId": table["id"]})
    draft, other = (
        At(
            table["id"],
            entities.create(organization, "test", place, {"name": name, **schema})["id"],
        )
        for name in ("Draft", "Published")
    )
    body = {"fileName": "f.csv", "contentType": TYPE, "contentLength": len(DATA)}
    made = lookup_jobs.announce(organization, "test", draft, body, "")
    lookups.write_data(organization, "test", other, {"items": [{"country": "FR"}]})
    lookup_jobs.write_file(organization, "test", other, {"contentType": TYPE})
    lookups.set_status(organization, "test", other, {"status": "PUBLISHED"})
    text = f"{made['url']} {draft.table_id} {draft.revision_id} {other.revision_id}"
    (organization.stores.home / "url").write_text(text)


def carry_on(home: Home) -> dict[str, Any]:
    """Send the file if it is not there, run all jobs; later than whoever died before."""
    lives = home.stores.home / "lives"
    lives.write_text((lives.read_text() if lives.exists() else "") + "x")
    home.clock.advance(minutes=2 * len(lives.read_text()))
    url, table, *revisions = (home.stores.home / "url").read_text().split()
    with suppress(ObjectExists):
        _send(home, url)
    list(ingest_uploads(home.organization))
    found = [_state(home, At(table, each)) for each in revisions]
    folder = home.stores.home
    return {
        "revisions": found,
        "files": sorted(path.name for path in folder.glob("objects/*/*/*")),
        "bytes": sorted(path.read_text() for path in folder.glob("objects/*/*/*")),
        "left": sorted(path.name for path in folder.glob("uploads/*/*")),
    }


def _send(home: Home, url: str) -> None:
    headers = {"content-type": TYPE, "content-length": str(len(DATA))}
    with receiving(home.stores, url.rpartition("/")[2], headers) as file:
        file.write(DATA)
        file.finish()


def _state(home: Home, at: At) -> dict[str, Any]:
    data = lookups.read_data(home.organization, at)
    listed = lookup_jobs.list_jobs(home.organization, at, Page(10))["data"]
    jobs = sorted((job["type"], job["status"], job["version"]) for job in listed)
    return {"items": len(data["items"]), "version": data["version"], "jobs": jobs}
