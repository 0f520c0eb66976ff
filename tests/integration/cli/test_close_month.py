"""`meterlake close-month`: each step once, whoever dies, and nothing counts without a review."""

import copy
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from meterlake.cli import run
from meterlake.model import failpoint
from meterlake.model.proposal import Document
from meterlake.model.wire import loads
from meterlake.pipeline.config import configure
from meterlake.pipeline.home.closing import ClosingStep
from meterlake.pipeline.home.initialize import initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.state.billing.bill_lists import BillFilters, list_bills
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import lease
from tests.organizations import DOCUMENTS

MONTH = "2026-10"
HEADER = "meter,account,uid,ts,measure.gb,where.region"
ROW = "egress,acme,{uid},2026-10-0{uid}T12:00:00Z,{gb},eu"
STEPS = [each.value for each in ClosingStep]
# A child that dies at a step; the leases of dead processes are over soon.
CHILD = """
import sys
from datetime import timedelta
from meterlake.model import failpoint
from meterlake.stores.state.jobs import lease
from tests.killing import die_at
lease.LEASES = dict.fromkeys(lease.LEASES, timedelta(seconds=1))
failpoint.hook = die_at(sys.argv[1], int(sys.argv[2]))
from meterlake.cli import run
sys.exit(run(sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    home = tmp_path_factory.mktemp("closing") / "home"
    settings = Settings(home=home, _env_file=None)
    made = initialize(settings, "acme")
    documents = {
        **copy.deepcopy(DOCUMENTS),
        "organizationConfig": {"timezone": "UTC", "daysBeforeBillDue": 14},
    }
    with open_stores(settings) as stores:
        configure.apply(stores.state, made.org_id, [Document("all.yaml", documents)], "test")
    return home


@pytest.fixture
def home(template, tmp_path, monkeypatch):
    monkeypatch.setenv("METERLAKE_SETTLE_SECONDS", "0")
    shutil.copytree(template, tmp_path / "home")
    drop(tmp_path / "home", "usage-1.csv", ROW.format(uid=1, gb=10))
    return tmp_path / "home"


def drop(home, name, *rows):
    path = home / "drop" / "acme" / "inbox" / name
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    os.utime(path, (1, 1))


def close(home, *options):
    return run(["close-month", MONTH, "--home", str(home), "--json", *options])


def steps(capsys):
    return {line["step"]: line for line in map(loads, capsys.readouterr().out.splitlines())}


def done(found):
    return [step for step, line in found.items() if line["status"] == "done"]


def seen(home):
    """Exports, and each bill's status."""
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        org = stores.state.organization(None).id
        with stores.state.reading(org) as reader:
            bills, _ = list_bills(reader, BillFilters(), Page(100, None))
        exports = stores.state.jobs.recent(org, "export")
        found = sorted((each.content.key.bill_date, each.status.value) for each in bills)
        return found, [each.status.value for each in exports]


def test_nothing_is_approved_or_exported_before_the_review(home, capsys):
    assert close(home) == 0

    assert done(steps(capsys)) == STEPS[: STEPS.index("review")]
    [(_, status)], exports = seen(home)
    assert (status, exports) == ("PENDING", [])

    assert close(home, "--approve") == 0
    first = steps(capsys)
    assert close(home, "--approve") == 0

    assert done(first) == STEPS
    # Closed is closed: nothing is exported again.
    assert steps(capsys) == first
    assert seen(home)[1] == ["COMPLETE", "COMPLETE"]
    assert [status for _, status in seen(home)[0]] == ["APPROVED"]
    assert (home / "published" / "acme" / "warehouse.duckdb").exists()


