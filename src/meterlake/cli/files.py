"""Files that commands write."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from meterlake.model.errors import Invalid


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file, or none.

    Raises:
        Invalid: There is no such folder, or the path is one.
    """
    from meterlake.stores.files.durable import write_durably

    if path.is_dir() or not path.absolute().parent.is_dir():
        raise Invalid("--to", str(path), "a file in a folder that exists")
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
