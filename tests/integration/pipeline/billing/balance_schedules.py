"""Schedules of balances as tests use them: created, changed and looked at."""

from datetime import datetime
from typing import Any, ClassVar

from meterlake.model.entity import Entity
from meterlake.model.resources import BY_ENTITY
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import ResourceRef
from tests.integration.pipeline.billing.test_balances import World


class BalanceSchedule:
    """A schedule of the world's balance."""

    kind: ClassVar[type[Entity]]

    def __init__(self, world: World, document: dict[str, Any]) -> None:
        self.world = world
        self.document = document
        self.id = self.create(document)

    def create(self, document: dict[str, Any]) -> str:
        made = entities.create(self.world.stores, self.world.org, "me", self.ref(), document)
        return str(made["id"])

    def ref(self, id: str | None = None) -> ResourceRef:
        return ResourceRef(BY_ENTITY[self.kind], {"balanceId": self.world.balance}, id)

    def go_to(self, instant: datetime) -> None:
        self.world.clock.time = instant

    def change(self, version: int, **changes: Any) -> None:
        document = self.document | changes | {"version": version}
        entities.update(self.world.stores, self.world.org, "me", self.ref(self.id), document)

    @property
    def shown(self) -> dict[str, Any]:
        return entities.retrieve(self.world.stores, self.world.org, self.ref(self.id))
