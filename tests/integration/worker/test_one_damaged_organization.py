"""Whatever walks over all organizations passes the one whose rows nobody can read.

The loops: turns of the worker's rounds and the questions before them; destinations that a worker
looks at when it starts; deployments of schedules; support users' sign-in. Elsewhere: the sender of
integrations (`test_words_of_strangers`), letters (`test_letters`), copies of segments of lost
machines (`test_segment_copies`).
"""

from collections import Counter

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import DataError

from flows.export_deployments import deployment_specs
from meterlake.model.configuration.access import SupportAccess
from meterlake.model.configuration.exports import ExportDestination, ExportSchedule
from meterlake.model.configuration.notifications import ScheduledEventConfiguration
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.balances import Balance, BalanceChargeSchedule
from meterlake.model.errors import Unavailable
from meterlake.pipeline.access.access import organizations_of
from meterlake.pipeline.export.destinations import unreachable_from_here
from meterlake.pipeline.jobs.fair_turns import give_turns
from meterlake.stores.state.access import people
from meterlake.stores.state.core.reader import DamagedRow
from meterlake.stores.state.core.tables import ENTITY
from tests.homes import settings
from tests.integration.worker.test_many_organizations import ASKED, add_organizations
from tests.organizations import Clock, open_new

KINDS = (
    *(OrganizationConfig, ExportSchedule, ExportDestination, Balance, BalanceChargeSchedule),
    *(ScheduledEventConfiguration, SupportAccess),
)
WELL = '{"scheduledBillInterval":1,"autoApproveBillsGracePeriod":2}'
DAMAGED = {"no JSON": "{", "a zero": '{"name":"\\u0000"}', "another shape": "[5]", "nothing": ""}


@pytest.fixture
def stores(home_database, tmp_path):
    assert home_database
    with open_new(settings(tmp_path / "home"), Clock()) as opened:
        yield opened


@pytest.fixture(params=DAMAGED)
def two(request, stores):
    """A damaged organization, and one that is well."""
    damaged, well = add_organizations(stores, 2)
    for kind in KINDS:
        put(stores.organization(damaged), kind, DAMAGED[request.param])
    put(stores.organization(well), OrganizationConfig, WELL)
    return damaged, well


def put(organization, kind, body):
    now = organization.now()
    row = {
        "org": organization.id,
        "kind": kind.__name__,
        "id": f"{kind.__name__[:30]}-1",
        "version": 1,
    }
    who = {"created": now, "created_by": "test", "modified": now, "modified_by": "test"}
    with organization.state.writing_home() as connection:
        connection.execute(insert(ENTITY), {**row, "body": body, **who})


@pytest.mark.parametrize("name", ASKED)
def test_every_question_is_answered(two, stores, name):
    """And names who has something to do."""
    found = ASKED[name](stores).ask()

    # Another configuration may expect other files: alerts are looked for anew.
    assert (two[1] in found) == (name in {"schedules", "approvals", "alerts"})


@pytest.mark.parametrize(
    "error",
    [
        *(KeyError("x"), DataError("INSERT", {}, Exception("no")), RecursionError(), MemoryError()),
        *(Unavailable("State", "is away"), DamagedRow("Plan", "p", 1, "x")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_turn_that_raises_ends_no_other_organizations_turns(stores, error):
    ids = add_organizations(stores, 3)
    had = Counter()

    def verb(organization, _):
        org_id = organization.id
        had[org_id] += 1
        if org_id == ids[1]:
            raise error
        return ()

    give_turns(stores, verb, lambda: had[ids[0]] + had[ids[2]] > 6, 0.0, 1)

    assert min(had[ids[0]], had[ids[2]]) > 2
    assert had[ids[1]] == 1, "its next turn comes after a pause"


@pytest.mark.usefixtures("two")
def test_a_worker_says_which_destinations_cannot_be_read(stores):
    [said] = unreachable_from_here(stores)

    assert said.startswith("destinations of code-0000 cannot be read: the row of ExportDestination")


@pytest.mark.usefixtures("two")
def test_schedules_that_cannot_be_read_have_no_deployments(stores, caplog):
    assert list(deployment_specs(stores, stores.home)) == []
    assert "the schedules of code-0000 have no deployments" in caplog.text


def test_a_support_user_enters_what_can_be_read(two, stores):
    now = stores.now()
    opened = stores.now().replace(year=2099).isoformat().replace("+00:00", "Z")
    put(stores.organization(two[1]), SupportAccess, f'{{"dtEndSupportUsersAccess":"{opened}"}}')
    with stores.state.writing_home() as connection:
        words = ("p-1", "help@example.com", "A", "B", None, None)
        people.add_person(connection, people.Person(*words, True, None, None, now))

    assert [each for each, _ in organizations_of(stores.state, "p-1")] == [two[1]]
