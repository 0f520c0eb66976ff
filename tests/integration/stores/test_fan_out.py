"""Tasks of a fan-out: whatever carries them, and whoever dies."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from meterlake.model.errors import Conflict, Invalid, NotAvailable, Unavailable
from meterlake.model.work.jobs import FanOutRunner, RunnerKind
from meterlake.stores.fan_out import FanOutTask, open_fan_out, run_tasks
from meterlake.stores.fan_out import dask_cluster as carrier
from meterlake.stores.fan_out.tasks import TasksFailed
from tests.doubles import tasks
from tests.doubles.dask import dask_cluster, kill, wait_until
from tests.homes import new_home, open_home
from tests.runners import DASK, PROCESSES, RUNNERS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    path = tmp_path_factory.mktemp("fan-out") / "home"
    with open_home(path, new_home(path)) as home:
        yield home.stores


def describing(count):
    return [FanOutTask(f"task {n}", tasks.describe, (n, "höme")) for n in range(count)]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("thread", "did you mean threads?"),
        ("Processes", "did you mean processes?"),
        ("dusk://host", "did you mean dask?"),
        ("dask://", "did you mean dask?"),
        ("dask://host:99999", "did you mean dask?"),
        ("dask://user@host", "did you mean dask?"),
        ("spark", "dask://host:port"),
        ("", "threads, processes"),
    ],
)
def test_a_wrong_runner_is_refused_with_the_nearest_word(text, hint):
    with pytest.raises(Invalid) as refused:
        FanOutRunner.parse(text)
    assert "--runner" in str(refused.value)
    assert hint in str(refused.value)


def test_runners_are_read():
    assert FanOutRunner.parse("threads") == FanOutRunner(RunnerKind.THREADS)
    assert FanOutRunner.parse("dask") == FanOutRunner(RunnerKind.DASK)
    assert FanOutRunner.parse("dask://scheduler") == FanOutRunner(
        RunnerKind.DASK, "tcp://scheduler:8786"
    )
    assert str(FanOutRunner.parse("dask://10.0.0.1:99")) == "dask://10.0.0.1:99"


@pytest.mark.long
@pytest.mark.parametrize("runner", RUNNERS)
def test_tasks_answer_in_their_order(stores, runner):
    found = run_tasks(stores, FanOutRunner.parse(runner), describing(5))

    assert [each["arguments"] for each in found] == [(n, "höme") for n in range(5)]
    assert {each["home"] for each in found} == {str(stores.home)}
    if runner != "threads":
        assert os.getpid() not in {each["pid"] for each in found}
        # Two processes share what one has, and fan nothing out themselves.
        assert {(each["threads"], each["runner"] or None) for each in found} == {(1, None)}


@pytest.mark.long
def test_processes_draw_no_bars_of_progress(stores):
    assert run_tasks(
        stores, FanOutRunner.parse("processes"), [FanOutTask("one", tasks.draws_progress)]
    ) == [False]


@pytest.mark.long
@pytest.mark.parametrize("runner", RUNNERS)
def test_an_error_loses_no_other(stores, runner):
    kinds = ("Conflict", "none", "bug", "Unavailable", "none")
    failing = [FanOutTask(f"task {n}", tasks.fail_if, (n, kind)) for n, kind in enumerate(kinds)]
    ended = []
    with pytest.raises(TasksFailed) as failed:
        run_tasks(stores, FanOutRunner.parse(runner), failing, ended.append)

    assert str(failed.value) == (
        "task 0: number 0 cannot be done; task 2: ZeroDivisionError: number 2;"
        " task 3: the disk is unavailable: number 3 failed; try again in a minute"
    )
    assert sorted((each.number, each.value) for each in ended if not each.error) == [(1, 1), (4, 4)]


def test_what_may_succeed_later_is_unavailable(stores):
    failing = [FanOutTask(f"task {n}", tasks.fail_if, (n, "Unavailable")) for n in range(2)]
    with pytest.raises(Unavailable, match="task 0; task 1 is unavailable: the disk"):
        run_tasks(stores, FanOutRunner(RunnerKind.THREADS), failing)


@pytest.mark.parametrize("runner", [PROCESSES, DASK])
def test_a_process_that_dies_is_followed_by_another(stores, tmp_path, runner):
    """Its task is run again; one that kills every process is given up, and the others are done."""
    once, always = tmp_path / "once", tmp_path / "always"
    once.mkdir()
    always.mkdir()
    chosen = FanOutRunner.parse(runner)
    dying = FanOutTask("dying", tasks.die_once, (once, 1))
    assert run_tasks(stores, chosen, [dying, *describing(1)])[0] == "alive"
    assert len(list(once.iterdir())) == 2

    ended = []
    deadly = [FanOutTask("deadly", tasks.die_once, (always, 99)), *describing(2)]
    with pytest.raises(Unavailable, match=r"deadly is unavailable: .* died"):
        run_tasks(stores, chosen, deadly, ended.append)
    assert {each.name for each in ended if not each.error} == {"task 0", "task 1"}


@pytest.mark.slow
def test_a_result_that_died_with_its_worker_is_made_again(stores, tmp_path):
    """Its task had ended, and nobody had fetched what it came to."""
    begun, until = tmp_path / "begun", tmp_path / "until"
    waiting = FanOutTask("waiting", tasks.wait_for_file, (begun, until))
    with carrier.open_dask(stores, FanOutRunner(RunnerKind.DASK), 2) as fan_out:
        ends = fan_out.run([*describing(1), waiting])
        found = [next(ends)]
        [future] = [each for each in fan_out.client.futures.values() if each.status == "pending"]
        until.touch()
        while future.status != "finished":
            time.sleep(0.02)
        for pid in fan_out.client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        while future.status == "finished":
            time.sleep(0.02)
        found += ends

    assert [(each.name, each.error) for each in found] == [("task 0", None), ("waiting", None)]


@pytest.mark.slow
def test_tasks_that_wait_for_a_worker_which_another_one_kills_are_done(stores, tmp_path):
    """Dask gives up all that the worker had when it died for the last time."""
    deadly = FanOutTask("deadly", tasks.die_once, (tmp_path, 99))
    with carrier.open_dask(stores, FanOutRunner(RunnerKind.DASK), 1) as fan_out:
        ends = list(fan_out.run([deadly, *describing(3)]))

    assert [each.name for each in ends if each.error] == ["deadly"]
    assert {each.name for each in ends} == {"deadly", "task 0", "task 1", "task 2"}


@pytest.mark.long
def test_the_end_of_a_fan_out_ends_its_processes(stores, tmp_path):
    """Whatever ends it: here the body raises, as Ctrl-C makes it do."""
    begun, never = tmp_path / "begun", tmp_path / "never"
    task = FanOutTask("waiting", tasks.wait_for_file, (begun, never))
    with (  # noqa: PT012 - the body is what is interrupted
        pytest.raises(KeyboardInterrupt),
        open_fan_out(stores, FanOutRunner(RunnerKind.PROCESSES), 1) as fan_out,
    ):
        Thread(target=lambda: list(fan_out.run([task])), daemon=True).start()
        wait_until(begun)
        raise KeyboardInterrupt
    expect_end(int(begun.read_text()))


SCRIPT = """
import sys
from pathlib import Path
from meterlake.model.work.jobs import FanOutRunner
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.fan_out import FanOutTask, run_tasks
from meterlake.cli.shell.signals import terminable
from tests.doubles import tasks

