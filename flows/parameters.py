"""The parameters that several flows have; Prefect's UI makes forms of them, the shell options."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field

from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores

Home: TypeAlias = Path | None
Organizations: TypeAlias = tuple[str, ...]
MonthName: TypeAlias = Annotated[str, Field(pattern=r"^(last|current|[0-9]{4}-(0[1-9]|1[0-2]))$")]


_kept: dict[Path, Stores] = {}


@contextmanager
def open_home(home: Home) -> Iterator[Stores]:
    """Open the stores of a home; of the one that METERLAKE_HOME names, if None.

    Raises:
        NotFound: There is no home.
    """
    # The settings are not read for a home that is open: that takes as long as a small file.
    if kept := _kept.get((home or Settings().home).absolute()):
        yield kept
        return
    with open_stores(Settings(home=home) if home else Settings()) as stores:
        yield stores


@contextmanager
def kept_open(home: Home) -> Iterator[Stores]:
    """Keep the stores of a home open: whoever opens them meanwhile gets these.

    As in the worker, threads share them as long as each works for an organization of its own.

    Raises:
        NotFound: There is no home.
    """
    with open_home(home) as stores:
        mine = _kept.setdefault(stores.home, stores) is stores
        try:
            yield stores
        finally:
            if mine:
                _kept.pop(stores.home, None)
