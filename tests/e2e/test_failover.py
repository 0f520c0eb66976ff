"""A primary of PostgreSQL is killed while files are ingested, and its standby is promoted."""

import threading
import time
from contextlib import ExitStack

import pytest

from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.home.setup import initialize
from meterlake.stores import open_stores
from tests.commands import api_server, drain, wait_until, worker
from tests.e2e.remote_homes import Client, Installation, stored_uids
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row, open_home, settings
from tests.organizations import Clock
from tests.postgres import missing, postgres_pair

pytestmark = pytest.mark.slow
FILES = 12
PATIENCE_S = 120
ROWS = 100


@pytest.fixture
def pair():
    reason = missing()
    if reason:
        pytest.skip(reason)
    with postgres_pair() as found:
        yield found


class Writer:
    """Ingests files, each again until it is acknowledged."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.acknowledged: list[str] = []
        self.refused: list[str] = []

    def run(self, until: float) -> None:
        while len(self.acknowledged) < 2 * FILES and time.monotonic() < until:
            number = len(self.acknowledged)
            rows = "".join(csv_row(f"u{number}-{row}") for row in range(3))
            try:
                self.home.ingest(f"{number}.csv", HEADER + rows)
            except MeterlakeError as error:
                self.refused.append(str(error))
                time.sleep(0.2)
            else:
                self.acknowledged += [f"u{number}"]


def test_nothing_acknowledged_is_lost_or_doubled_and_work_goes_on(pair, s3_lakes, tmp_path):
    own = settings(
        tmp_path / "home",
        state=pair.url,
        catalog=pair.url,
        lake="s3://lakes/failover",
        s3_endpoint=s3_lakes.url,
    )
    made = initialize(own, "Sample")
    with open_stores(own) as stores:
        configure(stores.organization(made.org_id), meters=[EGRESS], accounts=ACCOUNTS)
        writer = Writer(Home(stores, made.org_id, Clock()))
        thread = threading.Thread(target=writer.run, args=[time.monotonic() + PATIENCE_S])
        thread.start()
        while len(writer.acknowledged) < FILES // 2:
            time.sleep(0.05)
        pair.primary.kill()
        before = len(writer.acknowledged)
        time.sleep(1)
        pair.standby.promote()
        thread.join()

        assert len(writer.acknowledged) == 2 * FILES > before
        assert writer.refused
        stored = [uid for uid, *_ in writer.home.uids()]
        assert stored == sorted(f"{name}-{row}" for name in writer.acknowledged for row in range(3))
        writer.home.check_rows()


def test_servers_and_workers_of_two_machines_go_on_over_the_promoted_one(pair, s3_lakes, tmp_path):
    installed = Installation(tmp_path, pair.url, s3_lakes)
    made = installed.initialize()
    machines = [installed.machine(name) for name in ("first", "second")]
    with ExitStack() as opened:
        servers = [opened.enter_context(api_server(each)) for each in machines]
        workers = [opened.enter_context(worker(each)) for each in machines]
        clients = [
            # What servers log has to fit into their pipes.
            opened.enter_context(Client(url, made, f"client{number}", pause_s=0.4))
            for number, (url, _) in enumerate(servers)
        ]
        with open_home(machines[1].home, made.org_id, **installed.options) as home:
            # Both workers are at work: each stores what its own machine acknowledged.
            wait_until(lambda: all(stored_of(home, each) >= ROWS for each in clients), PATIENCE_S)
        pair.primary.kill()
        time.sleep(1)
        pair.standby.promote()
        before = [len(each.acknowledged) for each in clients]
        wait_until(lambda: all_have_more(clients, before), PATIENCE_S)
        for each in clients:
            each.__exit__()
        acknowledged = {uid for each in clients for uid in each.acknowledged}
        with open_home(machines[1].home, made.org_id, **installed.options) as home:
            wait_until(lambda: acknowledged <= set(stored_uids(home.uids)), PATIENCE_S)
        assert [process.poll() for _, process in (*servers, *workers)] == [None] * 4
        drain(*(process for _, process in (*servers, *workers)))

    with open_home(machines[0].home, made.org_id, **installed.options) as home:
        found = stored_uids(home.uids)
        home.check_rows()
    # What was sent and not acknowledged may be there, too, but nothing twice.
    assert len(found) == len(set(found)) >= len(acknowledged)


def stored_of(home, client):
    """How many rows of a client are stored."""
    return len(set(client.acknowledged) & set(stored_uids(home.uids)))


def all_have_more(clients, before):
    """Whether each client had more acknowledged since the standby was promoted."""
    return all(
        len(each.acknowledged) >= count + ROWS for each, count in zip(clients, before, strict=True)
    )
