"""What a command that is suggested has to name: it is for the home and organization of this one."""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from meterlake.model.values.command_line import CommandPlace

if TYPE_CHECKING:
    from meterlake.settings import Settings

_NOWHERE: Final = CommandPlace()
_HERE: Final = ContextVar("here", default=_NOWHERE)


def forget_place() -> None:
    """End a command: the next one may be for another home."""
    _HERE.set(_NOWHERE)


def note_home(settings: "Settings") -> None:
    """Remember the home of this command, unless other commands find it by themselves."""
    from meterlake.settings import Settings

    home = str(settings.home)
    is_found = Settings().home.absolute() == settings.home.absolute()
    _HERE.set(CommandPlace(None if is_found else home))


def note_organization(code: str) -> None:
    """Remember the organization of this command, in a home that has others, too."""
    _HERE.set(_HERE.get()._replace(org=code))


def command(words: str) -> str:
    """A command for this home and organization.

    Args:
        words: The command and its arguments, without the program's name.
    """
    return _HERE.get().command(words)


def complete(text: str) -> str:
    """A text with commands between backquotes, for this home and organization."""
    return _HERE.get().complete(text)
