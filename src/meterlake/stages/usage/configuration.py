"""What the quantities of a period depend on, beside measurements."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from meterlake.model.calculation import Value
from meterlake.model.customers.recurring_period import NamedPeriod
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration


@dataclass(frozen=True, slots=True)
class UsageConfiguration:
    """What one run reads of State.

    Attributes:
        entities: The entities.
        run: The organization's period that the run is about.
        account_fields: The custom fields that accounts carry themselves, by account id, under the
            names that calculations have for them; only if a calculation names one.
    """

    entities: Configuration
    run: NamedPeriod
    account_fields: Mapping[str, Mapping[str, Value]]

    def digest(self) -> str:
        """What tells it from any other configuration: every version and custom field in it."""
        versions = {
            record.id: record.version
            for kind in self.entities.kinds()
            for record in self.entities.all(kind)
        }
        fields = {id_: dict(values) for id_, values in self.account_fields.items()}
        return sha256(wire.dumps_sorted([versions, fields]).encode()).hexdigest()
