"""The command line: parse, open, call one verb of `meterlake.pipeline`, print.

Heavy libraries are imported inside the commands only, so that `--help` answers at once.
"""

import sys

from meterlake.cli.app import run
from meterlake.cli.garbage import put_off_collection


def main() -> None:
    """The entry point of the `meterlake` command."""
    put_off_collection()
    sys.exit(run(sys.argv[1:]))


__all__ = ["main", "run"]
