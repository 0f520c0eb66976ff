"""Commands that texts suggest, with the options that they need to find a home's organization."""

import re
import shlex
from typing import Final, NamedTuple

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
