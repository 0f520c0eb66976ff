"""Jobs in a process that stays warm: visible at Prefect, and done whatever becomes of it."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.home.runs import get_run
from meterlake.pipeline.ingest.receiving import receiving
from meterlake.pipeline.ingest.uploads import announce, get_job
from meterlake.pipeline.lookups import jobs as lookup_jobs
from meterlake.pipeline.lookups.lookups import At
from meterlake.settings import Settings
from meterlake.stores import Organization, Stores, open_stores
from meterlake.stores.state import utc_now
from meterlake.worker.flow_runs import Executor
from meterlake.worker.rounds import UPLOADS
from tests.integration.flows.conftest import CODES
from tests.integration.flows.test_flows import artifact, ended, run_of
from tests.rounds import go_round

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.filterwarnings("ignore")]

WAIT_S = 120
# The task that records what came in as an asset.
ASSET = "measurements of acme, 2026-10"
Announce = Callable[[dict[str, Any], str], dict[str, Any]]
# What runs in the runner before anything else: it dies, or waits until the order is gone, where the
# test has written that it shall.
DIES = """
import time
from pathlib import Path
from meterlake.model.values import failpoint
from tests.killing import die

def hook(name):
    if ORDER.exists() and ORDER.read_text() == name:
        ORDER.unlink()
        die(name)
    if ORDER.exists() and ORDER.read_text() == "wait at " + name:
        ORDER.rename(ORDER.with_suffix(".waits"))
        while ORDER.with_suffix(".waits").exists():
            time.sleep(0.01)

failpoint.hook = hook
"""


class Door:
    """Lets connections through to a server, or refuses them, as if it were gone."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (str(parts.hostname), parts.port or 80)
        self._open: list[socket.socket] = []
        self.port = 0
        self.unlock()
        self.url = parts._replace(netloc=f"127.0.0.1:{self.port}").geturl()

    def unlock(self) -> None:
        self.is_open = True
        self._listening = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def lock(self) -> None:
        self.is_open = False
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                inner, outer = listening.accept()[0], socket.create_connection(self._server)
                self._open += [inner, outer]
                for pair in ((inner, outer), (outer, inner)):
                    threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(1 << 16):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)


class Warm:
    """A home, an executor with a runner, and the server behind a door."""

    def __init__(self, home: Path, stores: Stores, door: Door, executor: Executor) -> None:
        self.home = home
        self.stores = stores
        self.door = door
        self.executor = executor
        self.order = home / "order"

    def org(self, code: str) -> str:
        return self.stores.state.organization(code).id

    def work(self, *ids: tuple[str, str]) -> None:
        """Work as the worker does until some jobs have ended."""
        give_up = time.monotonic() + WAIT_S
        # The first job does not wait for a runner; here all are about runs.
        while self.door.is_open and not self.executor.is_warm():
            assert time.monotonic() < give_up
            self.executor.keep_warm()
            time.sleep(0.1)

        def stop() -> bool:
            assert time.monotonic() < give_up
            return all(
                "dtFinished" in get_job(self.stores.organization(self.org(org)), job)
                for org, job in ids
            )

        go_round(UPLOADS, self.stores, stop, 0.0, self.executor)

    def runners(self) -> set[int]:
        """The processes that run flows of this home."""
        found = set()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if b"flows.runner" in words and str(self.home).encode() in words:
                    found.add(int(path.parent.name))
        return found


@pytest.fixture(scope="module")
def warm(prefect: None, template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    assert prefect is None
    from prefect.settings import get_current_settings

    folder = tmp_path_factory.mktemp("warm")
    home = folder / "home"
    shutil.copytree(template, home)
    (folder / "sitecustomize.py").write_text(
        f"from pathlib import Path\nORDER = Path({str(home / 'order')!r})\n{DIES}"
    )
    api = get_current_settings().to_environment_variables(exclude_unset=True)["PREFECT_API_URL"]
    door = Door(api)
    settings = Settings(home=home, prefect_url=door.url, _env_file=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, sys.path)]))
        executor = Executor(settings)
    # Later than the runner's clock, so that nobody waits for a lease to run out.
    with open_stores(settings, lambda: utc_now() + timedelta(minutes=2)) as stores:
        yield Warm(home, stores, door, executor)
    executor.close()
    door.lock()


def sent(organization: Organization, name: str, content: str) -> str:
    """Upload a file; the id of its job."""
    return put(organization.stores, partial(announce, organization, "test"), name, content)


