"""A home of many organizations, made fast: each has a copy of one empty lake."""

import shutil
from datetime import UTC, datetime

from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import Initialized, init_home, initialize
from meterlake.pipeline.ingest.drop_folder import DropFolder
from meterlake.settings import Settings
from meterlake.stores.lake.backends.location import lake_folder, open_lake
from meterlake.stores.state import State

CONTENT = {
    "meters": [
        {
            "code": "calls",
            "name": "Calls",
            "dataFields": [{"category": "MEASURE", "code": "n", "name": "Calls"}],
            "derivedFields": [],
        }
    ],
    "accounts": [{"code": "acme", "name": "Acme", "emailAddress": "bills@acme.example"}],
}


def make_many(settings: Settings, count: int, *, lakes: bool = True) -> list[Initialized]:
    """Make a home of `count` organizations, each with a meter and an account.

    Args:
        settings: The home's.
        count: How many.
        lakes: Whether they have lakes; without them, only what State and folders have.
    """
    made = [initialize(settings, "Org 0001")]
    template = lake_folder(settings, made[0].org_id)

    def make_lake(org_id: str) -> None:
        if not lakes:
            return
        if settings.catalog is None:
            shutil.copytree(template, lake_folder(settings, org_id))
            return
        lake = open_lake(settings, org_id)
        lake.create()
        lake.close()

    for number in range(2, count + 1):
        made.append(init_home(settings, f"Org {number:04}", make_lake))
        DropFolder(settings.home.absolute() / "drop" / made[-1].org_code).create()
    with State.open(settings) as state:
        for each in made:
            apply(state, each.org_id, [Document("many.yaml", CONTENT)], "test")
    return made


def batch(uid: str, time: datetime | None = None) -> dict[str, list[dict[str, object]]]:
    """The body of a request that submits one measurement."""
    at = (time or datetime.now(UTC)).isoformat()
    row = {"uid": uid, "meter": "calls", "account": "acme", "ts": at, "measure": {"n": 1}}
    return {"measurements": [row]}
