"""How often the process died that read a file: one that kills its reader is not read for ever."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from meterlake.model.errors import Busy, UnreadableSource
from meterlake.model.receipt import Delivery
from meterlake.model.rejection import Reason
from meterlake.stores.files.durable import PRIVATE, disk, make_folder
from meterlake.stores.files.locks import hold_lock

DEATHS_MAX: Final = 2


@contextmanager
def counting_deaths(home: Path, org_id: str, delivery: Delivery) -> Iterator[None]:
    """Count whoever dies while the body reads a file of somebody else.

    A process reads several files at a time, and only one of them kills it. So a file whose reader
    died is read while no other such file is: two deaths in a row are its own.

    Raises:
        UnreadableSource: Its reader died twice.
        Busy: Another file whose reader died is read at the moment.
    """
    if delivery.own:
        yield
        return
    folder = home / "reading"
    make_folder(folder, PRIVATE)
    mark = folder / hashlib.sha256(f"{org_id} {delivery.id}".encode()).hexdigest()[:32]
    with ExitStack() as opened:
        died = _deaths(mark)
        if died:
            busy = Busy(
                "source",
                f"{delivery.name} ended its process before, and is read alone; try again later",
            )
            opened.enter_context(hold_lock(folder / "lock", busy))
        # A mark need not outlive a power cut: then nobody was killed by a file.
        with disk(), mark.open("ab") as file:
            file.write(b"x")
        opened.callback(mark.unlink, missing_ok=True)
        if died >= DEATHS_MAX:
            detail = (
                f"the process that read it died {died} times; perhaps it needs more memory than"
                " there is: split it into smaller files"
            )
            raise UnreadableSource(delivery.name, Reason.TOO_LARGE, detail)
        yield


def _deaths(mark: Path) -> int:
    with disk():
        return mark.stat().st_size if mark.exists() else 0
