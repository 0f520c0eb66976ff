"""Jobs as flow runs: Prefect is asked first, and is never needed."""

import http.server
import os
import sys
import threading
from contextlib import contextmanager

import pytest

from meterlake.model.errors import Unavailable
from meterlake.pipeline.ingest.inbox import add_inbox, inboxes_wait
from meterlake.stores.state.ingest.inboxes import Afterwards
from meterlake.worker import executor
from meterlake.worker.executor import FAILED, Executor
from meterlake.worker.rounds import work_inboxes
from tests.homes import HEADER, a_home, csv_row, settings


class Healthy(http.server.BaseHTTPRequestHandler):
    """A server that answers, and does nothing else."""

    def do_GET(self):
        self.send_response(200 if self.path == "/api/health" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def a_server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder with a stand-in for `flows.run_job`, which the test writes."""
    package = tmp_path / "programs" / "flows"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    path = os.pathsep.join([str(package.parent), *filter(None, sys.path)])
    monkeypatch.setenv("PYTHONPATH", path)
    (tmp_path / "home").mkdir()
    return package / "run_job.py"


def run(tmp_path, url, stop=lambda: False):
    done = []

    def verb():
        done.append("directly")
        return ()

    Executor(settings(tmp_path / "home", prefect_url=url), stop).run("inbox", {"org": ["a"]}, verb)
    return done


def test_without_a_server_the_verb_is_called(tmp_path, programs):
    programs.write_text("raise SystemExit(0)")

    assert run(tmp_path, None) == ["directly"]
    assert run(tmp_path, "") == ["directly"]
    assert run(tmp_path, "http://127.0.0.1:9/api") == ["directly"]


def test_with_a_server_a_flow_runs_in_a_process_of_its_own(tmp_path, programs):
    programs.write_text("import sys; open('given', 'w').write(' '.join(sys.argv[1:]))")

    with a_server() as url:
        assert run(tmp_path, url) == []

    given = (tmp_path / "home" / "prefect" / "given").read_text()
    assert given == f'inbox {{"home":"{tmp_path}/home","org":["a"]}} --api {url}'


@pytest.mark.parametrize("end", ["raise SystemExit(1)", "import os; os.kill(os.getpid(), 9)"])
def test_a_flow_process_that_is_broken_or_killed_is_made_up_for(end, tmp_path, programs):
    programs.write_text(end)

    with a_server() as url:
        assert run(tmp_path, url) == ["directly"]


def test_a_flow_that_failed_is_not_done_twice(tmp_path, programs):
    programs.write_text(f"raise SystemExit({FAILED})")

    with a_server() as url, pytest.raises(Unavailable, match="flow run of inbox"):
        run(tmp_path, url)


def test_who_is_asked_to_stop_ends_the_flow_process(tmp_path, programs):
    programs.write_text(
        "from meterlake.stores.processes import end_with_parent\n"
        "import time; end_with_parent(); time.sleep(60)"
    )

    with a_server() as url:
        assert run(tmp_path, url, lambda: True) == []


def test_the_worker_polls_inboxes(tmp_path, monkeypatch):
    asked = []
    with a_home(tmp_path, prefect_url="") as home:
        (tmp_path / "in").mkdir()
        add_inbox(home.stores, home.org_id, str(tmp_path / "in"), Afterwards.MOVE)
        (tmp_path / "in" / "a.csv").write_text(HEADER + csv_row("u1"))
        monkeypatch.setattr(executor, "_ANSWER_S", 1)

        def stop():
            asked.append(0)
            return not inboxes_wait(home.stores, home.org_id)

        work_inboxes(home.stores, stop, 0.0)

        assert [row[0] for row in home.uids()] == ["u1"]
