"""Every entity is read, written back as it was answered, and is what it was.

The walk is over all resources: a new one without a body in the tables here fails.
"""

from typing import Any

import pytest

from meterlake.model.configuration.integrations import IntegrationConfig
from meterlake.model.resources import RESOURCES
from meterlake.model.values.secrets import with_secrets
from tests.e2e.api.bodies import ROWS
from tests.e2e.api.methods import api_of
from tests.e2e.api.test_resources import PLAIN
from tests.e2e.api.world import World

WRITTEN = [each for each in RESOURCES if "update" in each.verbs]
# Who changed it last, and when.
CHANGED = ("version", "dtLastModified", "lastModifiedBy")
BASIC = {"type": "HTTP_BASIC", "username": "robot", "password": "a secret"}
URL = "https://books.example.com/in"


@pytest.fixture(scope="module", autouse=True)
def _entities(sdk, http, world):
    """Of each resource one that says the least, and one that says all; integrations of each kind."""
    world.allow_custom_fields()
    for most in (False, True):
        of_its_own = World(sdk, 1000 + 1000 * most)
        for row in ROWS:
            more = row.more(of_its_own) if most else {}
            body = {**row.least(of_its_own), **more}
            api_of(sdk, row.api).create(**row.path(of_its_own), **body)
    for path, (body, _) in PLAIN.items():
        http.post(f"/{path}", json=body).raise_for_status()
    bills = {"entityType": "Bill", "destination": "HTTP", "configData": {"url": URL}}
    owner = http.post("/integrationconfigs", json={**bills, "credentials": BASIC}).json()
    shared = {"integrationCredentialsId": owner["integrationCredentialsId"]}
    http.post("/integrationconfigs", json={**bills, **shared}).raise_for_status()
    http.post("/integrationconfigs", json={**bills, "entityId": "*"}).raise_for_status()


def stored(server, resource) -> dict[str, Any]:
    """The fields of all entities of a resource by id; their secrets are readable."""
    with server.organization.reading() as reader:
        return {
            each.id: with_secrets(each.entity, server.stores.secrets.decrypt).to_wire()
            for each in reader.all(resource.entity)
        }


def written_back(http, path):
    """What is shown of an entity before and after it is written back, without who changed it."""
    before = http.get(path).raise_for_status().json()
    answer = http.put(path, json=before)
    assert answer.status_code == 200, answer.text
    assert answer.json()["version"] == before["version"] + 1
    after = http.get(path).json()
    return ({k: v for k, v in each.items() if k not in CHANGED} for each in (before, after))


@pytest.mark.parametrize("resource", WRITTEN, ids=lambda each: each.name)
def test_what_is_written_back_is_what_it_was(server, http, resource):
    if resource.singleton:
        written_back(http, f"/{resource.path}")  # The first time it is written at all.
    known = stored(server, resource)
    assert known

    for id_, fields in known.items():
        path = f"/{resource.path.format(**fields)}{'' if resource.singleton else f'/{id_}'}"
        if http.get(path).json().get("managedPolicy"):
            continue  # Nobody can change it.
        before, after = written_back(http, path)
        assert after == before
    assert stored(server, resource) == known


@pytest.mark.parametrize("members", [{}, {"entityId": ""}, {"entityId": "*"}], ids=str)
def test_an_integration_for_all_says_so_by_an_asterisk(server, http, world, members):
    hook = {"entityType": "Notification", "destination": "WEBHOOK", "destinationId": world.webhook}

    made = http.post("/integrationconfigs", json={**hook, **members}).raise_for_status().json()

    assert made["entityId"] == "*"
    with server.organization.reading() as reader:
        [found] = [each for each in reader.all(IntegrationConfig) if each.id == made["id"]]
    assert found.entity.entity_id is None
    at = "/integrationconfigs/entity/Notification"
    assert made["id"] in {each["id"] for each in http.get(f"{at}?entityId=*").json()["data"]}
