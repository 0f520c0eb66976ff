"""The outside world: State, lakes, files and objects. Each translates its driver's errors."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from datetime import datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Final

from meterlake.model.values.period import Month
from meterlake.settings import Settings
from meterlake.stores.downloads import Downloads
from meterlake.stores.files.durable import PRIVATE, close_to_others, make_folder, make_private
from meterlake.stores.files.segment_copies import SegmentCopies
from meterlake.stores.files.segments import SegmentFolder, Segments
from meterlake.stores.home_settings import agree_on_settings
from meterlake.stores.lake.backends.location import lake_folder, open_lake
from meterlake.stores.lake.lake import Lake
from meterlake.stores.objects import ObjectStore, open_objects
from meterlake.stores.organization import Organization as Organization
from meterlake.stores.state import State, utc_now
from meterlake.stores.state.core.views.past_state import PastMoment, PastScope, PastState
from meterlake.stores.state.core.views.simulated_state import SimulatedState, simulate

# Lakes that are explored have a DuckDB each, with memory of its own.
_EXPLORED_MAX: Final = 8
# How long a lake stays open that nobody uses.
_LAKE_UNUSED_S: Final = 300.0


class Stores:
    """Everything below one home folder; open it with `open_stores`."""

    def __init__(self, settings: Settings, state: State, now: Callable[[], datetime]) -> None:
        self.settings = settings
        self.state = state
        self.now = now
        self.secrets = state.secrets
        self.downloads = Downloads(state.secrets, now)
        # Those that were used last are the last; and when that was.
        self._lakes: OrderedDict[str, Lake] = OrderedDict()
        self._lakes_used: dict[str, float] = {}
        self._opening = Lock()
        self._explored: OrderedDict[str, Lake] = OrderedDict()
        self._exploring = Lock()
        self.segments = Segments(self.lake_folder, settings, now, lambda: self.segment_copies)

    @property
    def home(self) -> Path:
        """The home folder."""
        return self.settings.home.absolute()

    def past(
        self,
        number: int,
        moments: Collection[PastMoment] = (),
        scope: PastScope | None = None,
    ) -> "Stores":
        """The same stores, with State as an organization's transaction of a number left it.

        Args:
            number: Of the transaction.
            moments: What is seen as other transactions left it.
            scope: What is seen; everything if None.
        """
        found = copy(self)
        found.state = PastState(self.state, number, moments, scope)
        return found

    @contextmanager
    def simulating(self, org_id: str, first: Month) -> Iterator[tuple["Stores", SimulatedState]]:
        """The same stores, with State as it would be; see `simulate`."""
        with simulate(self.state, org_id, first) as state:
            found = copy(self)
            found.state = state
            yield found, state

    @cached_property
    def objects(self) -> ObjectStore:
        """Where the files lie that people fetch through links.

        Raises:
            Invalid: The setting names no store.
        """
        own = self.home / "objects"
        if self.settings.objects is None:
            make_folder(own, PRIVATE)
        return open_objects(self.settings.objects or own, self.settings)

    @cached_property
    def segment_copies(self) -> SegmentCopies | None:
        """Where segments have copies, if the settings say so."""
        if self.settings.segment_copies == "none":
            return None
        return SegmentCopies(self.objects)

    def organization(self, org_id: str) -> Organization:
        """One organization by its id, in one object; whether there is one shows when it is used."""
        return Organization(self, org_id)

    def find_organization(self, id_or_code: str | None = None) -> Organization:
        """One organization by id or by code; the only one if neither is given.

        Raises:
            NotFound: There is no such organization.
            Required: None is named, and there are several or none.
        """
        return Organization.of(self, self.state.organization(id_or_code))

    def organizations(self) -> list[Organization]:
        """All organizations, the oldest first."""
        return [Organization.of(self, each) for each in self.state.organizations()]

    def lake_folder(self, org_id: str) -> Path:
        """What an organization's lake has on this machine, and the sources that it keeps."""
        return lake_folder(self.settings, org_id)

    def segment_folder(self, org_id: str) -> SegmentFolder:
        """The folders of an organization's segments."""
        return SegmentFolder(self.lake_folder(org_id))

    def lake(self, org_id: str) -> Lake:
        """The lake of one organization.

        Only those that were used last stay open: each has a DuckDB, with memory of its own.
        """
        with self._opening:
            lake = self._lakes.pop(org_id, None) or self._lake(org_id)
            self._lakes[org_id] = lake
            self._lakes_used[org_id] = time.monotonic()
            self._close_lakes(list(self._lakes)[: -self.settings.lakes_open])
            return lake

    def close_unused_lakes(self) -> None:
        """Close the lakes that nobody used for a while."""
        with self._opening:
            before = time.monotonic() - _LAKE_UNUSED_S
            self._close_lakes([each for each, at in self._lakes_used.items() if at < before])

    def _close_lakes(self, org_ids: Iterable[str]) -> None:
        for each in org_ids:
            if self._lakes[each].close_if_unused():
                del self._lakes[each], self._lakes_used[each]

    def explored_lake(self, org_id: str) -> Lake:
        """The same lake, only to be read, by several threads at once: with a DuckDB of its own.

        Questions of any size take no memory from commits of this process, and what they leave in
        memory goes when other lakes are asked: only the last few stay open.
        """
        with self._exploring:
            lake = self._explored.pop(org_id, None)
            if lake is None:
                lake = self._lake(org_id)
                lake.open_to_read()
            self._explored[org_id] = lake
            # One that was not asked for in a while ends with the queries that still read it.
            if len(self._explored) > _EXPLORED_MAX:
                self._explored.popitem(last=False)
            return lake

    def _lake(self, org_id: str) -> Lake:
        return open_lake(self.settings, org_id)

    def close(self) -> None:
        """Close every connection and every open segment."""
        self.segments.close()
        copies = self.__dict__.pop("segment_copies", None)
        if copies is not None:
            copies.close()
        for lakes in (self._lakes, self._explored):
            for lake in lakes.values():
                lake.close()
            lakes.clear()
        self._lakes_used.clear()
        self.state.close()


@contextmanager
def open_stores(
    settings: Settings,
    now: Callable[[], datetime] = utc_now,
    *,
    create: bool = False,
    lasting: bool = False,
) -> Iterator[Stores]:
    """Open the stores of a home together, and close them together.

    Args:
        settings: The home's settings.
        now: The clock.
        create: Make the home if it is not there yet.
        lasting: Whether this process stays; then it writes down what services agree on.

    Raises:
        NotFound: There is no home and `create` is not set.
        Conflict: A setting is another one than that of the home.
    """
    settings = agree_on_settings(settings, lasting=lasting)
    make_private(group_read=settings.group_read)
    if lasting:
        close_to_others(settings.home.absolute(), group_read=settings.group_read)
    state = State.open(settings, now, create=create)
    stores = Stores(settings, state, state.now)
    try:
        yield stores
    finally:
        stores.close()
