"""Progress bars: what a terminal shows of work that takes long, and what nobody else sees."""

import io
import sys

import pytest

from meterlake.cli import run
from tests.homes import HEADER, a_home, configure, csv_row
from tests.integration.pipeline.backfill.test_retract import SUM


class Terminal(io.StringIO):
    """What is written to it is read by a person."""

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def small_home(tmp_path_factory):
    with a_home(tmp_path_factory.mktemp("progress")) as home:
        configure(home.organization, aggregations=[SUM])
        home.ingest("before.csv", HEADER + csv_row("b1", 4) + csv_row("b2", 1))
        return home.stores.home


@pytest.fixture
def at_a_terminal(monkeypatch, small_home):
    """Run a command, and give what a person at a terminal saw of its bar."""

    def run_there(*command):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr("sys.stderr", Terminal())
        assert run([*command, "--home", str(small_home)]) == 0, sys.stderr.getvalue()
        return sys.stderr.getvalue()

    return run_there


@pytest.fixture
def files(tmp_path):
    """Two files, of which the second one holds nothing new."""
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(HEADER + csv_row("a1") + csv_row("a2"))
    return [str(tmp_path / name) for name in ("a.csv", "b.csv")]


def done(shown: str) -> bool:
    """Whether the bar said in the end that all is done and no time is left."""
    return "100%" in shown and "0:00:00" in shown


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_ingest_shows_percent_and_time_left(at_a_terminal, files, more):
    shown = at_a_terminal("ingest", *files, *more)

    assert "measurements" in shown
    assert done(shown)


@pytest.mark.long
def test_a_poll_of_inboxes_shows_them_of_the_object_at_hand(at_a_terminal, tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "c.csv").write_text(HEADER + csv_row("c1"))
    at_a_terminal("inbox", "add", str(inbox))

    assert done(at_a_terminal("inbox", "poll"))


@pytest.mark.long
@pytest.mark.parametrize(
    "what",
    [
        ["retract", "--source", "before.csv", "--reason", "x"],
        ["re-aggregate", "--month", "2026-09"],
        ["replace", "--month", "2026-09", "--file", "{file}"],
    ],
    ids=lambda each: each[0],
)
def test_backfills_show_them_by_parts(at_a_terminal, files, what):
    words = [each.format(file=files[0]) for each in what]

    assert done(at_a_terminal("backfill", "start", *words))


def test_who_is_no_terminal_sees_no_bar(small_home, files, capsys):
    assert run(["ingest", *files, "--dry-run", "--home", str(small_home)]) == 0

    assert capsys.readouterr().err == ""


def test_a_program_sees_no_bar_at_a_terminal_either(at_a_terminal, files):
    assert at_a_terminal("ingest", *files, "--dry-run", "--json") == ""
