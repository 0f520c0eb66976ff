"""SIGTERM in the middle of work: what is at hand is finished, or is done when it is done again."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from meterlake.cli import run
from meterlake.model.values import failpoint
from meterlake.pipeline.export.run import run_export, submit_export
from meterlake.stores.state import JobStatus
from tests.doubles.destinations import usage
from tests.homes import HEADER, a_home, configure, csv_row, new_home, open_home

COMMAND = "from meterlake.cli import main; main()"
TERMINATED = 143
MONTH = "2026-09"
EGRESS_GB = {
    "code": "egress_gb",
    "name": "Egress",
    "meterId": "egress",
    "targetField": "gb",
    "aggregation": "SUM",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "GB",
}


def terminate_at(monkeypatch, step):
    """Have this process terminated the first time that it reaches a step."""
    left = [True]

    def hook(reached):
        if reached == step and left:
            left.clear()
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(failpoint, "hook", hook)
    return left


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    org_id = new_home(path)
    with open_home(path, org_id) as made:
        configure(made.stores.organization(org_id), aggregations=[EGRESS_GB])
        made.ingest("a.csv", HEADER + csv_row("a") + csv_row("b"))
    return path, org_id


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "step"),
    [
        pytest.param(("aggregate", MONTH), "quantities.staged", marks=pytest.mark.slow),
        pytest.param(("aggregate", MONTH), "lake.before_commit", marks=pytest.mark.slow),
        (("bill", "--month", MONTH), "bill.folded"),
        pytest.param(
            *(("export", "usage", "--to", "OUT"), "export.staged"), marks=pytest.mark.slow
        ),
        (("export", "usage", "--to", "OUT"), "export.file_put"),
        pytest.param(("publish",), "publish.built", marks=pytest.mark.slow),
        pytest.param(("maintain",), "maintain.expired", marks=pytest.mark.slow),
    ],
)
def test_a_command_that_is_terminated_ends_and_the_next_one_does_the_work(
    home, tmp_path, monkeypatch, capsys, command, step
):
    path, org_id = home
    line = [str(tmp_path / "out") if word == "OUT" else word for word in command]
    before = signal.getsignal(signal.SIGTERM)
    left = terminate_at(monkeypatch, step)

    code = run([*line, "--home", str(path), "--json"])

    assert left == [], "the step was not reached"
    assert code == TERMINATED
    assert "Traceback" not in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before
    with open_home(path, org_id) as again:
        # Nothing waits for a lease to run out, and nothing is left half done.
        jobs = again.stores.state.jobs.recent(org_id)
        assert [job for job in jobs if job.status is JobStatus.RUNNING and job.lease_until] == []
        again.check()
    assert run([*line, "--home", str(path), "--json"]) == 0


@pytest.mark.long
def test_a_file_at_hand_is_finished_and_the_others_are_left(home, tmp_path, monkeypatch, capsys):
    path, org_id = home
    files = [tmp_path / f"{name}.csv" for name in "pqr"]
    for file in files:
        file.write_text(HEADER + csv_row(file.stem))
    terminate_at(monkeypatch, "ingest.staged")
    line = ["ingest", *map(str, files), "--home", str(path), "--json"]

    assert run(line) == TERMINATED
    shown = capsys.readouterr()
    assert [json.loads(each)["name"] for each in shown.out.splitlines()] == ["p.csv"]
    assert "2 files are left" in shown.err
    assert run(line) == 0
    with open_home(path, org_id) as again:
        assert [row[0] for row in again.uids()] == ["a", "b", "p", "q", "r"]
        again.check()


def test_whatever_a_library_raises_for_the_signal_the_job_of_an_export_goes_on(
    tmp_path, monkeypatch
):
    """Prefect raises an exception of its own where SIGTERM reaches a flow."""

    class Signalled(BaseException):
        pass

    with a_home(tmp_path) as home:
        home.ingest("a.csv", HEADER + csv_row("a"))
        (tmp_path / "out").mkdir()
        id_ = submit_export(home.organization, usage())

        def hook(reached):
            if reached == "export.staged":
                raise Signalled

        monkeypatch.setattr(failpoint, "hook", hook)
        with pytest.raises(Signalled):
            run_export(home.stores, id_)
        monkeypatch.setattr(failpoint, "hook", lambda _: None)
        job = home.stores.state.jobs.get(id_)
        assert job.status is not JobStatus.FAILED
        run_export(home.stores, id_)
        assert home.stores.state.jobs.get(id_).status is JobStatus.COMPLETE


@pytest.mark.slow
def test_a_command_that_is_terminated_twice_ends_at_once(home, tmp_path):
    path, org_id = home
    file = tmp_path / "large.csv"
    file.write_text(HEADER + "".join(csv_row(f"n{each}") for each in range(2_000_000)))
    line = [sys.executable, "-c", COMMAND, "ingest", str(file), "--home", str(path), "--json"]
    staging = path / "lakes" / org_id
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(staging.glob("staging/*/*")):
            pass
        process.send_signal(signal.SIGTERM)
        time.sleep(1)  # Two at once are one.
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        errors = process.stderr.read()
        assert process.wait(60) == TERMINATED
    assert "Traceback" not in errors
    with open_home(path, org_id) as again:
        assert [row[0] for row in again.uids()] == ["a", "b"]
        again.check()