def draft_of_rates(organization: Organization) -> Announce:
    """How files for a new draft of a lookup table are announced."""
    made = entities.create(
        organization,
        "test",
        ResourceRef(BY_NAME["lookupTables"], {}),
        {"name": "Rates", "code": "rates"},
    )
    revisions = ResourceRef(BY_NAME["lookupTableRevisions"], {"lookupTableId": made["id"]})
    fields = [{"type": "STRING", "name": "country"}, {"type": "NUMBER", "name": "rate"}]
    document = {"name": "First", "fields": fields, "keys": ["country"]}
    draft = entities.create(organization, "test", revisions, document)
    return partial(lookup_jobs.announce, organization, "test", At(made["id"], draft["id"]))


def put(stores: Stores, announced: Announce, name: str, content: str) -> str:
    """Announce a file and send it; the id of its job."""
    body = content.encode()
    about = {"fileName": name, "contentType": "text/csv", "contentLength": len(body)}
    made = announced(about, "")
    headers = {"content-type": "text/csv", "content-length": str(len(body))}
    with receiving(stores, made["url"].rpartition("/")[2], headers) as file:
        file.write(body)
        file.finish()
    return str(made["jobId"])


def rows(*uids: str) -> str:
    lines = [f"egress,acme,{uid},2026-10-01T12:00:00Z,1,eu" for uid in uids]
    return "\n".join(["meter,account,uid,ts,measure.gb,where.region", *lines]) + "\n"


def tasks_of(run: Any, count: int) -> dict[str, str]:
    """What the tasks of a run say of how they ended, by their names; they arrive a little later."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    mine = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    found: dict[str, str] = {}
    for _ in range(1200):
        with get_client(sync_client=True) as client:
            tasks = client.read_task_runs(flow_run_filter=mine)
        found = {each.name: each.state.message or "" for each in tasks if each.state.is_final()}
        if len(found) == count:
            break
        time.sleep(0.1)
    return found


def runs_named(name: str) -> list[Any]:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    with get_client(sync_client=True) as client:
        return list(
            client.read_flow_runs(
                flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[name]))
            )
        )


def until(found: Callable[[], Any]) -> Any:
    give_up = time.monotonic() + WAIT_S
    while not (answer := found()):
        assert time.monotonic() < give_up
        time.sleep(0.1)
    return answer


def stored(organization: Organization) -> list[str]:
    """The uids of an organization's measurements."""
    lake = organization.lake
    [table] = [each for each in lake.tables() if each.startswith("m_")]
    with lake.reader() as connection:
        found = connection.execute(f'SELECT uid FROM lake."{table}" ORDER BY 1').fetchall()
    return [uid for (uid,) in found]


@pytest.mark.long
def test_all_uploads_of_an_organization_are_one_run_with_a_task_each(home: Path) -> None:
    from flows.upload import upload

    settings = Settings(home=home, _env_file=None)
    with open_stores(settings) as stores:
        organization = stores.find_organization("acme")
        good = sent(organization, "a.csv", rows("1", "2") + "egress,acme,3,never,1,eu\n")
        torn = sent(organization, "b.csv", "no,header\n1,2\n")
        late = sent(organization, "c.csv", rows("2", "4"))

    state = ended(upload, home=home, org=organization.id, name="3 files")

    run = run_of(state)
    assert state.is_failed()
    assert (run.name, run.tags) == ("upload 3 files for acme", ["org:acme"])
    found = tasks_of(run, 4)
    assert ASSET in found
    assert found["ingest a.csv"] == "received 3, accepted 2, repeats 0, rejected 1"
    assert found["ingest c.csv"] == "received 2, accepted 1, repeats 1, rejected 0"
    [summary], files = artifact("upload")
    assert (summary["files"], summary["accepted"], summary["problems"]) == ("3", "3", "1")
    assert [(row["file"], row["status"]) for row in files] == [
        ("a.csv", "succeeded"),
        ("b.csv", "failed"),
        ("c.csv", "succeeded"),
    ]
    with open_stores(settings) as stores:
        jobs = [get_job(organization, each)["status"] for each in (good, torn, late)]
        flow_runs = {get_run(organization, each)["flowRunId"] for each in (good, torn, late)}
    assert flow_runs == {str(run.id)}
    assert jobs == ["succeeded", "failed", "succeeded"]
    assert found["ingest b.csv"] == files[1]["reason"] != ""


