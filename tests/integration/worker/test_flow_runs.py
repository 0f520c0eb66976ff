"""Jobs as flow runs: Prefect is asked first, and is never needed."""

import http.server
import json
import logging
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from meterlake.model.errors import Unavailable
from meterlake.pipeline.ingest.inbox import add_inbox, inboxes_wait
from meterlake.stores import processes
from meterlake.stores.state.ingest.inboxes import Afterwards
from meterlake.worker import flow_runs
from meterlake.worker import flow_runs as executor
from meterlake.worker.flow_runs import FAILED, Executor
from meterlake.worker.rounds import INBOXES
from tests.homes import HEADER, a_home, csv_row, settings
from tests.rounds import go_round

WAIT_S = 180
# A stand-in for `flows.runner`: it does what each job says, and notes who did it.
PROGRAM = """
import importlib.util, json, os, queue, sys, time

# Not as part of its package, which takes a second to import.
spec = importlib.util.spec_from_file_location("processes", PROCESSES)
processes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(processes)

asked = queue.SimpleQueue()
answer = processes.answers()
processes.orders(lambda line: asked.put(json.loads(line)))

def told(code, memory=1):
    answer.write(json.dumps({"code": code, "memory": memory}).encode() + b"\\n")

with open("started", "a") as file:
    print(os.getpid(), file=file)
if not os.path.exists("cold"):
    answer.write(b'{"ready": true}\\n')
while True:
    job = asked.get()
    with open("given", "a") as file:
        print(json.dumps([os.getpid(), *sys.argv[1:], job]), file=file)
    exec(job["kind"])
"""


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


