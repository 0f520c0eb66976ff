"""What `meterlake serve` prints when it has started: where it answers, and what it does by itself."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from meterlake.cli.shell.output import Output
from meterlake.model.work.automatic_work import AutomaticWork, check_names

if TYPE_CHECKING:
    from meterlake.settings import Settings

_STOPS: Final = "Ctrl-C stops it."


def leave_out(settings: "Settings", names: Sequence[str]) -> "Settings":
    """The settings with what an option leaves out, beside what they leave out.

    Raises:
        Invalid: Nothing has such a name.
    """
    check_names("METERLAKE_WITHOUT", settings.without)
    check_names("--without", names)
    left_out = tuple(dict.fromkeys((*settings.without, *names)))
    return settings.model_copy(update={"without": left_out}) if names else settings


def show_served(found: Mapping[str, str], work: Sequence[AutomaticWork], output: Output) -> None:
    """Print where it answers, and what it does by itself.

    Args:
        found: Addresses and folders, by what they are.
        work: What is not switched off.
        output: Where to.
    """
    rows = [{"name": each.name, "when": each.time, "what": each.what} for each in work]
    if output.json:
        output.line({**found, "byItself": rows})
        return
    output.record(found)
    if rows:
        columns = ("name", "when=when (UTC)", "what")
        output.rows(rows, columns, "What it does by itself")
    output.note(f"--without NAME … leaves some of it out. {_STOPS}" if rows else _STOPS)