@pytest.mark.slow
def test_a_file_of_a_lookup_table_is_a_task_among_the_others(home: Path) -> None:
    from flows.upload import upload

    settings = Settings(home=home, _env_file=None)
    with open_stores(settings) as stores:
        organization = stores.find_organization("acme")
        put(stores, draft_of_rates(organization), "rates.csv", "country,rate\nDE,1\nFR,2\n")
        sent(organization, "usage.csv", rows("1"))

    state = ended(upload, home=home, org="acme", name="2 files")

    found = tasks_of(run_of(state), 3)
    assert found.pop(ASSET) == ""
    assert found == {
        "ingest rates.csv": "items 2",
        "ingest usage.csv": "received 1, accepted 1, repeats 0, rejected 0",
    }
    [summary], files = artifact("upload")
    assert (summary["files"], summary["items"], summary["accepted"]) == ("2", "2", "1")
    assert {row["file"]: row["items"] for row in files} == {"rates.csv": "2", "usage.csv": ""}


@pytest.mark.long
def test_two_organizations_have_runs_of_their_own(warm: Warm) -> None:
    ids = [
        (code, sent(warm.stores.organization(warm.org(code)), f"of-{code}.csv", rows("two")))
        for code in CODES
    ]

    warm.work(*ids)

    for code in CODES:
        [run] = until(lambda code=code: runs_named(f"upload of-{code}.csv for {code}"))
        assert run.tags == [f"org:{code}"]
        assert tasks_of(run, 2) == {
            f"ingest of-{code}.csv": "received 1, accepted 1, repeats 0, rejected 0",
            f"measurements of {code}, 2026-10": "",
        }


@pytest.mark.long
def test_a_server_that_goes_away_is_done_without_until_it_is_back(warm: Warm) -> None:
    org_id = warm.org("acme")
    organization = warm.stores.organization(org_id)
    warm.work(("acme", sent(organization, "before.csv", rows("before"))))
    until(lambda: runs_named("upload before.csv for acme"))
    before = warm.runners()

    warm.door.lock()
    warm.work(("acme", sent(organization, "without.csv", rows("without"))))
    warm.door.unlock()
    warm.work(("acme", sent(organization, "again.csv", rows("again"))))

    until(lambda: runs_named("upload again.csv for acme"))
    assert runs_named("upload without.csv for acme") == []
    assert {"before", "without", "again"} <= set(stored(organization))
    assert warm.runners() & before


@pytest.mark.slow  # Prefect tries for a while to reach its server.
def test_a_server_that_goes_away_in_the_middle_leaves_a_job_that_is_done_once(warm: Warm) -> None:
    org_id, waits = warm.org("acme"), warm.order.with_suffix(".waits")
    organization = warm.stores.organization(org_id)
    first, second = (sent(organization, f"{uid}.csv", rows(uid)) for uid in ("middle", "middle 2"))
    warm.order.write_text("wait at uploads.taken")

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(warm.work, ("acme", first), ("acme", second))
        until(waits.exists)
        warm.door.lock()
        waits.unlink()
        working.result()
    warm.door.unlock()

    jobs = [get_job(organization, each) for each in (first, second)]
    assert [(job["status"], job["processedRows"]) for job in jobs] == [("succeeded", 1)] * 2
    found = [uid for uid in stored(organization) if uid.startswith("middle")]
    assert found == ["middle", "middle 2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [pytest.param("uploads.taken", marks=pytest.mark.slow), "uploads.ingested"]
)
def test_a_runner_that_is_killed_leaves_a_job_that_is_done_once(step: str, warm: Warm) -> None:
    org_id, uids = warm.org("bolt"), [f"{step} {number}" for number in range(4)]
    organization = warm.stores.organization(org_id)
    files = [f"{step}-{number}.csv" for number in range(4)]
    ids = [sent(organization, *each) for each in zip(files, map(rows, uids), strict=True)]
    warm.order.write_text(step)

    warm.work(*[("bolt", each) for each in ids])

    jobs = [get_job(organization, each) for each in ids]
    assert [(job["status"], job["processedRows"]) for job in jobs] == [("succeeded", 1)] * 4
    assert not warm.order.exists()
    found = [uid for uid in stored(organization) if uid.startswith(step)]
    assert found == uids


@pytest.mark.slow
def test_a_runner_whose_home_cannot_be_opened_says_so_in_one_line(tmp_path):
    command = [sys.executable, "-m", "flows.runner", "--home", str(tmp_path), "--api", "http://x"]
    # It ends as soon as its orders do.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        told = process.stderr.read()

        assert process.wait(WAIT_S) == 1
    assert told.count("\n") == 1
    assert str(tmp_path) in told
