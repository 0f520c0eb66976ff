"""The command line: parse, open, call one verb of `meterlake.pipeline`, print.

Heavy libraries are imported inside the commands only, so that `--help` answers at once.
"""

import os
import sys

from meterlake.cli.app import run
from meterlake.cli.shell.garbage import put_off_collection


def main() -> None:
    """The entry point of the `meterlake` command."""
    put_off_collection()
    # An empty variable says nothing: `Path("")` would be the folder one stands in.
    for name in ("METERLAKE_HOME", "METERLAKE_USER"):
        if os.environ.get(name) == "":
            del os.environ[name]
    sys.exit(run(sys.argv[1:]))


__all__ = ["main", "run"]
