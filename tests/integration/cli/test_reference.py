"""docs/cli.md and the commands' help say the same, and every command has an example."""

from pathlib import Path

import pytest

from meterlake.cli import run
from meterlake.cli.app import GROUPS, build
from meterlake.cli.reference import reference

ROOT = Path(__file__).parents[3]


@pytest.mark.long
def test_the_reference_is_up_to_date():
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == reference()


@pytest.mark.long
def test_every_command_has_an_example():
    sections = [part for part in reference().split("\n#") if "```console" in part]
    commands = [part for part in sections if " COMMAND" not in part]

    assert len(commands) >= 7
    for section in commands:
        assert "Example: `meterlake " in section, section.splitlines()[0]


def test_every_command_is_in_one_group_of_the_help():
    grouped = [name for names in GROUPS.values() for name in names]

    assert sorted(grouped) == sorted(set(build()) - {"-h"})


def test_help_shows_groups_in_the_order_of_a_month(capsys):
    assert run(["--help"]) == 0

    shown = capsys.readouterr().out
    places = [shown.index(f"─ {title} ─") for title in GROUPS]
    assert places == sorted(places)
