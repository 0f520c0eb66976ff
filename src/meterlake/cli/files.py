"""Files that commands write."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from meterlake.model.errors import Invalid


def check_target(name: str, path: Path) -> None:
    """Check the file that an option names, before work is done for it.

    Raises:
        Invalid: There is no such folder, or the path is one.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise Invalid(name, str(path), "it must be a file in a folder that exists")


def write_file(path: Path, data: bytes, name: str = "--to") -> None:
    """Write a whole file, or none.

    Args:
        name: The option that names it.

    Raises:
        Invalid: There is no such folder, or the path is one.
    """
    from meterlake.stores.files.durable import write_durably

    check_target(name, path)
    with write_durably(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def open_target(path: Path | None) -> Iterator[BinaryIO]:
    """Where bytes go: a file, which is whole or not there, or the standard output."""
    from meterlake.stores.files.durable import write_durably

    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with write_durably(path.absolute()) as temporary, temporary.open("wb") as stream:
        yield stream