class Worker:
    """An executor whose runners are stand-ins."""

    def __init__(self, home, url, stop=lambda: False):
        self.folder = home / "prefect"
        self.executor = Executor(settings(home, prefect_url=url), stop)
        self.url = url

    def warm(self):
        """Have a runner that is ready, as the worker's round does."""

        def is_warm():
            self.executor.keep_warm()
            return self.executor.is_warm()

        until(is_warm)
        return self

    def run(self, program, over=None, **parameters):
        """Run a job that is a piece of a program; what the verb did."""
        done = []

        def verb():
            done.append("directly")
            return ()

        self.executor.run(program, parameters, verb, over)
        return done

    def given(self):
        """What the runners were told: process, command line and job."""
        return [json.loads(line) for line in (self.folder / "given").read_text().splitlines()]

    def processes(self):
        """The processes that were started."""
        path = self.folder / "started"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home, and the stand-in in the folder where runners are started, which is looked at first."""
    package = tmp_path / "home" / "prefect" / "flows"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "runner.py").write_text(f"PROCESSES = {processes.__file__!r}\n{PROGRAM}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return tmp_path / "home"


@pytest.fixture
def worker(home):
    with a_server() as url:
        made = Worker(home, url)
        yield made
        made.executor.close()


def until(condition):
    give_up = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def is_alive(process):
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("url", [None, "", "http://127.0.0.1:9/api"])
def test_without_a_server_the_verb_is_called(url, home):
    worker = Worker(home, url)
    worker.executor.keep_warm()

    assert worker.run("told(0)") == ["directly"]
    assert worker.processes() == []


@pytest.mark.long
def test_with_a_server_one_process_runs_one_job_after_the_other(worker, home):
    assert worker.warm().run("told(0)", org=["a"]) == []
    assert worker.warm().run("told(0) # again", org=["b"]) == []

    [process] = worker.processes()
    command = ["--home", str(home), "--api", worker.url]
    jobs = [("told(0)", "a"), ("told(0) # again", "b")]
    assert worker.given() == [
        [int(process), *command, {"kind": kind, "parameters": {"home": str(home), "org": [org]}}]
        for kind, org in jobs
    ]


@pytest.mark.long
def test_jobs_at_the_same_time_have_a_process_each_and_all_end_with_the_worker(worker):
    both = threading.Barrier(2, timeout=WAIT_S)

    def run(number):
        # Over as soon as both are at work.
        worker.run("asked.get(); told(0)", over=lambda: both.wait() >= 0, number=number)

    worker.warm()
    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert len(worker.processes()) == 2
    assert all(map(is_alive, worker.processes()))
    worker.executor.close()
    until(lambda: not any(map(is_alive, worker.processes())))


@pytest.mark.long
@pytest.mark.parametrize(
    "end",
    [
        *("told(1)", "os.kill(os.getpid(), 9)"),
        *(
            pytest.param(end, marks=pytest.mark.slow)
            for end in ("sys.exit(1)", "sys.exit(0)", "os._exit(0)")
        ),
    ],
)
def test_a_process_that_is_broken_or_killed_is_made_up_for_and_replaced(end, worker):
    assert worker.warm().run(end) == ["directly"]
    assert worker.warm().run("told(0)") == []

    assert len(set(worker.processes())) == 2


@pytest.mark.long
def test_a_process_that_is_killed_between_two_jobs_is_replaced(worker):
    assert worker.warm().run("told(0)") == []
    [process] = worker.processes()
    os.kill(int(process), 9)
    time.sleep(0.1)

    assert worker.warm().run("told(0)") == []


@pytest.mark.long
def test_a_flow_that_failed_is_not_done_twice(worker):
    with pytest.raises(Unavailable, match=r"flow run of told\(4\)"):
        worker.warm().run(f"told({FAILED})")

    assert worker.warm().run("told(0)") == []
    assert len(worker.processes()) == 1


@pytest.mark.long
def test_what_a_flow_prints_is_no_answer_and_stops_nobody(worker, capfd):
    assert worker.warm().run("print('x' * 200_000, flush=True); told(0)") == []
    assert worker.warm().run("told(0)") == []

    assert len(capfd.readouterr().err) > 200_000


def test_answers_that_are_read_at_once_are_answers_one_after_the_other(worker):
    said = 'answer.write(b\'{"ready": true}\\n{"code": 0, "memory": 1}\\n\')'
    runs = threading.Thread(target=worker.warm().run, args=(said,), daemon=True)
    runs.start()
    runs.join(WAIT_S)

    assert not runs.is_alive()


@pytest.mark.long
def test_an_order_that_is_larger_than_a_pipe_is_read_while_the_process_works(worker):
    assert worker.warm().run("told(0)", name="x" * 200_000) == []

    assert len(worker.given()[0][-1]["parameters"]["name"]) == 200_000


@pytest.mark.long
def test_who_is_to_let_others_go_on_is_told_so_once(worker):
    # Asked again and again, it would find a second order.
    program = (
        "assert asked.get() == {'over': True}; time.sleep(0.3); told(0 if asked.empty() else 1)"
    )

    assert worker.warm().run(program, over=lambda: True) == []
    assert worker.warm().run("told(0)") == []


@pytest.mark.long
@pytest.mark.parametrize("program", ["told(0, 1 << 40)", "told(0)"])
def test_a_process_that_has_grown_or_done_much_is_replaced(program, worker, monkeypatch):
    if program == "told(0)":
        monkeypatch.setattr(flow_runs, "_JOBS_MAX", 1)

    assert [worker.warm().run(program) for _ in range(2)] == [[], []]

    first, second = worker.processes()
    assert first != second
    assert not is_alive(first)


@pytest.mark.long
def test_who_is_asked_to_stop_ends_the_process(home):
    with a_server() as url:
        worker = Worker(home, url, lambda: True)

        assert worker.warm().run("time.sleep(60)") == []
        assert not any(map(is_alive, worker.processes()))


@pytest.mark.long
def test_who_is_asked_to_stop_lets_the_file_at_hand_be_finished(home):
    with a_server() as url:
        worker = Worker(home, url, lambda: True)

        assert worker.warm().run("asked.get(); open('done', 'w'); told(0)", over=lambda: True) == []
        assert (worker.folder / "done").exists()
        worker.executor.close()


@pytest.mark.long
def test_one_process_is_ready_before_the_first_job(worker, monkeypatch):
    worker.executor.keep_warm()
    until(worker.processes)
    worker.executor.keep_warm()
    assert worker.warm().run("told(0)") == []
    [process] = worker.processes()

    # The only one stays, however long it has nothing to do; one that died is followed by another.
    monkeypatch.setattr(flow_runs, "_IDLE_S", 0)
    worker.executor.keep_warm()
    assert is_alive(process)
    monkeypatch.setattr(flow_runs, "_AGAIN_S", 0)
    assert worker.warm().run("told(1)") == ["directly"]
    worker.executor.keep_warm()
    until(lambda: len(worker.processes()) == 2)


@pytest.mark.long
def test_the_first_job_does_not_wait_for_a_process_that_is_still_being_made_ready(worker, caplog):
    caplog.set_level(logging.INFO, "meterlake.worker")
    cold = worker.folder / "cold"
    cold.touch()

    assert worker.run("told(0)") == ["directly"]
    assert worker.run("told(0)") == ["directly"]
    until(worker.processes)
    cold.unlink()
    os.kill(int(worker.processes()[0]), 9)
    worker.executor._runners._again = 0.0
    assert worker.warm().run("told(0)") == []

    said = [each.getMessage() for each in caplog.records]
    assert [("still being made ready" in each, "again" in each) for each in said] == [
        (True, False),
        (False, True),
    ]


def test_the_log_says_once_why_jobs_run_without_prefect(home, caplog):
    caplog.set_level(logging.INFO, "meterlake.worker")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # It takes the connection and never answers.
        late = Worker(home, f"http://127.0.0.1:{silent.getsockname()[1]}/api")
        for _ in range(2):
            assert late.run("told(0)") == ["directly"]
    gone, nobody = Worker(home, late.url), Worker(home, None)
    assert gone.run("told(0)") == ["directly"]
    assert nobody.run("told(0)") == ["directly"]

    first, second = (each.getMessage() for each in caplog.records)
    assert "without Prefect" in first
    assert f"{late.url} did not answer: it took more than" in first
    assert "refused" in second
    assert {each.levelname for each in caplog.records} == {"WARNING"}


@pytest.mark.long
def test_the_worker_polls_inboxes(tmp_path, monkeypatch):
    asked = []
    with a_home(tmp_path, prefect_url="") as home:
        (tmp_path / "in").mkdir()
        add_inbox(home.organization, str(tmp_path / "in"), Afterwards.MOVE)
        (tmp_path / "in" / "a.csv").write_text(HEADER + csv_row("u1"))
        monkeypatch.setattr(executor, "_ANSWER_S", 1)

        def stop():
            asked.append(0)
            return not inboxes_wait(home.organization)

        go_round(INBOXES, home.stores, stop, 0.0)

        assert [row[0] for row in home.uids()] == ["u1"]
