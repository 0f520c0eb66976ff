"""How many connections a process needs at PostgreSQL, which gives a hundred to all of them together."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from sqlalchemy import Engine, NullPool, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from meterlake.model.errors import Unavailable
from meterlake.pipeline.home.setup import initialize
from meterlake.stores import open_stores
from meterlake.stores.lake.backends import postgres_catalog
from meterlake.stores.lake.backends.postgres_catalog import DUCKDB_MAX
from meterlake.stores.state import State
from meterlake.stores.state.core import pool
from meterlake.stores.state.core.pool import POOL_IDLE, POOL_MAX
from tests.commands import api_server, command, wait_until
from tests.databases import new_database
from tests.homes import settings
from tests.organizations import new_organization
from tests.postgres import Server

WAIT_S = 180
SECONDS = 3


class Watched:
    """A database, and how many connections others have to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        parsed = make_url(url).set(drivername="postgresql+psycopg")
        self._engine = create_engine(parsed, poolclass=NullPool)
        self.most = 0

    def count(self) -> int:
        with self._engine.connect() as connection:
            # Clients alone: the server's own workers, such as autovacuum's, come and go.
            query = (
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND backend_type = 'client backend'"
            )
            found = int(connection.execute(text(query)).scalar_one()) - 1
        self.most = max(self.most, found)
        return found

    @contextmanager
    def watching(self) -> Iterator[None]:
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.02):
                self.count()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@pytest.fixture
def watched(postgresql) -> Watched:
    return Watched(new_database(postgresql))


@pytest.mark.long
def test_a_process_has_one_pool_however_many_parts_it_has(watched):
    """Thirty threads of six parts read, write within a reading, and none of them waits for ever."""
    with ExitStack() as opened:
        states = [
            opened.enter_context(
                State.at(make_url(watched.url).set(drivername="postgresql+psycopg"))
            )
            for _ in range(6)
        ]
        org = new_organization(states[0])

        def work(number: int) -> None:
            state = states[number % len(states)]
            for _ in range(10):
                with state.reading(org), state.transaction(org, "test") as transaction:
                    transaction.connection.execute(text("SELECT pg_sleep(0.002)"))

        with watched.watching(), ThreadPoolExecutor(30) as threads:
            list(threads.map(work, range(30), timeout=WAIT_S))
        assert POOL_IDLE < watched.most <= POOL_MAX
        # What came for a moment goes at once; the server hears of it a moment later.
        wait_until(lambda: watched.count() == POOL_IDLE)
        states[0].close()
        states[0].close()
        assert watched.count() == POOL_IDLE
        work(1)
    assert watched.count() == 0
    assert {key for key in pool._POOLS if watched.url.rpartition("/")[2] in key[2]} == set()


def test_who_finds_all_connections_in_use_for_too_long_is_told_so(watched, monkeypatch):
    monkeypatch.setattr(pool, "WAIT_SECONDS", 0.1)
    with State.at(make_url(watched.url).set(drivername="postgresql+psycopg")) as state:
        org = new_organization(state)
        holding = threading.Barrier(POOL_MAX - 1)
        done = threading.Event()

        def hold() -> None:
            with state.reading(org):
                holding.wait(WAIT_S)
                done.wait(WAIT_S)

        threads = [threading.Thread(target=hold) for _ in range(POOL_MAX - 2)]
        for each in threads:
            each.start()
        holding.wait(WAIT_S)
        try:
            with (
                pytest.raises(pool.Unavailable, match="all connections of this process"),
                state.reading(org),
            ):
                pass
        finally:
            done.set()
            for each in threads:
                each.join()
        with state.reading(org):
            pass


@pytest.fixture
def small() -> Iterator[Server]:
    server = Server()
    server.initialize()
    server.start(max_connections="50")
    yield server
    server.kill()


def take_all(engine: Engine, taken: ExitStack) -> None:
    """Open connections until the server has none."""
    while True:
        taken.enter_context(engine.connect())


