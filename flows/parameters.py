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


@contextmanager
def open_home(home: Home) -> Iterator[Stores]:
    """Open the stores of a home; of the one that METERLAKE_HOME names, if None.

    Raises:
        NotFound: There is no home.
    """
    with open_stores(Settings(home=home) if home else Settings()) as stores:
        yield stores
