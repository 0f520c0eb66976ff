"""The parameters that several flows have; Prefect's UI makes forms of them, the shell options."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from meterlake.model.errors import Invalid
from meterlake.model.work.jobs import FanOutRunner
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores


def _check_runner(text: str) -> str:
    try:
        FanOutRunner.parse(text, "runner")
    except Invalid as error:
        raise ValueError(str(error)) from None
    return text


Home: TypeAlias = Path | None
Organizations: TypeAlias = tuple[str, ...]
MonthName: TypeAlias = Annotated[str, Field(pattern=r"^(last|current|[0-9]{4}-(0[1-9]|1[0-2]))$")]
RunnerName: TypeAlias = Annotated[str, AfterValidator(_check_runner)]


_kept: dict[Path, Stores] = {}


@contextmanager
def open_home(home: Home, runner: str | None = None) -> Iterator[Stores]:
    """Open the stores of a home; of the one that METERLAKE_HOME names, if None.

    Args:
        home: The home folder.
        runner: What carries the parts of the work; as the settings say if None.

    Raises:
        NotFound: There is no home.
    """
    if runner is not None:
        settings = Settings(home=home, runner=runner) if home else Settings(runner=runner)
        with open_stores(settings) as stores:
            yield stores
        return
    # The settings are not read for a home that is open: that takes as long as a small file.
    if kept := _kept.get((home or Settings().home).absolute()):
        yield kept
        return
    with open_stores(Settings(home=home) if home else Settings()) as stores:
        yield stores


@contextmanager
def kept_open(home: Home, runner: str | None = None) -> Iterator[Stores]:
    """Keep the stores of a home open: whoever opens them meanwhile gets these.

    As in the worker, threads share them as long as each works for an organization of its own.

    Args:
        home: The home folder.
        runner: What carries the parts of all work meanwhile; as the settings say if None.

    Raises:
        NotFound: There is no home.
    """
    with open_home(home, runner) as stores:
        mine = runner is not None or stores.home not in _kept
        if mine:
            _kept[stores.home] = stores
        try:
            yield stores
        finally:
            # What was kept before may be closed by now: it is not put back.
            if mine and _kept.get(stores.home) is stores:
                _kept.pop(stores.home)
