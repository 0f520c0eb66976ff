"""One organization of a home: its lake, its part of State, and all that they share with others."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Month
from meterlake.settings import Settings
from meterlake.stores.files.segments import SegmentFolder
from meterlake.stores.lake.lake import Lake
from meterlake.stores.state import OrganizationRecord, State
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.core.views.past_state import PastMoment, PastScope
from meterlake.stores.state.core.views.simulated_state import SimulatedState

if TYPE_CHECKING:
    from meterlake.stores import Stores


class Organization:
    """One organization, as everything sees it that works on one; `Stores.organization` makes it.

    To make it costs nothing: nothing is opened or read before somebody needs it.

    Attributes:
        stores: The home's stores.
        id: Its id.
    """

    def __init__(self, stores: "Stores", id: str) -> None:
        self.stores = stores
        self.id = id

    @classmethod
    def of(cls, stores: "Stores", record: OrganizationRecord) -> Self:
        """The organization of a record that was read."""
        found = cls(stores, record.id)
        found.record = record
        return found

    @property
    def state(self) -> State:
        """The State of all organizations."""
        return self.stores.state

    @property
    def settings(self) -> Settings:
        """The settings of the home."""
        return self.stores.settings

    @property
    def now(self) -> Callable[[], datetime]:
        """The clock."""
        return self.stores.now

    @cached_property
    def record(self) -> OrganizationRecord:
        """What State knows it by.

        Raises:
            NotFound: There is no such organization.
            Unavailable: State cannot be reached.
        """
        return self.stores.state.organization(self.id)

    @property
    def code(self) -> str:
        """Its code, which never changes: it names folders."""
        return self.record.code

    @property
    def name(self) -> str:
        """Its name, for people."""
        return self.record.name

    @property
    def lake(self) -> Lake:
        """Its lake; see `Stores.lake`."""
        return self.stores.lake(self.id)

    @property
    def explored_lake(self) -> Lake:
        """Its lake, only to be read, by several threads at once; see `Stores.explored_lake`."""
        return self.stores.explored_lake(self.id)

    @property
    def lake_folder(self) -> Path:
        """What its lake has on this machine, and the sources that it keeps."""
        return self.stores.lake_folder(self.id)

    @property
    def segment_folder(self) -> SegmentFolder:
        """The folders of its segments."""
        return self.stores.segment_folder(self.id)

    def reading(self) -> AbstractContextManager[Reader]:
        """Read one consistent state of it; see `State.reading`."""
        return self.stores.state.reading(self.id)

    def transaction(self, author: str) -> AbstractContextManager[Transaction]:
        """Write as an author, all or nothing; see `State.transaction`."""
        return self.stores.state.transaction(self.id, author)

    def rehearsed(self) -> "Organization":
        """The same organization, which forgets every transaction at its end.

        What is done to it obeys all rules and answers as it would, and nothing stays.
        """
        return _Rehearsed(self.stores, self.id)

    def configuration(self, at: datetime | None = None) -> Configuration:
        """All its entities, as they are or as they were at an instant."""
        return self.stores.state.configuration(self.id, at)

    def past(
        self, number: int, moments: Collection[PastMoment] = (), scope: PastScope | None = None
    ) -> "Organization":
        """The same organization, as its transaction of a number left it; see `Stores.past`."""
        return self.stores.past(number, moments, scope).organization(self.id)

    @contextmanager
    def simulating(self, first: Month) -> Iterator[tuple["Organization", SimulatedState]]:
        """The same organization, as it would be; see `Stores.simulating`."""
        with self.stores.simulating(self.id, first) as (stores, state):
            yield stores.organization(self.id), state


class _Undone(Exception):
    """Ends a transaction without keeping what it wrote."""


class _Rehearsed(Organization):
    """An organization of which nothing is kept that is written."""

    @contextmanager
    def transaction(self, author: str) -> Iterator[Transaction]:
        """Write as an author, and keep nothing."""
        with suppress(_Undone), super().transaction(author) as transaction:
            yield transaction
            transaction.finish()
            raise _Undone
