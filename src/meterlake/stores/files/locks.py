"""Locks between processes: files, which the system frees when whoever holds them dies."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meterlake.model.errors import MeterlakeError
from meterlake.stores.files.durable import disk


@contextmanager
def hold_lock(
    path: Path, refusal: MeterlakeError | None = None, timeout_s: float = 0
) -> Iterator[None]:
    """Hold a lock while the body runs.

    Args:
        path: The lock's file.
        refusal: Raised if somebody else holds it; without one it is waited for.
        timeout_s: How long to wait before that; for ever when negative.

    Raises:
        Unavailable: The file cannot be opened.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415 - what only reads takes no lock

    lock = FileLock(path, mode=0o600, timeout=-1 if refusal is None else timeout_s)
    try:
        with disk():
            lock.acquire()
    except Timeout:
        assert refusal is not None
        raise refusal from None
    try:
        yield
    finally:
        lock.release()
