"""Networks that are cut, hang, or lose a machine: one fault at a time, at the worst moment."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest
from sqlalchemy import make_url

from meterlake.model.errors import MeterlakeError, Unavailable
from meterlake.model.values import failpoint
from meterlake.model.work.export_request import ExportRequest, Source
from meterlake.pipeline.export.run import export
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.settings import as_environment
from meterlake.stores import open_stores
from meterlake.stores.lake.backends.location import open_lake
from meterlake.stores.objects import s3
from meterlake.stores.processes import free_port
from meterlake.stores.state import JobStatus
from meterlake.worker import __main__ as worker
from meterlake.worker.rounds import ROUNDS
from tests import postgres
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row, settings
from tests.organizations import Clock
from tests.soak.machines import namespaces, namespaces_missing
from tests.soak.relay import relay
from tests.soak.servers import Database

pytestmark = pytest.mark.slow
FIRST = HEADER + "".join(csv_row(f"u{n}") for n in range(5))
SECOND = HEADER + "".join(csv_row(f"v{n}") for n in range(5))
# The server asks a silent peer after 10 s, three times, every 5 s.
GIVEN_UP_S = 60


@pytest.fixture
def database():
    reason = postgres.missing()
    if reason:
        pytest.skip(reason)
    with closing_server(Database()) as server:
        server.start()
        yield server


@contextmanager
def closing_server(server):
    try:
        yield server
    finally:
        server.remove()


class Installation:
    """A home whose connections go through a relay: `postgres` and `s3` are its addresses."""

    def __init__(self, home, process, routes):
        self.home = home
        self.process = process
        self.routes = routes

    def set(self, server, mode):
        self.process.set(self.routes[server], mode)

    def stored(self):
        return [uid for uid, *_ in self.home.uids()]


@pytest.fixture
def installed(tmp_path, database, s3_lakes):
    host, _, port = s3_lakes.url.removeprefix("http://").partition(":")
    routes = {"postgres": ("127.0.0.1", free_port()), "s3": ("127.0.0.1", free_port())}
    with relay() as process:
        process.open(routes["postgres"], database.address)
        process.open(routes["s3"], (host, int(port)))
        state = f"postgresql://meterlake@127.0.0.1:{routes['postgres'][1]}/postgres"
        own = settings(
            tmp_path / "home",
            state=state,
            catalog=state,
            lake=f"s3://lakes/cuts-{free_port()}",
            s3_endpoint="http://{}:{}".format(*routes["s3"]),
        )
        made = initialize(own, "Sample")
        with open_stores(own) as stores:
            configure(stores.organization(made.org_id), meters=[EGRESS], accounts=ACCOUNTS)
            yield Installation(Home(stores, made.org_id, Clock()), process, routes)


@contextmanager
def at_step(step, action):
    """Have something happen once, when a step is reached."""
    left = [step]

    def hook(name):
        if name in left:
            left.clear()
            action()

    failpoint.hook = hook
    try:
        yield
    finally:
        failpoint.hook = None
    assert not left, f"{step} was not reached"


def assert_stored_once(made, *files):
    made.home.check_rows()
    expected = sorted(f"{name}{n}" for name in files for n in range(5))
    assert made.stored() == expected


@pytest.mark.parametrize("step", ["commit.locked", "lake.file_uploaded", "lake.before_commit"])
def test_postgresql_is_cut_off_before_a_commit(installed, step):
    made = installed
    with (
        at_step(step, lambda: made.set("postgres", "cut")),
        pytest.raises(Unavailable, match=r"lake|catalog|database"),
    ):
        made.home.ingest("1.csv", FIRST)

    made.set("postgres", "open")
    assert made.stored() == []
    assert made.home.ingest("1.csv", FIRST).accepted == 5
    assert made.home.ingest("2.csv", SECOND).accepted == 5
    assert_stored_once(made, "u", "v")


def test_postgresql_is_cut_off_while_it_commits_and_its_answer_is_lost(installed):
    made = installed

    def keep_answers_back():
        made.set("postgres", "deaf")
        threading.Timer(3, lambda: made.set("postgres", "cut")).start()

    with at_step("lake.before_commit", keep_answers_back), pytest.raises(MeterlakeError):
        made.home.ingest("1.csv", FIRST)

    made.set("postgres", "open")
    receipt = made.home.ingest("1.csv", FIRST)
    assert receipt.accepted + receipt.repeats == 5
    assert made.home.ingest("2.csv", SECOND).accepted == 5
    assert_stored_once(made, "u", "v")


def test_postgresql_is_cut_off_after_a_commit(installed):
    made = installed
    with (
        at_step("lake.after_commit", lambda: made.set("postgres", "cut")),
        suppress(Unavailable),  # It may know all that it has to know by then.
    ):
        made.home.ingest("1.csv", FIRST)

    made.set("postgres", "open")
    assert made.stored() == [f"u{n}" for n in range(5)]
    assert made.home.ingest("2.csv", SECOND).accepted == 5
    assert_stored_once(made, "u", "v")


def test_a_bucket_that_says_nothing_ends_an_upload_in_time(installed, monkeypatch):
    made = installed
    monkeypatch.setattr(s3, "READ_TIMEOUT_S", 1)
    with open_stores(made.home.stores.settings) as stores:
        home = Home(stores, made.home.org_id, Clock())
        made.set("s3", "silent")
        began = time.monotonic()
        with pytest.raises(Unavailable, match="s3://lakes"):
            home.ingest("1.csv", FIRST)
        # Four tries of a second each, and the pauses between them.
        assert time.monotonic() - began < 60
        # Nobody else was kept out of the lake by it.
        with stores.lake(made.home.org_id).lock(5):
            pass
        made.set("s3", "open")
        assert home.ingest("1.csv", FIRST).accepted == 5
    assert_stored_once(made, "u")


@pytest.mark.parametrize("step", ["export.submitted", "export.taken"])
def test_an_export_waits_for_a_bucket_that_is_away_for_some_seconds(installed, tmp_path, step):
    made = installed
    made.home.ingest("1.csv", FIRST)
    to = str(tmp_path / "out")
    request = ExportRequest(source=Source.USAGE, to=to, types=("measurements",))

    def cut():
        made.set("s3", "cut")
        threading.Timer(3, lambda: made.set("s3", "open")).start()

    with at_step(step, cut):
        exported = export(made.home.organization, request)

    assert exported.rows == 5
    job = made.home.stores.state.jobs.get(exported.job_id)
    assert (job.status, job.attempt) == (JobStatus.COMPLETE, 1)


def test_a_worker_that_starts_while_postgresql_goes_away_waits_for_it(installed, monkeypatch):
    made, ended = installed, []
    monkeypatch.setattr(worker, "PAUSE_S", 0.5)
    made.home.ingest("1.csv", FIRST)
    made.set("postgres", "cut")
    threading.Timer(3, lambda: made.set("postgres", "open")).start()
    began = time.monotonic()
    with ExitStack() as opened, ThreadPoolExecutor(len(ROUNDS)) as pool:
        settings = made.home.stores.settings
        running = worker.start_rounds(opened, pool, settings, lambda: bool(ended))
        took = time.monotonic() - began
        (drop_folder(made.home.stores, "sample").inbox / "2.csv").write_text(SECOND)
        while "v4" not in made.stored() and time.monotonic() - began < GIVEN_UP_S:
            time.sleep(0.2)
        ended.append(True)
    assert took >= 2
    assert len(running) == len(ROUNDS)
    assert all(each.result() is None for each in running)
    assert_stored_once(made, "u", "v")


HOLDER = """
import sys
from contextlib import closing
from meterlake.settings import Settings
from meterlake.stores.lake.backends.location import open_lake
with closing(open_lake(Settings(_env_file=None), sys.argv[1])) as lake:
    with lake.lock():
        print("held", flush=True)
        sys.stdin.readline()
        with lake.transaction() as connection:
            connection.execute("CREATE TABLE lake.late (x INTEGER)")
