"""A resource that only this module declares, driven through everything that resources go through.

Run as a program with a folder: it has to be declared before the rest of meterlake is imported. It
prints what came of it as one JSON object.
"""

import json
import sys
from pathlib import Path

import duckdb

from meterlake.model import resources
from meterlake.model.catalog.plans import Plan
from meterlake.model.resources.resource import Resource
from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import Code, Name


class Depot(Entity):
    """A place where what is metered stands."""

    name: Name
    code: Code
    plan_id: str | None = None


ROW = Resource(
    name="depots",
    path="depots",
    entity=Depot,
    refs={"plan_id": Plan},
    schema="Depot",
    permission="depot",
    event="configuration.depot",
)


def declare(row: Resource) -> None:
    """What a new line in `resources/__init__.py` does."""
    resources.RESOURCES = (*resources.RESOURCES, row)
    resources.BY_ENTITY[row.entity] = row
    resources.BY_KIND[row.kind] = row
    resources.BY_NAME[row.name] = row


def over_http(folder: Path) -> dict[str, object]:
    from tests.served import served

    with served(folder) as server, server.http() as http:
        made = http.post("/depots", json={"name": "North", "code": "north"}).json()
        changed = http.put(
            f"/depots/{made['id']}", json={"name": "Far north", "code": "north", "version": 1}
        )
        refused = http.post(
            "/depots", json={"name": "South", "code": "south", "planId": made["id"]}
        )
        unknown = http.post("/depots", json={"name": "East"})
        found = {
            "list": http.get("/depots").json()["data"],
            "update": changed.json(),
            "refused": [refused.status_code, refused.json()["message"]],
            "unknown": [unknown.status_code, unknown.json()["message"]],
            "events": [each["eventName"] for each in http.get("/events").json()["data"]],
        }
        found["deleted"] = http.delete(f"/depots/{made['id']}").status_code
        found["gone"] = http.get(f"/depots/{made['id']}").status_code
        return found


def by_commands(folder: Path) -> dict[str, object]:
    from meterlake.cli import run

    home = ["--home", str(folder)]
    document = folder.parent / "depots.yaml"
    document.write_text("depots:\n  - {code: west, name: West}\n")
    (folder.parent / "wrong.yaml").write_text("depots:\n  - {code: west, nmae: West}\n")
    codes = [
        run(("config", "apply", str(document), *home)),
        run(("config", "apply", str(folder.parent / "wrong.yaml"), *home)),
        run(("export", "operational", "--type", "depots", "--to", str(folder.parent), *home)),
        run(("publish", *home)),
    ]
    [published] = folder.glob("published/*/warehouse.duckdb")
    with duckdb.connect(published, read_only=True) as connection:
        rows = connection.execute("FROM depot SELECT code, name").fetchall()
    exported = next(folder.parent.rglob("*depot*.csv*"))
    with duckdb.connect() as connection:
        columns = connection.execute("SELECT code, name FROM read_csv(?)", [str(exported)])
        return {"codes": codes, "published": rows, "exported": columns.fetchall()}


if __name__ == "__main__":
    where = Path(sys.argv[1])
    declare(ROW)
    found = over_http(where / "home")
    sys.stdout.write("\n" + json.dumps({**found, **by_commands(where / "home")}) + "\n")
