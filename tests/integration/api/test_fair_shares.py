"""One greedy organization and a small one: costly requests of the one do not hold up the other."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from meterlake.api.costly import COSTLY
from meterlake.api.routes import BY_ID
from meterlake.pipeline.home.initialize import initialize
from meterlake.stores.lake.reader_gate import without_readers
from tests.served import Served, served

MANY = 60
AT_ONCE = 3
WAITING = 4
# Reads of a lake: the one is costly, and stands still while nobody may read that lake.
COSTLY_READ = "/measurements/rejected"


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
def crowd(server: Served) -> Iterator[list["Future[httpx.Response]"]]:
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
        yield [pool.submit(client.get, COSTLY_READ) for _ in range(MANY)]


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
    assert changes <= {"CheckExportDestination"}
