"""Commands that texts suggest, with the options by which they find the home and organization of this one."""

import re
import shlex
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from meterlake.settings import Settings


# Commands that work on a whole home, or on none: they know no --org.
WITHOUT_ORG: Final = frozenset(
    {
        *("config schema", "demo", "deploy", "export verify", "generate", "health", "init"),
        *("keys rotate", "move-lake", "serve", "settings list", "settings set", "settings unset"),
        "worker",
    }
)
WITHOUT_HOME: Final = frozenset({"config schema", "health"})
_QUOTED: Final = re.compile(r"`meterlake ([^`]+)`")


class CommandPlace(NamedTuple):
    """What a suggested command has to name.

    Attributes:
        home: The home, unless the command finds it by itself.
        org: The code of the organization, unless the home has only one.
    """

    home: str | None = None
    org: str | None = None

    def command(self, words: str) -> str:
        """A whole command line.

        Args:
            words: The command and its arguments, without the program's name.
        """
        given = [f"meterlake {words}"]
        if self.org is not None and not _begins(words, WITHOUT_ORG) and " --org " not in words:
            given.append(f"--org {shlex.quote(self.org)}")
        if self.home is not None and not _begins(words, WITHOUT_HOME) and " --home " not in words:
            given.append(f"--home {shlex.quote(self.home)}")
        return " ".join(given)

    def complete(self, text: str) -> str:
        """A text in which every command between backquotes is a whole one."""
        return _QUOTED.sub(lambda found: f"`{self.command(found[1])}`", text)


def _begins(words: str, commands: frozenset[str]) -> bool:
    return any(words == each or words.startswith(f"{each} ") for each in commands)


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
