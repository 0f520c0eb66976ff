"""How often a process died that read a file: one that kills its reader is not read for ever.

A process reads several files at a time, and only one of them kills it. So a file whose reader died
is read while no other such file is: two deaths in a row are its own.

State counts the deaths of jobs, on whichever machine. Arrivals that have no job, such as dropped
files, are counted here, by a mark in the home.
"""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from meterlake.model.errors import Busy, UnreadableSource
from meterlake.model.measurements.receipt import Delivery
from meterlake.model.measurements.rejection import Reason
from meterlake.stores.files.durable import PRIVATE, disk, make_folder
from meterlake.stores.files.locks import hold_lock

DEATHS_MAX: Final = 2


@contextmanager
def reading_alone(home: Path, name: str, *, died: bool) -> Iterator[None]:
    """Have no other file read meanwhile whose reader died, if the reader of this one did.

    Raises:
        Busy: Such a file is read at the moment.
    """
    if not died:
        yield
        return
    busy = Busy("source", f"{name} ended its process before, and is read alone; try again later")
    with hold_lock(_folder(home) / "lock", busy):
        yield


@contextmanager
def counting_deaths(home: Path, org_id: str, delivery: Delivery) -> Iterator[None]:
    """Count whoever dies while the body reads a file of somebody else, if it has no job.

    Raises:
        UnreadableSource: Its reader died twice.
        Busy: Another file whose reader died is read at the moment.
    """
    if delivery.own:
        yield
        return
    if delivery.deaths is not None:
        refuse_killer(delivery.name, delivery.deaths)
        yield
        return
    mark = _folder(home) / hashlib.sha256(f"{org_id} {delivery.id}".encode()).hexdigest()[:32]
    with disk():
        died = mark.stat().st_size if mark.exists() else 0
    with ExitStack() as opened:
        opened.enter_context(reading_alone(home, delivery.name, died=died > 0))
        # A mark need not outlive a power cut: then nobody was killed by a file.
        with disk(), mark.open("ab") as file:
            file.write(b"x")
        opened.callback(mark.unlink, missing_ok=True)
        refuse_killer(delivery.name, died)
        yield


def refuse_killer(name: str, deaths: int) -> None:
    """Refuse a file at which processes died.

    Raises:
        UnreadableSource: They were too many.
    """
    if deaths >= DEATHS_MAX:
        detail = (
            f"the process that read it died {deaths} times; perhaps it needs more memory than"
            " there is: split it into smaller files"
        )
        raise UnreadableSource(name, Reason.TOO_LARGE, detail)


def _folder(home: Path) -> Path:
    folder = home / "reading"
    make_folder(folder, PRIVATE)
    return folder
