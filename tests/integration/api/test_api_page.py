"""The programs of docs/api.md do what the page says of them."""

import re
from pathlib import Path

import pytest

from meterlake.model.configuration.integration_systems import systems
from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.events.reader import read_log
from tests.bills import price_egress, subscribe
from tests.deliveries import runs_of
from tests.homes import ACCOUNTS, EGRESS, Home, configure
from tests.organizations import Clock
from tests.served import ANSWERED, served

PAGE = Path(__file__).parents[3] / "docs" / "api.md"


def program(name):
    """A program of the page by its name."""
    [found] = re.findall(
        rf"<!-- runs: {name} -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("page") / "home") as running:
        configure(running.organization, meters=[EGRESS], accounts=ACCOUNTS)
        home = Home(running.stores, running.org_id, Clock())
        price_egress(home)
        subscribe(home, "bolt")
        yield running


@pytest.fixture
def names(server):
    with server.http() as http:
        [meter] = [each["id"] for each in http.get("/meters").json()["data"]]
    given = {"url": server.url, "key": server.key, "secret": server.secret}
    return {**given, "org_id": server.org_id, "client": server.sdk(), "meter": meter}


def test_a_token_that_is_handed_over_is_fetched_once(names):
    exec(program("tokens"), names)
    ANSWERED.clear()

    for _ in range(3):
        list(names["client"].accounts.list())
    assert {"ListAccounts"} == ANSWERED


def test_without_one_the_sdk_fetches_a_token_before_every_call(names):
    ANSWERED.clear()
    list(names["client"].accounts.list())
    assert "GenerateToken" in ANSWERED
    ANSWERED.clear()
    list(names["client"].accounts.list())
    assert "GenerateToken" in ANSWERED


def test_groups_are_as_the_wire_has_them(names):
    exec(program("query"), names)


@pytest.mark.long
def test_three_calls_make_a_webhook_go_out(server, names):
    exec(program("webhook"), names)
    bill(server.organization, Month(2026, 9))
    found = list(names["client"].bills.list())
    names["client"].bills.approve(bill_ids=[each.id for each in found])
    taken = {name: each.entity_types for name, each in systems().items()}
    read_log(server.organization, systems=taken)

    runs = runs_of(server.organization, entity_type="Notification")
    assert len(runs) == len(found) > 0
    assert {each.content.destination_id for each in runs} == {names["hook"].id}
    assert {each.status for each in runs} == {RunStatus.WAITING}
