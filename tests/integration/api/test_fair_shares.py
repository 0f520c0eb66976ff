"""One greedy organization and a small one: costly requests of the one do not hold up the other."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from meterlake.api.routes import BY_ID
from meterlake.api.server.fair_threads import COSTLY
from meterlake.pipeline.home.setup import initialize
from meterlake.stores.lake.backends.catalog import without_readers
from tests.served import Served, served

MANY = 60
AT_ONCE = 3
WAITING = 4
# Reads of a lake: the one is costly, and stands still while nobody may read that lake.
COSTLY_READ = "/measurements/rejected"
WEBHOOKS = "/integrationdestinations/webhooks"


@pytest.fixture(scope="module")
def organizations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    """A server, seen by two organizations."""
    home: Path = tmp_path_factory.mktemp("shares") / "home"
    with served(home, costly_at_once=AT_ONCE, costly_waiting=WAITING) as greedy:
        made = initialize(greedy.settings, "Small")
        small = replace(greedy, org_id=made.org_id, key=made.access_key_id, secret=made.api_secret)
        for each in (greedy, small):
            with each.http() as client:
                assert client.get(COSTLY_READ).status_code == httpx.codes.OK
        yield greedy, small


@contextmanager
def lake_at_rest(server: Served) -> Iterator[None]:
    """Keep all readers of an organization's lake waiting while the body runs."""
    with without_readers(server.settings.home / "lakes" / server.org_id / "readers.lock") as alone:
        assert alone
        yield


@contextmanager
def crowd(
    server: Served, method: str = "GET", path: str = COSTLY_READ, body: Any = None
) -> Iterator[list["Future[httpx.Response]"]]:
    """Very many costly requests of an organization at the same time."""
    with (
        httpx.Client(
            base_url=f"{server.url}/organizations/{server.org_id}",
            headers={"Authorization": f"Bearer {server.token()}"},
            limits=httpx.Limits(max_connections=MANY),
            timeout=120,
        ) as client,
        ThreadPoolExecutor(MANY) as pool,
    ):
        yield [pool.submit(client.request, method, path, json=body) for _ in range(MANY)]


def test_a_greedy_organization_holds_up_nobody_else(organizations: tuple[Served, Served]) -> None:
    """Nothing is timed: the requests of the greedy one stand still, and all others do not."""
    greedy, small = organizations
    refused = MANY - (AT_ONCE - 1) - WAITING
    rest = ExitStack()
    rest.enter_context(lake_at_rest(greedy))
    with small.http() as few, greedy.http() as many, crowd(greedy) as sent:
        # It ends before the crowd, which waits for it.
        with rest:
            while sum(each.done() for each in sent) < refused:
                left = [each for each in sent if not each.done()]
                assert wait(left, 60, "FIRST_COMPLETED").done
            for _ in range(3):
                assert few.get("/accounts").status_code == httpx.codes.OK
                assert few.get(COSTLY_READ).status_code == httpx.codes.OK
                assert many.get("/accounts").status_code == httpx.codes.OK
                assert httpx.get(f"{small.url}/readyz").json() == {"status": "ready"}
            assert sum(each.done() for each in sent) == refused
        answers = [each.result(60) for each in sent]

    late = [each for each in answers if each.status_code == httpx.codes.TOO_MANY_REQUESTS]
    assert len(late) == refused
    assert all(1 <= int(each.headers["Retry-After"]) <= 60 for each in late)
    assert "try again in" in late[0].json()["message"]
    assert {each.status_code for each in answers if each not in late} == {httpx.codes.OK}


def test_what_is_costly_is_an_operation_and_changes_nothing() -> None:
    """Work in two parts could be refused between them; only what can be asked again waits."""
    assert BY_ID.keys() >= COSTLY
    writing = {"create", "update", "delete"}
    changes = {each for each in COSTLY if BY_ID[each].action.partition(":")[2] in writing}
    assert changes - {"CheckExportDestination", "CheckInbox"} == {
        *("CopyLookupTableRevisionData", "CreateWebhookDestination", "PingWebhook"),
        *("PostIntegrationConfig", "ReplayWebhook"),
        *("UpdateIntegrationConfig", "UpdateWebhookDestination"),
    }


@pytest.mark.parametrize("name", ["create", "ping", "replay"])
def test_what_waits_for_strangers_holds_up_no_other_organization(
    organizations: tuple[Served, Served], name: str
) -> None:
    """Nothing is timed: nobody can write to State, as if a server of names did not answer."""
    greedy, small = organizations
    with greedy.http() as client:
        made = client.post(WEBHOOKS, json=webhook(name)).json()
    path, body = {
        "create": (WEBHOOKS, webhook(f"{name}-2")),
        "ping": (f"{WEBHOOKS}/{made['id']}/ping", {}),
        "replay": (f"{WEBHOOKS}/{made['id']}/replay?since=2026-01-01T00:00:00Z", {}),
    }[name]
    waiting = AT_ONCE - 1 + WAITING
    rest = ExitStack()
    rest.enter_context(greedy.stores.state.writing_home())
    with small.http() as few, crowd(greedy, "POST", path, body) as sent:
        with rest:
            while sum(each.done() for each in sent) < MANY - waiting:
                left = [each for each in sent if not each.done()]
                assert wait(left, 60, "FIRST_COMPLETED").done
            assert few.get("/accounts").status_code == httpx.codes.OK
            assert few.get(COSTLY_READ).status_code == httpx.codes.OK
            assert httpx.get(f"{small.url}/readyz").json() == {"status": "ready"}
        statuses = [each.result(60).status_code for each in sent]

    assert statuses.count(httpx.codes.TOO_MANY_REQUESTS) == MANY - waiting
    # Who waits for another writer for long is told so, on a very busy machine.
    assert not set(statuses) & {httpx.codes.INTERNAL_SERVER_ERROR, httpx.codes.NOT_FOUND}


def webhook(code: str) -> dict[str, Any]:
    """A webhook to an address, which needs no server of names."""
    credentials = {
        "type": "M3TER_SIGNED_REQUEST",
        "apiKey": "k",
        "secret": "whsec_" + "c2VjcmV0" * 4,
    }
    return {
        "name": code,
        "description": code,
        "code": code,
        "active": True,
        "url": "https://93.184.216.34/in",
        "credentials": credentials,
    }
