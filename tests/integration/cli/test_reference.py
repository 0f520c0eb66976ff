"""docs/cli.md and the commands' help say the same, and every command has an example."""

from pathlib import Path

from meterlake.cli.reference import reference

ROOT = Path(__file__).parents[3]


def test_the_reference_is_up_to_date():
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == reference()


def test_every_command_has_an_example():
    sections = [part for part in reference().split("\n#") if "```console" in part]
    commands = [part for part in sections if " COMMAND" not in part]

    assert len(commands) >= 7
    for section in commands:
        assert "Example: `meterlake " in section, section.splitlines()[0]