def test_a_file_that_is_missing_stops_it_before_anything_is_done(home, capsys):
    assert close(home, "--file", "usage-*.csv", "late-*.csv") == 1

    message = loads(capsys.readouterr().err)["error"]["message"]
    assert message == "no file late-*.csv came in time"
    assert seen(home) == ([], [])
    drop(home, "late-1.csv", ROW.format(uid=2, gb=1))

    assert close(home, "--file", "usage-*.csv", "late-*.csv") == 0

    found = steps(capsys)
    assert found["files"]["outcome"] == {"expected": 2}
    assert found["ingest"]["outcome"]["accepted"] == 2


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--to", "ftp://here/one"), "--to: 'ftp://here/one' is not allowed"),
        (("--to", "s3://"), "--to: 's3://' is not allowed"),
        (("--hours", "-1"), "--hours: -1.0 is not allowed: 0 or more"),
        (("--hours", "nan"), "--hours: nan is not allowed"),
        (("--reject", " "), "--reject: ' ' is not allowed: a reason"),
    ],
)
def test_what_is_not_allowed_is_refused_before_anything_is_done(home, capsys, options, rule):
    assert close(home, *options) == 1
    assert rule in capsys.readouterr().err
    assert (home / "drop" / "acme" / "inbox" / "usage-1.csv").exists()


def test_a_backfill_that_comes_too_late_is_refused(home, capsys):
    assert close(home) == 0
    assert close(home, "--approve", "--backfill", "nope") == 1
    assert "are applied already, without nope" in capsys.readouterr().err
    close(home)
    assert "review" not in done(steps(capsys))


@pytest.mark.slow
def test_bills_that_are_rejected_begin_anew(home, capsys):
    assert close(home, "--reject", "why") == 1
    assert "do not wait for a review" in capsys.readouterr().err
    close(home)
    capsys.readouterr()

    assert close(home, "--reject", "a price is wrong") == 1
    assert "the bills of 2026-10 are rejected: a price is wrong" in capsys.readouterr().err
    drop(home, "usage-2.csv", ROW.format(uid=2, gb=1))
    assert close(home, "--approve") == 0

    found = steps(capsys)
    assert done(found) == STEPS
    assert found["ingest"]["outcome"]["accepted"] == 1


@pytest.mark.slow
def test_bills_that_changed_after_they_were_shown_are_not_approved(home, capsys):
    assert close(home) == 0
    drop(home, "usage-2.csv", ROW.format(uid=2, gb=500))
    assert run(["ingest", "--home", str(home), str(home / "drop/acme/inbox/usage-2.csv")]) == 0
    capsys.readouterr()

    assert close(home, "--approve") == 1

    assert "have changed since they were reviewed" in capsys.readouterr().err
    assert [status for _, status in seen(home)[0]] == ["PENDING"]
    assert close(home) == 0
    assert done(steps(capsys)) == STEPS[: STEPS.index("review")]
    assert close(home, "--approve") == 0
    assert [status for _, status in seen(home)[0]] == ["APPROVED"]


@pytest.mark.slow
def test_a_step_that_fails_is_done_again_and_those_before_are_not(home, capsys, monkeypatch):
    met = []

    def fail(name):
        met.append(name)
        if name == "export.submitted" and met.count(name) == 1:
            raise OSError("the disk is gone")

    monkeypatch.setattr(failpoint, "hook", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        close(home, "--approve")
    noted = met.count("closing.step_noted")
    capsys.readouterr()

    assert close(home, "--approve") == 0

    assert noted == STEPS.index("export-usage")
    assert met.count("closing.step_noted") == len(STEPS)
    assert done(steps(capsys)) == STEPS
    assert seen(home)[1] == ["COMPLETE", "COMPLETE"]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["closing.step_done", "closing.step_noted"])
@pytest.mark.parametrize("time", range(1, len(STEPS) + 1))
def test_whoever_dies_after_a_step_the_month_is_closed_once(
    home, tmp_path, capsys, monkeypatch, step, time
):
    shutil.copytree(home, tmp_path / "undisturbed")
    assert close(tmp_path / "undisturbed", "--approve") == 0
    expected, wanted = seen(tmp_path / "undisturbed"), steps(capsys)
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    arguments = ["close-month", MONTH, "--home", str(home), "--approve"]
    path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)])

    died = subprocess.run(
        [sys.executable, str(script), step, str(time), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )

    assert died.returncode == -9, died.stderr
    monkeypatch.setattr(lease, "LEASES", dict.fromkeys(lease.LEASES, timedelta(seconds=1)))
    assert close(home, "--approve") == 0
    found = steps(capsys)
    assert done(found) == STEPS
    assert seen(home) == expected
    # Files that were ingested by who died are not there a second time.
    if not (step == "closing.step_done" and time == STEPS.index("ingest") + 1):
        assert found["ingest"]["outcome"] == wanted["ingest"]["outcome"]
