"""Which organizations have something to do: one question of each round over all of them.

A question costs what there is to do, or one walk through an index; how many organizations there
are does not count otherwise. What no question finds, because a process died between two steps,
the turns find that all organizations have now and then.
"""

import time
from collections.abc import Callable, Collection
from typing import Final

from sqlalchemy import ColumnElement

from meterlake.model.configuration.exports import ExportSchedule
from meterlake.model.configuration.notifications import ScheduledEventConfiguration
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransactionSchedule,
)
from meterlake.pipeline.home.alerts import LakeWatch
from meterlake.pipeline.ingest.drop_folder import DropFolders
from meterlake.pipeline.jobs.fair_turns import Ask, KnownOrganizations, RoundQuestion
from meterlake.stores import Stores
from meterlake.stores.files.segments import mark_lakes, marked_lakes
from meterlake.stores.state.core.presence import (
    has_entities,
    has_number,
    has_rows,
    organizations_with,
)
from meterlake.stores.state.events.event_tables import SCHEDULED_SCAN
from meterlake.stores.state.events.log import newest_number, organizations_behind
from meterlake.stores.state.ingest.inboxes import Inboxes

# Makes the question of a round for the stores that it works with.
QuestionMaker = Callable[[Stores], RoundQuestion]

# How often all organizations are looked at for what no mark and no number tells of.
_ALL_S: Final = 60.0
# What looks at those that have schedules may take of a processor: most are not due.
_SCHEDULED: Final = 0.005
# Looks into lakes are dear: each is opened. What those may take that are not due.
_LAKES: Final = 0.005


def ask_jobs(*kinds: str) -> QuestionMaker:
    """Who has jobs that wait."""

    def make(stores: Stores) -> RoundQuestion:
        return RoundQuestion(lambda: stores.state.jobs.organizations_waiting(*kinds))

    return make


def ask_inboxes(stores: Stores) -> RoundQuestion:
    """Who has inboxes."""
    return RoundQuestion(Inboxes(stores.state).organizations)


def ask_drops(stores: Stores) -> RoundQuestion:
    """Whose drop folders hold something."""
    folders, known = DropFolders(stores.home), KnownOrganizations(stores)

    def ask() -> Collection[str]:
        ids = {code: id_ for id_, code in known.codes().items()}
        return [ids[code] for code in folders.find_waiting(list(ids))]

    return RoundQuestion(ask)


def ask_segments(stores: Stores) -> RoundQuestion:
    """Who has segments."""
    lakes = stores.lake_folder("_").parent
    return RoundQuestion(_now_and_then(lambda: mark_lakes(lakes), lambda: marked_lakes(lakes)))


def _now_and_then(before: Callable[[], None], ask: Ask) -> Ask:
    """A question before which something is done at the first time, and each minute."""
    again = 0.0

    def ask_after() -> Collection[str]:
        nonlocal again
        if time.monotonic() >= again:
            before()
            again = time.monotonic() + _ALL_S
        return ask()

    return ask_after


class EventsBehind:
    """Who has events that nobody has evaluated.

    Mostly only the newest events of the home are looked at. A number may become visible after a
    larger one of another organization: so the look begins with what was new a while ago.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._since: int | None = None
        self._newest: int | None = None
        self._again = 0.0

    def ask(self) -> Collection[str]:
        """The ids of the organizations."""
        with self._stores.state.reading_home() as connection:
            if time.monotonic() < self._again:
                return organizations_behind(connection, self._since)
            newest = newest_number(connection)
            self._since, self._newest = self._newest or newest, newest
            self._again = time.monotonic() + _ALL_S
            return organizations_behind(connection)


def ask_events(stores: Stores) -> RoundQuestion:
    """Who has events that nobody has evaluated."""
    return RoundQuestion(EventsBehind(stores).ask)


def ask_schedules(stores: Stores) -> RoundQuestion:
    """Who has exports or bills by a schedule."""
    bills = has_number(OrganizationConfig, "scheduledBillInterval")
    return _who_has(stores, has_entities(ExportSchedule), bills)


def ask_balances(stores: Stores) -> RoundQuestion:
    """Who has balances, or schedules of them."""
    kinds = (Balance, BalanceChargeSchedule, BalanceTransactionSchedule)
    return _who_has(stores, has_entities(*kinds))


def ask_approvals(stores: Stores) -> RoundQuestion:
    """Whose bills approve themselves."""
    return _who_has(stores, has_number(OrganizationConfig, "autoApproveBillsGracePeriod"))


def ask_dates(stores: Stores) -> RoundQuestion:
    """Who has scheduled events, or had some."""
    return _who_has(stores, has_entities(ScheduledEventConfiguration), has_rows(SCHEDULED_SCAN))


def _who_has(stores: Stores, *conditions: ColumnElement[bool]) -> RoundQuestion:
    def ask() -> Collection[str]:
        with stores.state.reading_home() as connection:
            return organizations_with(connection, *conditions)

    return RoundQuestion(ask, _SCHEDULED)


def ask_lakes(stores: Stores) -> RoundQuestion:
    """Whose lakes may have an alert; all others are looked at as well, one after the other."""
    return RoundQuestion(LakeWatch(stores).due, sweep=_LAKES)
