"""`meterlake backfill`: what it prints, and how it fails."""

import json

import pytest

from meterlake.cli import run
from tests.homes import HEADER, a_home, configure, csv_row
from tests.unit.pipeline.backfill.test_retract import SUM

SOURCE = "a.csv"


@pytest.fixture(scope="module")
def small_home(tmp_path_factory):
    """One home for all tests; each uses ids of its own and leaves the measurements as they were."""
    with a_home(tmp_path_factory.mktemp("backfill")) as home:
        configure(home.stores, home.org_id, aggregations=[SUM])
        home.ingest(SOURCE, HEADER + csv_row("a1", 4) + csv_row("a2", 1, account="bolt"))
        return home.stores.home


@pytest.fixture
def at(small_home):
    return ["--home", str(small_home), "--json"]


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "command",
    [
        ["start", "retract", "--source", "nothing.csv", "--reason", "x"],
        ["start", "re-derive"],
        ["start", "re-derive", "--since", "2026-10-02", "--until", "2026-10-01"],
        ["start", "replace", "--month", "2026-10", "--file", "nothing.csv"],
        ["start", "--id", "b", "--month", "2026-10"],
        ["apply", "nothing"],
    ],
)
def test_what_cannot_be_done_is_one_line_of_error(small_home, capsys, command):
    assert run(["backfill", *command, "--home", str(small_home)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_a_file_is_withdrawn_and_comes_back(at, small_home, capsys):
    command = ["backfill", "start", "retract", "--source", SOURCE, "--reason", "twice", "--id", "b"]
    assert run([*command, "--apply", *at]) == 0
    [found] = lines(capsys)
    assert (found["status"], found["reason"]) == ("APPLIED", "twice")
    assert found["summary"]["measurementsGone"] > 0
    assert found["summary"]["quantitiesChanged"] == len(found["summary"]["quantities"]) > 0
    assert run(["backfill", "list", "--home", str(small_home)]) == 0
    assert "APPLIED" in capsys.readouterr().out
    assert run(["receipts", "list", "--home", str(small_home)]) == 0
    assert f"b ({found['summary']['measurementsGone']:,})" in capsys.readouterr().out
    assert run(["backfill", "revert", "b", *at]) == 0
    assert [each["action"] for each in lines(capsys)[0]["history"]] == ["stage", "apply", "revert"]
    assert run(["backfill", "show", "b", "--home", str(small_home)]) == 0
    assert "REVERTED" in capsys.readouterr().out


def test_a_reason_does_not_steer_the_terminal(at, small_home, capsys):
    command = ["backfill", "start", "retract", "--uid", "a2", "--reason", "[red]\x1b[31m\u202ex\ny"]
    assert run([*command, "--id", "evil", *at]) == 0
    assert lines(capsys)[0]["reason"] == command[-1]
    assert run(["backfill", "list", "--home", str(small_home)]) == 0
    shown = capsys.readouterr().out
    assert "[red]\\u001b[31m\\u202ex" in shown
    assert "\x1b" not in shown
