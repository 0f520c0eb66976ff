"""Every member of every body with a value of another type: a refusal, and never the server's fault.

A member with a list of words is tried in every run. Of the others, a tenth: which one follows from
the date, and `METERLAKE_TEST_DAY=2026-10-01` tries that of a day again. `pytest -m slow` tries all.
"""

import json
import os
import re
from datetime import UTC, date, datetime

import httpx
import pytest

from meterlake.api import openapi
from meterlake.model.resources import RESOURCES
from tests.e2e.api.bodies import ROWS
from tests.e2e.api.members import Document, with_value
from tests.e2e.api.methods import api_of

VALUES = ({}, [], 7, None, True, "x" * 6000)
FEW = ({}, [{}], 7, None)
ALL = (*VALUES, [{}], 1.5)
PARTS = 10


@pytest.fixture(scope="module")
def document():
    return Document(json.loads(openapi.encode_document()))


@pytest.fixture(scope="module")
def stored(server, lenient, world):
    """An entity of each path, as the wire has it."""
    world.allow_custom_fields()
    for row in ROWS:
        body = {**row.least(world), **row.more(world)}
        api_of(lenient, row.api).create(**row.path(world), **body)
    with server.organization.reading() as reader:
        return {
            resource.path: {"id": record.id, "version": 1, **record.entity.to_wire()}
            for resource in RESOURCES
            for record in reader.all(resource.entity)
        }


def address(path, stored):
    """A path whose members lead to what is there, and the entity that a body would be of."""
    inner = path.removeprefix("/organizations/{orgId}/")
    before, steps = "", []
    for segment in inner.split("/"):
        if segment.startswith("{"):
            steps.append(_id(before, segment[1:-1], stored))
        else:
            steps.append(segment)
            before = segment
    return "/".join(steps), stored.get(re.sub(r"/\{\w+\}$", "", inner), {})


def _id(before, member, stored):
    if member == "type":
        return "meter"
    found = (each for path, each in stored.items() if path.endswith(before))
    return next(found, {"id": "00000000-0000-4000-8000-000000000000"})["id"]


def bodies(document, operation, entity):
    """The bodies that one member is changed in: what is stored, and all that the document has."""
    known = json.loads(json.dumps(entity, default=str))
    sample = {**document.sample(operation.body), **known}
    return [known, sample] if known else [sample]


def requests(document, stored, chosen, most):
    for operation in document.operations:
        path, entity = address(operation.path, stored)
        for number, member in enumerate(document.members(operation.body).values()):
            for value in chosen(operation, number, member):
                for body in bodies(document, operation, entity)[:most]:
                    yield operation, path, member, with_value(body, member.steps, value)


def failures(server, sent):
    count, found = 0, set()
    with server.http() as client:
        for operation, path, member, body in sent:
            count += 1
            where = f"{server.url}{operation.path}" if path.startswith("/") else f"/{path}"
            answer = client.request(operation.method, where, content=json.dumps(body))
            if answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
                found.add(f"{operation.id} {member.steps}: {json.dumps(body)[:400]}")
    return count, sorted(found)


def part_of(day):
    def chosen(operation, number, member):
        if member.words:
            return VALUES
        return FEW if (number + len(operation.id) + day.toordinal()) % PARTS == 0 else ()

    return chosen


@pytest.mark.slow
def test_no_member_with_a_list_of_words_breaks_the_server(server, document, stored):
    day = date.fromisoformat(
        os.environ.get("METERLAKE_TEST_DAY") or datetime.now(UTC).date().isoformat()
    )
    count, found = failures(server, requests(document, stored, part_of(day), 1))

    assert count > 1000
    assert found == [], f"METERLAKE_TEST_DAY={day}"


@pytest.mark.slow
def test_no_member_breaks_the_server(server, document, stored):
    count, found = failures(server, requests(document, stored, lambda *_: ALL, 2))

    assert count > 10_000
    assert found == []
