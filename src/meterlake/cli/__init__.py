"""The command line: parse, open, call one verb of `meterlake.pipeline`, print.

Heavy libraries are imported inside the commands only, so that `--help` answers at once.
"""

import gc
import sys
from typing import Final

from meterlake.cli.app import run

# Importing makes some 100,000 objects that stay; looking for garbage among them again and again
# is a tenth of what a short command takes.
_OBJECTS_MAX: Final = 50_000


def main() -> None:
    """The entry point of the `meterlake` command."""
    gc.set_threshold(_OBJECTS_MAX, *gc.get_threshold()[1:])
    sys.exit(run(sys.argv[1:]))


__all__ = ["main", "run"]
