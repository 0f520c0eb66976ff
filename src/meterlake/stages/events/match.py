"""Which notifications an event makes go out."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from meterlake.model.calculation import CalculationError, InvalidCalculation, parse
from meterlake.model.configuration.notifications import NotificationConfiguration
from meterlake.model.values.entity import Record
from meterlake.model.values.money import exact
from meterlake.stages.events.condition import (
    Condition,
    EventValues,
    compile_condition,
    holds,
)

_KEPT_MAX: Final = 5000

Notification = Record[NotificationConfiguration]


@dataclass(frozen=True, slots=True)
class NotificationFailure:
    """A notification whose calculation has no answer for an event."""

    notification: Notification
    message: str


@dataclass(slots=True)
class Matched:
    """What an event does to the notifications that name it."""

    fired: list[Notification] = field(default_factory=list)
    failed: list[NotificationFailure] = field(default_factory=list)


class _Candidates:
    """The notifications of one event that have the same calculation; None: they always go out."""

    def __init__(self, text: str | None) -> None:
        self.notifications: list[Notification] = []
        self.newest: datetime | None = None
        self.condition: Condition | None = None
        self.mistake: str | None = None
        if text is not None:
            try:
                self.condition = compile_text(text)
            except (CalculationError, InvalidCalculation) as error:
                self.mistake = str(error)

    def add(self, notification: Notification) -> None:
        created = notification.created
        self.newest = created if self.newest is None else max(self.newest, created)
        self.notifications.append(notification)

    def up_to(self, instant: datetime) -> list[Notification]:
        """Those that were there at an instant."""
        if self.newest is not None and self.newest <= instant:
            return self.notifications
        return [each for each in self.notifications if each.created <= instant]


class ActiveNotifications:
    """The active notifications of an organization by the events that they name.

    A calculation that several have is computed once.
    """

    def __init__(self, notifications: Iterable[Notification]) -> None:
        groups: dict[str, dict[str | None, _Candidates]] = defaultdict(dict)
        for each in notifications:
            entity = each.entity
            text = None if entity.always_fire_event else (entity.calculation or "").strip()
            # Without a calculation nothing says when it goes out.
            if entity.active and text != "":
                by_text = groups[entity.event_name]
                if text not in by_text:
                    by_text[text] = _Candidates(text)
                by_text[text].add(each)
        self._by_event = {name: list(by_text.values()) for name, by_text in groups.items()}

    @property
    def event_names(self) -> frozenset[str]:
        """The names of the events that can make one of them go out."""
        return frozenset(self._by_event)

    def match(self, name: str, data: Mapping[str, Any], written: datetime) -> Matched:
        """Find what goes out at an event.

        Args:
            name: The event's.
            data: Its `newDto` and `oldDto`.
            written: When it was written: younger notifications do not look at it.
        """
        found = Matched()
        values = EventValues(data)
        with exact():
            for candidates in self._by_event.get(name, ()):
                message, fires = candidates.mistake, False
                if message is None:
                    try:
                        fires = candidates.condition is None or holds(candidates.condition, values)
                    except CalculationError as error:
                        message = str(error)
                if fires:
                    found.fired += candidates.up_to(written)
                if message is not None:
                    failed = candidates.up_to(written)
                    found.failed += [NotificationFailure(each, message) for each in failed]
        return found


@lru_cache(maxsize=_KEPT_MAX)
def compile_text(text: str) -> Condition:
    """Make a condition of the text of a calculation; the same text again costs nothing.

    Raises:
        CalculationError: It calls a function that there is not.
        InvalidCalculation: It is no calculation.
    """
    return compile_condition(parse(text))


def evaluate_text(text: str, data: Mapping[str, Any]) -> bool:
    """Whether a calculation is true of an event.

    Raises:
        CalculationError: It has no answer.
        InvalidCalculation: It is no calculation.
    """
    with exact():
        return holds(compile_text(text), EventValues(data))
