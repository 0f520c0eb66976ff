"""Requests made from the served document, valid and not: no 500, no answer that it does not describe,
and no refusal that tells of our inside.

Ids in paths lead to entities that exist, so that updates and deletions get beyond the first look.
`pytest -m slow tests/e2e/api/test_fuzz.py` makes many more.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_plus

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from meterlake.model.resources import RESOURCES
from tests.e2e.api.bodies import ROWS
from tests.e2e.api.inside import told_of_inside
from tests.e2e.api.methods import api_of

FEW, MANY = 1, 6
OPTIONS: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}


@pytest.fixture(scope="module")
def operations(server) -> dict[str, Any]:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    found = (result.ok() for result in schema.get_all_operations())
    return {each.label: each for each in found if "/oauth/" not in each.path}


@pytest.fixture(scope="module")
def known(server, lenient, world) -> dict[str, list[str]]:
    """Ids of entities that exist, by the last fixed segment of their path."""
    world.allow_custom_fields()
    for row in ROWS:
        api_of(lenient, row.api).create(**row.path(world), **row.least(world))
    found: dict[str, list[str]] = {}
    with server.organization.reading() as reader:
        for resource in RESOURCES:
            segment = [each for each in resource.path.split("/") if "{" not in each][-1]
            ids = [record.id for record in reader.all(resource.entity)]
            found.setdefault(segment, []).extend(ids)
    return found


def filled(case: Any, org_id: str, known: dict[str, list[str]]) -> None:
    """Let the members of the path lead to something that exists, where anything does."""
    before = ""
    for segment in case.path.strip("/").split("/"):
        member = re.fullmatch(r"\{(\w+)\}", segment)
        if member and member[1] == "orgId":
            case.path_parameters["orgId"] = org_id
        elif member and known.get(before):
            ids = known[before]
            case.path_parameters[member[1]] = ids[len(str(case.body)) % len(ids)]
        elif not member:
            before = segment


def problems(
    operation: Any,
    server: Any,
    token: str,
    known: dict[str, list[str]],
    examples: int,
    refused: list[bool],
) -> Iterator[str]:
    found: list[str] = []

    @settings(max_examples=examples, **OPTIONS)
    @given(case=operation.as_strategy(), exists=st.booleans())
    def run(case, exists):
        filled(case, server.org_id, known if exists else {})
        try:
            answer = case.call(headers={"Authorization": f"Bearer {token}"}, timeout=30)
        except httpx.HTTPError as error:
            found.append(f"{operation.label}: {error!r}: {case.as_curl_command()[-500:]}")
            return
        refused.append(answer.status_code >= 400)
        asked = unquote_plus(f"{case.as_curl_command()} {case.body}")
        if refused[-1] and (told := told_of_inside(answer.text, asked)):
            found.append(f"{operation.label}: tells of {told}: {answer.text[:900]}")
        if answer.status_code == 500:
            found.append(f"{operation.label}: 500: {case.as_curl_command()[-900:]}")
            return
        try:
            operation.validate_response(answer)
        except Exception as error:  # noqa: BLE001 - whatever it says is the finding
            found.append(f"{operation.label}: {answer.status_code}: {str(error)[:900]}")

    run()
    yield from found[:3]


def fuzzed(server, operations, known, examples):
    token, refused = server.token(), []
    found = [
        problem
        for operation in operations.values()
        for problem in problems(operation, server, token, known, examples, refused)
    ]
    assert sum(refused) > 100
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_few_requests_to_every_operation(server, operations, known):
    assert len(operations) > 300
    assert fuzzed(server, operations, known, FEW) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_requests_to_every_operation(server, operations, known):
    assert fuzzed(server, operations, known, MANY) == []
