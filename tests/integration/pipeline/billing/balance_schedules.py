"""Schedules of balances as tests use them: created, changed and looked at."""

from datetime import datetime
from typing import Any, ClassVar

from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.entity import Entity
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.stores.state.core.pages import Page
from tests.integration.pipeline.billing.balances.test_balances import World


class BalanceSchedule:
    """A schedule of the world's balance."""

    kind: ClassVar[type[Entity]]

    def __init__(self, world: World, document: dict[str, Any]) -> None:
        self.world = world
        self.document = document
        self.id = self.create(document)

    def create(self, document: dict[str, Any]) -> str:
        made = entities.create(self.world.organization, "me", self.ref(), document)
        return str(made["id"])

    def ref(self, id: str | None = None) -> ResourceRef:
        return ResourceRef(BY_ENTITY[self.kind], {"balanceId": self.world.balance}, id)

    def go_to(self, instant: datetime) -> None:
        self.world.clock.time = instant

    def change(self, version: int, **changes: Any) -> None:
        document = self.document | changes | {"version": version}
        entities.update(self.world.organization, "me", self.ref(self.id), document)

    @property
    def runs(self) -> list[tuple[tuple[Any, Any], tuple[Any, Any]]]:
        """When it ran last and runs next, before and after each event of a change of it."""
        filters = EventFilters(resource_id=self.id)
        found = list_events(self.world.organization, filters, Page(100))["data"]
        sides = [each["m3terEvent"]["eventData"] for each in reversed(found)]
        return [
            (_runs_of(each["oldDto"]), _runs_of(each["newDto"]))
            for each in sides
            if each.keys() == {"oldDto", "newDto"}
        ]

    @property
    def shown(self) -> dict[str, Any]:
        return entities.retrieve(self.world.organization, self.ref(self.id))


def _runs_of(shown: dict[str, Any]) -> tuple[Any, Any]:
    return shown.get("previousRun"), shown.get("nextRun")
