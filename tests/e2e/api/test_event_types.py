"""Every type of events that is offered happens: here, or where another test makes it happen.

Such tests say so by a mark, which fails them if nobody wrote the event. What never happens is not
offered, and does not happen here either.
"""

import pytest

from meterlake.model.resources.events import NEVER_HAPPEN, event_types, published_types
from tests.e2e.api.bodies import ROWS
from tests.e2e.api.methods import api_of
from tests.e2e.api.test_resources import ORGANIZATION
from tests.happened import happening
from tests.integration.api import test_billing_events

# Those of billing have a module of their own, which asks of each name whether it happened.
ELSEWHERE = {*happening(), *test_billing_events.HAPPENING}
HERE = sorted(set(event_types()) - ELSEWHERE)


@pytest.fixture(scope="module")
def happened(sdk, http, world):
    """The names of all events after each resource has lived, and their sides."""
    world.allow_custom_fields()
    for row in ROWS:
        if not row.other:
            live(sdk, world, row)
    group = http.post("/metergroups", json={"name": "Traffic"}).json()
    http.put(f"/metergroups/{group['id']}", json={"name": "Net", "version": 1}).raise_for_status()
    http.delete(f"/metergroups/{group['id']}").raise_for_status()
    settings = sdk.organization_config.retrieve()
    sdk.organization_config.update(**ORGANIZATION, version=settings.version)
    found = sdk.events.list(page_size=100, include_actioned=True)
    return {each.event_name: sorted(each.m3ter_event["eventData"]) for each in found}


def live(sdk, world, row):
    api, path, body = api_of(sdk, row.api), row.path(world), row.least(world)
    made = api.create(**path, **body)
    api.update(made.id, **path, **{**body, **row.change}, version=1)
    api.delete(made.id, **path)


@pytest.mark.parametrize("name", HERE)
def test_it_happens_with_its_sides(happened, name):
    sides = {"created": ["newDto"], "updated": ["newDto", "oldDto"], "deleted": ["oldDto"]}

    assert happened[name] == sides[name.rpartition(".")[2]]


def test_what_is_offered_happens_somewhere(sdk):
    offered = set(sdk.events.get_types().events)
    assert offered == {*HERE, *ELSEWHERE}
    assert {name.partition(".")[0] for name in HERE} == {"configuration"}
    assert len(HERE) > 50


@pytest.mark.parametrize("name", sorted(NEVER_HAPPEN))
def test_what_never_happens_is_not_offered(sdk, happened, name):
    assert name not in happened, NEVER_HAPPEN[name]
    assert name not in sdk.events.get_types().events
    assert name in published_types()