with terminable(), open_stores(Settings(home=Path(sys.argv[1]))) as stores:
    task = FanOutTask("waiting", tasks.wait_for_file, (Path(sys.argv[2]), Path(sys.argv[3])))
    run_tasks(stores, FanOutRunner.parse("processes"), [task])
"""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_started_them(stores, tmp_path, number):
    begun, never = tmp_path / "begun", tmp_path / "never"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", SCRIPT, str(stores.home), str(begun), str(never)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as parent:
        wait_until(begun)
        time.sleep(0.2)
        parent.send_signal(number)
        assert parent.wait(120) != 0
    expect_end(int(begun.read_text()))


def expect_end(pid):
    """A process ends soon."""
    for _ in range(1200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail(f"{pid} still runs")


def test_without_the_extra_it_is_named(stores, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NotAvailable, match=r"pip install 'meterlake\[dask\]'"):
        run_tasks(stores, FanOutRunner(RunnerKind.DASK), describing(1))


@pytest.mark.long
def test_a_scheduler_that_is_not_there_is_refused_in_bounded_time(stores, monkeypatch):
    monkeypatch.setattr(carrier, "_CONNECT_S", 1)
    begun = time.monotonic()
    with pytest.raises(Unavailable, match=r"dask://127\.0\.0\.1:9 is unavailable: it cannot be"):
        run_tasks(stores, FanOutRunner.parse("dask://127.0.0.1:9"), describing(1))
    assert time.monotonic() - begun < 120


def test_what_dask_says_of_lost_connections_is_not_logged():
    carrier.import_distributed()

    for name in ("distributed.client", "distributed.scheduler", "distributed.comm.tcp"):
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR)


def test_a_worker_with_other_sources_is_refused(stores):
    """On another machine an older version might come to other bills."""
    older = carrier.HomeReference(str(stores.home), "0.1.0", "other")
    value, error = carrier.run_on_worker(older, describing(1)[0])

    assert value is None
    assert isinstance(error, Conflict)
    assert "0.1.0 is needed" in str(error)


def test_a_worker_without_the_home_says_so(tmp_path):
    elsewhere = carrier.HomeReference(
        str(tmp_path / "nowhere"), carrier.code_version(), carrier.calculation_digest()
    )
    value, error = carrier.run_on_worker(elsewhere, describing(1)[0])

    assert value is None
    assert "nowhere" in str(error)


@pytest.mark.slow
def test_a_cluster_loses_a_worker_and_goes_on(stores, tmp_path):
    """A task of the worker that is killed is run again by the other one."""
    begun, until = tmp_path / "begun", tmp_path / "until"
    with dask_cluster(tmp_path) as cluster:
        waiting = FanOutTask("waiting", tasks.wait_for_file, (begun, until))
        ended = []
        work = Thread(
            target=lambda: ended.extend(
                run_tasks(stores, FanOutRunner.parse(cluster.runner), [waiting, *describing(2)])
            )
        )
        work.start()
        wait_until(begun)
        first = int(begun.read_text())
        begun.unlink()
        kill(first)
        wait_until(begun)
        until.touch()
        work.join(60)

    assert ended[0] not in {first, os.getpid()}
    assert [each["arguments"][0] for each in ended[1:]] == [0, 1]


@pytest.mark.slow
def test_a_scheduler_that_dies_is_told_and_the_work_can_be_repeated(stores, tmp_path):
    begun, never = tmp_path / "begun", tmp_path / "never"
    waiting = [FanOutTask("waiting", tasks.wait_for_file, (begun, never))]
    with dask_cluster(tmp_path) as cluster:
        Thread(target=lambda: (wait_until(begun), kill(cluster.scheduler.pid))).start()
        started = time.monotonic()
        with pytest.raises(Unavailable, match="it was lost: what is done stays; run it again"):
            run_tasks(stores, FanOutRunner.parse(cluster.runner), waiting)
        assert time.monotonic() - started < 120
    with dask_cluster(tmp_path, 1) as cluster:
        assert run_tasks(stores, FanOutRunner.parse(cluster.runner), describing(1))


@pytest.mark.slow
def test_a_cluster_without_workers_is_refused(stores, tmp_path):
    with (
        dask_cluster(tmp_path, 0) as cluster,
        pytest.raises(Unavailable, match="it has no workers; start `dask worker`"),
    ):
        run_tasks(stores, FanOutRunner.parse(cluster.runner), describing(1))
