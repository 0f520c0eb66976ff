"""Connectors that take several runs in a call: what goes out together, and what becomes of each."""

import pytest

from meterlake.model.configuration.integration_systems import HTTP
from meterlake.model.configuration.integrations import RunStatus
from meterlake.pipeline.integrations.connectors.connector import Failed, FailureKind, Sent
from meterlake.stores.state.integrations.health import health_of
from tests.sent_bills import account_id, home_with_bills, integrate, make_runs, put_bill, send_bills

URL = "https://127.0.0.1/"


class Parcels:
    """Takes up to four runs, and answers each as it is told to."""

    declaration = HTTP
    concurrency = 1
    batch = 4

    def __init__(self, answer=lambda outgoings: [Sent() for _ in outgoings]):
        self.answer = answer
        self.calls = []

    async def send(self, outgoing):
        raise AssertionError(outgoing.run_id)

    async def send_many(self, outgoings):
        self.calls.append([each.config.id for each in outgoings])
        return self.answer(outgoings)


@pytest.fixture
def home(tmp_path):
    with home_with_bills(tmp_path) as opened:
        yield opened


def add_bills(home, count):
    for month in range(1, count + 1):
        put_bill(home, account_id(home, "acme"), month, month)
    make_runs(home)


def send(home, connector):
    return [each.status for each in send_bills(home, {"HTTP": connector})]


def test_each_configuration_has_calls_of_its_own(home):
    ids = {integrate(home, "HTTP", url=URL)["id"] for _ in range(2)}
    add_bills(home, 5)
    parcels = Parcels()

    assert set(send(home, parcels)) == {RunStatus.COMPLETE}
    assert sorted(map(len, parcels.calls)) == [1, 1, 4, 4]
    assert all(len(set(each)) == 1 for each in parcels.calls)
    assert {each[0] for each in parcels.calls} == ids


@pytest.mark.parametrize("answer", [lambda _: [], lambda some: [None for _ in some]])
def test_what_is_no_outcome_of_each_run_is_a_failure_of_all(home, answer, caplog):
    integrate(home, "HTTP", url=URL)
    add_bills(home, 3)

    assert send(home, Parcels(answer)) == [RunStatus.AWAITING_RETRY] * 3
    assert "the connector of HTTP" in caplog.text


@pytest.mark.parametrize(("arrived", "failures"), [(0, 1), (1, 0)])
def test_a_call_counts_once_for_the_health_of_its_destination(home, arrived, failures):
    """One that arrived shows that the destination works; a call that failed is one failure."""

    def answer(outgoings):
        failed = Failed(kind=FailureKind.UNAVAILABLE, error="busy")
        return [failed] * (len(outgoings) - arrived) + [Sent()] * arrived

    config = integrate(home, "HTTP", url=URL)
    add_bills(home, 4)
    found = send(home, Parcels(answer))

    assert found.count(RunStatus.COMPLETE) == arrived
    with home.organization.reading() as reader:
        health = health_of(reader.connection, home.org_id, [config["id"]]).get(config["id"])
    assert (health.failures if health else 0) == failures