"""


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_machine_that_vanishes_keeps_a_lake_for_half_a_minute(tmp_path, comes_back):
    reason = postgres.missing() or namespaces_missing()
    if reason:
        pytest.skip(reason)
    with namespaces(1) as [network], closing_server(Database(network.gateway)) as database:
        database.start()
        # Files of the lake are of no concern: the lock is in the catalog.
        own = settings(tmp_path / "home", state=database.url, catalog=database.url)
        made = initialize(own, "Sample")
        url = str(make_url(database.url).set(host=network.gateway))
        away = own.model_copy(update={"state": url, "catalog": url})
        environment = os.environ | as_environment(away)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        with subprocess.Popen(
            [*network.command, sys.executable, "-W", "ignore", "-c", HOLDER, made.org_id],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as holder:
            assert holder.stdout.readline() == "held\n"
            network.set_cable(plugged=False)
            if not comes_back:
                holder.send_signal(signal.SIGKILL)
            began = time.monotonic()
            with closing(open_lake(own, made.org_id)) as lake, lake.lock(GIVEN_UP_S):
                took = time.monotonic() - began
            assert 5 < took < GIVEN_UP_S
            network.set_cable(plugged=True)
            if comes_back:
                _, errors = holder.communicate("go on\n", timeout=60)
                assert "Unavailable" in errors
                assert holder.returncode != 0