@pytest.mark.long
def test_a_server_that_has_no_more_connections_is_asked_again(small):
    """Somebody else has all of them for a while."""
    url = make_url(small.url).set(drivername="postgresql+psycopg")
    with State.at(url) as state:
        org = new_organization(state)
    others = create_engine(url, poolclass=NullPool)
    with ExitStack() as taken:
        with pytest.raises(DBAPIError, match="connection"):
            take_all(others, taken)
        kept = taken.pop_all()
        threading.Timer(1, kept.close).start()
        with State.at(url) as state, state.reading(org):
            assert state.organization().id == org


def test_a_lake_has_few_connections_whatever_runs_at_once_and_none_at_rest(watched, tmp_path):
    """DuckDB reads by itself: thirty threads share what it may have."""
    options = settings(tmp_path / "home", catalog=watched.url)
    made = initialize(options, "Acme")
    with open_stores(options) as stores:
        lake = stores.lake(made.org_id)
        lake.open_to_read()

        def read(_: int) -> None:
            with lake.reader() as connection:
                connection.execute("SELECT count(*) FROM lake.source").fetchall()

        with watched.watching(), ThreadPoolExecutor(30) as threads:
            list(threads.map(read, range(120), timeout=WAIT_S))
        # The sessions for the locks of lakes are beside them.
        assert DUCKDB_MAX <= watched.most <= POOL_IDLE + DUCKDB_MAX
        wait_until(lambda: watched.count() <= POOL_IDLE)


@pytest.mark.long
def test_who_finds_all_connections_of_a_lake_in_use_for_too_long_is_told_so(
    watched, tmp_path, monkeypatch
):
    monkeypatch.setattr(postgres_catalog, "WAIT_SECONDS", 1)
    options = settings(tmp_path / "home", catalog=watched.url)
    made = initialize(options, "Acme")
    statement = "SELECT count(*) FROM lake.source"
    with open_stores(options) as stores:
        lake = stores.lake(made.org_id)
        with ExitStack() as reading:
            for _ in range(DUCKDB_MAX):
                connection = reading.enter_context(lake.reader())
                connection.execute("BEGIN")
                assert connection.execute(statement).fetchall() == [(0,)]
            with (
                pytest.raises(Unavailable, match="Connection pool timeout"),
                lake.reader() as connection,
            ):
                connection.execute(statement)
        with lake.reader() as connection:
            assert connection.execute(statement).fetchall() == [(0,)]


@pytest.mark.slow
@pytest.mark.parametrize("has_catalogs", [False, True], ids=["State", "State and catalogs"])
def test_twelve_processes_work_on_a_server_with_fifty_connections(small, tmp_path, has_catalogs):
    """Six servers and six workers, at rest and at work."""
    catalogs = {"catalog": small.url} if has_catalogs else {}
    options = settings(tmp_path / "home", state=small.url, **catalogs)
    made = initialize(options, "Acme")
    watched = Watched(small.url)
    with ExitStack() as running:
        urls = [running.enter_context(api_server(options))[0] for _ in range(6)]
        workers = [running.enter_context(command(options, "worker")) for _ in range(6)]
        wait_until(lambda: watched.count() >= POOL_IDLE)
        time.sleep(SECONDS)
        assert all(each.poll() is None for each in workers)
        resting = watched.count()
        assert resting <= 12 * POOL_IDLE + 6, resting

        with open_stores(options), watched.watching(), ThreadPoolExecutor(24) as threads:
            ends = list(threads.map(lambda n: use(urls[n % 6], made), range(24), timeout=300))
        assert sum(ends) > 0
        assert all(each.poll() is None for each in workers)
        assert watched.most < 50


def use(url: str, made) -> int:
    """Create and list for some seconds; how often that was answered."""
    from m3ter import M3ter

    client = M3ter(
        base_url=url,
        api_key=made.access_key_id,
        api_secret=made.api_secret,
        org_id=made.org_id,
        max_retries=0,
        timeout=600,
    )
    done, give_up = 0, time.monotonic() + SECONDS
    while time.monotonic() < give_up:
        code = f"p{threading.get_ident()}-{done}"
        client.products.create(name="Storage", code=code)
        assert list(client.products.list(page_size=1))
        done += 1
        if done > 20:
            break
    return done
